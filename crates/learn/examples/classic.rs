//! Trains the model of the policy `classic` on simulated programs:
//! `cargo run --profile fast -p neurogc-learn --example classic -- python/neurogc/models/classic.safetensors`

#![expect(clippy::print_stdout, reason = "it is what it is for")]

use std::env;
use std::error::Error;
use std::fs;

use neurogc_learn::models::{Schooling, sampled, train_classic};
use neurogc_learn::{HeapModel, Scene, Start, TrafficShape, imagined};
use neurogc_policy::Bytes;
use neurogc_policy::metrics::NAMES;

/// A kind of program.
struct Kind {
    /// How requests come.
    shape: &'static str,
    /// Live objects, and objects of a request.
    objects: (f64, f64),
    /// So many times faster than others it serves.
    speed: u64,
    /// So many have to wait for something else than the interpreter for each one that is served.
    crowd: f32,
    /// Its first threshold: 700, or 2000 from CPython 3.13 on.
    threshold: u32,
}

const fn kind(shape: &'static str, objects: (f64, f64), speed: u64, crowd: f32, threshold: u32) -> Kind {
    Kind { shape, objects, speed, crowd, threshold }
}

/// Programs from idle to overloaded.
const PROGRAMS: [Kind; 16] = [
    kind("poisson:1", (1e5, 900.0), 1, 1.0, 700),
    kind("poisson:4", (2e5, 40.0), 1, 1.0, 700),
    kind("bursty:8", (6e5, 30.0), 1, 30.0, 2000),
    kind("poisson:100", (4e5, 2.0), 1, 4.0, 2000),
    kind("poisson:300", (2e5, 1.0), 1, 1.0, 700),
    kind("poisson:10", (1e6, 5000.0), 1, 1.0, 2000),
    kind("poisson:60", (3e5, 100.0), 1, 1.0, 700),
    kind("poisson:150", (5e4, 1500.0), 1, 10.0, 700),
    kind("poisson:350", (2e5, 300.0), 1, 1.0, 2000),
    kind("poisson:800", (1e6, 700.0), 1, 1.0, 700),
    kind("poisson:5000", (5e5, 60.0), 20, 1.0, 2000),
    kind("bursty:2500", (3e5, 300.0), 20, 60.0, 700),
    kind("bursty:120", (2e6, 300.0), 1, 1.0, 700),
    kind("bursty:250", (3e5, 1200.0), 1, 1.0, 2000),
    kind("diurnal:180", (8e5, 600.0), 1, 20.0, 700),
    kind("closed:300", (2e5, 800.0), 1, 1.0, 700),
];

/// What programs have of the memory there is, in the end. There are six, so that one run in five, which is kept to judge
/// by, is not always of the same share.
const SHARES: [f64; 6] = [0.1, 0.3, 0.5, 0.7, 0.85, 0.98];

/// How long each is watched, in seconds, and how often all of it is gone through, as the original did.
const SECONDS: f64 = 60.0;
const EPOCHS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let to = env::args().nth(1).ok_or("say where the model goes")?;
    let model = HeapModel::default();
    let mut runs = Vec::new();
    for (seed, program) in (1..).zip(PROGRAMS) {
        let (tenured, objects) = program.objects;
        for (at, share) in SHARES.into_iter().enumerate() {
            let rate: f64 = program.shape.split(':').nth(1).unwrap_or_default().parse()?;
            let start = Start { at: 0, tenured, pending: 0.0 };
            let mut like = imagined(500, objects, seed + 100 * at as u64);
            like.iter_mut().for_each(|request| request.service /= program.speed);
            let count = (rate * SECONDS) as usize;
            let mut workload = program.shape.parse::<TrafficShape>()?.requests(count, &like, start, seed);
            workload.thresholds[0] = program.threshold;
            let memory = (model.memory.base + 1.2 * tenured * model.memory.object) / share;
            let mut run = sampled(&Scene::new(&model, &workload), Bytes::new(memory as u64));
            run.truncate(SECONDS as usize);
            // The simulator has one in flight at a time; a program has more.
            let in_flight = NAMES.iter().position(|name| *name == "in_flight").ok_or("there is no such metric")?;
            run.iter_mut().for_each(|sample| sample[in_flight] *= program.crowd);
            runs.push(run);
        }
    }
    println!("{} seconds to learn from", runs.iter().map(Vec::len).sum::<usize>());
    let schooling = Schooling { seed: 1, epochs: EPOCHS, created: format!("neurogc {}", env!("CARGO_PKG_VERSION")) };
    let bytes = train_classic(&runs, &schooling, &mut |epoch, loss| println!("epoch {epoch}: {loss:.6}"))?;
    fs::write(&to, &bytes)?;
    println!("{to}: {} bytes", bytes.len());
    Ok(())
}
