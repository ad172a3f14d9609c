//! What the catalogue says about one figure.

use super::series::Fold;
use crate::breakdown::MallocKind;
use crate::report::Sample;
use crate::sites::AllocationMode;

/// What a figure counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things: requests, objects, collections.
    Count,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Megabytes of 1,000,000 bytes.
    Megabytes,
    /// Percent, 100 being one core where processors are meant.
    Percent,
    /// A share from 0 to 1, or above.
    Ratio,
    /// Things per second.
    PerSecond,
    /// It is no quantity.
    None,
}

impl Unit {
    /// How it is written in tables and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::Megabytes => "MB",
            Self::Percent => "percent",
            Self::Ratio => "ratio",
            Self::PerSecond => "1/s",
            Self::None => "",
        }
    }

    /// The unit of its growth per second.
    #[must_use]
    pub const fn rate_name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms/s",
            Self::Bytes => "bytes/s",
            _ => "1/s",
        }
    }

    /// By what a value is multiplied for Prometheus and OpenTelemetry, which count in seconds, bytes and ratios.
    #[must_use]
    pub const fn to_base(self) -> f64 {
        match self {
            Self::Milliseconds => 1e-3,
            Self::Percent => 1e-2,
            Self::Megabytes => 1e6,
            _ => 1.0,
        }
    }
}

/// What kind of figure it is, and how several values over time become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigureKind {
    /// It only grows while the agent runs; over time its growth per second counts.
    Counter,
    /// The value of the moment.
    Gauge(Fold),
    /// This share of all durations since the agent was installed was not longer.
    Quantile(f64),
    /// The largest value since the agent was installed.
    Largest,
    /// A text.
    Text,
    /// True or false.
    Switch,
    /// A list; as a number it is its length.
    List,
}

impl FigureKind {
    /// How it is written in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge(_) => "gauge",
            Self::Quantile(_) => "quantile",
            Self::Largest => "maximum",
            Self::Text => "text",
            Self::Switch => "true or false",
            Self::List => "list",
        }
    }
}

/// How the values of several processes become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Across {
    /// Their sum.
    Sum,
    /// The largest.
    Max,
    /// Read from the merged histogram: percentiles cannot be added or averaged.
    Merged,
    /// Not at all: it belongs to one process.
    Apart,
}

impl Across {
    /// How it is written in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Merged => "merged histogram",
            Self::Apart => "",
        }
    }
}

/// Takes a value with its labels.
pub type Sink<'s> = &'s mut dyn FnMut(&[(&str, &str)], f64);

/// Reads all values of a figure.
pub type ReadEach = fn(&Sample, Sink<'_>);

/// A metric for Prometheus. Several figures may share one and differ in labels.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its help; empty where it is that of the figure.
    pub help: &'static str,
    /// The labels of this figure.
    pub labels: &'static [(&'static str, &'static str)],
}

impl Metric {
    /// A metric that several figures share.
    pub(super) const fn shared(name: &'static str, help: &'static str) -> Self {
        Self { name, help, labels: &[] }
    }

    /// The part of it that has these labels.
    pub(super) const fn with(self, labels: &'static [(&'static str, &'static str)]) -> Self {
        Self { labels, ..self }
    }
}

/// A metric in which the course of a figure can be found.
#[derive(Clone, Copy, Debug)]
pub struct FoundIn {
    /// Its name.
    pub metric: &'static str,
    /// The labels of the part that counts.
    pub labels: &'static [(&'static str, &'static str)],
    /// Labels whose values are added up.
    pub summed: &'static [&'static str],
}

/// The value of an attribute of OpenTelemetry.
#[derive(Clone, Copy, Debug)]
pub enum Attribute<'t> {
    /// A text.
    Text(&'t str),
    /// A whole number.
    Integer(u32),
}

/// A metric for OpenTelemetry. Figures of the same name are points of one metric.
#[derive(Clone, Copy, Debug)]
pub struct Otlp {
    /// Its name: that of the semantic conventions where they have one.
    pub name: &'static str,
    /// Its unit, as OpenTelemetry writes units.
    pub unit: &'static str,
    /// What tells its points apart.
    pub attribute: Option<(&'static str, Attribute<'static>)>,
    /// The key for the label that tells several values of one figure apart.
    pub label: Option<&'static str>,
}

