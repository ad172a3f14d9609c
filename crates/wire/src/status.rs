//! The status report of one process: the same fields for `neurogc status --json` and `neurogc.status()`.
//!
//! Times are milliseconds and sizes bytes, as their names say. A figure that nothing was measured for is zero
//! beside a count of zero; a figure that the kernel refuses is `null`.

use serde::{Deserialize, Serialize};

use crate::allocations::Allocations;
use crate::census::Census;
use crate::finding::Finding;
use crate::gpu::Gpu;
pub use crate::memory::Memory;
use crate::stacks::StallStack;
pub use crate::training::TrainingLoop;
use crate::window::{TimeByCause, Window};
use crate::workers::WorkerMemory;

/// Everything an agent knows about its process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Process id.
    pub pid: u32,
    /// The command line, shortened.
    pub command: String,
    /// The service that the process belongs to: the same name for all of its workers, and after a restart.
    pub service: String,
    /// What the process is in its service: `main`, `master`, `worker 2`, `child of 4242`.
    pub role: String,
    /// Interpreter and version, for instance `CPython 3.12.1`.
    pub python: String,
    /// Version of NeuroGC.
    pub neurogc: String,
    /// The policy in force.
    pub policy: String,
    /// The policy as it was set: `auto`, or the one in force.
    pub policy_set: String,
    /// Seconds since the agent was installed.
    pub uptime_s: f64,
    /// What does not work here and why, in words.
    pub degraded: Vec<String>,
    /// What is the matter, the most important first: the verdict is the first one.
    pub findings: Vec<Finding>,
    /// The figures of the last five minutes.
    pub window: Window,
    /// Garbage collections.
    pub gc: Gc,
    /// What the policy does.
    pub conduct: Conduct,
    /// How large the heap may get, and how it is kept there.
    pub bound: Bound,
    /// Who held the GIL and for how long.
    pub gil: Gil,
    /// Memory of the process.
    pub memory: Memory,
    /// Memory of GPUs.
    pub gpu: Gpu,
    /// Where live memory was allocated.
    pub allocations: Allocations,
    /// What is in the heap.
    pub census: Census,
    /// Requests and training steps.
    pub requests: Requests,
    /// Times in which the program wanted to run and could not.
    pub stalls: Stalls,
    /// Processor use.
    pub cpu: Cpu,
    /// Storage traffic of the process.
    pub io: Io,
    /// Network traffic of the process's network namespace since the agent was installed.
    pub net: Net,
    /// Open file descriptors.
    pub fds: u64,
    /// Threads, the agent's own included.
    pub threads: u64,
    /// The tree of child processes.
    pub children: Vec<Child>,
    /// What the agent itself costs.
    pub agent: AgentCost,
}

impl Status {
    /// The policy as people are shown it.
    #[must_use]
    pub fn policy_shown(&self) -> String {
        shown_policy(&self.policy_set, &self.policy)
    }
}

/// A policy as people are shown it: `auto (gap)` where `auto` was set and `gap` is in force.
#[must_use]
pub fn shown_policy(set: &str, in_force: &str) -> String {
    if set.is_empty() || set == in_force { in_force.to_owned() } else { format!("{set} ({in_force})") }
}

/// Garbage collections by generation and by place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gc {
    /// Collections of generation 0.
    pub young: Pauses,
    /// Collections of generation 1.
    pub middle: Pauses,
    /// Collections of generation 2.
    pub full: Pauses,
    /// Slices that freed what a snapshot found.
    pub reap: Pauses,
    /// Collections from a copy-on-write snapshot.
    pub snapshot: Snapshots,
    /// Collections while a request was being served.
    pub in_request: PauseTotals,
    /// Collections while no request was being served, and for which none waited.
    pub in_gap: PauseTotals,
    /// Collections while no request was being served, during which requests arrived and waited.
    pub in_gap_arrivals: PauseTotals,
    /// Requests that arrived during those.
    pub arrivals: u64,
    /// Collections that a guard ordered.
    pub forced: PauseTotals,
    /// The longest collection of the last second that is over, and of the running one.
    pub recent_max_ms: f64,
    /// Objects freed by all collections.
    pub collected: u64,
    /// Objects that no collection could free.
    pub uncollectable: u64,
    /// Objects in the permanent generation.
    pub frozen: u64,
    /// Objects the collector tracks; zero where the layout is not known.
    pub tracked: u64,
}

