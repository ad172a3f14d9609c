//! How long a decision takes with each family: `cargo run --release -p neurogc-neural --example speed`.

#![expect(clippy::print_stdout, reason = "this prints a table")]

#[path = "../tests/made_up/mod.rs"]
mod made_up;

use std::hint::black_box;
use std::time::Instant;

use neurogc_neural::{Family, LoadError, Model, OUTPUTS};

fn main() -> Result<(), LoadError> {
    println!("{:<12} {:>8} {:>8} {:>9}", "family", "median", "p99", "file");
    let mut draw = made_up::Draw::new(1);
    let windows: Vec<_> = (0..64).map(|_| draw.window()).collect();
    for family in Family::ALL {
        let bytes = made_up::file(family, 1);
        let mut model = Model::load(&bytes)?;
        let mut forecast = [0.0; OUTPUTS];
        let mut micros: Vec<f64> = (0..40_000)
            .map(|round| {
                let began = Instant::now();
                model.predict(black_box(&windows[round % windows.len()]), &mut forecast);
                black_box(&forecast);
                began.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        micros.sort_unstable_by(f64::total_cmp);
        let at = |share: usize| micros[micros.len() * share / 100];
        println!("{family:<12} {:>5.2} µs {:>5.2} µs {:>6} KB", at(50), at(99), bytes.len() / 1024);
    }
    Ok(())
}