/// One figure of the status report.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its place in the report: `gc.young.count`; `children[].rss` for a field of the elements of a list.
    pub path: &'static str,
    /// What kind it is.
    pub kind: FigureKind,
    /// What it counts in.
    pub unit: Unit,
    /// How the values of several processes become one.
    pub across: Across,
    /// What it is, in a few words.
    pub help: &'static str,
    /// How to read it; empty where the help says everything.
    pub note: &'static str,
    /// The series that the hub keeps of it.
    pub series: Option<&'static str>,
    /// Its metric for Prometheus.
    pub prometheus: Option<Metric>,
    /// Where Prometheus has its course, if it has no metric of its own.
    pub found_in: Option<FoundIn>,
    /// Its metric for OpenTelemetry.
    pub otlp: Option<Otlp>,
    /// The label of `neurogc_process_info` that it is.
    pub info: Option<&'static str>,
    /// Its value, where it is one number.
    pub read: fn(&Sample) -> Option<f64>,
    /// Its value, where it is one text.
    pub read_text: fn(&Sample) -> Option<&str>,
    /// Its values with labels, where they are several, and the names of the labels.
    pub each: Option<(&'static [&'static str], ReadEach)>,
}

impl Figure {
    pub(super) const fn new(
        path: &'static str,
        read: fn(&Sample) -> Option<f64>,
        read_text: fn(&Sample) -> Option<&str>,
    ) -> Self {
        Self {
            path,
            kind: FigureKind::Text,
            unit: Unit::None,
            across: Across::Apart,
            help: "",
            note: "",
            series: None,
            prometheus: None,
            found_in: None,
            otlp: None,
            info: None,
            read,
            read_text,
            each: None,
        }
    }

    /// It only grows.
    pub(super) const fn counter(self, unit: Unit, help: &'static str) -> Self {
        Self { kind: FigureKind::Counter, unit, across: Across::Sum, help, ..self }
    }

    /// It is the value of the moment; of several the largest is kept.
    pub(super) const fn peak(self, unit: Unit, help: &'static str) -> Self {
        Self { kind: FigureKind::Gauge(Fold::Max), unit, across: Across::Sum, help, ..self }
    }

    /// It is the value of the moment; of several the mean is kept.
    pub(super) const fn mean(self, unit: Unit, help: &'static str) -> Self {
        Self { kind: FigureKind::Gauge(Fold::Mean), unit, across: Across::Sum, help, ..self }
    }

    /// It is the value of the moment; of several the latest is kept.
    pub(super) const fn latest(self, unit: Unit, help: &'static str) -> Self {
        Self { kind: FigureKind::Gauge(Fold::Last), unit, across: Across::Sum, help, ..self }
    }

    /// It is a percentile of durations.
    pub(super) const fn quantile(self, share: f64, help: &'static str) -> Self {
        let kind = FigureKind::Quantile(share);
        Self { kind, unit: Unit::Milliseconds, across: Across::Merged, help, ..self }
    }

    /// It is the largest value so far.
    pub(super) const fn largest(self, unit: Unit, help: &'static str) -> Self {
        Self { kind: FigureKind::Largest, unit, across: Across::Max, help, ..self }
    }

    /// It is a text.
    pub(super) const fn text(self, help: &'static str) -> Self {
        Self { kind: FigureKind::Text, help, ..self }
    }

    /// It is true or false.
    pub(super) const fn switch(self, help: &'static str) -> Self {
        Self { kind: FigureKind::Switch, help, ..self }
    }

    /// It is a list.
    pub(super) const fn list(self, help: &'static str) -> Self {
        Self { kind: FigureKind::List, unit: Unit::Count, help, ..self }
    }

    /// How the values of several processes become one, where it is not the usual way of the kind.
    pub(super) const fn across(self, across: Across) -> Self {
        Self { across, ..self }
    }

    /// How to read it.
    pub(super) const fn note(self, note: &'static str) -> Self {
        Self { note, ..self }
    }

    /// The hub keeps it under this name: growth per second of a counter, the value of a gauge.
    pub(super) const fn series(self, name: &'static str) -> Self {
        Self { series: Some(name), ..self }
    }

    /// Its name for Prometheus.
    pub(super) const fn prometheus(self, name: &'static str) -> Self {
        self.metric(Metric { name, help: "", labels: &[] })
    }

