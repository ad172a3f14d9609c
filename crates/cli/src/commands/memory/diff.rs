//! `neurogc memory diff`: what has grown from one recording to another.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use neurogc_sites::{GroupBy, Measure, SiteChoice, SiteFilter, compare};

use super::sites::show;
use super::ways;
use crate::failure::CommandResult;
use crate::memory::subject::of_file;
use crate::notice::say;

/// Compare two recordings: what has grown from A to B
///
/// Files are those of `neurogc memory record` in the formats pprof and json, or traces, of which the last table counts.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  neurogc memory record 4242 --for 10s -o before.pb.gz\n  \
                        neurogc memory record 4242 --for 10s -o after.pb.gz\n  \
                        neurogc memory diff before.pb.gz after.pb.gz")]
pub(crate) struct Arguments {
    /// The earlier recording
    a: PathBuf,
    /// The later recording
    b: PathBuf,
    /// How many places to show
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// What to add up
    #[arg(long, default_value = "line", value_parser = ways(), value_name = "WHAT")]
    by: GroupBy,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let (a, b) = (of_file(&arguments.a, None)?, of_file(&arguments.b, None)?);
    if a.taken_unix_ms > b.taken_unix_ms {
        say("A was taken after B: growth is from the later to the earlier moment");
    }
    if a.mode != b.mode {
        say("one recording has native memory and the other has not: they differ by that, too");
    }
    let mut table = compare(&a, &b);
    // Each recording counts what was allocated in its own time, so that the difference is no rate.
    for site in &mut table.sites {
        for counts in [&mut site.now, &mut site.before] {
            (counts.made_bytes, counts.made_blocks) = (0, 0);
        }
    }
    table.since_unix_ms = a.since_unix_ms.min(b.since_unix_ms);
    let choice = SiteChoice { by: arguments.by, measure: Measure::Growth, keep: SiteFilter::All, top: arguments.top };
    show(&table, &choice, arguments.json, out)
}
