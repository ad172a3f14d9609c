//! Trains the model that comes with NeuroGC, on imagined services and on traces of the bench:
//! `cargo run --release -p neurogc-learn --example shipped -- crates/policy/models/shipped.safetensors TRACE…`
//!
//! Traces are called `SCENARIO.POLICY.ngct`; those of the same scenario tell what the others cannot know.

#![expect(clippy::print_stdout, reason = "it is what it is for")]

use std::env;
use std::error::Error;
use std::fs;
use std::io;

use neurogc_learn::course::{Audience, RecordedProgram, TrainingPlan, services};
use neurogc_learn::models::Options;
use neurogc_learn::{DEFAULT_LAMBDA, fit_with};
use neurogc_neural::Family;
use neurogc_policy::Name;
use neurogc_wire::trace::{Trace, read};

const LESSONS: usize = 120_000;
const EPOCHS: usize = 12;

/// Prints what is done.
struct Printer;

impl Audience for Printer {
    fn begin(&mut self, _: &str) {}

    fn done(&mut self, _: f64, what: &str) {
        println!("{what}");
    }

    fn say(&mut self, what: &str) {
        println!("{what}");
    }

    fn state(&self, _: Family) -> Option<Vec<u8>> {
        None
    }

    fn keep(&mut self, _: Family, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn scenario(path: &str) -> &str {
    name(path).split('.').next().unwrap_or_default()
}

fn trace(path: &str) -> Result<Trace, Box<dyn Error>> {
    Ok(read(&fs::read(path)?)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = env::args().skip(1);
    let to = given.next().ok_or("say where the model goes")?;
    let mut programs = services();
    let mut sources = vec![format!("{} imagined services", programs.len())];
    let paths: Vec<String> = given.collect();
    for path in &paths {
        let others = paths.iter().filter(|other| *other != path && scenario(other) == scenario(path));
        let others = others.map(|other| trace(other)).collect::<Result<Vec<_>, _>>()?;
        let fit = fit_with(&trace(path)?, &others, 0, 1)?;
        sources.push(name(path).to_owned());
        programs.push(RecordedProgram { name: name(path).to_owned(), model: fit.model, workload: fit.workload });
    }
    let families = Family::ALL.into_iter().chain([Family::Rl]).collect();
    let options = Options { sources, most_epochs: EPOCHS, ..Options::default() };
    let plan = TrainingPlan { programs, lambda: DEFAULT_LAMBDA, lessons: LESSONS, families, options };
    let training = plan.carry_out(&mut Printer)?;
    for it in training.judgements(&[Name::Gap, Name::Cpython]) {
        println!(
            "{:<12} cost {:.3}, ÷ gap {:.3}, regret {:.2}, {:.0} MB",
            it.name,
            it.cost,
            it.over_rules,
            it.regret.unwrap_or(f64::NAN),
            it.peak_mb
        );
    }
    fs::write(to, &training.candidates.first().ok_or("nothing was trained")?.bytes)?;
    Ok(())
}
