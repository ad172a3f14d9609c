//! Trains the model that comes with NeuroGC, on imagined services and on traces of the bench:
//! `cargo run --release -p neurogc-learn --example shipped -- crates/policy/models/shipped.safetensors TRACE…`

#![expect(clippy::print_stdout, reason = "it is what it is for")]

use std::env;
use std::error::Error;
use std::fs;

use neurogc_learn::course::{Course, Effort, Program, TEST, TRAINING, VALIDATION, judge, reinforce, reweighted};
use neurogc_learn::models::{Options, evaluate, train};
use neurogc_learn::{DEFAULT_LAMBDA, Lifetimes, Model, Shape, Start, fit, imagined};
use neurogc_neural::{Contents, Family, Model as Net};
use neurogc_policy::{Name, Weights};
use neurogc_wire::trace::read;

/// Services that differ in everything that matters: shape and rate, live objects, objects of a request, the share that
/// dies young, the share that dies old, and after how many allocations.
const SERVICES: [(&str, f64, f64, f64, f64, f64); 16] = [
    ("poisson:60", 1e6, 900.0, 0.7, 0.25, 60e3),
    ("poisson:100", 5e5, 700.0, 0.5, 0.45, 100e3),
    ("poisson:180", 3e5, 400.0, 0.6, 0.3, 200e3),
    ("poisson:250", 5e5, 700.0, 0.5, 0.45, 100e3),
    ("poisson:300", 2e5, 1500.0, 0.5, 0.45, 100e3),
    ("poisson:350", 1e6, 300.0, 0.8, 0.15, 50e3),
    ("bursty:60", 2e6, 1200.0, 0.5, 0.45, 300e3),
    ("bursty:100", 1e6, 700.0, 0.5, 0.45, 100e3),
    ("bursty:150", 4e5, 500.0, 0.9, 0.08, 80e3),
    ("bursty:200", 5e5, 700.0, 0.5, 0.45, 100e3),
    ("bursty:220", 3e6, 300.0, 0.4, 0.5, 150e3),
    ("diurnal:120", 8e5, 600.0, 0.6, 0.35, 120e3),
    ("diurnal:150", 2e6, 700.0, 0.5, 0.45, 100e3),
    ("diurnal:220", 5e5, 500.0, 0.7, 0.25, 100e3),
    ("closed:100", 6e5, 700.0, 0.5, 0.4, 100e3),
    ("closed:250", 4e5, 300.0, 0.6, 0.3, 100e3),
];

const REQUESTS: usize = 20_000;
const LESSONS: usize = 120_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = env::args().skip(1);
    let to = given.next().ok_or("say where the model goes")?;
    let mut programs = Vec::new();
    for (seed, (shape, tenured, objects, die_young, die_old, lag)) in (1..).zip(SERVICES) {
        let model =
            Model { lifetimes: Lifetimes { die_young, die_old, lag, ..Lifetimes::default() }, ..Model::default() };
        let start = Start { at: 2_000_000_000, tenured, pending: 0.0 };
        let mut workload = shape.parse::<Shape>()?.requests(REQUESTS, &imagined(500, objects, seed), start, seed);
        if shape.starts_with("closed") {
            workload.requests.truncate(REQUESTS);
        } else {
            workload.requests.iter_mut().for_each(|request| request.at += 1_000_000_000);
        }
        programs.push(Program { name: shape.to_owned(), model, workload });
    }
    let mut sources = vec![format!("{} imagined services", programs.len())];
    for path in given {
        let fit = fit(&read(&fs::read(&path)?)?, 0, 1)?;
        sources.push(path.rsplit('/').next().unwrap_or_default().to_owned());
        programs.push(Program { name: path, model: fit.model, workload: fit.workload });
    }
    let course = Course::new(programs, DEFAULT_LAMBDA);
    let split = course.data(LESSONS)?;
    println!("{} lessons to learn from", split.train.len());
    let (excerpts, validation) = (course.excerpts(TRAINING), course.excerpts(VALIDATION));
    let created = format!("neurogc {}", env!("CARGO_PKG_VERSION"));
    let options = Options { sources, created, most_epochs: 12, ..Options::default() };
    let thorough = Effort { population: 24, rounds: 8, ..Effort::default() };
    let mut models: Vec<(f64, String, Vec<u8>)> = Vec::new();
    let mut weights = Weights::default();
    for family in Family::ALL {
        let mut trained = train(family, &split, &options, &mut |_| {})?;
        let metrics = evaluate(&mut Net::load(&trained.to_bytes()?)?, &split.test);
        trained.set_metrics(&metrics);
        let effort = if family == Family::Linear { thorough } else { Effort { population: 12, rounds: 2, ..thorough } };
        let (found, score) = course.weights(&excerpts, &trained.to_bytes()?, weights, effort, &mut |_, _| {});
        if family == Family::Linear {
            weights = found;
        }
        let bytes = reweighted(&trained.to_bytes()?, found)?;
        let validated = course.score_of(&validation, &bytes, found);
        let loss = metrics.mean_pinball().unwrap_or(f64::NAN);
        println!(
            "{family}: loss {loss:.4}, {:.3} × gap in training, {:.3} in validation",
            score.exp(),
            validated.exp()
        );
        models.push((validated, family.name().to_owned(), bytes));
    }
    let (reinforced, score) = reinforce(&course, &excerpts, &models[0].2, thorough, &mut |_, _| {})?;
    let own = Weights::named(&Contents::read(&reinforced)?.metadata().weights);
    let validated = course.score_of(&validation, &reinforced, own);
    println!("rl: {:.3} × gap in training, {:.3} in validation", score.exp(), validated.exp());
    models.push((validated, Family::Rl.name().to_owned(), reinforced));
    models.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((_, name, bytes)) = models.first_mut().filter(|it| it.1 != Family::Rl.name()) {
        let start = Weights::named(&Contents::read(bytes)?.metadata().weights);
        let (found, score) = course.weights(&excerpts, bytes, start, thorough, &mut |_, _| {});
        println!("{name}: {:.3} × gap with better weights", score.exp());
        *bytes = reweighted(bytes, found)?;
    }
    let named: Vec<_> = models.iter().map(|(_, name, bytes)| (name.clone(), bytes.clone())).collect();
    for it in judge(&course, &course.excerpts(TEST), &[Name::Gap, Name::Cpython], &named) {
        println!(
            "{:<12} cost {:.3}, ÷ gap {:.3}, regret {:.2}, {:.0} MB",
            it.name, it.cost, it.over_rules, it.regret, it.peak_mb
        );
    }
    fs::write(to, &named.first().ok_or("nothing was trained")?.1)?;
    Ok(())
}
