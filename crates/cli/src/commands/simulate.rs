//! `neurogc simulate`: a recorded or made-up workload under other policies.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use neurogc_learn::{DEFAULT_LAMBDA, HeapModel, Scene, Start, TrafficShape, Workload, fit_with, imagined};
use neurogc_policy::Name;

use crate::failure::{CommandResult, Failure};
use crate::paint;
use crate::simulation::{Comparison, GUESSED, Rules};
use crate::trace::load;

/// Replay a trace under other policies, and show how far each is from what no schedule can be below
///
/// The simulator plays the requests of the trace in a program whose heap behaves as in the trace: lifetime and size of
/// objects, cost of collections. Policies run the same code as in the agent. The cost is the mean delay of a
/// request caused by collections, in milliseconds, plus lambda times the megabytes of garbage held on average. Regret is how
/// much more a policy costs than the lower bound, which no schedule can be below. The plan is a schedule that was made with
/// every request known in advance.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  neurogc run --trace service.ngct -- python app.py\n  neurogc simulate service.ngct\n  \
    neurogc simulate service.ngct --policies cpython,gap,threshold:50000,10,10\n  \
    neurogc simulate cpython.ngct --with gap.ngct\n  \
    neurogc simulate service.ngct --workload bursty:200\n  neurogc simulate --workload poisson:250 --seed 7 --json"
)]
pub(crate) struct Arguments {
    /// Recorded traces; several are played one after the other
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Another trace of the same program, for what the first does not contain: record one under the policy you want to
    /// predict
    #[arg(long, value_name = "TRACE")]
    with: Vec<PathBuf>,
    /// Policies to compare, separated by commas
    #[arg(
        long,
        alias = "policy",
        value_name = "P,…",
        default_value = "cpython,threshold:10000,10,10,every:100,freeze,gap,neural"
    )]
    policies: Vec<String>,
    /// Arrivals instead of those of the trace: poisson:RATE, bursty:RATE, diurnal:RATE or closed:USERS. Without a
    /// trace, a made-up service is simulated
    #[arg(long, value_name = "SHAPE")]
    workload: Option<TrafficShape>,
    /// Number of requests of the workload
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    requests: u32,
    /// The same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Cost of a megabyte of garbage, in milliseconds of delay for every request
    #[arg(long, value_name = "MS", default_value_t = DEFAULT_LAMBDA, value_parser = not_negative)]
    lambda: f64,
    /// Seconds at the start that are played but not counted
    #[arg(long, value_name = "S", default_value_t = 0.0, value_parser = not_negative)]
    warm_up: f64,
    /// Simulate a machine on which snapshots are impossible
    #[arg(long)]
    no_snapshots: bool,
    /// Leave out the plan, which takes the longest
    #[arg(long)]
    no_oracle: bool,
    /// Show every column
    #[arg(long)]
    wide: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// What a made-up service has: so many objects that stay, and so many new ones for each request.
const IMAGINED: (f64, f64) = (500_000.0, 700.0);

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let names = policies(&arguments.policies).map_err(Failure::usage)?;
    if arguments.traces.is_empty() && arguments.workload.is_none() {
        return Err(Failure::usage(
            "there is nothing to play. Name a trace that `neurogc run --trace FILE` has recorded, or a workload: \
             --workload poisson:200",
        ));
    }
    let rules =
        Rules { names, lambda: arguments.lambda, snapshots: !arguments.no_snapshots, oracle: !arguments.no_oracle };
    let mut comparisons = Vec::new();
    let others = arguments.with.iter().map(|path| load(path)).collect::<Result<Vec<_>, _>>()?;
    for path in &arguments.traces {
        let trace = load(path)?;
        let warm_up = (arguments.warm_up * 1e9) as u64;
        let mut fit = fit_with(&trace, &others, warm_up, arguments.seed)
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
        fit.workload = match arguments.workload {
            Some(shape) => made_up(arguments, shape, &fit.workload),
            None => fit.workload,
        };
        let mut comparison = Comparison::of(&path.display().to_string(), &scene(&fit.model, &fit.workload), &rules)?;
        comparison.assumed = fit.assumed;
        comparisons.push(comparison);
    }
    if let (true, Some(shape)) = (arguments.traces.is_empty(), arguments.workload) {
        let (live, objects) = IMAGINED;
        let mut like = Workload::new(Start { at: 0, tenured: live, pending: 0.0 });
        like.requests = imagined(1000, objects, arguments.seed);
        let (model, workload) = (HeapModel::default(), made_up(arguments, shape, &like));
        comparisons.push(Comparison::of("a made-up service", &scene(&model, &workload), &rules)?);
    }
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&comparisons)?)?;
    } else {
        let texts: Vec<String> = comparisons.iter().map(|comparison| comparison.text(arguments.wide)).collect();
        let text = texts.join("\n");
        write!(out, "{}", if paint::is_wanted() { paint::comparison(&text, GUESSED) } else { text })?;
    }
    Ok(())
}

fn scene<'s>(model: &'s HeapModel, workload: &'s Workload) -> Scene<'s> {
    Scene::new(model, workload)
}

/// A workload of another shape, with requests and a heap like those of a recorded one.
fn made_up(arguments: &Arguments, shape: TrafficShape, like: &Workload) -> Workload {
    let mut workload = shape.requests(arguments.requests as usize, &like.requests, like.start, arguments.seed);
    workload.thresholds = like.thresholds;
    workload.counted_from = like.start.at + (arguments.warm_up * 1e9) as u64;
    workload
}

/// Names with commas. The commas inside a policy's own numbers belong to it.
fn policies(lists: &[String]) -> Result<Vec<Name>, String> {
    let mut words: Vec<String> = Vec::new();
    for piece in lists.iter().flat_map(|list| list.split(',')) {
        match words.last_mut() {
            Some(last) if piece.starts_with(|first: char| first.is_ascii_digit()) => {
                last.push(',');
                last.push_str(piece);
            }
            _ => words.push(piece.trim().to_owned()),
        }
    }
    words.iter().map(|word| word.parse::<Name>().map_err(|error| error.to_string())).collect()
}

pub(super) fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("it must be a number of at least 0".to_owned()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_policy_are_its_own() {
        let lists = ["cpython,threshold:1,2,3".to_owned(), "gap,every:5".to_owned()];
        let names: Vec<String> = policies(&lists).unwrap().iter().map(Name::to_string).collect();
        assert_eq!(names, ["cpython", "threshold:1,2,3", "gap", "every:5"]);
        assert!(policies(&["gip".to_owned()]).unwrap_err().contains("Did you mean gap?"));
    }
}
