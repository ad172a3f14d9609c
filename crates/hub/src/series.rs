//! Every series there is: add one here and it is kept, down-sampled, served and described.

use neurogc_wire::buckets::Buckets;
use neurogc_wire::report::Sample;
use neurogc_wire::status::{ByCause, Compared, Status};
use serde::Serialize;

/// How several samples become one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fold {
    /// Their mean.
    Mean,
    /// The largest.
    Max,
    /// The latest.
    Last,
    /// Taken from the merged histogram of request latencies, never from other percentiles.
    #[serde(serialize_with = "as_quantile", untagged)]
    Quantile(f64),
}

fn as_quantile<S: serde::Serializer>(_: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str("quantile")
}

/// Two samples of one process and the time between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval<'s> {
    /// The earlier one.
    pub(crate) before: &'s Sample,
    /// The later one.
    pub(crate) after: &'s Sample,
    /// Time between them.
    pub(crate) seconds: f64,
    /// Latencies of the requests that ended in it.
    pub(crate) latency: &'s Buckets,
    /// Lengths of the collections and of the stalls in it.
    pub(crate) pauses: &'s Buckets,
    /// See `pauses`.
    pub(crate) stalls: &'s Buckets,
}

/// One series.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    /// Its name.
    pub(crate) name: &'static str,
    /// What its values are in.
    pub(crate) unit: &'static str,
    /// How it is down-sampled.
    pub(crate) fold: Fold,
    /// What it is.
    pub(crate) help: &'static str,
    /// Its value over an interval.
    #[serde(skip)]
    pub(crate) read: fn(&Interval<'_>) -> Option<f64>,
}

