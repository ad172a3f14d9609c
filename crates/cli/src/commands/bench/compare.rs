//! `neurogc bench compare`: what changed from one kept run to another, and whether it can be chance.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::bench::compare::{changes, text};
use crate::bench::record::Run;
use crate::failure::{CommandResult, Failure};

/// Compare two kept runs
///
/// Whole runs are compared, not requests, because requests of one run depend on each other.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  neurogc bench compare neurogc-bench/before neurogc-bench/after")]
pub(crate) struct Arguments {
    /// The earlier run: its directory, or its run.json
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The later run
    #[arg(value_name = "B")]
    after: PathBuf,
    /// Show all figures, not only those that differ
    #[arg(long)]
    all: bool,
    /// Print all figures as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let read = |path| Run::read(path).map_err(Failure::failed);
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&changes(&before, &after))?)?;
    } else {
        write!(out, "{}", text(&before, &after, arguments.all))?;
    }
    Ok(())
}
