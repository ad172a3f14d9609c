//! How many requests the simulator plays in a second: `cargo run --release -p neurogc-learn --example rate`.

#![expect(clippy::print_stdout, reason = "it is what it is for")]

use std::time::Instant;

use neurogc_learn::{HeapModel, Scene, Start, TrafficShape, imagined, simulate};
use neurogc_policy::Name;

const REQUESTS: usize = 2_000_000;

fn main() {
    let model = HeapModel::default();
    let start = Start { at: 0, tenured: 500_000.0, pending: 0.0 };
    for (title, shape) in
        [("poisson", TrafficShape::Poisson { rate: 250.0 }), ("bursty", TrafficShape::Bursty { rate: 200.0 })]
    {
        let workload = shape.requests(REQUESTS, &imagined(1000, 700.0, 1), start, 1);
        let scene = Scene::new(&model, &workload);
        for name in [Name::Cpython, Name::Threshold([10_000, 10, 10]), Name::Gap] {
            let began = Instant::now();
            let outcome = simulate(&scene, name.clone());
            let rate = REQUESTS as f64 / began.elapsed().as_secs_f64() / 1e6;
            println!(
                "{title:<8} {:<22} {rate:6.2} million requests a second, p99 {:.1} ms",
                name.to_string(),
                outcome.p99_ms
            );
        }
    }
}
