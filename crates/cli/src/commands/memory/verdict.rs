//! The verdict on a process: once, again and again, or why.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant};

use neurogc_sites::SiteReport;
use neurogc_wire::breakdown::MemoryReport;
use neurogc_wire::memory_verdict::{MemoryChange, MemoryVerdict};
use neurogc_wire::sites::SiteTable;
use serde::Serialize;

use super::{sites, summary};
use crate::agents::Rendezvous;
use crate::bench::interrupt::Interrupt;
use crate::failure::{CommandResult, Failure};
use crate::memory::changes::{self, Looked};
use crate::memory::subject::{self, PATIENCE};
use crate::memory::{breakdown, diagnosis, listing, since};
use crate::notice::say;
use crate::{figures, paint, process};

/// How long Ctrl-C may lie before it is seen.
const STEP: Duration = Duration::from_millis(100);

/// Everything that one look finds.
struct MemoryLook {
    verdict: MemoryVerdict,
    /// Where the resident memory is.
    memory: Option<MemoryReport>,
    /// What was asked for by --since: the seconds, and what has changed.
    change: Option<(u32, MemoryChange)>,
    /// Where live memory was allocated; none where the process is not sampled.
    table: Option<SiteTable>,
    since_s: Option<u32>,
}

impl MemoryLook {
    /// Asks a process. The error is the table of sites alone, where the agent knows no verdict.
    fn at(pid: u32, since_s: Option<u32>) -> Result<Result<Self, SiteTable>, Failure> {
        let agents = Rendezvous::of_this_machine();
        let verdict = agents.verdict(pid, PATIENCE).map_err(Failure::failed)?;
        let table = subject::of_process(pid, since_s);
        let Some(verdict) = verdict else { return Ok(Err(table?)) };
        let change = since_s.and_then(|since_s| Some((since_s, agents.memory_change(pid, since_s, PATIENCE).ok()??)));
        let memory = agents.memory(pid, PATIENCE).ok();
        Ok(Ok(Self { verdict, memory, change, table: table.ok(), since_s }))
    }

    fn sites(&self) -> Option<SiteReport<'_>> {
        self.table.as_ref().map(|table| SiteReport::of(table, &summary(table, self.since_s)))
    }

    fn text(&self, changes: &[String], room: Option<usize>) -> String {
        let mut text = diagnosis::text(&self.verdict, room);
        text.push_str(&diagnosis::changes(changes, room));
        if let Some(memory) = &self.memory {
            text.push_str(&breakdown::text(memory));
        }
        if let Some((asked_s, change)) = &self.change {
            text.push('\n');
            text.push_str(&since::text(change, *asked_s, room));
        }
        if let Some(sites) = self.sites() {
            text.push('\n');
            text.push_str(&listing::text(&sites, room));
        }
        text
    }

    fn painted(&self, text: String) -> String {
        let verdict = self.verdict.findings.first().map(|it| it.finding.kind);
        if paint::is_wanted() { paint::report(&text, verdict) } else { text }
    }

    fn as_json<'l>(&'l self, changes: Option<&'l [String]>) -> MemorySummary<'l> {
        let change = self.change.as_ref().map(|(_, change)| change);
        MemorySummary { report: &self.verdict, changes, change, memory: self.memory.as_ref(), sites: self.sites() }
    }
}

/// The verdict, where the memory is, and the summary of sites, as JSON.
#[derive(Serialize)]
struct MemorySummary<'a> {
    #[serde(flatten)]
    report: &'a MemoryVerdict,
    /// What has changed since the look before, in words; with --watch.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a [String]>,
    /// What has changed in the time of --since.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'a MemoryChange>,
    memory: Option<&'a MemoryReport>,
    sites: Option<SiteReport<'a>>,
}

/// The verdict as it is now, and the summary of sites where the process is sampled.
pub(super) fn once(pid: u32, since_s: Option<u32>, json: bool, out: &mut dyn Write) -> CommandResult {
    match MemoryLook::at(pid, since_s)? {
        Err(table) => sites::show(&table, &summary(&table, since_s), json, out),
        Ok(look) if json => Ok(writeln!(out, "{}", serde_json::to_string_pretty(&look.as_json(None))?)?),
        Ok(look) => Ok(write!(out, "{}", look.painted(look.text(&[], figures::room())))?),
    }
}

/// The same every so many seconds, with what has changed, until Ctrl-C or the end of the process.
pub(super) fn watch(pid: u32, since_s: Option<u32>, every_s: u32, json: bool, out: &mut dyn Write) -> CommandResult {
    let (interrupt, began) = (Interrupt::watch()?, Instant::now());
    let (mut first, mut before): (Option<Looked>, Option<Looked>) = (None, None);
    loop {
        let due = Instant::now() + Duration::from_secs(every_s.into());
        let look = match MemoryLook::at(pid, since_s) {
            Ok(Ok(look)) => look,
            Ok(Err(_)) => {
                return Err(Failure::failed(format!(
                    "the agent of process {pid} gives no verdict, so there is none to watch"
                )));
            }
            Err(_) if first.is_some() && process::look_up(pid).is_none() => {
                say(format!("process {pid} has ended"));
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let now = Looked { at: began.elapsed(), verdict: look.verdict.clone(), memory: look.memory.clone() };
        let changes = match (&first, &before) {
            (Some(first), Some(before)) => changes::between(first, before, &now),
            _ => Vec::new(),
        };
        if json {
            writeln!(out, "{}", serde_json::to_string(&look.as_json(Some(&changes)))?)?;
        } else {
            show(&look, &changes, out)?;
        }
        out.flush()?;
        first.get_or_insert_with(|| now.clone());
        before = Some(now);
        while Instant::now() < due {
            if interrupt.came() {
                return Ok(());
            }
            thread::sleep(STEP.min(due.saturating_duration_since(Instant::now())));
        }
    }
}

/// One look on the screen, cut to its height so that the verdict stays in sight; in a file or a pipe, one after the other.
fn show(look: &MemoryLook, changes: &[String], out: &mut dyn Write) -> CommandResult {
    let mut text = look.text(changes, figures::room());
    if io::stdout().is_terminal() {
        let lines = ratatui::crossterm::terminal::size().map_or(usize::MAX, |(_, lines)| usize::from(lines));
        text = text.lines().take(lines.saturating_sub(1)).flat_map(|line| [line, "\n"]).collect();
        // To the top, and away with what was there.
        write!(out, "\x1b[H\x1b[2J\x1b[3J")?;
    } else {
        text.push('\n');
    }
    Ok(write!(out, "{}", look.painted(text))?)
}

/// Why a finding was made.
pub(super) fn why(pid: u32, number: usize, json: bool, out: &mut dyn Write) -> CommandResult {
    let report = Rendezvous::of_this_machine().verdict(pid, PATIENCE).map_err(Failure::failed)?;
    let findings = report.map(|report| report.findings).unwrap_or_default();
    let found = number.checked_sub(1).and_then(|at| findings.get(at));
    let there = || Failure::failed(format!("there is no finding {number}: process {pid} has {}", findings.len()));
    let found = found.ok_or_else(there)?;
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(found)?)?;
    } else {
        write!(out, "{}", diagnosis::why(found))?;
    }
    Ok(())
}
