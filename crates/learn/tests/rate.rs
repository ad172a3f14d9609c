//! The simulator is fast enough to train in, and says the same each time.

use std::time::Instant;

use neurogc_learn::{HeapModel, Scene, Start, TrafficShape, imagined, simulate};
use neurogc_policy::Name;

#[test]
fn a_million_requests_take_a_second_or_two() {
    let model = HeapModel::default();
    let start = Start { at: 0, tenured: 500_000.0, pending: 0.0 };
    let count = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let workload = TrafficShape::Poisson { rate: 250.0 }.requests(count, &imagined(1000, 700.0, 1), start, 1);
    let scene = Scene::new(&model, &workload);
    for name in [Name::Cpython, Name::Gap] {
        let began = Instant::now();
        let outcome = simulate(&scene, name.clone());
        let seconds = began.elapsed().as_secs_f64();
        assert_eq!(outcome.requests, count as u64);
        // The bar is a second; others may be using the machine.
        assert!(cfg!(debug_assertions) || seconds < 4.0, "{name}: {seconds} s");
        assert_eq!(outcome, simulate(&scene, name), "the same again");
    }
}
