//! Metrics for Prometheus and what is compatible with it, sent by its remote write protocol (1.0): protobuf and snappy.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Outage;
use super::prometheus::{Labelled, MetricSink, each_process};
use crate::clock::unix_ms;
use crate::hub::Hub;
use crate::post::{Outgoing, PostAddress, PostConnection, SendFailure};

/// How often, and how long all messages of one moment may take.
const EVERY: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(12);

/// Series in one message. Receivers take some megabytes.
const MOST_SERIES: usize = 10_000;

/// Messages that wait to be sent: what is made is sent before more is made.
const WAITING: usize = 2;

/// What stands before the headers in the environment.
const HEADERS: &str = "NEUROGC_REMOTE_WRITE_HEADERS";

/// The label that Prometheus would add itself.
const JOB: (&str, &str) = ("job", "neurogc");

/// A receiver of remote write.
#[derive(Clone, Debug)]
pub struct RemoteWrite(PostAddress);

impl std::str::FromStr for RemoteWrite {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let to: PostAddress =
            text.parse().map_err(|_| "it must look like http://127.0.0.1:9090/api/v1/write".to_owned())?;
        let headers = std::env::var(HEADERS).unwrap_or_default();
        to.with_headers(&headers).map(Self).map_err(|error| format!("{HEADERS}: {error}"))
    }
}

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<SeriesLabel>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<SeriesSample>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Message)]
struct SeriesLabel {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct SeriesSample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// Sends for ever. A receiver that is away is told of on stderr once. What it does not take is not kept: the next message
/// has the newer values.
pub(crate) async fn export(hub: Arc<Hub>, to: RemoteWrite) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut outage = Outage::new("metrics", &to.0);
    loop {
        ticks.tick().await;
        let sent = timeout(PATIENCE, send(&hub, &to.0)).await;
        outage.note(sent.unwrap_or_else(|_| Err(SendFailure::Passing("it takes too long".to_owned()))));
    }
}

async fn send(hub: &Arc<Hub>, to: &PostAddress) -> Result<(), SendFailure> {
    let (messages, mut made) = tokio::sync::mpsc::channel(WAITING);
    let hub = Arc::clone(hub);
    let maker = tokio::task::spawn_blocking(move || {
        let now = unix_ms().cast_signed();
        let mut batch = Batch {
            now,
            series: Vec::new(),
            full: |series| messages.blocking_send(packed(series)).is_ok(),
            open: true,
        };
        each_process(&hub, &mut batch);
        batch.flush();
    });
    let mut connection = None;
    while let Some(message) = made.recv().await {
        let connection = match &mut connection {
            Some(connection) => connection,
            none => none.insert(PostConnection::open(to).await?),
        };
        connection.post(message).await?;
    }
    maker.await.map_err(|error| SendFailure::Passing(error.to_string()))
}

/// A message as it is sent.
fn packed(timeseries: Vec<TimeSeries>) -> Outgoing {
    let plain = WriteRequest { timeseries }.encode_to_vec();
    // It only fails for more than 4 GB.
    let packed = snap::raw::Encoder::new().compress_vec(&plain).unwrap_or_default();
    Outgoing::new("application/x-protobuf", packed)
        .with("content-encoding", "snappy")
        .with("x-prometheus-remote-write-version", "0.1.0")
}

/// Series until there are enough for a message. When nothing takes them any more, the rest is left out.
struct Batch<F> {
    now: i64,
    series: Vec<TimeSeries>,
    full: F,
    open: bool,
}

impl<F: FnMut(Vec<TimeSeries>) -> bool> Batch<F> {
    fn flush(&mut self) {
        let series = std::mem::take(&mut self.series);
        if self.open && !series.is_empty() {
            self.open = (self.full)(series);
        }
    }
}

impl<F: FnMut(Vec<TimeSeries>) -> bool> MetricSink for Batch<F> {
    fn head(&mut self, _: &str, _: &str, _: &str) {}

    fn line(&mut self, name: &str, process: Labelled<'_>, labels: &[(&str, &str)], value: f64) {
        if !self.open {
            return;
        }
        let mut all = Vec::with_capacity(labels.len() + 7);
        let mut add = |name: &str, value: &str| {
            all.push(SeriesLabel { name: name.to_owned(), value: value.to_owned() });
        };
        add("__name__", name);
        add(JOB.0, JOB.1);
        process.each_label(name, &mut add);
        for (name, value) in labels {
            add(name, value);
        }
        // A label without a value is none; the receiver wants them in order.
        all.retain(|label| !label.value.is_empty());
        all.sort_unstable();
        self.series.push(TimeSeries { labels: all, samples: vec![SeriesSample { value, timestamp: self.now }] });
        if self.series.len() == MOST_SERIES {
            self.flush();
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_protobuf_in_snappy() {
        let label = |name: &str, value: &str| SeriesLabel { name: name.to_owned(), value: value.to_owned() };
        let series = TimeSeries {
            labels: vec![label("__name__", "a"), label("b", "c")],
            samples: vec![SeriesSample { value: 1.5, timestamp: 1000 }],
        };
        let plain = WriteRequest { timeseries: vec![series] }.encode_to_vec();
        // As `protoc` writes it.
        let wanted = b"\x0a\x25\x0a\x0d\x0a\x08__name__\x12\x01a\x0a\x06\x0a\x01b\x12\x01c\x12\x0c\x09\0\0\0\0\0\0\xf8\x3f\x10\xe8\x07";
        assert_eq!(plain, wanted);
        assert_eq!(WriteRequest::decode(plain.as_slice()).unwrap().timeseries.len(), 1);
    }

    #[test]
    fn an_address_needs_its_path() {
        assert!("http://127.0.0.1:9090/api/v1/write".parse::<RemoteWrite>().is_ok());
        assert!("127.0.0.1:9090".parse::<RemoteWrite>().is_err());
    }

    #[test]
    fn what_nothing_takes_is_left_out() {
        let mut taken = 0;
        let series = || vec![TimeSeries::default()];
        let mut batch = Batch {
            now: 0,
            series: series(),
            full: |_: Vec<TimeSeries>| {
                taken += 1;
                false
            },
            open: true,
        };
        batch.flush();
        batch.series = series();
        batch.flush();
        assert_eq!(taken, 1);
    }
}