/// Pauses of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Pauses {
    pub count: u64,
    pub total_ms: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// Pauses that fell into one kind of place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct PauseTotals {
    pub count: u64,
    pub total_ms: f64,
    pub max_ms: f64,
}

/// Snapshot collections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Snapshots {
    pub count: u64,
    pub failed: u64,
    /// Why they failed: at most eight kinds, in the order in which they first came.
    pub failures: Vec<FailedSnapshots>,
    pub clone_p50_ms: f64,
    pub clone_max_ms: f64,
    pub flight_p50_ms: f64,
    /// What the program has lost to copies of pages that it wrote to during flights: of all, and of the latest.
    pub copied_ms: f64,
    pub latest_copied_ms: f64,
    /// The most memory that a flight has taken besides the program's: the walk's own, and copies of pages.
    pub extra_max_mb: f64,
    /// Walks that looked at new objects only, of those that ended well.
    pub new_walks: u64,
    pub candidates: u64,
    pub freed: u64,
}

/// Snapshots that failed for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailedSnapshots {
    /// Why, in words.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// The latest, in seconds since the agent was installed.
    pub last_s: f64,
}

/// The pacer's promise, live: how large the heap may get before it has been collected, and what it took to keep it so.
/// All are zero where nothing is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bound {
    /// What the heap may grow to until the next collection of everything is over, in bytes.
    pub goal_bytes: u64,
    /// What was alive at the last collection of everything, plain or from a snapshot, in bytes. The goal follows from it.
    pub live_bytes: u64,
    /// What the heap may grow to, in objects.
    pub goal_objects: u64,
    /// Objects that were alive at the last collection of everything.
    pub live_objects: u64,
    /// Objects that there are now, about.
    pub objects: u64,
    /// How far above its goal the heap is now, as a share of the room between what is alive and the goal; 0 while it is
    /// below.
    pub over: f64,
    /// Snapshots that were launched so that the heap stays below its goal.
    pub launches: u64,
    /// Full collections that came because no snapshot could keep the heap below its goal.
    pub backstops: u64,
    /// Full collections near the memory ceiling that were put off because those before have taken half of the time.
    pub held_back: u64,
    /// How long threads that allocate were made to wait.
    pub throttled_ms: f64,
    /// How long threads that allocate were made to help with freeing.
    pub assisted_ms: f64,
}

/// What the policy does, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conduct {
    /// Whether it acts, or only watches.
    pub acting: bool,
    /// What is due at the next gap, and why; empty where nothing is.
    pub due: String,
    /// For how long a full collection has been overdue.
    pub overdue_s: f64,
    /// Orders that were given but found their gap over.
    pub missed: u64,
    /// Full collections of the program that were put off, see `explicit_collect`.
    pub deferred: u64,
    /// What was done for each reason.
    pub orders: Vec<Orders>,
    /// The model by which `neural` decides; null for other policies.
    pub model: Option<Forecasts>,
    /// What the guards go by: the settings of these names.
    pub guards: Guards,
    /// The training loop, and the ranks of its job that collect together.
    pub training: TrainingLoop,
}

/// A model at work, and how far it can be relied on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Forecasts {
    /// Its family, for instance `gru`.
    pub family: String,
    /// What it expects of the gap, or of the next one: by then 10, 25, 50, 75 and 90 % are over.
    pub gap_ms: Vec<f64>,
    /// The latest gap that is over; null before the first.
    pub latest: Option<Compared>,
    /// Gaps whose end was compared with what was expected.
    pub gaps: u64,
    /// The share of the latest gaps that were over by each of these quantiles.
    pub covered: Vec<f64>,
    /// The share of the latest gaps outside of the outer quantiles; about 0.2 where nothing is wrong.
    pub astray: f64,
    /// Whether the program is not what the model knows, so that `gap` decides at present.
    pub drifted: bool,
    /// How often that has begun.
    pub drifts: u64,
}

