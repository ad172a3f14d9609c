//! Figures of what the program does: requests, stalls, the GIL.

use super::super::figure::{Across, Figure, Metric, Unit, figure, item};

const STALLS: Metric = Metric::shared("neurogc_stalls_total", "Stalls by cause");
const HELD: &str = "Spans in which a thread held it";
const FREE: &str = "Spans in which no thread held it: the gaps";

/// The GIL as seen from outside.
pub(crate) const GIL: &[Figure] = &[
    figure!(gil.busy_percent)
        .mean(Unit::Percent, "Share of time in which a thread held the GIL")
        .note("By samples; in a program that uses little processor time, by that.")
        .across(Across::Apart),
    figure!(gil.busy.count).counter(Unit::Count, HELD),
    figure!(gil.busy.p50_ms).quantile(0.5, HELD),
    figure!(gil.busy.p99_ms).quantile(0.99, HELD),
    figure!(gil.busy.max_ms).largest(Unit::Milliseconds, HELD),
    figure!(gil.idle.count).counter(Unit::Count, FREE),
    figure!(gil.idle.p50_ms).quantile(0.5, FREE),
    figure!(gil.idle.p99_ms).quantile(0.99, FREE),
    figure!(gil.idle.max_ms).largest(Unit::Milliseconds, FREE),
];

/// Requests and training steps.
pub(crate) const REQUESTS: &[Figure] = &[
    figure!(requests.count).counter(Unit::Count, "Requests ended").prometheus("neurogc_requests_total"),
    figure!(requests.in_flight)
        .peak(Unit::Count, "Requests being served")
        .series("requests.in_flight")
        .prometheus("neurogc_requests_in_flight"),
    figure!(requests.rps).mean(Unit::PerSecond, "Requests ended per second").note("Over the last ten seconds."),
    figure!(requests.recent_p99_ms)
        .latest(Unit::Milliseconds, "The 99th percentile of the last ten to twenty seconds")
        .across(Across::Merged),
    figure!(requests.p50_ms).quantile(0.5, "Half of the requests took less").series("requests.p50_ms"),
    figure!(requests.p95_ms).quantile(0.95, "95 of 100 requests took less").series("requests.p95_ms"),
    figure!(requests.p99_ms).quantile(0.99, "99 of 100 requests took less").series("requests.p99_ms"),
    figure!(requests.p999_ms).quantile(0.999, "999 of 1000 requests took less").series("requests.p999_ms"),
    figure!(requests.max_ms).largest(Unit::Milliseconds, "The longest request"),
];

/// Times in which the program wanted to run and could not.
pub(crate) const STALLED: &[Figure] = &[
    figure!(stalls.count).counter(Unit::Count, "All stalls"),
    figure!(stalls.max_ms).largest(Unit::Milliseconds, "The longest stall"),
    figure!(stalls.by_cause.gc)
        .counter(Unit::Count, "Stalls by collections")
        .series("stalls.gc")
        .metric(STALLS.with(&[("cause", "gc")])),
    figure!(stalls.by_cause.gil_native)
        .counter(Unit::Count, "Stalls by native code that held the GIL")
        .series("stalls.gil_native")
        .metric(STALLS.with(&[("cause", "gil_native")])),
    figure!(stalls.by_cause.python)
        .counter(Unit::Count, "Stalls by long-running Python")
        .note("Python code that ran on without giving way.")
        .series("stalls.python")
        .metric(STALLS.with(&[("cause", "python")])),
    figure!(stalls.by_cause.cpu_starved)
        .counter(Unit::Count, "Stalls for want of a processor")
        .note("Run-queue wait, steal, or a throttled cgroup.")
        .series("stalls.cpu_starved")
        .metric(STALLS.with(&[("cause", "cpu_starved")])),
    figure!(stalls.by_cause.unknown)
        .counter(Unit::Count, "Stalls of unknown cause")
        .series("stalls.unknown")
        .metric(STALLS.with(&[("cause", "unknown")])),
    figure!(stalls.recent).list("The latest stalls, oldest first"),
    item!("stalls.recent[].at_s")
        .latest(Unit::Seconds, "When it began, in seconds since the agent was installed")
        .across(Across::Apart),
    item!("stalls.recent[].ms").latest(Unit::Milliseconds, "How long it lasted").across(Across::Apart),
    item!("stalls.recent[].cause").text("One of the causes above"),
    item!("stalls.recent[].site")
        .text("Where in the code: `file.py:12 in handler`, with the native library where it is known"),
];
