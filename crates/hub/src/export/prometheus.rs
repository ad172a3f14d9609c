//! `/metrics`: every live process, and the hub itself, as Prometheus reads them.

use std::collections::{BTreeMap, HashMap};
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
use crate::alerts::{AlertState, AlertsReport, ChannelReport};
use crate::api::{App, blocking};
use crate::facts::ProcessFacts;
use crate::hub::Hub;
use crate::process::Presence;

/// The metric that says which process has the labels of a worker now, and the one that says its policy.
pub(crate) const INFO: &str = "neurogc_process_info";
pub(crate) const POLICY: &str = "neurogc_policy_info";

/// The labels of every metric of a process.
pub(crate) const LABELS: [&str; 3] = ["service", "worker", "host"];

/// Sets of labels of alerts that are told apart.
const MOST_ALERT_LABELS: usize = 200;

/// All metrics of a process but histograms.
static METRICS: LazyLock<Vec<PrometheusMetric>> = LazyLock::new(catalogue::metrics::prometheus);

pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let text = blocking(move || {
        let mut page = Page::default();
        each_process(&app.hub, &mut page);
        page.hub(&app.hub);
        page.alerts(&app.hub.alerts());
        Ok(page.text)
    })
    .await;
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => error.into_response(),
    }
}

/// Takes the values of all processes, metric by metric.
pub(crate) trait MetricSink {
    /// Which metric comes now.
    fn head(&mut self, name: &str, kind: &str, help: &str);

    /// One value of a process.
    fn line(&mut self, name: &str, process: Labelled<'_>, labels: &[(&str, &str)], value: f64);
}

/// Gives all values of processes that are there.
pub(crate) fn each_process(hub: &Hub, to: &mut impl MetricSink) {
    let views = hub.views();
    let live = views.iter().filter(|view| view.state != Presence::Gone);
    let samples: Vec<_> = live.filter_map(|view| Some((&*view.facts, view.sample.as_deref()?))).collect();
    let workers = workers(samples.iter().map(|(facts, _)| *facts));
    let samples: Vec<_> = samples
        .into_iter()
        .zip(&workers)
        .map(|((facts, sample), worker)| (Labelled { facts, worker }, sample))
        .collect();
    each_value(&samples, to);
}

fn each_value(samples: &[(Labelled<'_>, &Sample)], to: &mut impl MetricSink) {
    for metric in METRICS.iter() {
        to.head(metric.name, metric.kind, metric.help);
        for (process, sample) in samples {
            metric.read(sample, &mut |labels, value| to.line(metric.name, *process, labels, value));
        }
    }
    for it in HISTOGRAMS {
        to.head(it.prometheus, "histogram", it.help);
        for (process, sample) in samples {
            (it.read)(sample, &mut |part, distribution| {
                let label = it.label.map(|(label, _)| (label, part));
                histogram(to, it.prometheus, *process, label.as_slice(), distribution);
            });
        }
    }
}

fn histogram(
    to: &mut impl MetricSink,
    name: &str,
    process: Labelled<'_>,
    labels: &[(&str, &str)],
    distribution: &Distribution,
) {
    let counts = cumulative(distribution);
    let bounds = BOUNDS_MS.iter().map(|ms| (ms / 1e3).to_string()).chain(["+Inf".to_owned()]);
    let bucket = format!("{name}_bucket");
    for (bound, count) in bounds.zip(&counts) {
        let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
        to.line(&bucket, process, &labels, *count as f64);
    }
    to.line(&format!("{name}_sum"), process, labels, distribution.total_ms / 1e3);
    to.line(&format!("{name}_count"), process, labels, counts.last().copied().unwrap_or(0) as f64);
}

/// A process with the label that tells it from the others of its service. The label stays the same over restarts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labelled<'f> {
    facts: &'f ProcessFacts,
    worker: &'f str,
}

impl Labelled<'_> {
    /// The labels of a value of the process. What changes with each restart is in one metric only.
    pub(crate) fn each_label(&self, metric: &str, mut to: impl FnMut(&str, &str)) {
        let values = [self.facts.service.as_str(), self.worker, &self.facts.host];
        LABELS.into_iter().zip(values).for_each(|(name, value)| to(name, value));
        if metric == INFO {
            to("process", &self.facts.id);
            to("pid", &self.facts.pid.to_string());
        }
    }
}

/// What tells each process from the others of its service on its host: the number of a worker, else the role. Of several
/// that have the same, the later ones get a number behind it.
fn workers<'f>(processes: impl Iterator<Item = &'f ProcessFacts>) -> Vec<String> {
    let processes: Vec<_> = processes.collect();
    let plain = |facts: &ProcessFacts| {
        let role = facts.role.strip_prefix("worker ").unwrap_or(&facts.role);
        if role.starts_with("child of ") { "child".to_owned() } else { role.replace(' ', "_") }
    };
    let mut order: Vec<_> = (0..processes.len()).collect();
    order.sort_by_key(|&index| (processes[index].started_ms, &processes[index].id));
    let mut taken: HashMap<(&str, &str, String), u32> = HashMap::new();
    let mut labels = vec![String::new(); processes.len()];
    for index in order {
        let facts = processes[index];
        let label = plain(facts);
        let before = taken.entry((&facts.host, &facts.service, label.clone())).or_default();
        *before += 1;
        labels[index] = if *before == 1 { label } else { format!("{label}#{before}") };
    }
    labels
}

