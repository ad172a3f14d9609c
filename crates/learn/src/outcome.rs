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

/// What an event of the collector takes in the agent, of which each collection has two, in milliseconds: measured by
/// `make bench` (docs/benchmarks.md, "one event of the collector").
pub(crate) const COLLECTION_MS: f64 = 2.0 * 0.32e-3;

/// What a wake-up of the agent takes, in milliseconds: the middle of what was measured there.
pub(crate) const LOOK_MS: f64 = 30e-3;

/// Processor time that collecting takes beyond the program's own work, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedProcessorTime {
    /// Stops of the program: collections, clones, slices. Being held up takes none.
    pub stops_ms: f64,
    /// Walks, in processes of their own.
    pub walks_ms: f64,
    /// Pages that the program copies while one is walked.
    pub copies_ms: f64,
    /// What the agent takes for each collection, and for each look at the program.
    pub agent_ms: f64,
}

impl SimulatedProcessorTime {
    /// All of it.
    #[must_use]
    pub fn total_ms(&self) -> f64 {
        self.stops_ms + self.walks_ms + self.copies_ms + self.agent_ms
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
    /// Looks of the agent at the program.
    pub looks: u64,
    /// Processor time that all of this takes.
    pub processor: SimulatedProcessorTime,
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

    /// A stop that takes processor time.
    pub(crate) fn pause(&mut self, nanoseconds: u64, place: Place) {
        self.processor.stops_ms += nanoseconds as f64 / 1e6;
        self.processor.agent_ms += COLLECTION_MS;
        self.held_up(nanoseconds, place);
    }

    /// A stop in which nothing runs.
    pub(crate) fn held_up(&mut self, nanoseconds: u64, place: Place) {
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

    pub(crate) fn count_looks(&mut self, looks: f64) {
        self.looks = looks as u64;
        self.processor.agent_ms += looks * LOOK_MS;
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
        self.processor.walks_ms = machine.walked / 1e6;
        self.processor.copies_ms = machine.lost / 1e6;
    }
}
