//! Trains the model of the policy `classic` on simulated programs:
//! `cargo run --profile fast -p neurogc-learn --example classic -- python/neurogc/models/classic.safetensors`

#![expect(clippy::print_stdout, reason = "it is what it is for")]

use std::env;
use std::error::Error;
use std::fs;

use neurogc_learn::models::{Schooling, sampled, train_classic};
use neurogc_learn::{Model, Scene, Shape, Start, imagined};

/// Programs from idle to overloaded: shape and rate, live objects, objects of a request.
const PROGRAMS: [(&str, f64, f64); 12] = [
    ("poisson:1", 1e5, 900.0),
    ("poisson:10", 1e6, 5000.0),
    ("poisson:60", 3e5, 100.0),
    ("poisson:150", 5e4, 1500.0),
    ("poisson:350", 2e5, 300.0),
    ("poisson:800", 1e6, 700.0),
    ("bursty:20", 5e5, 700.0),
    ("bursty:120", 2e6, 300.0),
    ("bursty:250", 3e5, 1200.0),
    ("diurnal:180", 8e5, 600.0),
    ("closed:50", 6e5, 200.0),
    ("closed:300", 2e5, 800.0),
];

/// What programs have of the memory there is, in the end.
const SHARES: [f64; 5] = [0.1, 0.35, 0.6, 0.8, 0.98];

/// How long each is watched, in seconds, and how often all of it is gone through, as the original did.
const SECONDS: f64 = 60.0;
const EPOCHS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let to = env::args().nth(1).ok_or("say where the model goes")?;
    let model = Model::default();
    let mut runs = Vec::new();
    for (seed, (shape, tenured, objects)) in (1..).zip(PROGRAMS) {
        for (at, share) in SHARES.into_iter().enumerate() {
            let rate: f64 = shape.split(':').nth(1).unwrap_or_default().parse()?;
            let count = (rate * SECONDS) as usize;
            let start = Start { at: 0, tenured, pending: 0.0 };
            let like = imagined(500, objects, seed + 100 * at as u64);
            let workload = shape.parse::<Shape>()?.requests(count, &like, start, seed);
            let memory = (model.memory.base + 1.2 * tenured * model.memory.object) / share;
            let mut run = sampled(&Scene::new(&model, &workload), memory as u64);
            run.truncate(SECONDS as usize);
            runs.push(run);
        }
    }
    // One run in five is kept to judge by: not always that of the same share.
    runs.rotate_left(1);
    let runs: Vec<_> = (0..runs.len()).map(|at| runs[at * 7 % runs.len()].clone()).collect();
    println!("{} seconds to learn from", runs.iter().map(Vec::len).sum::<usize>());
    let schooling = Schooling { seed: 1, epochs: EPOCHS, created: format!("neurogc {}", env!("CARGO_PKG_VERSION")) };
    let bytes = train_classic(&runs, &schooling, &mut |epoch, loss| println!("epoch {epoch}: {loss:.6}"))?;
    fs::write(&to, &bytes)?;
    println!("{to}: {} bytes", bytes.len());
    Ok(())
}