/// A gap that is over, and what was expected of it when it was first seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Compared {
    /// How long it lasted from then on.
    pub lasted_ms: f64,
    /// By then 10, 25, 50, 75 and 90 % were to be over.
    pub expected_ms: Vec<f64>,
}

/// What the guards go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "they are named as the settings are")]
pub struct Guards {
    pub memory_max_mb: u64,
    pub memory_percent: f64,
    pub growth_percent: f64,
    pub postpone_s: f64,
    pub gc_percent: f64,
}

/// Orders of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Orders {
    /// What was ordered: `young`, `middle`, `full`, `freeze`, `snapshot`, `reap`, `throttle` or `trim`.
    pub what: String,
    /// Why.
    pub reason: String,
    /// Whether a guard gave them, and not the policy.
    pub guard: bool,
    /// How many.
    pub count: u64,
    /// The latest, in seconds since the agent was installed.
    pub last_s: f64,
}

/// The GIL as seen from outside, sampled: spans shorter than the sampling step are not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gil {
    /// Share of samples in which a thread held it.
    pub busy_percent: f64,
    /// Spans in which it was held.
    pub busy: Spans,
    /// Spans in which no thread held it: the gaps.
    pub idle: Spans,
}

/// Durations of one kind of span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Spans {
    pub count: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// Requests, from arrival to last byte: the wait before the application saw them, and the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Requests {
    pub count: u64,
    pub in_flight: u64,
    /// Requests ended per second, over the last ten seconds.
    pub rps: f64,
    /// The 99th percentile of the last ten to twenty seconds.
    pub recent_p99_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
    /// From the arrival of a request to the call of the application.
    pub wait: Latency,
    /// From the call of the application to the last byte.
    pub service: Latency,
    /// How the waits are known.
    pub waits: Waits,
    /// By route, the most frequent first; at most 64, the rest is `other`.
    pub routes: Vec<Route>,
    /// The 20 slowest requests of the last 150 to 300 seconds, slowest first.
    pub slowest: Vec<SlowRequest>,
}

/// Percentiles of one part of a latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Latency {
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

/// How the waits of requests are known. Requests that the program marks by hand have none and are not counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// By the kernel, which tells when data came, or by the header of a proxy.
    pub measured: u64,
    /// By a stop that came right before.
    pub estimated: u64,
    /// Not at all: they count as zero.
    pub unknown: u64,
}

/// The requests of one route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Route {
    /// The framework's template, the path with its identifiers folded, or the name given to `neurogc.request()`.
    pub route: String,
    /// How many.
    pub count: u64,
    /// The middle one of the latencies, wait included.
    pub p50_ms: f64,
    /// The 99th percentile of them.
    pub p99_ms: f64,
    /// The longest of them.
    pub max_ms: f64,
    /// The middle one of the waits.
    pub wait_p50_ms: f64,
    /// The 99th percentile of them.
    pub wait_p99_ms: f64,
    /// Time of collections while these requests waited or were served.
    pub gc_ms: f64,
    /// How many of them met a collection.
    pub gc_requests: u64,
    /// Time of other stalls meanwhile.
    pub stall_ms: f64,
}

/// A slow request and what it waited for. The parts may overlap: a collection during the wait is in both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowRequest {
    /// When it arrived, in seconds since the agent was installed.
    pub at_s: f64,
    /// Its route.
    pub route: String,
    /// From its arrival to its last byte.
    pub total_ms: f64,
    /// Before the application saw it.
    pub wait_ms: f64,
    /// Collections meanwhile.
    pub gc_ms: f64,
    /// Native code that held the GIL meanwhile.
    pub gil_native_ms: f64,
    /// Python code that ran on without giving way meanwhile.
    pub python_ms: f64,
    /// CPU starvation meanwhile.
    pub cpu_starved_ms: f64,
    /// The trace id of its `traceparent` header; empty where it had none.
    pub trace_id: String,
}