const fn series(
    name: &'static str,
    unit: &'static str,
    fold: Fold,
    help: &'static str,
    read: fn(&Interval<'_>) -> Option<f64>,
) -> Series {
    Series { name, unit, fold, help, read }
}

use Fold::{Last, Max, Mean, Quantile};

/// All series. Their order may change: what is kept says by which order it was written.
pub(crate) const CATALOGUE: &[Series] = &[
    series("requests.p50_ms", "ms", Quantile(0.5), "Half of the requests took less", |_| None),
    series("requests.p95_ms", "ms", Quantile(0.95), "95 of 100 requests took less", |_| None),
    series("requests.p99_ms", "ms", Quantile(0.99), "99 of 100 requests took less", |_| None),
    series("requests.p999_ms", "ms", Quantile(0.999), "999 of 1000 requests took less", |_| None),
    series("requests.max_ms", "ms", Max, "The longest request", |it| {
        it.latency.max_ms().map(|longest| longest.min(it.after.status.requests.max_ms))
    }),
    series("requests.wait_max_ms", "ms", Max, "The longest wait of a request before the application saw it", |it| {
        it.after.wait.buckets.since(&it.before.wait.buckets).max_ms()
    }),
    series("requests.service_max_ms", "ms", Max, "The longest service of a request, without its wait", |it| {
        it.after.service.buckets.since(&it.before.service.buckets).max_ms()
    }),
    series("requests.rps", "1/s", Mean, "Requests ended", |it| it.rate(|status| status.requests.count)),
    series("requests.in_flight", "count", Max, "Requests being served", |it| now(it.after.status.requests.in_flight)),
    series("gc.max_ms", "ms", Max, "The longest collection pause", |it| Some(it.longest_pause_ms())),
    series("gc.paused_ms", "ms/s", Mean, "Time spent in collections", |it| {
        it.growth(|sample| sample.pauses.values().map(|kind| kind.total_ms).sum())
    }),
    series("gc.in_request_ms", "ms/s", Mean, "Time that requests waited for collections", |it| {
        it.growth(|sample| sample.status.gc.in_request.total_ms)
    }),
    series("gc.in_gap_ms", "ms/s", Mean, "Time of collections while no request was served", |it| {
        it.growth(|sample| sample.status.gc.in_gap.total_ms)
    }),
    series("gc.in_gap_arrivals_ms", "ms/s", Mean, "Time of collections in gaps during which requests arrived", |it| {
        it.growth(|sample| sample.status.gc.in_gap_arrivals.total_ms)
    }),
    series("gc.forced_ms", "ms/s", Mean, "Time of collections that a guard ordered", |it| {
        it.growth(|sample| sample.status.gc.forced.total_ms)
    }),
    series("gc.young", "1/s", Mean, "Collections of generation 0", |it| it.rate(|status| status.gc.young.count)),
    series("gc.middle", "1/s", Mean, "Collections of generation 1", |it| it.rate(|status| status.gc.middle.count)),
    series("gc.full", "1/s", Mean, "Collections of everything", |it| it.rate(|status| status.gc.full.count)),
    series("gc.reap", "1/s", Mean, "Slices that freed what a snapshot found", |it| {
        it.rate(|status| status.gc.reap.count)
    }),
    series("gc.snapshots", "1/s", Mean, "Snapshots", |it| it.rate(|status| status.gc.snapshot.count)),
    series("gc.collected", "1/s", Mean, "Objects freed by collections", |it| it.rate(|status| status.gc.collected)),
    series("gc.tracked", "count", Last, "Objects that the collector tracks", |it| now(it.after.status.gc.tracked)),
    series("gc.frozen", "count", Last, "Objects in the permanent generation", |it| now(it.after.status.gc.frozen)),
    series("stalls.max_ms", "ms", Max, "The longest stall", |it| {
        Some(it.stalls.max_ms().unwrap_or(0.0).min(it.after.status.stalls.max_ms))
    }),
    series("stalls.gc", "1/s", Mean, "Stalls by collections", |it| it.stalled(|by| by.gc)),
    series("stalls.gil_native", "1/s", Mean, "Stalls by native code that held the GIL", |it| {
        it.stalled(|by| by.gil_native)
    }),
    series("stalls.python", "1/s", Mean, "Stalls by long-running Python", |it| it.stalled(|by| by.python)),
    series("stalls.cpu_starved", "1/s", Mean, "Stalls for want of a processor", |it| it.stalled(|by| by.cpu_starved)),
    series("stalls.unknown", "1/s", Mean, "Stalls of unknown cause", |it| it.stalled(|by| by.unknown)),
    series("gil.busy_percent", "percent", Mean, "Share of time in which somebody held the GIL", |it| {
        let busy = it.after.gil_busy_ms - it.before.gil_busy_ms;
        let idle = it.after.gil_idle_ms - it.before.gil_idle_ms;
        (busy >= 0.0 && idle >= 0.0 && busy + idle > 0.0).then(|| 100.0 * busy / (busy + idle))
    }),
    series("memory.rss", "bytes", Max, "Resident set", |it| now(it.after.status.memory.rss)),
    series("memory.pss", "bytes", Max, "Proportional set", |it| it.after.status.memory.pss.and_then(now)),
    series("memory.uss", "bytes", Max, "Unique set", |it| it.after.status.memory.uss.and_then(now)),
    series("memory.swap", "bytes", Max, "Swapped out", |it| now(it.after.status.memory.swap)),
    series("memory.limit", "bytes", Last, "The smallest cgroup limit", |it| it.after.status.memory.limit.and_then(now)),
    series("memory.children", "bytes", Max, "Resident sets of the processes below it", |it| {
        now(it.after.status.children.iter().map(|child| child.rss).sum())
    }),
    series("cpu.percent", "percent", Mean, "Processor use, 100 being one core", |it| Some(it.after.status.cpu.percent)),
    series("io.read", "bytes/s", Mean, "Read from storage", |it| it.rate(|status| status.io.read_bytes)),
    series("io.write", "bytes/s", Mean, "Written to storage", |it| it.rate(|status| status.io.write_bytes)),
    series("net.sent", "bytes/s", Mean, "Sent by the network namespace", |it| it.rate(|status| status.net.sent_bytes)),
    series("net.recv", "bytes/s", Mean, "Received by it", |it| it.rate(|status| status.net.recv_bytes)),
    series("fds", "count", Max, "Open file descriptors", |it| now(it.after.status.fds)),
    series("threads", "count", Max, "Threads, the agent's own included", |it| now(it.after.status.threads)),
    series("children", "count", Max, "Processes below it", |it| now(it.after.status.children.len() as u64)),
    series("conduct.overdue_s", "s", Max, "For how long a full collection has been overdue", |it| {
        Some(it.after.status.conduct.overdue_s)
    }),
    series("conduct.gap_ms", "ms", Last, "How long the latest gap lasted that a model foresaw", |it| {
        it.foreseen().map(|gap| gap.lasted_ms)
    }),
    series("conduct.gap_p10_ms", "ms", Last, "By when the model expected it to be over in 10 of 100 cases", |it| {
        it.foreseen()?.expected_ms.first().copied()
    }),
    series("conduct.gap_p50_ms", "ms", Last, "By when in half of them", |it| {
        it.foreseen()?.expected_ms.get(2).copied()
    }),
    series("conduct.gap_p90_ms", "ms", Last, "By when in 90 of 100", |it| it.foreseen()?.expected_ms.last().copied()),
    series("agent.cpu_percent", "percent", Mean, "Processor use of the agent itself", |it| {
        it.growth(|sample| sample.status.agent.cpu_ms).map(|ms| ms / 10.0)
    }),
    series("agent.dropped", "1/s", Mean, "Events that the agent dropped", |it| it.rate(|status| status.agent.dropped)),
];

/// Those that a trace can tell.
pub(crate) const TRACED: &[&str] = &["requests.", "gc.", "stalls.", "gil.", "memory.rss", "cpu.", "agent.dropped"];

#[expect(clippy::unnecessary_wraps, reason = "it is the last step of readers that may find nothing")]
fn now(value: u64) -> Option<f64> {
    Some(value as f64)
}

impl Interval<'_> {
    /// How fast a count has risen. One that fell belongs to an agent that began anew.
    fn rate(&self, of: fn(&Status) -> u64) -> Option<f64> {
        Some(of(&self.after.status).checked_sub(of(&self.before.status))? as f64 / self.seconds)
    }

    /// The same for a sum.
    fn growth(&self, of: fn(&Sample) -> f64) -> Option<f64> {
        Some((of(self.after) - of(self.before)) / self.seconds).filter(|rate| *rate >= 0.0)
    }

    /// The latest gap of which a model has said something, where one has ended meanwhile.
    fn foreseen(&self) -> Option<&Compared> {
        let gaps = self.before.status.conduct.model.as_ref().map_or(0, |model| model.gaps);
        self.after.status.conduct.model.as_ref().filter(|model| model.gaps != gaps)?.latest.as_ref()
    }

    /// A bucket says it roughly; what is known of the longest ever says it better.
    fn longest_pause_ms(&self) -> f64 {
        let gc = &self.after.status.gc;
        let known = [gc.young.max_ms, gc.middle.max_ms, gc.full.max_ms, gc.reap.max_ms, gc.snapshot.clone_max_ms];
        self.pauses.max_ms().unwrap_or(0.0).min(known.into_iter().fold(0.0, f64::max))
    }

    fn stalled(&self, of: fn(&ByCause) -> u64) -> Option<f64> {
        Some(
            of(&self.after.status.stalls.by_cause).checked_sub(of(&self.before.status.stalls.by_cause))? as f64
                / self.seconds,
        )
    }
}

/// Where a series stands in the catalogue.
#[must_use]
pub(crate) fn position(name: &str) -> Option<usize> {
    CATALOGUE.iter().position(|series| series.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_once() {
        let mut names: Vec<_> = CATALOGUE.iter().map(|series| series.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CATALOGUE.len());
    }

    #[test]
    fn a_fold_is_written_by_its_name() {
        let written = serde_json::to_value([Mean, Quantile(0.5)]).unwrap_or_default();
        assert_eq!(written, serde_json::json!(["mean", "quantile"]));
    }
}
