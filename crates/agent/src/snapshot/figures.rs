//! What snapshots have cost and brought so far.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use neurogc_policy::Scope;
use neurogc_wire::status::{self, Snapshots};

use super::failure::SnapshotFailure;
use super::flight::Flight;
use super::system;
use crate::sense::spans::DurationHistogram;
use crate::sys::page::page_size;

/// The sums of all snapshots of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotFigures {
    /// How many were launched.
    pub(crate) launched: u64,
    /// Those that were refused or came to nothing, by kind.
    pub(crate) failed: BTreeMap<&'static str, Failed>,
    /// How long the program stood still for each clone.
    pub(crate) clone: DurationHistogram,
    /// How long each was in flight.
    pub(crate) flight: DurationHistogram,
    /// How long each slice took that freed something.
    pub(crate) reap: DurationHistogram,
    /// Objects that were found unreachable, and those that were freed.
    pub(crate) candidates: u64,
    pub(crate) freed: u64,
    /// Walks of new objects only.
    pub(crate) new_walks: u64,
    /// What the program has lost to copies in all flights.
    pub(crate) copied: Duration,
    /// The most memory that a flight has taken besides.
    pub(crate) extra: u64,
    /// The latest flight that landed.
    pub(crate) latest: Latest,
}

/// Snapshots that came to nothing in one way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failed {
    pub(crate) count: u64,
    /// Why the last one did, and when, by the monotonic clock.
    reason: String,
    last: u64,
}

/// More kinds of failures than this are not reported.
const MOST_FAILURES: usize = 8;

/// One flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latest {
    /// Which flight it was, in the order of launches from one, and what it looked at.
    pub(crate) number: u64,
    pub(crate) scope: Scope,
    pub(crate) clone_ns: u64,
    pub(crate) flight_ns: u64,
    /// Processor time that the walk used.
    pub(crate) worked_ns: u64,
    pub(crate) tracked: u64,
    pub(crate) frozen: u64,
    pub(crate) candidates: u64,
    pub(crate) components: u64,
    pub(crate) largest: u64,
    pub(crate) left_out: u64,
    /// Reachable objects that are no longer new.
    pub(crate) older: u64,
    /// Memory that the walk took for itself.
    pub(crate) own_bytes: u64,
    /// Large memory without Python objects that was left out of the clone.
    pub(crate) apart_bytes: u64,
    /// Blocks without new objects that the clone has let go of.
    pub(crate) without_bytes: u64,
    /// Page faults of the program during the flight; most of them are copies that it had to make.
    pub(crate) faults: u64,
    /// How long each step of the walk took: enlist, subtract, mark, group.
    pub(crate) steps_ns: [u64; 4],
}

impl Latest {
    /// What the program has lost to copies of pages that it wrote to.
    pub(crate) fn copied(&self) -> Duration {
        /// What the kernel takes for one. Two to nine microseconds have been measured.
        const COPY_NS: u64 = 5_000;
        Duration::from_nanos(self.faults * COPY_NS)
    }

    /// Memory that the flight took besides the program's: the walk's own, and pages of which there were two.
    pub(crate) fn extra(&self) -> u64 {
        self.own_bytes + self.faults * page_size() as u64
    }

    /// A flight that has just landed.
    pub(super) fn of(flight: &Flight, apart_bytes: u64) -> Self {
        let control = flight.shared.control();
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let mut before = flight.began;
        let steps_ns = [0, 1, 2, 3].map(|step| {
            let ended = control.ended.get(step).map_or(0, read);
            let took = ended.saturating_sub(before);
            before = before.max(ended);
            took
        });
        Self {
            number: 0,
            scope: flight.scope,
            clone_ns: flight.clone_ns,
            flight_ns: system::now().saturating_sub(flight.began),
            worked_ns: read(&control.worked_ns),
            tracked: read(&control.tracked),
            frozen: read(&control.frozen),
            candidates: read(&control.candidates),
            components: read(&control.components),
            largest: read(&control.largest),
            left_out: read(&control.left_out),
            older: read(&control.older),
            own_bytes: read(&control.own_bytes),
            apart_bytes,
            without_bytes: flight.without,
            faults: flight.faults.count(),
            steps_ns,
        }
    }
}

impl SnapshotFigures {
    /// What the status report says of an agent that was installed at this moment.
    pub(crate) fn report(&self, installed: u64) -> Snapshots {
        let failure = |failed: &Failed| status::FailedSnapshots {
            reason: failed.reason.clone(),
            count: failed.count,
            last_s: failed.last.saturating_sub(installed) as f64 / 1e9,
        };
        Snapshots {
            count: self.launched,
            failed: self.failed.values().map(|failed| failed.count).sum(),
            failures: self.failed.values().take(MOST_FAILURES).map(failure).collect(),
            clone_p50_ms: self.clone.quantile_ms(0.5),
            clone_max_ms: self.clone.quantile_ms(1.0),
            flight_p50_ms: self.flight.quantile_ms(0.5),
            copied_ms: self.copied.as_secs_f64() * 1e3,
            extra_max_mb: self.extra as f64 / 1e6,
            latest_copied_ms: self.latest.copied().as_secs_f64() * 1e3,
            new_walks: self.new_walks,
            candidates: self.candidates,
            freed: self.freed,
        }
    }

    pub(super) fn failed(&mut self, failure: &SnapshotFailure) {
        let failed = self.failed.entry(failure.kind()).or_default();
        *failed = Failed { count: failed.count + 1, reason: failure.to_string(), last: system::now() };
    }

    pub(super) fn landed(&mut self, latest: Latest) {
        self.flight.add(latest.flight_ns);
        self.candidates += latest.candidates;
        self.new_walks += u64::from(latest.scope == Scope::New);
        self.copied += latest.copied();
        self.extra = self.extra.max(latest.extra());
        self.latest = Latest { number: self.launched, ..latest };
    }
}
