//! The messages of OpenTelemetry's metrics, as far as they are sent: as protobuf, and as the JSON of the same.

use prost::Message;
use serde::{Serialize, Serializer};

/// Numbers of 64 bits are texts in JSON.
fn text<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(number)
}

fn signed_text<S: Serializer>(number: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(number)
}

fn texts<S: Serializer>(numbers: &[u64], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(numbers.iter().map(u64::to_string))
}

/// What is sent.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_metrics: Vec<ResourceMetrics>,
}

/// The metrics of one process.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<OtlpScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) metrics: Vec<ExportedMetric>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct OtlpScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct ExportedMetric {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "3")]
    pub(super) unit: String,
    #[prost(oneof = "MetricData", tags = "5, 7, 9")]
    #[serde(flatten)]
    pub(super) data: Option<MetricData>,
}

#[derive(Clone, PartialEq, prost::Oneof, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum MetricData {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(OtlpSum),
    #[prost(message, tag = "9")]
    Histogram(OtlpHistogram),
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OtlpSum {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<NumberPoint>,
    #[prost(int32, tag = "2")]
    pub(super) aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub(super) is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OtlpHistogram {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    pub(super) aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NumberPoint {
    #[prost(message, repeated, tag = "7")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    #[serde(serialize_with = "text")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    #[serde(serialize_with = "text")]
    pub(super) time_unix_nano: u64,
    /// In a group of its own, so that zero is sent too.
    #[prost(double, optional, tag = "4")]
    pub(super) as_double: Option<f64>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistogramPoint {
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    #[serde(serialize_with = "text")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    #[serde(serialize_with = "text")]
    pub(super) time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    #[serde(serialize_with = "text")]
    pub(super) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(super) sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    #[serde(serialize_with = "texts")]
    pub(super) bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub(super) explicit_bounds: Vec<f64>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct AnyValue {
    #[prost(oneof = "AttributeValue", tags = "1, 3")]
    #[serde(flatten)]
    pub(super) value: Option<AttributeValue>,
}

#[derive(Clone, PartialEq, prost::Oneof, Serialize)]
pub(super) enum AttributeValue {
    #[prost(string, tag = "1")]
    #[serde(rename = "stringValue")]
    Text(String),
    #[prost(int64, tag = "3")]
    #[serde(rename = "intValue", serialize_with = "signed_text")]
    Integer(i64),
}

impl KeyValue {
    pub(super) fn new(key: &str, value: AttributeValue) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }

    pub(super) fn text(key: &str, value: &str) -> Self {
        Self::new(key, AttributeValue::Text(value.to_owned()))
    }
}
