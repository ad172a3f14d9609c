//! Metrics for a collector of OpenTelemetry: posted as JSON, by the names of its conventions where there are some.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use neurogc_wire::buckets::Distribution;
use neurogc_wire::catalogue::metrics::{Form, OtlpMetric};
use neurogc_wire::catalogue::{self, Attribute, HISTOGRAMS};
use neurogc_wire::report::Sample;
use serde_json::{Value, json};
use tokio::time::{interval, timeout};

use super::{BOUNDS_MS, cumulative};
use crate::clock::unix_ms;
use crate::facts::ProcessFacts;
use crate::hub::Hub;
use crate::post::{PostAddress, SendFailure, post};
use crate::process::Presence;

/// How often, and how long a collector may take.
const EVERY: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(5);

/// Where collectors take metrics, if nothing else is said.
const PORT: u16 = 4318;
const PATH: &str = "/v1/metrics";

/// All metrics of a process but histograms.
static METRICS: LazyLock<Vec<OtlpMetric>> = LazyLock::new(catalogue::metrics::otlp);

/// A collector.
#[derive(Clone, Debug)]
pub struct OtlpCollector(PostAddress);

impl std::str::FromStr for OtlpCollector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let to: PostAddress = text.parse().map_err(|_| "it must look like http://127.0.0.1:4318".to_owned())?;
        Ok(Self(to.or(PORT, PATH)))
    }
}

/// Sends metrics for ever. A collector that is away is told of on stderr once, and tried again.
pub(crate) async fn export(hub: Arc<Hub>, collector: OtlpCollector) {
    let mut ticks = interval(EVERY);
    let mut away = false;
    loop {
        ticks.tick().await;
        let told = Arc::clone(&hub);
        let Ok(message) = tokio::task::spawn_blocking(move || message(&told)).await else { continue };
        let sent = timeout(PATIENCE, post(&collector.0, message)).await;
        match sent.unwrap_or_else(|_| Err(SendFailure::Passing("it takes too long".to_owned()))) {
            Ok(()) => away = false,
            Err(reason) if !away => {
                away = true;
                eprintln!("neurogc: metrics do not reach {}: {reason}. They are tried again", collector.0);
            }
            Err(_) => {}
        }
    }
}

fn message(hub: &Hub) -> String {
    let now_ms = unix_ms();
    let views = hub.views();
    let live = views.iter().filter(|view| view.state == Presence::Live);
    let resources: Vec<_> = live
        .filter_map(|view| Some((&view.facts, view.sample.as_ref()?, view.epoch_ms)))
        .map(|(facts, sample, epoch_ms)| resource(facts, sample, (epoch_ms * 1e6) as u64, now_ms * 1_000_000))
        .collect();
    json!({ "resourceMetrics": resources }).to_string()
}

/// One process. Numbers of 64 bits are texts in this format.
fn resource(facts: &ProcessFacts, sample: &Sample, started: u64, now: u64) -> Value {
    let (name, version) = facts.python.split_once(' ').unwrap_or((&facts.python, ""));
    let attributes = attributes(&[
        ("service.name", if facts.service.is_empty() { "python" } else { &facts.service }),
        ("neurogc.role", &facts.role),
        ("service.instance.id", &facts.id),
        ("host.name", &facts.host),
        ("process.command_line", &facts.command),
        ("process.runtime.name", &name.to_lowercase()),
        ("process.runtime.version", version),
        ("neurogc.policy", &facts.policy),
    ]);
    let mut attributes = attributes;
    attributes.push(json!({"key": "process.pid", "value": {"intValue": facts.pid.to_string()}}));
    let metrics = Points { started, now }.all(sample);
    json!({
        "resource": {"attributes": attributes},
        "scopeMetrics": [{"scope": {"name": "neurogc", "version": env!("CARGO_PKG_VERSION")}, "metrics": metrics}],
    })
}

fn attributes(pairs: &[(&str, &str)]) -> Vec<Value> {
    pairs.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect()
}

