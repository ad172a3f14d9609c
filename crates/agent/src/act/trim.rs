//! Giving free memory of `malloc` back to the system: orders that a thread of the agent carries out.

use std::sync::atomic::Ordering;
use std::time::Duration;

use neurogc_policy::{Bytes, Order, TrimReading, TrimRule};
use neurogc_wire::breakdown::{MallocKind, MemoryReport, Trims};

use super::actor::Actor;
use crate::alloc;
use crate::sense::process::resident;
use crate::sys::malloc::{self, trim};
use crate::sys::maps;
use crate::sys::native::monotonic_ns;

/// After so many attempts in a row that found no arenas it is not tried again.
const MOST_FAILURES: u32 = 3;

/// When it is done, and what it has led to.
#[derive(Debug, Default)]
pub(crate) struct Trimming {
    rule: TrimRule,
    done: Trims,
    failures: u32,
    /// The program wants it now, and what became of that.
    wanted: bool,
    outcome: Option<Result<TrimOutcome, &'static str>>,
}

/// What one order has led to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TrimOutcome {
    /// The resident memory is smaller by this.
    pub(crate) saved: u64,
    pub(crate) took: Duration,
    /// The longest time that one arena was locked.
    pub(crate) locked: Duration,
}

impl Trimming {
    /// What was done so far.
    pub(crate) fn totals(&self) -> Trims {
        self.done
    }

    /// Whether it is still tried.
    pub(crate) fn is_possible(&self) -> bool {
        self.failures < MOST_FAILURES
    }

    /// Has the next round do it, whatever the rule says.
    pub(crate) fn want(&mut self) {
        (self.wanted, self.outcome) = (true, None);
    }

    /// What became of it; None where it has not been done.
    pub(crate) fn wanted(&mut self) -> Option<Result<TrimOutcome, &'static str>> {
        self.outcome.take()
    }

    /// Does what the program wants.
    pub(crate) fn attend(&mut self, enough: impl Fn() -> bool) {
        if std::mem::take(&mut self.wanted) {
            self.outcome = Some(self.carry_out(enough));
        }
    }

    /// Takes a new reading of the memory in.
    pub(crate) fn read(&mut self, report: &MemoryReport, at: Duration, limit: Option<u64>) {
        if report.breakdown.malloc == MallocKind::Glibc {
            let (resident, trimmable) = (Bytes::new(report.rss), Bytes::new(report.breakdown.trimmable));
            self.rule.read(TrimReading { at, resident, trimmable, limit: limit.map(Bytes::new) });
        }
    }

    /// The order that is due.
    pub(crate) fn decide(&mut self, now: Duration, busy: bool) -> Option<Order> {
        if self.is_possible() { self.rule.decide(now, busy) } else { None }
    }

    /// Carries it out, until `enough`. An error says why nothing could be done.
    pub(crate) fn carry_out(&mut self, enough: impl Fn() -> bool) -> Result<TrimOutcome, &'static str> {
        let outcome = give_back(enough);
        match outcome {
            Ok(outcome) => {
                self.failures = 0;
                self.done.count += 1;
                self.done.saved_bytes += outcome.saved;
                self.done.total_ms += outcome.took.as_secs_f64() * 1e3;
                self.done.max_lock_ms = self.done.max_lock_ms.max(outcome.locked.as_secs_f64() * 1e3);
                self.rule.trimmed(Bytes::new(outcome.saved), Bytes::new(resident().unwrap_or(0)));
            }
            Err(_) => {
                self.failures += 1;
                // As one that saved nothing: the next attempt waits for longer.
                self.rule.trimmed(Bytes::new(0), Bytes::new(0));
            }
        }
        outcome
    }
}

fn give_back(enough: impl Fn() -> bool) -> Result<TrimOutcome, &'static str> {
    if !alloc::malloc_is_glibc() {
        return Err("malloc is not that of glibc");
    }
    if !malloc::is_known_version() {
        return Err("this version of glibc is not known");
    }
    let unread = "/proc cannot be read";
    let (began, before) = (monotonic_ns(), resident().ok_or(unread)?);
    let text = maps::text().ok_or(unread)?;
    let mappings = maps::merged(&maps::parse(&text));
    let arenas = trim::find_arenas(&malloc::find_heaps(&mappings), &mappings)?;
    let trimmed = trim::trim(&arenas, enough);
    Ok(TrimOutcome {
        saved: before.saturating_sub(resident().ok_or(unread)?),
        took: Duration::from_nanos(monotonic_ns().saturating_sub(began)),
        locked: trimmed.longest,
    })
}

impl Actor {
    /// Gives an order a number that no other one has.
    pub(crate) fn numbered(&self, order: Order) -> Order {
        Order { id: self.ids.fetch_add(1, Ordering::Relaxed) + 1, ..order }
    }
}