/// The page as it grows.
#[derive(Debug, Default)]
struct Page {
    text: String,
}

impl Page {
    fn hub(&mut self, hub: &Hub) {
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
            ("neurogc_hub_store_dropped_total", "counter", "Writes that were not made", hub.history.dropped() as f64),
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

    /// Alerts that fire, by rule, service and host; those beyond the first label sets are counted as `other`.
    fn alerts(&mut self, alerts: &AlertsReport) {
        let name = "neurogc_alert_firing";
        self.head(name, "gauge", "Alerts that fire, by rule");
        let mut firing: BTreeMap<(&str, &str, &str), u32> = BTreeMap::new();
        for alert in alerts.alerts.iter().filter(|alert| alert.state == AlertState::Firing) {
            let labels = (alert.rule.as_str(), alert.process.service.as_str(), alert.process.host.as_str());
            let room = firing.len() < MOST_ALERT_LABELS || firing.contains_key(&labels);
            *firing.entry(if room { labels } else { (labels.0, "other", "other") }).or_default() += 1;
        }
        for ((rule, service, host), count) in firing {
            let (service, host) = (Escaped(service), Escaped(host));
            let _ = writeln!(self.text, "{name}{{rule=\"{rule}\",service=\"{service}\",host=\"{host}\"}} {count}");
        }
        let channels = &alerts.channels;
        self.channels("neurogc_alert_sent_total", "Messages about alerts that arrived", channels, |it| it.sent);
        let failed = "Messages about alerts that did not arrive after all attempts";
        self.channels("neurogc_alert_failed_total", failed, channels, |it| it.failed);
        let dropped = "Messages about alerts that there was no room for";
        self.channels("neurogc_alert_dropped_total", dropped, channels, |it| it.dropped);
    }

    fn channels(&mut self, name: &str, help: &str, channels: &[ChannelReport], count: fn(&ChannelReport) -> u64) {
        self.head(name, "counter", help);
        for channel in channels {
            let _ = writeln!(self.text, "{name}{{channel=\"{}\"}} {}", channel.name, count(channel));
        }
    }
}

impl MetricSink for Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, process: Labelled<'_>, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.text, "{name}");
        let mut before = '{';
        process.each_label(name, |label, text| {
            let _ = write!(self.text, "{before}{label}=\"{}\"", Escaped(text));
            before = ',';
        });
        for (label, text) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", Escaped(text));
        }
        let _ = writeln!(self.text, "}} {value}");
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
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::history::HistorySource;
    use crate::store::Store;

    fn facts(pid: u32, service: &str, role: &str, started_ms: u64) -> ProcessFacts {
        let (host, id) = ("a".to_owned(), format!("a-{pid}-{started_ms}"));
        ProcessFacts {
            id,
            host,
            pid,
            service: service.to_owned(),
            role: role.to_owned(),
            started_ms,
            ..ProcessFacts::default()
        }
    }

    #[test]
    fn labels_are_those_of_the_process_that_was_there_before_and_never_given_twice() {
        let check = |processes: &[ProcessFacts], expected: &[&str]| assert_eq!(workers(processes.iter()), expected);
        check(&[facts(10, "shop", "master", 1), facts(11, "shop", "worker 1", 2)], &["master", "1"]);
        check(&[facts(10, "shop", "master", 1), facts(99, "shop", "worker 1", 9)], &["master", "1"]);
        let twins = [facts(5, "job", "main", 9), facts(6, "job", "main", 4), facts(7, "other", "main", 1)];
        check(&twins, &["main#2", "main", "main"]);
        check(&[facts(5, "job", "child of 4", 1), facts(6, "job", "child of 3", 2)], &["child", "child#2"]);
    }

    #[test]
    fn alerts_are_counted_by_rule_service_and_host() {
        use crate::alerts::{AlertDetails, AlertProcess, AlertReport};
        let alert = |service: String, state| AlertReport {
            id: String::new(),
            rule: "leak".to_owned(),
            state,
            process: AlertProcess { service, host: "a".to_owned(), ..AlertProcess::default() },
            details: AlertDetails::default(),
            since_ms: 0,
            fired_ms: None,
            resolved_ms: None,
            changes: 0,
        };
        let firing = |name: &str| alert(name.to_owned(), AlertState::Firing);
        let mut report = AlertsReport {
            alerts: vec![firing("sh\"op"), firing("sh\"op"), alert("x".to_owned(), AlertState::Pending)],
            ..AlertsReport::default()
        };
        let mut page = Page::default();
        page.alerts(&report);
        assert!(
            page.text.contains("neurogc_alert_firing{rule=\"leak\",service=\"sh\\\"op\",host=\"a\"} 2\n"),
            "{}",
            page.text
        );
        assert!(!page.text.contains("service=\"x\""));
        report.alerts = (0..1000).map(|number| firing(&number.to_string())).collect();
        let mut page = Page::default();
        page.alerts(&report);
        assert_eq!(page.text.matches("neurogc_alert_firing{").count(), MOST_ALERT_LABELS + 1);
        assert!(page.text.contains("service=\"other\",host=\"other\"} 800\n"));
    }

    /// A rule about a metric that is not exported would never fire, and its reader would not know.
    #[test]
    fn the_rules_for_prometheus_name_metrics_that_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let rules = include_str!("../../../../deploy/prometheus/neurogc-alerts.yml");
        let mut known: Vec<String> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
        for histogram in HISTOGRAMS {
            known.extend(["bucket", "sum", "count"].map(|part| format!("{}_{part}", histogram.prometheus)));
        }
        let mut page = Page::default();
        page.alerts(&AlertsReport::default());
        let store = Store::open(folder.path(), 64 << 20).unwrap();
        page.hub(&Hub::new("here".to_owned(), HistorySource::Kept(Arc::new(store))));
        known.extend(
            page.text.lines().filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned())),
        );
        let is_name = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
        let named: Vec<_> = rules
            .match_indices("neurogc_")
            .map(|(at, _)| rules[at..].split(|it| !is_name(it)).next().unwrap_or_default())
            .collect();
        assert!(named.len() > 10);
        for name in named {
            assert!(
                known.iter().any(|it| it == name),
                "deploy/prometheus/neurogc-alerts.yml names {name}, which is not exported"
            );
        }
    }

    #[test]
    fn a_page_is_grouped_escaped_and_cumulative() {
        let facts = facts(1, "shop", "worker 2", 7);
        let process = Labelled { facts: &facts, worker: "2" };
        let mut sample = Sample::default();
        sample.status.command = "python \"x\"\ny".to_owned();
        sample.latency.buckets.add(2_000_000, 3);
        sample.latency.buckets.add(80_000_000_000, 1);
        sample.latency.total_ms = 80_006.0;
        let mut page = Page::default();
        each_value(&[(process, &sample), (process, &sample)], &mut page);
        let labels = "service=\"shop\",worker=\"2\",host=\"a\"";
        for line in [
            format!("neurogc_request_duration_seconds_bucket{{{labels},le=\"0.001\"}} 0"),
            format!("neurogc_request_duration_seconds_bucket{{{labels},le=\"0.0025\"}} 3"),
            format!("neurogc_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 4"),
            format!("neurogc_policy_info{{{labels},policy=\"\"}} 1"),
            format!("neurogc_stalled_seconds_total{{{labels},cause=\"gc\"}} 0"),
            format!("neurogc_request_duration_seconds_sum{{{labels}}} 80.006"),
            format!(
                "neurogc_process_info{{{labels},process=\"a-1-7\",pid=\"1\",command=\"python \\\"x\\\"\\ny\",role=\"\",python=\"\",version=\"\"}} 1"
            ),
        ] {
            assert!(page.text.lines().any(|found| found == line), "{line}\n{}", page.text);
        }
        let heads = page.text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!(heads, METRICS.len() + HISTOGRAMS.len());
    }
}
