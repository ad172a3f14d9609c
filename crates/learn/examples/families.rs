//! What each family of models learns from a made-up half hour, and how long that takes:
//! `cargo run --release -p neurogc-learn --example families -- [SAMPLES] [FAMILY…]`.

#![expect(clippy::print_stdout, reason = "this prints a table")]

use std::error::Error;
use std::time::Instant;

use neurogc_learn::models::{Options, evaluate, evaluate_constant, imagined, train};
use neurogc_neural::{Family, Model};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let samples = arguments.next().map_or(Ok(200_000), |it| it.parse())?;
    let mut families = arguments.map(|it| it.parse()).collect::<Result<Vec<Family>, _>>()?;
    if families.is_empty() {
        families = Family::ALL.to_vec();
    }
    let split = imagined(samples, 24, 1).split()?;
    let constant = evaluate_constant(&split.train, &split.test);
    println!("{:<12} {:>8} {:>7} {:>8} {:>8} {:>7}", "family", "seconds", "epochs", "pinball", "missed", "file");
    println!("{:<12} {:>24.4} {:>8}", "constant", constant.mean_pinball().unwrap_or(f64::NAN), "");
    let whole = Instant::now();
    for family in families {
        let began = Instant::now();
        let mut epochs = 0;
        let trained = train(family, &split, &Options::default(), &mut |it| {
            epochs = it.epoch;
            eprintln!("{family} {}: {:.4} {:.4}", it.epoch, it.train_loss, it.validation_loss);
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let bytes = trained.to_bytes()?;
        let metrics = evaluate(&mut Model::load(&bytes)?, &split.test);
        let (pinball, missed) = (metrics.mean_pinball().unwrap_or(f64::NAN), metrics.worst_calibration());
        let (missed, size) = (missed.unwrap_or(f64::NAN), bytes.len() / 1024);
        println!("{family:<12} {seconds:>8.1} {epochs:>7} {pinball:>8.4} {missed:>8.3} {size:>4} KB");
    }
    println!("{:<12} {:>8.1}", "all", whole.elapsed().as_secs_f64());
    Ok(())
}
