//! `neurogc memory`: what is the matter with the memory of a process, and where live memory was allocated.

mod children;
pub(crate) mod diff;
pub(crate) mod flame;
pub(crate) mod record;
pub(crate) mod sites;
mod verdict;

use std::io::Write;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use neurogc_sites::{GroupBy, Measure, SiteChoice};
use neurogc_wire::sites::SiteTable;

use crate::failure::{CommandResult, Failure};
use crate::figures;
use crate::memory::subject::Subject;

/// Lines in the summary.
const TOP: usize = 5;

/// Find out whether a process leaks, what holds the memory and which line fills it
///
/// With a process alone it prints the verdict: leaks with their holder, line, pattern and fix, what looks like a leak and is none,
/// the time to the limit, the largest places, and where the resident memory is. The agent notes how memory grows all the time, so the answer comes
/// at once; it is surer the longer the process has run.
///
/// With --since it also compares figures of the process, of containers and of types with that moment, and shows the places that have
/// grown. The agent keeps these itself: the process for days, ever more coarsely, and the places for 4 hours. No hub is needed.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  neurogc memory 4242\n  neurogc memory 4242 --why 1\n  neurogc memory 4242 --since 1h\n  \
                  neurogc memory 4242 --watch\n  neurogc memory 4242 --children\n  neurogc memory 4242 --watch 30 --json >> memory.jsonl\n  \
                  neurogc memory sites 4242 --since 10m\n  \
                  neurogc memory flame 4242 -o live.html\n  neurogc memory record 4242 --for 60s -o before.pb.gz\n  \
                  neurogc memory diff before.pb.gz after.pb.gz"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The process, as listed by `neurogc ps`, or a trace or a file of `neurogc memory record`
    #[arg(required = true, value_name = "PID")]
    subject: Option<Subject>,
    /// Also show what has changed in this time, for instance 30s, 10m or 1h
    #[arg(long, value_name = "T", value_parser = figures::seconds)]
    since: Option<u32>,
    /// Look again every so many seconds (5 if no number is given) and say what has changed, until Ctrl-C or the end of the process
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "5", value_parser = figures::seconds)]
    #[arg(conflicts_with = "why")]
    watch: Option<u32>,
    /// Show the memory of the process and of everything below it: what workers still share, have copied and have allocated
    #[arg(long, conflicts_with_all = ["since", "watch", "why"])]
    children: bool,
    /// Explain a finding, by its number in the verdict: the series that it was made from
    #[arg(long, value_name = "N", conflicts_with = "since")]
    why: Option<usize>,
    /// Print the verdict and the summary as JSON; with --watch, one line for each look
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
        Some(Verb::Flame(arguments)) => flame::run(&arguments, out),
        Some(Verb::Record(arguments)) => record::run(&arguments, out),
        Some(Verb::Diff(arguments)) => diff::run(&arguments, out),
        None => {
            let subject = arguments.subject.ok_or_else(|| Failure::usage("name a process"))?;
            if arguments.children {
                let Subject::Process(pid) = subject else {
                    return Err(Failure::usage("--children is for a process: a file knows of no others"));
                };
                return children::show(pid, arguments.json, out);
            }
            match (&subject, arguments.why) {
                (Subject::Process(pid), Some(number)) => verdict::why(*pid, number, arguments.json, out),
                (Subject::Process(pid), None) => match arguments.watch {
                    Some(every) => verdict::watch(*pid, arguments.since, every, arguments.json, out),
                    None => verdict::once(*pid, arguments.since, arguments.json, out),
                },
                (Subject::File(_), Some(_)) => {
                    Err(Failure::usage("--why explains findings on a process, not on a file"))
                }
                (Subject::File(_), None) if arguments.watch.is_some() => {
                    Err(Failure::usage("--watch is for a process: a file does not change"))
                }
                (Subject::File(_), None) => {
                    let table = subject.table(arguments.since)?;
                    sites::show(&table, &summary(&table, arguments.since), arguments.json, out)
                }
            }
        }
    }
}

/// The summary of a table: its largest lines.
fn summary(table: &SiteTable, since: Option<u32>) -> SiteChoice {
    let measure = measure(since.and(table.compared_unix_ms).is_some(), false);
    SiteChoice { by: GroupBy::Line, measure, top: TOP, ..SiteChoice::default() }
}

/// What is shown: the rate where that is asked for, otherwise growth where there is a comparison.
fn measure(compared: bool, rate: bool) -> Measure {
    match (rate, compared) {
        (true, _) => Measure::Rate,
        (false, true) => Measure::Growth,
        (false, false) => Measure::Live,
    }
}

/// Another word for `domain`.
const TYPE_OF_ALLOCATOR: &str = "type-of-allocator";

/// The values of --by.
fn ways() -> impl TypedValueParser<Value = GroupBy> {
    let value = |(by, name): (GroupBy, &'static str)| match by {
        GroupBy::Domain => PossibleValue::new(name).alias(TYPE_OF_ALLOCATOR),
        _ => PossibleValue::new(name),
    };
    let named = |name: String| match name.as_str() {
        TYPE_OF_ALLOCATOR => GroupBy::Domain,
        name => GroupBy::ALL.iter().find(|(_, written)| *written == name).map_or(GroupBy::Line, |(by, _)| *by),
    };
    PossibleValuesParser::new(GroupBy::ALL.map(value)).map(named)
}
