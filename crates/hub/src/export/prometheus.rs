//! `/metrics`: every live process, and the hub itself, as Prometheus reads them.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use neurogc_wire::buckets::Distribution;
use neurogc_wire::report::Sample;
use neurogc_wire::status::Status;

use super::{BOUNDS_MS, cumulative, pauses};
use crate::api::App;
use crate::clock::unix_ms;
use crate::facts::Facts;
use crate::process::State as Presence;

/// Takes a value with further labels.
type Sink<'s> = &'s mut dyn FnMut(&[(&str, &str)], f64);

/// A histogram of a sample.
type Part = fn(&Sample) -> &Distribution;

/// One metric of a process.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    read: fn(&Status, Sink<'_>),
}

const fn counter(name: &'static str, help: &'static str, read: fn(&Status, Sink<'_>)) -> Metric {
    Metric { name, kind: "counter", help, read }
}

const fn gauge(name: &'static str, help: &'static str, read: fn(&Status, Sink<'_>)) -> Metric {
    Metric { name, kind: "gauge", help, read }
}

/// Metrics that a status report tells.
const METRICS: &[Metric] = &[
    gauge("neurogc_process_info", "What a process is; always 1", |status, to| {
        let labels = [
            ("command", &*status.command),
            ("python", &status.python),
            ("version", &status.neurogc),
            ("policy", &status.policy),
        ];
        to(&labels, 1.0);
    }),
    gauge("neurogc_uptime_seconds", "Time since the agent was installed", |status, to| to(&[], status.uptime_s)),
    gauge("neurogc_degraded", "What does not work, counted", |status, to| to(&[], status.degraded.len() as f64)),
    counter("neurogc_requests_total", "Requests ended", |status, to| to(&[], status.requests.count as f64)),
    gauge("neurogc_requests_in_flight", "Requests being served", |status, to| {
        to(&[], status.requests.in_flight as f64);
    }),
    counter("neurogc_request_waits_total", "Requests by how their wait is known", |status, to| {
        let waits = status.requests.waits;
        to(&[("source", "measured")], waits.measured as f64);
        to(&[("source", "estimated")], waits.estimated as f64);
        to(&[("source", "unknown")], waits.unknown as f64);
    }),
    counter("neurogc_route_requests_total", "Requests by route", |status, to| {
        status.requests.routes.iter().for_each(|route| to(&[("route", &route.route)], route.count as f64));
    }),
    counter("neurogc_route_gc_seconds_total", "Time of collections during requests, by route", |status, to| {
        status.requests.routes.iter().for_each(|route| to(&[("route", &route.route)], route.gc_ms / 1e3));
    }),
    counter("neurogc_gc_place_seconds_total", "Time of collections by where they fell", |status, to| {
        to(&[("place", "in_request")], status.gc.in_request.total_ms / 1e3);
        to(&[("place", "in_gap")], status.gc.in_gap.total_ms / 1e3);
        to(&[("place", "in_gap_arrivals")], status.gc.in_gap_arrivals.total_ms / 1e3);
        to(&[("place", "forced")], status.gc.forced.total_ms / 1e3);
    }),
    counter("neurogc_gc_place_collections_total", "Collections by where they fell", |status, to| {
        to(&[("place", "in_request")], status.gc.in_request.count as f64);
        to(&[("place", "in_gap")], status.gc.in_gap.count as f64);
        to(&[("place", "in_gap_arrivals")], status.gc.in_gap_arrivals.count as f64);
        to(&[("place", "forced")], status.gc.forced.count as f64);
    }),
    counter("neurogc_gc_collected_objects_total", "Objects freed", |status, to| to(&[], status.gc.collected as f64)),
    counter("neurogc_gc_uncollectable_objects_total", "Objects that could not be freed", |status, to| {
        to(&[], status.gc.uncollectable as f64);
    }),
    gauge("neurogc_gc_tracked_objects", "Objects that the collector tracks", |status, to| {
        to(&[], status.gc.tracked as f64);
    }),
    gauge("neurogc_gc_frozen_objects", "Objects in the permanent generation", |status, to| {
        to(&[], status.gc.frozen as f64);
    }),
    counter("neurogc_gc_snapshots_total", "Snapshots", |status, to| to(&[], status.gc.snapshot.count as f64)),
    counter("neurogc_gc_snapshot_failures_total", "Snapshots that failed", |status, to| {
        to(&[], status.gc.snapshot.failed as f64);
    }),
    counter("neurogc_stalls_total", "Stalls by cause", |status, to| {
        let by = status.stalls.by_cause;
        let causes = [
            ("gc", by.gc),
            ("gil_native", by.gil_native),
            ("python", by.python),
            ("cpu_starved", by.cpu_starved),
            ("unknown", by.unknown),
        ];
        causes.iter().for_each(|(cause, count)| to(&[("cause", cause)], *count as f64));
    }),
    counter("neurogc_orders_total", "What the policy and its guards ordered", |status, to| {
        for order in &status.conduct.orders {
            let guard = if order.guard { "true" } else { "false" };
            to(&[("what", &order.what), ("reason", &order.reason), ("guard", guard)], order.count as f64);
        }
    }),
    gauge("neurogc_overdue_seconds", "For how long a full collection has been overdue", |status, to| {
        to(&[], status.conduct.overdue_s);
    }),
    gauge("neurogc_memory_rss_bytes", "Resident set", |status, to| to(&[], status.memory.rss as f64)),
    gauge("neurogc_memory_pss_bytes", "Proportional set", |status, to| maybe(status.memory.pss, to)),
    gauge("neurogc_memory_uss_bytes", "Unique set", |status, to| maybe(status.memory.uss, to)),
    gauge("neurogc_memory_swap_bytes", "Swapped out", |status, to| to(&[], status.memory.swap as f64)),
    gauge("neurogc_memory_limit_bytes", "The smallest cgroup limit", |status, to| maybe(status.memory.limit, to)),
    gauge("neurogc_cpu_ratio", "Processor use, 1 being one core", |status, to| to(&[], status.cpu.percent / 100.0)),
    counter("neurogc_io_read_bytes_total", "Read from storage", |status, to| to(&[], status.io.read_bytes as f64)),
    counter("neurogc_io_written_bytes_total", "Written to storage", |status, to| to(&[], status.io.write_bytes as f64)),
    counter("neurogc_network_sent_bytes_total", "Sent by the network namespace", |status, to| {
        to(&[], status.net.sent_bytes as f64);
    }),
    counter("neurogc_network_received_bytes_total", "Received by it", |status, to| {
        to(&[], status.net.recv_bytes as f64)
    }),
    gauge("neurogc_open_fds", "Open file descriptors", |status, to| to(&[], status.fds as f64)),
    gauge("neurogc_threads", "Threads", |status, to| to(&[], status.threads as f64)),
    gauge("neurogc_children", "Processes below it", |status, to| to(&[], status.children.len() as f64)),
    counter("neurogc_agent_cpu_seconds_total", "Processor time of the agent", |status, to| {
        to(&[], status.agent.cpu_ms / 1e3);
    }),
    counter("neurogc_agent_dropped_total", "Events that the agent dropped", |status, to| {
        to(&[], status.agent.dropped as f64);
    }),
    gauge("neurogc_agent_memory_bytes", "Memory of the agent", |status, to| to(&[], status.agent.rss_bytes as f64)),
];

fn maybe(value: Option<u64>, to: Sink<'_>) {
    if let Some(value) = value {
        to(&[], value as f64);
    }
}

pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let text = {
        let now_ms = unix_ms();
        let processes = app.hub.processes();
        let live = processes.values().filter(|process| process.state(now_ms) != Presence::Gone);
        let samples: Vec<_> =
            live.filter_map(|process| Some((&*process.facts, &*process.sample.as_ref()?.1))).collect();
        let mut page = Page::default();
        page.processes(&samples);
        page.hub(&app);
        page.text
    };
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// The page as it grows.
#[derive(Debug, Default)]
struct Page {
    text: String,
}

impl Page {
    fn processes(&mut self, samples: &[(&Facts, &Sample)]) {
        for metric in METRICS {
            self.head(metric.name, metric.kind, metric.help);
            for (facts, sample) in samples {
                (metric.read)(&sample.status, &mut |labels, value| self.line(metric.name, facts, labels, value));
            }
        }
        self.head("neurogc_gil_seconds_total", "counter", "Time in which somebody held the GIL, or nobody");
        for (facts, sample) in samples {
            for (state, ms) in [("busy", sample.gil_busy_ms), ("idle", sample.gil_idle_ms)] {
                self.line("neurogc_gil_seconds_total", facts, &[("state", state)], ms / 1e3);
            }
        }
        let parts: [(&str, &str, Part); 3] = [
            ("neurogc_request_duration_seconds", "Requests from arrival to last byte", |it| &it.latency),
            ("neurogc_request_wait_seconds", "Requests before the application saw them", |it| &it.wait),
            ("neurogc_request_service_seconds", "Requests from the application's call to last byte", |it| &it.service),
        ];
        for (name, help, of) in parts {
            self.head(name, "histogram", help);
            for (facts, sample) in samples {
                self.histogram(name, facts, &[], of(sample));
            }
        }
        self.head("neurogc_gc_pause_seconds", "histogram", "Collections, by kind");
        for (facts, sample) in samples {
            for (kind, distribution) in pauses(sample) {
                self.histogram("neurogc_gc_pause_seconds", facts, &[("kind", kind)], distribution);
            }
        }
        self.head("neurogc_stall_seconds", "histogram", "Times in which the program wanted to run and could not");
        for (facts, sample) in samples {
            self.histogram("neurogc_stall_seconds", facts, &[], &sample.stalls);
        }
    }

    fn hub(&mut self, app: &App) {
        let hub = &app.hub;
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
        for (name, kind, help, value) in [
            ("neurogc_hub_reports_total", "counter", "Reports taken in", count(&hub.counts.reports)),
            ("neurogc_hub_events_total", "counter", "Events taken in", count(&hub.counts.events)),
            ("neurogc_hub_missed_total", "counter", "Events that agents had no room for", count(&hub.counts.missed)),
            ("neurogc_hub_refused_total", "counter", "Reports that could not be read", count(&hub.counts.refused)),
            ("neurogc_hub_store_dropped_total", "counter", "Writes that were not made", hub.store.dropped() as f64),
            ("neurogc_hub_clients", "gauge", "Browsers that watch", hub.clients.connected() as f64),
            (
                "neurogc_hub_skipped_total",
                "counter",
                "Messages that slow browsers missed",
                hub.clients.skipped() as f64,
            ),
            ("neurogc_hub_cpu_seconds_total", "counter", "Processor time of the hub", crate::own_cost::cpu_ms() / 1e3),
            ("neurogc_hub_memory_bytes", "gauge", "Memory of the hub", crate::own_cost::rss() as f64),
        ] {
            self.head(name, kind, help);
            let _ = writeln!(self.text, "{name} {value}");
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, facts: &Facts, labels: &[(&str, &str)], value: f64) {
        let _ = write!(
            self.text,
            "{name}{{process=\"{}\",host=\"{}\",pid=\"{}\"",
            facts.id,
            Escaped(&facts.host),
            facts.pid
        );
        for (label, text) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", Escaped(text));
        }
        let _ = writeln!(self.text, "}} {value}");
    }

    fn histogram(&mut self, name: &str, facts: &Facts, labels: &[(&str, &str)], distribution: &Distribution) {
        let counts = cumulative(distribution);
        let bounds = BOUNDS_MS.iter().map(|ms| (ms / 1e3).to_string()).chain(["+Inf".to_owned()]);
        let bucket = format!("{name}_bucket");
        for (bound, count) in bounds.zip(&counts) {
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
            self.line(&bucket, facts, &labels, *count as f64);
        }
        self.line(&format!("{name}_sum"), facts, labels, distribution.total_ms / 1e3);
        self.line(&format!("{name}_count"), facts, labels, counts.last().copied().unwrap_or(0) as f64);
    }
}

/// A label's value, which may hold anything.
struct Escaped<'t>(&'t str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '\\' => to.write_str("\\\\")?,
                '"' => to.write_str("\\\"")?,
                '\n' => to.write_str("\\n")?,
                letter => to.write_char(letter)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_grouped_escaped_and_cumulative() {
        let facts = Facts { id: "a-1-2".to_owned(), host: "a".to_owned(), pid: 1, ..Facts::default() };
        let mut sample = Sample::default();
        sample.status.command = "python \"x\"\ny".to_owned();
        sample.latency.buckets.add(2_000_000, 3);
        sample.latency.buckets.add(80_000_000_000, 1);
        sample.latency.total_ms = 80_006.0;
        let mut page = Page::default();
        page.processes(&[(&facts, &sample), (&facts, &sample)]);
        let labels = "process=\"a-1-2\",host=\"a\",pid=\"1\"";
        for line in [
            format!("neurogc_request_duration_seconds_bucket{{{labels},le=\"0.001\"}} 0"),
            format!("neurogc_request_duration_seconds_bucket{{{labels},le=\"0.0025\"}} 3"),
            format!("neurogc_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 4"),
            format!("neurogc_request_duration_seconds_sum{{{labels}}} 80.006"),
            format!(
                "neurogc_process_info{{{labels},command=\"python \\\"x\\\"\\ny\",python=\"\",version=\"\",policy=\"\"}} 1"
            ),
        ] {
            assert!(page.text.lines().any(|found| found == line), "{line}\n{}", page.text);
        }
        let heads = page.text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!(heads, METRICS.len() + 6);
    }
}
