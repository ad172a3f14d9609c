//! What came of a simulated run.

use neurogc_load::Latencies;
use neurogc_wire::trace::Place;
use serde::Serialize;

use crate::cost::cost;
use crate::machine::{SECOND, SimulatedProgram};
use crate::workload::{Pace, Workload};

/// Pauses of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedPauses {
    /// How many.
    pub count: u64,
    /// All together.
    pub total_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl SimulatedPauses {
    pub(crate) fn add(&mut self, nanoseconds: u64) {
        let ms = nanoseconds as f64 / 1e6;
        self.count += 1;
        self.total_ms += ms;
        self.max_ms = self.max_ms.max(ms);
    }
}

/// The figures of one run: latencies in milliseconds, memory in megabytes (10^6 bytes).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulationOutcome {
    /// Requests that count.
    pub requests: u64,
    /// The mean latency.
    pub mean_ms: f64,
    /// The median.
    pub p50_ms: f64,
    /// The 95th percentile.
    pub p95_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The 99.9th percentile.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// The most resident memory of the process.
    pub peak_rss_mb: f64,
    /// The same with the pages that were copied for snapshots.
    pub peak_mb: f64,
    /// The mean of that.
    pub mean_mb: f64,
    /// The mean of the memory that was held in vain.
    pub held_mb: f64,
    /// The mean delay that collections caused a request. Where a stop changes who is served first, the mean latency can fall
    /// by chance; that is no merit, and counts as zero.
    pub delay_ms: f64,
    /// Pauses while a request was being served.
    pub in_request: SimulatedPauses,
    /// Pauses between requests.
    pub in_gap: SimulatedPauses,
    /// Pauses that a guard ordered.
    pub forced: SimulatedPauses,
    /// Full collections.
    pub full: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// How long the part that counts was, in seconds.
    pub seconds: f64,
}

impl SimulationOutcome {
    /// Delay and memory in one number.
    #[must_use]
    pub fn cost(&self, lambda: f64) -> f64 {
        cost(self.delay_ms, self.held_mb, lambda)
    }

    /// What collections delayed a request by, where the mean without any is known.
    pub(crate) fn count_delay(&mut self, never_ms: f64) {
        self.delay_ms = (self.mean_ms - never_ms).max(0.0);
    }

    pub(crate) fn pause(&mut self, nanoseconds: u64, place: Place) {
        match place {
            Place::InRequest => self.in_request.add(nanoseconds),
            Place::InGap | Place::InGapArrivals => self.in_gap.add(nanoseconds),
            Place::Forced => self.forced.add(nanoseconds),
        }
    }

    pub(crate) fn count_latencies(&mut self, latencies: &Latencies, sum_ns: f64) {
        let figures = latencies.figures();
        self.mean_ms = sum_ns / 1e6 / (figures.count as f64).max(1.0);
        self.requests = figures.count;
        self.p50_ms = figures.p50_ms;
        self.p95_ms = figures.p95_ms;
        self.p99_ms = figures.p99_ms;
        self.p999_ms = figures.p999_ms;
        self.max_ms = figures.max_ms;
    }

    /// The means are over the time in which requests come, which is the same whatever the policy does.
    pub(crate) fn count_memory(&mut self, machine: &SimulatedProgram<'_>, workload: &Workload) {
        let ends = match workload.pace {
            Pace::Open => workload.requests.last().map_or(0, |last| last.at),
            Pace::Closed(_) => machine.now,
        };
        let seconds = (ends.saturating_sub(workload.counted_from) as f64 / SECOND).max(1e-9);
        self.seconds = seconds;
        self.peak_rss_mb = machine.peak_rss / 1e6;
        self.peak_mb = machine.peak / 1e6;
        self.mean_mb = machine.resident_seconds / seconds / 1e6;
        self.held_mb = machine.held_seconds / seconds / 1e6;
    }
}