/// Makes points of one moment.
struct Points {
    started: u64,
    now: u64,
}

impl Points {
    fn all(&self, sample: &Sample) -> Vec<Value> {
        let metrics = METRICS.iter().map(|metric| {
            let mut points = Vec::new();
            metric.read(sample, |value, attribute| {
                points.push(self.point(value, attribute.map(written).into_iter().collect()));
            });
            match metric.form {
                Form::Counter => sum(metric.name, metric.unit, true, points),
                Form::UpDownCounter => sum(metric.name, metric.unit, false, points),
                Form::Gauge => gauge(metric.name, metric.unit, points),
            }
        });
        let histograms = HISTOGRAMS.iter().map(|it| {
            let mut points = Vec::new();
            (it.read)(sample, &mut |part, distribution| {
                let attributes = it.label.map_or_else(Vec::new, |(_, key)| attributes(&[(key, part)]));
                points.push(self.histogram_point(distribution, attributes));
            });
            histogram(it.otlp, points)
        });
        metrics.chain(histograms).collect()
    }

    fn point(&self, value: f64, attributes: Vec<Value>) -> Value {
        json!({
            "startTimeUnixNano": self.started.to_string(),
            "timeUnixNano": self.now.to_string(),
            "asDouble": value,
            "attributes": attributes,
        })
    }

    fn histogram_point(&self, distribution: &Distribution, attributes: Vec<Value>) -> Value {
        let cumulative = cumulative(distribution);
        let before = [0].iter().chain(&cumulative);
        let counts: Vec<_> = cumulative.iter().zip(before).map(|(upto, before)| (upto - before).to_string()).collect();
        json!({
            "startTimeUnixNano": self.started.to_string(),
            "timeUnixNano": self.now.to_string(),
            "count": distribution.buckets.count().to_string(),
            "sum": distribution.total_ms / 1e3,
            "bucketCounts": counts,
            "explicitBounds": BOUNDS_MS.map(|ms| ms / 1e3),
            "attributes": attributes,
        })
    }
}

fn written((key, value): (&str, Attribute)) -> Value {
    match value {
        Attribute::Text(text) => json!({"key": key, "value": {"stringValue": text}}),
        Attribute::Integer(number) => json!({"key": key, "value": {"intValue": number.to_string()}}),
    }
}

/// Sums are cumulative, which OpenTelemetry writes as 2.
fn sum(name: &str, unit: &str, monotonic: bool, points: Vec<Value>) -> Value {
    let data = json!({"aggregationTemporality": 2, "isMonotonic": monotonic, "dataPoints": points});
    json!({"name": name, "unit": unit, "sum": data})
}

fn gauge(name: &str, unit: &str, points: Vec<Value>) -> Value {
    json!({"name": name, "unit": unit, "gauge": {"dataPoints": points}})
}

fn histogram(name: &str, points: Vec<Value>) -> Value {
    json!({"name": name, "unit": "s", "histogram": {"aggregationTemporality": 2, "dataPoints": points}})
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_read() {
        let read = |text: &str| text.parse::<OtlpCollector>().map(|it| it.0.url());
        assert_eq!(read("http://127.0.0.1").unwrap(), "http://127.0.0.1:4318/v1/metrics");
        assert_eq!(read("http://otel:80/x/metrics").unwrap(), "http://otel:80/x/metrics");
        assert_eq!(read("https://otel").unwrap(), "https://otel:4318/v1/metrics");
        assert!(read("otel:80").is_err());
    }

    #[test]
    fn buckets_are_not_cumulative_and_sum_up() {
        let mut latency = Distribution::default();
        latency.buckets.add(2_000_000, 3);
        latency.buckets.add(80_000_000_000, 1);
        let point = Points { started: 1, now: 2 }.histogram_point(&latency, vec![]);
        let counts: Vec<u64> = point["bucketCounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|count| count.as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!((counts.len(), counts.iter().sum::<u64>(), counts[17]), (18, 4, 1));
        assert_eq!(point["count"], "4");
    }
}
