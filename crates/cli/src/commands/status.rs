//! `neurogc status`: one report about one process.

use std::io::Write;
use std::time::Duration;

use clap::Args;

use crate::agents::Rendezvous;
use crate::failure::{Failure, Outcome};
use crate::{figures, process, report};

/// How long the agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Report on one process: requests, collections, stalls, memory
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc status 4242\n  neurogc status 4242 --json | jq .gc.full.max_ms")]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`
    #[arg(value_parser = process::number)]
    pid: u32,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let status = Rendezvous::of_this_machine().ask(arguments.pid, PATIENCE).map_err(Failure::failed)?;
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&status)?)?;
    } else {
        write!(out, "{}", report::text(&status, figures::room()))?;
    }
    Ok(())
}
