//! Metrics for a collector of OpenTelemetry: posted as JSON, by the names of its conventions where there are some.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use neurogc_wire::buckets::Distribution;
use neurogc_wire::report::Sample;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use super::{BOUNDS_MS, cumulative, pauses};
use crate::clock::unix_ms;
use crate::facts::Facts;
use crate::hub::Hub;
use crate::process::State;

/// How often, and how long a collector may take.
const EVERY: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(5);

/// Where collectors take metrics, if nothing else is said.
const PATH: &str = "/v1/metrics";

/// A collector.
#[derive(Clone, Debug)]
pub struct Collector {
    address: String,
    path: String,
}

impl std::str::FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it must look like http://127.0.0.1:4318".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        if uri.scheme_str() == Some("https") {
            return Err("the hub speaks no TLS; name a collector on this machine, which can pass metrics on".to_owned());
        }
        let host = uri.host().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(wrong)?;
        let address = format!("{host}:{}", uri.port_u16().unwrap_or(4318));
        let path = if uri.path() == "/" { PATH } else { uri.path() };
        Ok(Self { address, path: path.to_owned() })
    }
}

/// Sends metrics for ever. A collector that is away is told of on stderr once, and tried again.
pub(crate) async fn export(hub: Arc<Hub>, collector: Collector) {
    let mut ticks = interval(EVERY);
    let mut away = false;
    loop {
        ticks.tick().await;
        let message = message(&hub);
        match timeout(PATIENCE, send(&collector, message)).await.unwrap_or_else(|_| Err("it takes too long".to_owned()))
        {
            Ok(()) => away = false,
            Err(reason) if !away => {
                away = true;
                eprintln!("neurogc: metrics do not reach {}: {reason}. They are tried again", collector.address);
            }
            Err(_) => {}
        }
    }
}

async fn send(collector: &Collector, message: String) -> Result<(), String> {
    const LONGEST: usize = 64 * 1024;
    let stream = TcpStream::connect(&collector.address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It ends with this, also where the collector never answers.
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let request = Request::post(&collector.path)
        .header(header::HOST, &collector.address)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Full::new(Bytes::from(message)))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status();
    let _ = Limited::new(answer.into_body(), LONGEST).collect().await;
    if status.is_success() { Ok(()) } else { Err(format!("it answers HTTP {status}")) }
}

fn message(hub: &Hub) -> String {
    let now_ms = unix_ms();
    let processes = hub.processes();
    let live = processes.values().filter(|process| process.state(now_ms) == State::Live);
    let resources: Vec<_> = live
        .filter_map(|process| Some((&process.facts, &process.sample.as_ref()?.1, process.epoch_ms)))
        .map(|(facts, sample, epoch_ms)| resource(facts, sample, (epoch_ms * 1e6) as u64, now_ms * 1_000_000))
        .collect();
    json!({ "resourceMetrics": resources }).to_string()
}

/// One process. Numbers of 64 bits are texts in this format.
fn resource(facts: &Facts, sample: &Sample, started: u64, now: u64) -> Value {
    let (name, version) = facts.python.split_once(' ').unwrap_or((&facts.python, ""));
    let attributes = attributes(&[
        ("service.name", facts.command.split_whitespace().next().unwrap_or("python")),
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
        let status = &sample.status;
        let generations = [status.gc.young.count, status.gc.middle.count, status.gc.full.count];
        let by_generation = generations
            .iter()
            .enumerate()
            .map(|(generation, count)| self.point(*count as f64, vec![integer("cpython.gc.generation", generation)]));
        let pauses =
            pauses(sample).map(|(kind, pauses)| self.histogram_point(pauses, attributes(&[("neurogc.gc.kind", kind)])));
        let direction = |value: u64, key: &str, word: &str| self.point(value as f64, attributes(&[(key, word)]));
        vec![
            sum("cpython.gc.collections", "{collection}", true, by_generation.collect()),
            sum("cpython.gc.collected_objects", "{object}", true, vec![self.point(status.gc.collected as f64, vec![])]),
            sum(
                "cpython.gc.uncollectable_objects",
                "{object}",
                true,
                vec![self.point(status.gc.uncollectable as f64, vec![])],
            ),
            gauge("process.cpu.utilization", "1", self.point(status.cpu.percent / 100.0, vec![])),
            sum("process.memory.usage", "By", false, vec![self.point(status.memory.rss as f64, vec![])]),
            sum("process.memory.virtual", "By", false, vec![self.point(status.memory.vms as f64, vec![])]),
            sum(
                "process.disk.io",
                "By",
                true,
                vec![
                    direction(status.io.read_bytes, "disk.io.direction", "read"),
                    direction(status.io.write_bytes, "disk.io.direction", "write"),
                ],
            ),
            sum(
                "process.network.io",
                "By",
                true,
                vec![
                    direction(status.net.sent_bytes, "network.io.direction", "transmit"),
                    direction(status.net.recv_bytes, "network.io.direction", "receive"),
                ],
            ),
            sum(
                "process.unix.file_descriptor.count",
                "{file_descriptor}",
                false,
                vec![self.point(status.fds as f64, vec![])],
            ),
            sum("process.thread.count", "{thread}", false, vec![self.point(status.threads as f64, vec![])]),
            gauge("process.uptime", "s", self.point(status.uptime_s, vec![])),
            histogram("neurogc.request.duration", vec![self.histogram_point(&sample.latency, vec![])]),
            histogram("neurogc.request.wait", vec![self.histogram_point(&sample.wait, vec![])]),
            histogram("neurogc.request.service", vec![self.histogram_point(&sample.service, vec![])]),
            histogram("neurogc.gc.pause", pauses.collect()),
            histogram("neurogc.stall.duration", vec![self.histogram_point(&sample.stalls, vec![])]),
        ]
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

fn integer(key: &str, value: usize) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

/// Sums are cumulative, which OpenTelemetry writes as 2.
fn sum(name: &str, unit: &str, monotonic: bool, points: Vec<Value>) -> Value {
    let data = json!({"aggregationTemporality": 2, "isMonotonic": monotonic, "dataPoints": points});
    json!({"name": name, "unit": unit, "sum": data})
}

fn gauge(name: &str, unit: &str, point: Value) -> Value {
    json!({"name": name, "unit": unit, "gauge": {"dataPoints": [point]}})
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
        let read = |text: &str| text.parse::<Collector>().map(|it| format!("{}{}", it.address, it.path));
        assert_eq!(read("http://127.0.0.1").unwrap(), "127.0.0.1:4318/v1/metrics");
        assert_eq!(read("http://otel:80/x/metrics").unwrap(), "otel:80/x/metrics");
        assert!(read("https://otel").is_err() && read("otel:80").is_err());
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
