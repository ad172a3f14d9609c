//! `neurogc memory sites`: live memory, growth or allocation rate by place.

use std::io::Write;

use clap::Args;
use neurogc_sites::{GroupBy, SiteChoice, SiteFilter, SiteReport};
use neurogc_wire::sites::SiteTable;

use super::{measure, ways};
use crate::failure::CommandResult;
use crate::memory::listing;
use crate::memory::subject::Subject;
use crate::{figures, paint};

/// List where live memory was allocated, the largest places first
///
/// The figures are estimates from samples: a place that holds some MB is within a few percent. With --since, what has
/// grown comes first.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  neurogc memory sites 4242\n  neurogc memory sites 4242 --since 10m --by stack\n  \
                        neurogc memory sites 4242 --rate --by function\n  \
                        neurogc memory sites service.ngct --json | jq .rows[0]"
)]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`, or a trace or a file of `neurogc memory record`
    #[arg(value_name = "PID")]
    subject: Subject,
    /// Compare with so long ago and show growth, for instance 30s, 10m or 1h
    #[arg(long, value_name = "T", value_parser = figures::seconds)]
    since: Option<u32>,
    /// How many places to show
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// What to add up
    #[arg(long, default_value = "line", value_parser = ways(), value_name = "WHAT")]
    by: GroupBy,
    /// Only what came from malloc and mmap: native memory, and Python objects of more than 512 bytes
    #[arg(long)]
    native: bool,
    /// Show what is allocated in a second, freed or not
    #[arg(long)]
    rate: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let table = arguments.subject.table(arguments.since)?;
    let keep = if arguments.native { SiteFilter::Native } else { SiteFilter::All };
    let measure = measure(table.compared_unix_ms.is_some(), arguments.rate);
    show(&table, &SiteChoice { by: arguments.by, measure, keep, top: arguments.top }, arguments.json, out)
}

/// Prints a report on a table.
pub(super) fn show(table: &SiteTable, choice: &SiteChoice, json: bool, out: &mut dyn Write) -> CommandResult {
    let report = SiteReport::of(table, choice);
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        let text = listing::text(&report, figures::room());
        write!(out, "{}", if paint::is_wanted() { paint::report(&text, None) } else { text })?;
    }
    Ok(())
}