    /// Its part of a metric for Prometheus.
    pub(super) const fn metric(self, metric: Metric) -> Self {
        Self { prometheus: Some(metric), ..self }
    }

    /// It has no metric, but this one says the same.
    pub(super) const fn found_in(
        self,
        metric: &'static str,
        labels: &'static [(&'static str, &'static str)],
        summed: &'static [&'static str],
    ) -> Self {
        Self { found_in: Some(FoundIn { metric, labels, summed }), ..self }
    }

    /// Its name and unit for OpenTelemetry.
    pub(super) const fn otlp(self, name: &'static str, unit: &'static str) -> Self {
        Self { otlp: Some(Otlp { name, unit, attribute: None, label: None }), ..self }
    }

    /// Its part of a metric for OpenTelemetry.
    pub(super) const fn otlp_part(
        self,
        name: &'static str,
        unit: &'static str,
        key: &'static str,
        value: Attribute<'static>,
    ) -> Self {
        Self { otlp: Some(Otlp { name, unit, attribute: Some((key, value)), label: None }), ..self }
    }

    /// Its name and unit for OpenTelemetry, and the key of what tells its values apart.
    pub(super) const fn otlp_each(self, name: &'static str, unit: &'static str, key: &'static str) -> Self {
        Self { otlp: Some(Otlp { name, unit, attribute: None, label: Some(key) }), ..self }
    }

    /// Prometheus gets it as this label of `neurogc_process_info`.
    pub(super) const fn info(self, label: &'static str) -> Self {
        Self { info: Some(label), ..self }
    }

    /// Its values, with labels of these names.
    pub(super) const fn each(self, labels: &'static [&'static str], each: ReadEach) -> Self {
        Self { each: Some((labels, each)), ..self }
    }

    /// All its values in the base units of Prometheus and OpenTelemetry, with the labels for Prometheus.
    pub fn values(&self, sample: &Sample, to: Sink<'_>) {
        let labels = self.prometheus.map_or(&[] as &[_], |metric| metric.labels);
        if let Some((_, each)) = self.each {
            each(sample, &mut |labels, value| to(labels, value * self.unit.to_base()));
        } else if let Some(value) = (self.read)(sample) {
            to(labels, value * self.unit.to_base());
        }
    }
}

/// A field of a report as a number or as a text, where it is one.
pub(super) trait Reading {
    /// The number.
    fn reading(&self) -> Option<f64> {
        None
    }

    /// The text.
    fn text(&self) -> Option<&str> {
        None
    }
}

impl Reading for u64 {
    fn reading(&self) -> Option<f64> {
        Some(*self as f64)
    }
}

impl Reading for u32 {
    fn reading(&self) -> Option<f64> {
        Some(f64::from(*self))
    }
}

impl Reading for f64 {
    fn reading(&self) -> Option<f64> {
        Some(*self)
    }
}

impl Reading for bool {
    fn reading(&self) -> Option<f64> {
        Some(f64::from(u8::from(*self)))
    }
}

impl Reading for Option<u64> {
    fn reading(&self) -> Option<f64> {
        self.map(|value| value as f64)
    }
}

impl Reading for String {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl Reading for AllocationMode {
    fn text(&self) -> Option<&str> {
        Some(self.name())
    }
}

impl Reading for MallocKind {
    fn text(&self) -> Option<&str> {
        Some(self.name())
    }
}

impl<T> Reading for Vec<T> {
    fn reading(&self) -> Option<f64> {
        Some(self.len() as f64)
    }
}

/// The figure at a place of the report. The path and the reader come from the same words, so they cannot differ.
macro_rules! figure {
    ($first:ident $(. $rest:ident)*) => {
        $crate::catalogue::figure::Figure::new(
            concat!(stringify!($first) $(, ".", stringify!($rest))*),
            |sample| $crate::catalogue::figure::Reading::reading(&sample.status.$first $(. $rest)*),
            |sample| $crate::catalogue::figure::Reading::text(&sample.status.$first $(. $rest)*),
        )
    };
}

/// A field of the elements of a list, or of a part that may be missing. As a number it has no value by itself.
macro_rules! item {
    ($path:literal) => {
        $crate::catalogue::figure::Figure::new($path, |_| None, |_| None)
    };
}

pub(super) use {figure, item};
