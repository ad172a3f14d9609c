//! Figures of what the program does: requests, stalls, the GIL.

use super::super::figure::{Across, Figure, Metric, Unit, figure, item};

const STALLS: Metric = Metric::shared("neurogc_stalls_total", "Stalls by cause");
const STALLED_TIME: Metric = Metric::shared("neurogc_stalled_seconds_total", "Time of stalls by cause");
pub(super) const STOP: &str =
    "What kind of stop it was: `young`, `middle`, `full`, `reap` or `clone`; empty for other causes";
pub(super) const OBJECTS: &str = "How many objects that stop dealt with; zero where it is not known";
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

/// The percentiles of a part of the latency.
macro_rules! percentiles {
    ($part:ident, $what:expr) => {
        [
            figure!(requests.$part.p50_ms).quantile(0.5, $what),
            figure!(requests.$part.p95_ms).quantile(0.95, $what),
            figure!(requests.$part.p99_ms).quantile(0.99, $what),
            figure!(requests.$part.p999_ms).quantile(0.999, $what),
            figure!(requests.$part.max_ms).largest(Unit::Milliseconds, $what),
        ]
    };
}

const WAIT: [Figure; 5] = percentiles!(wait, "From the arrival of a request to the call of the application");
const SERVICE: [Figure; 5] = percentiles!(service, "From the call of the application to the last byte");
const WAITS: Metric = Metric::shared("neurogc_request_waits_total", "Requests by how their wait is known");

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
    WAIT[0],
    WAIT[1],
    WAIT[2],
    WAIT[3],
    WAIT[4],
    SERVICE[0],
    SERVICE[1],
    SERVICE[2],
    SERVICE[3],
    SERVICE[4],
    figure!(requests.waits.measured)
        .counter(Unit::Count, "Requests whose wait the kernel or a proxy has told")
        .metric(WAITS.with(&[("source", "measured")])),
    figure!(requests.waits.estimated)
        .counter(Unit::Count, "Requests whose wait is estimated from the stop right before it")
        .metric(WAITS.with(&[("source", "estimated")])),
    figure!(requests.waits.unknown)
        .counter(Unit::Count, "Requests whose wait is not known")
        .note("It counts as zero.")
        .metric(WAITS.with(&[("source", "unknown")])),
    figure!(requests.routes)
        .list("Requests by route, the most frequent first")
        .note("The 64 routes that were seen first; the rest is `other`."),
    item!("requests.routes[].route")
        .text("The template of FastAPI or Flask, `(no route)` where they found none")
        .note("Else the path with identifiers as `{id}`, or the name given to `neurogc.request()`."),
    item!("requests.routes[].count")
        .counter(Unit::Count, "Requests by route")
        .prometheus("neurogc_route_requests_total")
        .each(&["route"], |sample, to| {
            for route in &sample.status.requests.routes {
                to(&[("route", &route.route)], route.count as f64);
            }
        }),
    item!("requests.routes[].p50_ms").quantile(0.5, "Latency of the route, wait included"),
    item!("requests.routes[].p99_ms").quantile(0.99, "Latency of the route, wait included"),
    item!("requests.routes[].max_ms").largest(Unit::Milliseconds, "Latency of the route, wait included"),
    item!("requests.routes[].wait_p50_ms").quantile(0.5, "The wait of its requests"),
    item!("requests.routes[].wait_p99_ms").quantile(0.99, "The wait of its requests"),
    item!("requests.routes[].gc_ms")
        .counter(Unit::Milliseconds, "Time of collections during its requests")
        .prometheus("neurogc_route_gc_seconds_total")
        .each(&["route"], |sample, to| {
            for route in &sample.status.requests.routes {
                to(&[("route", &route.route)], route.gc_ms);
            }
        }),
    item!("requests.routes[].gc_requests").counter(Unit::Count, "How many of its requests met a collection"),
    item!("requests.routes[].stall_ms").counter(Unit::Milliseconds, "Time of other stalls during its requests"),
    figure!(requests.slowest)
        .list("The 20 slowest requests of the last 150 to 300 seconds, slowest first")
        .note("What they waited for is told in parts that overlap: a collection during the wait is in both."),
    item!("requests.slowest[].at_s")
        .latest(Unit::Seconds, "When it arrived, in seconds since the agent was installed")
        .across(Across::Apart),
    item!("requests.slowest[].route").text("Its route"),
    item!("requests.slowest[].total_ms")
        .latest(Unit::Milliseconds, "From its arrival to its last byte")
        .across(Across::Apart),
    item!("requests.slowest[].wait_ms")
        .latest(Unit::Milliseconds, "From its arrival to the call of the application")
        .across(Across::Apart),
    item!("requests.slowest[].gc_ms").latest(Unit::Milliseconds, "Collections meanwhile").across(Across::Apart),
    item!("requests.slowest[].gil_native_ms")
        .latest(Unit::Milliseconds, "Native code that held the GIL meanwhile")
        .across(Across::Apart),
    item!("requests.slowest[].python_ms")
        .latest(Unit::Milliseconds, "Python code that ran on meanwhile")
        .across(Across::Apart),
    item!("requests.slowest[].cpu_starved_ms")
        .latest(Unit::Milliseconds, "CPU starvation meanwhile")
        .across(Across::Apart),
    item!("requests.slowest[].trace_id").text("The trace id of its `traceparent` header; empty where it had none"),
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
        .counter(Unit::Count, "Stalls by CPU starvation")
        .note("Run-queue wait, steal, or a throttled cgroup.")
        .series("stalls.cpu_starved")
        .metric(STALLS.with(&[("cause", "cpu_starved")])),
    figure!(stalls.by_cause.unknown)
        .counter(Unit::Count, "Stalls of unknown cause")
        .series("stalls.unknown")
        .metric(STALLS.with(&[("cause", "unknown")])),
    figure!(stalls.time_ms_by_cause.gc)
        .counter(Unit::Milliseconds, "Time of stalls by collections")
        .metric(STALLED_TIME.with(&[("cause", "gc")])),
    figure!(stalls.time_ms_by_cause.gil_native)
        .counter(Unit::Milliseconds, "Time of stalls by native code that held the GIL")
        .metric(STALLED_TIME.with(&[("cause", "gil_native")])),
    figure!(stalls.time_ms_by_cause.python)
        .counter(Unit::Milliseconds, "Time of stalls by long-running Python")
        .metric(STALLED_TIME.with(&[("cause", "python")])),
    figure!(stalls.time_ms_by_cause.cpu_starved)
        .counter(Unit::Milliseconds, "Time of stalls by CPU starvation")
        .metric(STALLED_TIME.with(&[("cause", "cpu_starved")])),
    figure!(stalls.time_ms_by_cause.unknown)
        .counter(Unit::Milliseconds, "Time of stalls of unknown cause")
        .metric(STALLED_TIME.with(&[("cause", "unknown")])),
    figure!(stalls.longest).list("The ten longest stalls since the agent was installed, longest first"),
    item!("stalls.longest[].at_s")
        .latest(Unit::Seconds, "When it began, in seconds since the agent was installed")
        .across(Across::Apart),
    item!("stalls.longest[].ms").latest(Unit::Milliseconds, "How long it lasted").across(Across::Apart),
    item!("stalls.longest[].cause").text("One of the causes above"),
    item!("stalls.longest[].site").text("Where in the code"),
    item!("stalls.longest[].stop").text(STOP),
    item!("stalls.longest[].objects").latest(Unit::Count, OBJECTS).across(Across::Apart),
    figure!(stalls.recent).list("The latest stalls, oldest first"),
    item!("stalls.recent[].at_s")
        .latest(Unit::Seconds, "When it began, in seconds since the agent was installed")
        .across(Across::Apart),
    item!("stalls.recent[].ms").latest(Unit::Milliseconds, "How long it lasted").across(Across::Apart),
    item!("stalls.recent[].cause").text("One of the causes above"),
    item!("stalls.recent[].site")
        .text("Where in the code: `file.py:12 in handler`, with the native library where it is known"),
    item!("stalls.recent[].stop").text(STOP),
    item!("stalls.recent[].objects").latest(Unit::Count, OBJECTS).across(Across::Apart),
    figure!(stalls.stacks)
        .list("Stalls by the Python stack at which they were met, those that lasted longest together first")
        .note("At most 16 stacks of at most 8 frames; a stack that stalled little makes room for one that stalled longer."),
    item!("stalls.stacks[].cause").text("One of the causes above"),
    item!("stalls.stacks[].frames").list("The place and its callers, the nearest caller first"),
    item!("stalls.stacks[].count").latest(Unit::Count, "How many").across(Across::Apart),
    item!("stalls.stacks[].total_ms").latest(Unit::Milliseconds, "How long they lasted together").across(Across::Apart),
    item!("stalls.stacks[].max_ms").latest(Unit::Milliseconds, "The longest").across(Across::Apart),
];
