//! Metrics for a collector of OpenTelemetry, by the names of its conventions where there are some: over HTTP as protobuf or
//! JSON, or by gRPC.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use neurogc_wire::buckets::Distribution;
use neurogc_wire::catalogue::metrics::{Form, OtlpMetric};
use neurogc_wire::catalogue::{self, Attribute, HISTOGRAMS};
use neurogc_wire::report::Sample;
use prost::Message;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::otlp_messages::{
    AttributeValue, ExportRequest, ExportedMetric, Gauge, HistogramPoint, KeyValue, MetricData, NumberPoint,
    OtlpHistogram, OtlpScope, OtlpSum, Resource, ResourceMetrics, ScopeMetrics,
};
use super::{BOUNDS_MS, Outage, cumulative};
use crate::clock::unix_ms;
use crate::facts::ProcessFacts;
use crate::hub::Hub;
use crate::post::{Outgoing, PostAddress, SendFailure, call, post};
use crate::process::Presence;

/// How often, and how long a collector may take, if nothing else is said.
const EVERY_MS: u64 = 10_000;
const PATIENCE_MS: u64 = 5_000;

/// Where collectors take metrics, if nothing else is said.
const HTTP_PORT: u16 = 4318;
const GRPC_PORT: u16 = 4317;
const PATH: &str = "/v1/metrics";
const METHOD: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Variables of OpenTelemetry, after `OTEL_EXPORTER_OTLP_`, that mean something and are not followed.
const UNHEARD: [(&str, &str); 3] = [
    ("CLIENT_CERTIFICATE", "the hub shows no certificate of its own to a collector"),
    ("CLIENT_KEY", "the hub shows no certificate of its own to a collector"),
    ("INSECURE", "the address says it, by http or https"),
];

/// Sums are cumulative, which OpenTelemetry writes as 2.
const CUMULATIVE: i32 = 2;

/// All metrics of a process but histograms.
static METRICS: LazyLock<Vec<OtlpMetric>> = LazyLock::new(catalogue::metrics::otlp);

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Grpc,
    Protobuf,
    Json,
}

/// A collector.
#[derive(Clone, Debug)]
pub struct OtlpCollector {
    to: PostAddress,
    protocol: Protocol,
    every: Duration,
    patience: Duration,
    /// Whether messages are compressed by gzip.
    is_compressed: bool,
    /// Attributes of all processes.
    attributes: Vec<KeyValue>,
    /// What the environment asks for and is not done.
    unheard: Vec<String>,
}

impl std::str::FromStr for OtlpCollector {
    type Err = String;

    /// Reads an address, or `env` for the one in the environment. The variables of OpenTelemetry say the rest.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, |name| std::env::var(name).ok())
    }
}

