//! The figures of a trial: their names, how they are written, and which way is better.

use crate::figures::{bytes, count, ms};

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FigureUnit {
    Milliseconds,
    Bytes,
    Count,
    PerSecond,
    Percent,
    /// Signed, because it may shrink.
    BytesPerSecond,
    /// One for a service that the kernel killed, zero for one that lived.
    Killed,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
    /// It is shown, not judged.
    Neither,
}

/// One figure.
#[derive(Debug)]
pub(crate) struct BenchMetric {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: FigureUnit,
    pub(crate) better: Better,
}

const fn metric(name: &'static str, title: &'static str, unit: FigureUnit, better: Better) -> BenchMetric {
    BenchMetric { name, title, unit, better }
}

/// All of them, in the order of the tables.
pub(crate) const CATALOGUE: &[BenchMetric] = &[
    metric("p50_ms", "p50", FigureUnit::Milliseconds, Better::Less),
    metric("p95_ms", "p95", FigureUnit::Milliseconds, Better::Less),
    metric("p99_ms", "p99", FigureUnit::Milliseconds, Better::Less),
    metric("p999_ms", "p99.9", FigureUnit::Milliseconds, Better::Less),
    metric("max_ms", "max", FigureUnit::Milliseconds, Better::Less),
    metric("time_ms", "time", FigureUnit::Milliseconds, Better::Less),
    metric("per_second", "per second", FigureUnit::PerSecond, Better::More),
    metric("overload_per_second", "per second in the rush", FigureUnit::PerSecond, Better::More),
    metric("stop_max_ms", "longest stop", FigureUnit::Milliseconds, Better::Less),
    metric("in_request_count", "GC in requests", FigureUnit::Count, Better::Neither),
    metric("in_request_ms", "for", FigureUnit::Milliseconds, Better::Less),
    metric("in_request_max_ms", "longest", FigureUnit::Milliseconds, Better::Less),
    metric("in_gap_count", "GC in gaps", FigureUnit::Count, Better::Neither),
    metric("in_gap_ms", "for", FigureUnit::Milliseconds, Better::Neither),
    metric("in_gap_max_ms", "longest", FigureUnit::Milliseconds, Better::Neither),
    metric("full_count", "full GC", FigureUnit::Count, Better::Neither),
    metric("forced_count", "forced", FigureUnit::Count, Better::Neither),
    metric("snapshot_count", "snapshots", FigureUnit::Count, Better::Neither),
    metric("clone_max_ms", "longest clone", FigureUnit::Milliseconds, Better::Neither),
    metric("stalls", "stalls", FigureUnit::Count, Better::Less),
    metric("cpu_percent", "CPU", FigureUnit::Percent, Better::Neither),
    metric("cpu_each_ms", "CPU for each", FigureUnit::Milliseconds, Better::Less),
    metric("rss_peak", "peak RSS", FigureUnit::Bytes, Better::Less),
    metric("rss_trend", "RSS trend", FigureUnit::BytesPerSecond, Better::Neither),
    metric("rss_mean", "mean RSS", FigureUnit::Bytes, Better::Less),
    metric("all_peak", "peak with clones", FigureUnit::Bytes, Better::Less),
    metric("all_mean", "mean with clones", FigureUnit::Bytes, Better::Less),
    metric("killed", "out of memory", FigureUnit::Killed, Better::Less),
    metric("group_peak", "peak cgroup", FigureUnit::Bytes, Better::Less),
    metric("garbage", "garbage left", FigureUnit::Count, Better::Neither),
    metric("failed", "failed", FigureUnit::Count, Better::Less),
    metric("unanswered", "unanswered", FigureUnit::Count, Better::Less),
    metric("lateness_p99_ms", "generator late", FigureUnit::Milliseconds, Better::Neither),
];

impl BenchMetric {
    /// The one of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        CATALOGUE.iter().find(|metric| metric.name == name)
    }

    /// A value as a person reads it.
    pub(crate) fn show(&self, value: f64) -> String {
        match self.unit {
            FigureUnit::Milliseconds => ms(value),
            FigureUnit::Bytes => bytes(value.max(0.0) as u64),
            FigureUnit::Count => count(value.round().max(0.0) as u64),
            FigureUnit::PerSecond if value < 100.0 => format!("{value:.1}"),
            FigureUnit::PerSecond => count(value.round().max(0.0) as u64),
            FigureUnit::Percent => format!("{value:.0} %"),
            FigureUnit::BytesPerSecond => format!("{:+.1} MiB/s", value / f64::from(1 << 20)),
            FigureUnit::Killed => if value < 0.5 { "lived" } else { "killed" }.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_values_readable() {
        for (at, metric) in CATALOGUE.iter().enumerate() {
            assert!(CATALOGUE[..at].iter().all(|other| other.name != metric.name), "{}", metric.name);
        }
        let show = |name: &str, value| BenchMetric::find(name).map(|metric| metric.show(value)).unwrap_or_default();
        assert_eq!(show("p99_ms", 12.34), "12.3 ms");
        assert_eq!(show("rss_peak", 150.0 * 1024.0 * 1024.0), "150 MiB");
        assert_eq!(show("per_second", 1234.4), "1,234");
        assert_eq!(show("cpu_percent", 61.7), "62 %");
        assert_eq!(show("rss_trend", -2.5 * 1024.0 * 1024.0), "-2.5 MiB/s");
        assert_eq!((show("killed", 0.0), show("killed", 1.0)), ("lived".to_owned(), "killed".to_owned()));
    }
}
