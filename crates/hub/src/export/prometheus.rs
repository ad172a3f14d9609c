//! `/metrics`: every live process, and the hub itself, as Prometheus reads them.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use neurogc_wire::buckets::Distribution;
use neurogc_wire::catalogue::metrics::PrometheusMetric;
use neurogc_wire::catalogue::{self, HISTOGRAMS};
use neurogc_wire::report::Sample;

use super::{BOUNDS_MS, cumulative};
use crate::api::{App, blocking};
use crate::facts::Facts;
use crate::process::State as Presence;

/// All metrics of a process but histograms.
static METRICS: LazyLock<Vec<PrometheusMetric>> = LazyLock::new(catalogue::metrics::prometheus);

pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let text = blocking(move || {
        let views = app.hub.views();
        let live = views.iter().filter(|view| view.state != Presence::Gone);
        let samples: Vec<_> = live.filter_map(|view| Some((&*view.facts, view.sample.as_deref()?))).collect();
        let mut page = Page::default();
        page.processes(&samples);
        page.hub(&app);
        Ok(page.text)
    })
    .await;
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => error.into_response(),
    }
}

/// The page as it grows.
#[derive(Debug, Default)]
struct Page {
    text: String,
}

impl Page {
    fn processes(&mut self, samples: &[(&Facts, &Sample)]) {
        for metric in METRICS.iter() {
            self.head(metric.name, metric.kind, metric.help);
            for (facts, sample) in samples {
                metric.read(sample, &mut |labels, value| self.line(metric.name, facts, labels, value));
            }
        }
        for histogram in HISTOGRAMS {
            self.head(histogram.prometheus, "histogram", histogram.help);
            for (facts, sample) in samples {
                (histogram.read)(sample, &mut |part, distribution| {
                    let label = histogram.label.map(|(label, _)| (label, part));
                    self.histogram(histogram.prometheus, facts, label.as_slice(), distribution);
                });
            }
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
            (
                "neurogc_hub_impostors_total",
                "counter",
                "Reports that came from another process than they name",
                count(&hub.counts.impostors),
            ),
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
        assert_eq!(heads, METRICS.len() + HISTOGRAMS.len());
    }
}
