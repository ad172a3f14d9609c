//! `neurogc memory`: where live memory was allocated.

pub(crate) mod diff;
pub(crate) mod flame;
pub(crate) mod record;
pub(crate) mod sites;

use std::io::Write;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use neurogc_sites::{GroupBy, Measure, SiteChoice, SiteReport};

use crate::failure::{CommandResult, Failure};
use crate::figures;
use crate::memory::breakdown;
use crate::memory::subject::Subject;

/// Lines in the summary.
const TOP: usize = 5;

/// See where live memory was allocated, and what grows
///
/// With a process alone it prints a summary: how much is live, how fast the program allocates, the largest places, and where
/// the resident memory is.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  neurogc memory 4242\n  neurogc memory sites 4242 --since 10m\n  \
                  neurogc memory flame 4242 -o live.html\n  neurogc memory record 4242 --for 60s -o before.pb.gz\n  \
                  neurogc memory diff before.pb.gz after.pb.gz"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The process, as listed by `neurogc ps`, or a trace or a file of `neurogc memory record`
    #[arg(required = true, value_name = "PID")]
    subject: Option<Subject>,
    /// Also show what has grown in this time, for instance 30s, 10m or 1h
    #[arg(long, value_name = "T", value_parser = figures::seconds)]
    since: Option<u32>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Sites(sites::Arguments),
    Flame(flame::Arguments),
    Record(record::Arguments),
    Diff(diff::Arguments),
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> CommandResult {
    match arguments.verb {
        Some(Verb::Sites(arguments)) => sites::run(&arguments, out),
        Some(Verb::Flame(arguments)) => flame::run(&arguments),
        Some(Verb::Record(arguments)) => record::run(&arguments, out),
        Some(Verb::Diff(arguments)) => diff::run(&arguments, out),
        None => {
            let subject = arguments.subject.ok_or_else(|| Failure::usage("name a process"))?;
            let table = subject.table(arguments.since)?;
            let measure = measure(arguments.since.and(table.compared_unix_ms).is_some(), false);
            let choice = SiteChoice { by: GroupBy::Line, measure, top: TOP, ..SiteChoice::default() };
            let memory = subject.memory();
            if arguments.json {
                let mut report = serde_json::to_value(SiteReport::of(&table, &choice))?;
                report["memory"] = serde_json::to_value(&memory)?;
                writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
                return Ok(());
            }
            sites::show(&table, &choice, false, out)?;
            if let Some(memory) = memory {
                write!(out, "\n{}", breakdown::text(&memory))?;
            }
            Ok(())
        }
    }
}

/// What is shown: the rate where that is asked for, otherwise growth where there is a comparison.
fn measure(compared: bool, rate: bool) -> Measure {
    match (rate, compared) {
        (true, _) => Measure::Rate,
        (false, true) => Measure::Growth,
        (false, false) => Measure::Live,
    }
}

/// The values of --by.
fn ways() -> impl TypedValueParser<Value = GroupBy> {
    let named =
        |name: String| GroupBy::ALL.iter().find(|(_, written)| *written == name).map_or(GroupBy::Line, |(by, _)| *by);
    PossibleValuesParser::new(GroupBy::ALL.map(|(_, name)| name)).map(named)
}
