//! `neurogc trace show`: what a trace holds.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::failure::CommandResult;
use crate::figures;
use crate::trace::load;
use crate::trace::summary::TraceSummary;

/// Summarize a trace: requests, collections, stalls, gaps, memory
///
/// Damaged files are read as far as possible.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  neurogc run --trace service.ngct -- python app.py\n  neurogc trace show service.ngct"
)]
pub(crate) struct Arguments {
    /// The trace
    file: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let summary = TraceSummary::of(&load(&arguments.file)?);
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
    } else {
        match figures::room() {
            Some(room) => write!(out, "{summary:room$}")?,
            None => write!(out, "{summary}")?,
        }
    }
    Ok(())
}
