//! `neurogc collect`: a collection in a running process, now.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use neurogc_wire::control::{Ask, How, Outcome};
use serde_json::json;

use crate::agents::Rendezvous;
use crate::failure::{CommandResult, Failure};
use crate::{figures, process};

/// How long the agent may take to answer, and the collection to be over: one of 41 s has been seen.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(120);

/// Collect garbage in a running process now
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc collect 4242\n  neurogc collect 4242 --how young")]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`
    #[arg(value_parser = process::number)]
    pid: u32,
    /// What to collect: young objects; the full heap, which stops the program; or the full heap from a snapshot. auto:
    /// a snapshot for 50,000 objects or more, otherwise full
    #[arg(long, default_value = "auto", value_parser = ways())]
    how: How,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

fn ways() -> impl TypedValueParser<Value = How> {
    let named = |name: String| How::ALL.iter().find(|(_, written)| *written == name).map_or(How::Auto, |(how, _)| *how);
    PossibleValuesParser::new(How::ALL.map(|(_, name)| name)).map(named)
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let Arguments { pid, how, json } = arguments;
    match Rendezvous::of_this_machine()
        .have_done(*pid, Ask::Collect(*how), PATIENCE, LONGEST)
        .map_err(Failure::failed)?
    {
        Outcome::Collected { how, found, pause_ms } => {
            let how = How::ALL.iter().find(|(each, _)| *each == how).map_or("", |(_, name)| *name);
            if *json {
                writeln!(out, "{}", json!({"how": how, "found": found, "pause_ms": pause_ms}))?;
            } else {
                let (found, pause) = (figures::count(found), figures::ms(pause_ms));
                writeln!(out, "process {pid}: {found} unreachable objects found ({how}), stopped for {pause}")?;
            }
        }
        other => return Err(Failure::failed(format!("process {pid} gave an unexpected answer: {other:?}"))),
    }
    Ok(())
}