/// Stalls, with the latest ones in full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stalls {
    /// All of them.
    pub count: u64,
    /// The longest.
    pub max_ms: f64,
    /// How many of each cause.
    pub by_cause: ByCause,
    /// How long those of each cause lasted together.
    pub time_ms_by_cause: TimeByCause,
    /// The ten longest since the agent was installed, longest first.
    pub longest: Vec<Stall>,
    /// The latest ones, oldest first.
    pub recent: Vec<Stall>,
    /// By stack, those that lasted longest together first.
    pub stacks: Vec<StallStack>,
}

/// Stall counts by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the causes are described at `Cause`")]
pub struct ByCause {
    pub gc: u64,
    pub gil_native: u64,
    pub python: u64,
    pub cpu_starved: u64,
    pub unknown: u64,
}

impl ByCause {
    /// The count of one cause.
    pub fn of(&mut self, cause: Cause) -> &mut u64 {
        match cause {
            Cause::Gc => &mut self.gc,
            Cause::GilNative => &mut self.gil_native,
            Cause::Python => &mut self.python,
            Cause::CpuStarved => &mut self.cpu_starved,
            Cause::Unknown => &mut self.unknown,
        }
    }
}

/// One stall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stall {
    /// When it began, in seconds since the agent was installed.
    pub at_s: f64,
    /// How long it lasted.
    pub ms: f64,
    /// What held the program up.
    pub cause: Cause,
    /// Where in the code: `file.py:12 in handler`, with the native library where it is known.
    pub site: String,
    /// What kind of stop it was; empty where it was no collection.
    pub stop: String,
    /// How many objects that stop dealt with; zero where it is not known.
    pub objects: u64,
}

/// Why the program could not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A garbage collection.
    Gc,
    /// Native code that held the GIL.
    GilNative,
    /// Python code that ran on without giving way.
    Python,
    /// CPU starvation: the kernel gave the program no CPU (run-queue wait, steal or a throttled cgroup).
    CpuStarved,
    /// It could not be told.
    #[default]
    Unknown,
}

impl Cause {
    /// All causes, in the order of their numbers in a trace.
    pub const ALL: [Self; 5] = [Self::Gc, Self::GilNative, Self::Python, Self::CpuStarved, Self::Unknown];

    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gc => "gc",
            Self::GilNative => "gil_native",
            Self::Python => "python",
            Self::CpuStarved => "cpu_starved",
            Self::Unknown => "unknown",
        }
    }
}

/// Processor use of the process, 100 being one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the name says it")]
pub struct Cpu {
    pub percent: f64,
}

/// Storage traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Io {
    pub read_bytes: u64,
    pub write_bytes: u64,
}

/// Network traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Net {
    pub sent_bytes: u64,
    pub recv_bytes: u64,
}

/// One process below this one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Child {
    /// Process id.
    pub pid: u32,
    /// Its parent, this process or another child.
    pub ppid: u32,
    /// The command's name.
    pub command: String,
    /// Resident set in bytes.
    pub rss: u64,
    /// Proportional set in bytes, measured as rarely as the parent's own.
    pub pss: Option<u64>,
    /// Where it is a worker that this process has forked: what it still shares, measured as rarely.
    pub worker: Option<WorkerMemory>,
}

/// The price of being observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentCost {
    /// Processor time of the agent's threads.
    pub cpu_ms: f64,
    /// Events that found the queue full, and trace blocks that could not be written.
    pub dropped: u64,
    /// Memory of the agent: its heap, its tables and its library.
    pub rss_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_shown_with_what_it_is() {
        assert_eq!(shown_policy("auto", "gap"), "auto (gap)");
        assert_eq!(shown_policy("every:100", "every:100"), "every:100");
        // A report of an older agent.
        assert_eq!(Status { policy: "gap".to_owned(), ..Status::default() }.policy_shown(), "gap");
    }
}
