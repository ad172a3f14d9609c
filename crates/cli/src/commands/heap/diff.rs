//! `neurogc heap diff`: what grew from one dump to the next.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use neurogc_heap::views::{PlaceTable, growth, summary};

use crate::failure::CommandResult;
use crate::heap::{HeapFile, listing, print};
use crate::notice::say;

/// Compare two dumps of a process: what grew, by place
///
/// A place is what a programmer would call it, such as app.registry.sessions[…], so that objects may have moved or been
/// replaced. With a third dump only what is new in B and still there in C is shown.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc heap diff before.ngch after.ngch\n  \
                        neurogc heap diff start.ngch busy.ngch idle.ngch --top 5")]
pub(crate) struct Arguments {
    /// The earlier dump
    a: PathBuf,
    /// The later dump
    b: PathBuf,
    /// A third dump: what is still there in it
    c: Option<PathBuf>,
    /// How many places to show
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    // One dump after the other: only their tables of places are in memory together.
    let (a, b) = (table(&arguments.a)?, table(&arguments.b)?);
    let c = arguments.c.as_deref().map(table).transpose()?;
    if a.taken_unix_ms > b.taken_unix_ms {
        say("A was taken after B: growth is from the later to the earlier moment");
    }
    let report = growth(&a, &b, c.as_ref(), arguments.top);
    if report.other_process {
        say("the dumps are of different processes: they differ by more than growth");
    }
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
        return Ok(());
    }
    print(out, &listing::growth(&report, crate::figures::room()))
}

fn table(path: &Path) -> Result<PlaceTable, crate::failure::Failure> {
    let mut file = HeapFile::open(path)?;
    let paths = file.paths()?;
    let places = file.places(&paths)?;
    let table = PlaceTable::new(&places, &summary(&file.heap));
    file.done();
    Ok(table)
}
