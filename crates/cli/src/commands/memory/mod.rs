//! `neurogc memory`: what is the matter with the memory of a process, and where live memory was allocated.

pub(crate) mod diff;
pub(crate) mod flame;
pub(crate) mod record;
pub(crate) mod sites;

use std::io::Write;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use neurogc_sites::{GroupBy, Measure, SiteChoice, SiteReport};
use neurogc_wire::breakdown::MemoryReport;
use neurogc_wire::memory_verdict::MemoryVerdict;
use neurogc_wire::sites::SiteTable;
use serde::Serialize;

use crate::agents::Rendezvous;
use crate::failure::{CommandResult, Failure};
use crate::memory::subject::{self, PATIENCE, Subject};
use crate::memory::{breakdown, diagnosis, listing};
use crate::{figures, paint};

/// Lines in the summary.
const TOP: usize = 5;

/// Find out whether a process leaks, what holds the memory and which line fills it
///
/// With a process alone it prints the verdict: leaks with their holder, line, pattern and fix, what looks like a leak and is none,
/// the time to the limit, the largest places, and where the resident memory is. The agent notes how memory grows all the time, so the answer comes
/// at once; it is surer the longer the process has run.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  neurogc memory 4242\n  neurogc memory 4242 --why 1\n  neurogc memory sites 4242 --since 10m\n  \
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
    /// Explain a finding, by its number in the verdict: the series that it was made from
    #[arg(long, value_name = "N", conflicts_with = "since")]
    why: Option<usize>,
    /// Print the verdict and the summary as JSON
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
            match (&subject, arguments.why) {
                (Subject::Process(pid), why) => of_process(*pid, arguments.since, why, arguments.json, out),
                (Subject::File(_), Some(_)) => {
                    Err(Failure::usage("--why explains findings on a process, not on a file"))
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

/// The verdict on a process, and the summary of its sites where it is sampled.
fn of_process(pid: u32, since: Option<u32>, why: Option<usize>, json: bool, out: &mut dyn Write) -> CommandResult {
    let report = Rendezvous::of_this_machine().verdict(pid, PATIENCE).map_err(Failure::failed)?;
    if let Some(number) = why {
        let findings = report.map(|report| report.findings).unwrap_or_default();
        let found = number.checked_sub(1).and_then(|at| findings.get(at));
        let there = || Failure::failed(format!("there is no finding {number}: process {pid} has {}", findings.len()));
        let found = found.ok_or_else(there)?;
        if json {
            writeln!(out, "{}", serde_json::to_string_pretty(found)?)?;
        } else {
            write!(out, "{}", diagnosis::why(found))?;
        }
        return Ok(());
    }
    let table = subject::of_process(pid, since);
    let Some(report) = report else {
        let table = table?;
        return sites::show(&table, &summary(&table, since), json, out);
    };
    let sites = table.as_ref().ok().map(|table| SiteReport::of(table, &summary(table, since)));
    let memory = Rendezvous::of_this_machine().memory(pid, PATIENCE).ok();
    if json {
        let all = MemorySummary { report: &report, memory, sites };
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    let verdict = report.findings.first().map(|it| it.finding.kind);
    let mut text = diagnosis::text(&report, figures::room());
    if let Some(memory) = &memory {
        text.push_str(&breakdown::text(memory));
    }
    if let Some(sites) = &sites {
        text.push('\n');
        text.push_str(&listing::text(sites, figures::room()));
    }
    write!(out, "{}", if paint::is_wanted() { paint::report(&text, verdict) } else { text })?;
    Ok(())
}

/// The verdict, where the memory is, and the summary of sites, as JSON.
#[derive(Debug, Serialize)]
struct MemorySummary<'a> {
    #[serde(flatten)]
    report: &'a MemoryVerdict,
    memory: Option<MemoryReport>,
    sites: Option<SiteReport<'a>>,
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