impl OtlpCollector {
    fn read(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let said = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        // A variable for metrics counts for more than the one for everything.
        let either = |name: &str| {
            said(&format!("OTEL_EXPORTER_OTLP_METRICS_{name}")).or_else(|| said(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let number = |name: &str, value: Option<String>, otherwise: u64| match value {
            Some(value) => value.trim().parse().map_err(|_| format!("{name} must be a number of milliseconds")),
            None => Ok(otherwise),
        };
        let protocol = match either("PROTOCOL").as_deref() {
            None | Some("http/protobuf") => Protocol::Protobuf,
            Some("grpc") => Protocol::Grpc,
            Some("http/json") => Protocol::Json,
            Some(_) => {
                return Err("OTEL_EXPORTER_OTLP_PROTOCOL must be grpc, http/protobuf or http/json".to_owned());
            }
        };
        let mut to = address(text, &said)?;
        to = if protocol == Protocol::Grpc { to.or(GRPC_PORT, "/") } else { to.or(HTTP_PORT, PATH) };
        if let Some(headers) = either("HEADERS") {
            to = to.with_headers(&headers).map_err(|error| format!("OTEL_EXPORTER_OTLP_HEADERS: {error}"))?;
        }
        if let Some(file) = either("CERTIFICATE") {
            to = to.trusting(file.as_ref()).map_err(|error| format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {error}"))?;
        }
        let is_compressed = match either("COMPRESSION").as_deref().map(str::trim) {
            None | Some("none") => false,
            Some("gzip") => true,
            Some(_) => return Err("OTEL_EXPORTER_OTLP_COMPRESSION must be gzip or none".to_owned()),
        };
        let unheard = UNHEARD
            .iter()
            .filter(|(name, _)| either(name).is_some())
            .map(|(name, why)| format!("OTEL_EXPORTER_OTLP_{name} is set and has no effect: {why}"));
        let unheard = unheard.collect();
        let every = number("OTEL_METRIC_EXPORT_INTERVAL", said("OTEL_METRIC_EXPORT_INTERVAL"), EVERY_MS)?.max(1_000);
        let patience = number("OTEL_EXPORTER_OTLP_TIMEOUT", either("TIMEOUT"), PATIENCE_MS)?.max(1);
        let attributes = said("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let attributes = attributes.split(',').filter_map(|pair| pair.split_once('='));
        Ok(Self {
            to,
            protocol,
            every: Duration::from_millis(every),
            patience: Duration::from_millis(patience),
            is_compressed,
            attributes: attributes.map(|(key, value)| KeyValue::text(key.trim(), value.trim())).collect(),
            unheard,
        })
    }

    async fn send(&self, message: ExportRequest) -> Result<(), SendFailure> {
        match self.protocol {
            Protocol::Grpc => call(&self.to, METHOD, &message.encode_to_vec(), self.is_compressed).await,
            Protocol::Protobuf => self.post(Outgoing::new("application/x-protobuf", message.encode_to_vec())).await,
            Protocol::Json => {
                let json = serde_json::to_string(&message).map_err(|error| SendFailure::Final(error.to_string()))?;
                self.post(json.into()).await
            }
        }
    }

    async fn post(&self, message: Outgoing) -> Result<(), SendFailure> {
        post(&self.to, if self.is_compressed { message.compressed() } else { message }).await
    }
}

/// Where a collector is. In the environment, the address for everything has no path yet.
fn address(text: &str, said: &impl Fn(&str) -> Option<String>) -> Result<PostAddress, String> {
    const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let read = |text: &str| text.trim().parse::<PostAddress>();
    if text != "env" {
        return read(text).map_err(|_| "it must look like http://127.0.0.1:4318, or be env".to_owned());
    }
    if let Some(whole) = said(METRICS_ENDPOINT) {
        return read(&whole).map_err(|error| format!("{METRICS_ENDPOINT}: {error}"));
    }
    let base = said(ENDPOINT).ok_or_else(|| format!("neither {METRICS_ENDPOINT} nor {ENDPOINT} is set"))?;
    let to = read(&base).map_err(|error| format!("{ENDPOINT}: {error}"))?;
    let path = format!("{}{PATH}", to.path().trim_end_matches('/'));
    Ok(to.at(path))
}

/// Sends metrics for ever. A collector that is away is told of on stderr once, and tried again.
pub(crate) async fn export(hub: Arc<Hub>, collector: OtlpCollector) {
    for line in &collector.unheard {
        eprintln!("neurogc: {line}");
    }
    let mut ticks = interval(collector.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut outage = Outage::new("metrics", &collector.to);
    loop {
        ticks.tick().await;
        let (told, shared) = (Arc::clone(&hub), collector.attributes.clone());
        let Ok(message) = tokio::task::spawn_blocking(move || message(&told, &shared)).await else { continue };
        let sent = timeout(collector.patience, collector.send(message)).await;
        outage.note(sent.unwrap_or_else(|_| Err(SendFailure::Passing("it takes too long".to_owned()))));
    }
}

fn message(hub: &Hub, shared: &[KeyValue]) -> ExportRequest {
    let now_ms = unix_ms();
    let views = hub.views();
    let live = views.iter().filter(|view| view.state == Presence::Live);
    let resource_metrics = live
        .filter_map(|view| Some((&view.facts, view.sample.as_ref()?, view.epoch_ms)))
        .map(|(facts, sample, epoch_ms)| resource(facts, sample, shared, (epoch_ms * 1e6) as u64, now_ms * 1_000_000))
        .collect();
    ExportRequest { resource_metrics }
}

/// One process.
fn resource(facts: &ProcessFacts, sample: &Sample, shared: &[KeyValue], started: u64, now: u64) -> ResourceMetrics {
    let (name, version) = facts.python.split_once(' ').unwrap_or((&facts.python, ""));
    let own = [
        ("service.name", if facts.service.is_empty() { "python" } else { &facts.service }),
        ("neurogc.role", &facts.role),
        ("service.instance.id", &facts.id),
        ("host.name", &facts.host),
        ("process.command_line", &facts.command),
        ("process.runtime.name", &name.to_lowercase()),
        ("process.runtime.version", version),
        ("neurogc.policy", &facts.policy),
    ];
    let mut attributes: Vec<_> = own.iter().map(|(key, value)| KeyValue::text(key, value)).collect();
    attributes.push(KeyValue::new("process.pid", AttributeValue::Integer(facts.pid.into())));
    // What the process says of itself counts for more.
    let more = shared.iter().filter(|shared| own.iter().all(|(key, _)| *key != shared.key));
    attributes.extend(more.cloned());
    let scope = OtlpScope { name: "neurogc".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let metrics = Points { started, now }.all(sample);
    ResourceMetrics {
        resource: Some(Resource { attributes }),
        scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics }],
    }
}

/// Makes points of one moment.
struct Points {
    started: u64,
    now: u64,
}

impl Points {
    fn all(&self, sample: &Sample) -> Vec<ExportedMetric> {
        let metrics = METRICS.iter().filter_map(|metric| {
            let mut data_points = Vec::new();
            metric.read(sample, |value, attribute| {
                data_points.push(self.point(value, attribute.map(written).into_iter().collect()));
            });
            if data_points.is_empty() {
                return None;
            }
            let sum = |data_points, is_monotonic| {
                MetricData::Sum(OtlpSum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic })
            };
            let data = match metric.form {
                Form::Counter => sum(data_points, true),
                Form::UpDownCounter => sum(data_points, false),
                Form::Gauge => MetricData::Gauge(Gauge { data_points }),
            };
            Some(named(metric.name, metric.unit, data))
        });
        let histograms = HISTOGRAMS.iter().map(|it| {
            let mut data_points = Vec::new();
            (it.read)(sample, &mut |part, distribution| {
                let attributes = it.label.map(|(_, key)| KeyValue::text(key, part));
                data_points.push(self.histogram_point(distribution, attributes.into_iter().collect()));
            });
            let data = OtlpHistogram { data_points, aggregation_temporality: CUMULATIVE };
            named(it.otlp, "s", MetricData::Histogram(data))
        });
        metrics.chain(histograms).collect()
    }

    fn point(&self, value: f64, attributes: Vec<KeyValue>) -> NumberPoint {
        NumberPoint { attributes, start_time_unix_nano: self.started, time_unix_nano: self.now, as_double: Some(value) }
    }

    fn histogram_point(&self, distribution: &Distribution, attributes: Vec<KeyValue>) -> HistogramPoint {
        let cumulative = cumulative(distribution);
        let before = [0].iter().chain(&cumulative);
        HistogramPoint {
            attributes,
            start_time_unix_nano: self.started,
            time_unix_nano: self.now,
            count: distribution.buckets.count(),
            sum: Some(distribution.total_ms / 1e3),
            bucket_counts: cumulative.iter().zip(before).map(|(upto, before)| upto - before).collect(),
            explicit_bounds: BOUNDS_MS.iter().map(|ms| ms / 1e3).collect(),
        }
    }
}

fn named(name: &str, unit: &str, data: MetricData) -> ExportedMetric {
    ExportedMetric { name: name.to_owned(), unit: unit.to_owned(), data: Some(data) }
}

fn written((key, value): (&str, Attribute<'_>)) -> KeyValue {
    match value {
        Attribute::Text(text) => KeyValue::text(key, text),
        Attribute::Integer(number) => KeyValue::new(key, AttributeValue::Integer(number.into())),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_read() {
        let read = |text: &str| OtlpCollector::read(text, |_| None).map(|it| it.to.url());
        assert_eq!(read("http://127.0.0.1").unwrap(), "http://127.0.0.1:4318/v1/metrics");
        assert_eq!(read("http://otel:80/x/metrics").unwrap(), "http://otel:80/x/metrics");
        assert_eq!(read("https://otel").unwrap(), "https://otel:4318/v1/metrics");
        assert!(read("otel:80").is_err());
        assert!(read("env").unwrap_err().contains("OTEL_EXPORTER_OTLP_ENDPOINT"));
    }

    #[test]
    fn the_environment_says_the_rest() {
        let with = |pairs: &'static [(&str, &str)]| {
            let said = |name: &str| pairs.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
            OtlpCollector::read("env", said)
        };
        let it = with(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel/base"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "30000"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,team=a"),
        ]);
        let it = it.unwrap();
        assert_eq!((it.to.url().as_str(), it.protocol), ("http://otel:4318/base/v1/metrics", Protocol::Json));
        assert_eq!((it.every, it.attributes.len()), (Duration::from_secs(30), 2));
        let it = with(&[
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://otel/x"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ]);
        let it = it.unwrap();
        assert_eq!((it.to.url().as_str(), it.protocol), ("http://otel:4317/x", Protocol::Grpc));
        let wrong = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")];
        assert!(
            OtlpCollector::read("env", |name| wrong.iter().find(|it| it.0 == name).map(|it| it.1.to_owned())).is_err()
        );
    }

    #[test]
    fn compression_is_heard_and_what_is_not_heard_is_said() {
        let with = |name: &'static str, value: &'static str| {
            OtlpCollector::read("http://otel", move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(with("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip").unwrap().is_compressed);
        assert!(!with("OTEL_EXPORTER_OTLP_COMPRESSION", "none").unwrap().is_compressed);
        assert!(with("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd").is_err());
        assert!(with("OTEL_EXPORTER_OTLP_HEADERS", "a=b").unwrap().unheard.is_empty());
        for name in ["OTEL_EXPORTER_OTLP_CLIENT_KEY", "OTEL_EXPORTER_OTLP_METRICS_INSECURE"] {
            let unheard = with(name, "x").unwrap().unheard;
            assert!(matches!(unheard.as_slice(), [line] if line.contains("has no effect")), "{unheard:?}");
        }
    }

    #[test]
    fn json_has_the_names_of_the_format() {
        let points = Points { started: 1, now: 2 };
        let metric = named("m", "s", MetricData::Gauge(Gauge { data_points: vec![points.point(0.0, vec![])] }));
        let json = serde_json::to_value(&metric).unwrap();
        let point = &json["gauge"]["dataPoints"][0];
        assert_eq!((&point["timeUnixNano"], &point["asDouble"]), (&"2".into(), &0.0.into()));
        let pid = serde_json::to_value(KeyValue::new("p", AttributeValue::Integer(7))).unwrap();
        assert_eq!(pid, serde_json::json!({"key": "p", "value": {"intValue": "7"}}));
        let again = ExportedMetric::decode(metric.encode_to_vec().as_slice()).unwrap();
        assert_eq!(again, metric, "zero is sent too");
    }

    #[test]
    fn devices_are_points_of_one_metric() {
        let mut sample = Sample::default();
        let has = |sample: &Sample| {
            let all = Points { started: 1, now: 2 }.all(sample);
            all.into_iter().find(|metric| metric.name == "neurogc.gpu.memory.allocated")
        };
        assert_eq!(has(&sample), None, "nothing is sent where there is nothing");
        let device =
            |device, allocated_bytes| neurogc_wire::gpu::GpuDevice { device, allocated_bytes, ..Default::default() };
        sample.status.gpu.devices = vec![device(0, 5), device(2, 7)];
        let Some(MetricData::Sum(sum)) = has(&sample).unwrap().data else { panic!("a sum of two points") };
        let points: Vec<_> = sum.data_points.iter().map(|it| (it.attributes.clone(), it.as_double)).collect();
        let of = |number| vec![KeyValue::new("neurogc.gpu.device", AttributeValue::Integer(number))];
        assert_eq!(points, [(of(0), Some(5.0)), (of(2), Some(7.0))]);
        assert!(!sum.is_monotonic);
    }

    #[test]
    fn buckets_are_not_cumulative_and_sum_up() {
        let mut latency = Distribution::default();
        latency.buckets.add(2_000_000, 3);
        latency.buckets.add(80_000_000_000, 1);
        let point = Points { started: 1, now: 2 }.histogram_point(&latency, vec![]);
        let counts = &point.bucket_counts;
        assert_eq!((counts.len(), counts.iter().sum::<u64>(), counts[17]), (18, 4, 1));
        assert_eq!(point.count, 4);
    }
}
