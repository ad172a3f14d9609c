//! `neurogc train`: from traces to a model for the policy `neural`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use neurogc_learn::DEFAULT_LAMBDA;
use neurogc_neural::Family;

use crate::failure::{CommandResult, Failure};
use crate::figures;
use crate::trace::load;
use crate::training::{self, RecordingPlan, TrainingOptions, WantedTraces};

/// Train a model on recorded traces to decide when to collect
///
/// Models of several families learn how long gaps last, what collections free and how long they take. Each is evaluated
/// in the simulator, and the one with the lowest cost on held-out data is written to a file for the policy neural:FILE.
/// Traces are divided by time: 60 % for training, 20 % for selection, 20 % for the reported figures. An interrupted
/// training continues where it stopped.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc run --trace service.ngct -- python app.py\n  \
    neurogc train service.ngct -o service.safetensors\n  \
    neurogc run --policy neural:service.safetensors -- python app.py\n  \
    neurogc train service.ngct --model gru -o gru.safetensors\n  \
    neurogc train --from-hub http://127.0.0.1:7077 --service shop --since 7d -o shop.safetensors\n  \
    neurogc train --record \"python app.py\" --load http://127.0.0.1:8000/ --rate 100 --seconds 300 -o app.safetensors")]
pub(crate) struct Arguments {
    /// Traces of the program under its usual load: ten minutes or more, best under the policy gap
    #[arg(value_name = "TRACE", required_unless_present_any = ["record", "from_hub"])]
    traces: Vec<PathBuf>,
    /// Which family to train; `best` trains all and keeps the best
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Choice::Best)]
    model: Choice,
    /// File to write the model to
    #[arg(short, long, value_name = "FILE", default_value = "model.safetensors")]
    out: PathBuf,
    /// Cost of a megabyte of garbage, in milliseconds of delay for every request
    #[arg(long, value_name = "MS", default_value_t = DEFAULT_LAMBDA, value_parser = super::simulate::not_negative)]
    lambda: f64,
    /// Maximum number of passes over the data
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    epochs: u32,
    /// The same seed gives the same model
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Start again, even if an interrupted training could continue
    #[arg(long)]
    fresh: bool,
    /// Start this program, put load on it, and train on the recorded trace
    #[arg(long, value_name = "CMD", requires = "load")]
    record: Option<String>,
    /// URL to request from the program, on this machine
    #[arg(long, value_name = "URL", requires = "record")]
    load: Option<String>,
    /// Requests per second
    #[arg(long, value_name = "N", default_value_t = 50.0, value_parser = super::simulate::not_negative)]
    rate: f64,
    /// Seconds of load
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u64).range(30..=86_400))]
    seconds: u64,
    /// Fetch the traces of a service from this hub, and train on them. The hub keeps those of programs with the setting
    /// hub_trace=true, and has those that were uploaded. Its token is in NEUROGC_HUB_TOKEN, or in the address that `neurogc hub`
    /// printed; a hub of yours on this machine needs none
    #[arg(long, value_name = "URL", requires = "service", conflicts_with = "record")]
    from_hub: Option<String>,
    /// The service whose traces are fetched
    #[arg(long, value_name = "NAME", requires = "from_hub")]
    service: Option<String>,
    /// Fetch what was recorded in this time, for instance 6h or 7d, which is the longest
    #[arg(long, value_name = "T", default_value = "7d", value_parser = since, requires = "from_hub")]
    since: u32,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// How long a hub keeps traces.
const LONGEST_SINCE: u32 = 7 * 86_400;

fn since(text: &str) -> Result<u32, String> {
    let seconds = figures::seconds(text)?;
    if seconds > LONGEST_SINCE { Err("a hub keeps traces for 7 days".to_owned()) } else { Ok(seconds) }
}

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    Best,
    Linear,
    Trees,
    Mlp,
    Lstm,
    Gru,
    Tcn,
    Transformer,
    Rl,
}

impl Choice {
    fn families(self) -> Vec<Family> {
        match self {
            Self::Best => Family::ALL.into_iter().chain([Family::Rl]).collect(),
            Self::Linear => vec![Family::Linear],
            Self::Trees => vec![Family::Trees],
            Self::Mlp => vec![Family::Mlp],
            Self::Lstm => vec![Family::Lstm],
            Self::Gru => vec![Family::Gru],
            Self::Tcn => vec![Family::Tcn],
            Self::Transformer => vec![Family::Transformer],
            Self::Rl => vec![Family::Rl],
        }
    }
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let mut traces = arguments.traces.clone();
    if let (Some(command), Some(url)) = (&arguments.record, &arguments.load) {
        let recording = RecordingPlan::new(command, url, arguments.rate, arguments.seconds)?;
        traces.push(recording.record(&arguments.out.with_extension("ngct"))?);
    }
    let folder = arguments.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Failure::usage(format!("there is no folder {}. Create it first", folder.display())));
    }
    if let (Some(url), Some(service)) = (&arguments.from_hub, &arguments.service) {
        let wanted = WantedTraces { url, service, since_s: arguments.since };
        traces.extend(wanted.fetch(&arguments.out.with_extension("traces"))?);
    }
    let mut named = Vec::new();
    for path in &traces {
        named.push((path.display().to_string(), load(path)?));
    }
    let order = TrainingOptions {
        families: arguments.model.families(),
        to: arguments.out.clone(),
        lambda: arguments.lambda,
        epochs: arguments.epochs as usize,
        seed: arguments.seed,
        fresh: arguments.fresh,
    };
    let report = training::train(&order, &named)?;
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(out, "{}", report.text())?;
    }
    Ok(())
}
