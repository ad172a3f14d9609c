//! How long a decision takes with each family: `cargo run --release -p neurogc-neural --example speed`.

#![expect(clippy::print_stdout, reason = "this prints a table")]

#[path = "../tests/made_up/mod.rs"]
mod made_up;

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use neurogc_neural::{Family, Model, ModelRequirements, OUTPUTS, Sequence};

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:<12} {:>8} {:>8} {:>9}", "family", "median", "p99", "file");
    let mut draw = made_up::Draw::new(1);
    let windows: Vec<_> = (0..64).map(|_| draw.window()).collect();
    for family in Family::ALL {
        let bytes = made_up::file(family, 1);
        let mut model = Model::load(&bytes)?;
        let mut forecast = [0.0; OUTPUTS];
        row(family.name(), bytes.len(), |round| {
            model.predict(black_box(&windows[round % windows.len()]), &mut forecast);
            black_box(&forecast);
        });
    }
    let bytes = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/neurogc/models/classic.safetensors"))?;
    let mut classic = Sequence::load(&bytes, ModelRequirements { window: 10, outputs: &["urgency"] })?;
    let mut urgency = [0.0];
    row("classic", bytes.len(), |round| {
        classic.run(black_box(&windows[round % windows.len()][..100]), &mut urgency);
        black_box(&urgency);
    });
    Ok(())
}

/// Times many rounds and prints what they took.
fn row(name: &str, bytes: usize, mut round: impl FnMut(usize)) {
    let mut micros: Vec<f64> = (0..40_000)
        .map(|number| {
            let began = Instant::now();
            round(number);
            began.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    micros.sort_unstable_by(f64::total_cmp);
    let at = |share: usize| micros[micros.len() * share / 100];
    println!("{name:<12} {:>5.2} µs {:>5.2} µs {:>6} KB", at(50), at(99), bytes / 1024);
}
