//! The series as questions in PromQL: how they are found again in a server that has the metrics of a hub.

use std::fmt::Write as _;

use super::distributions::REQUESTS;
use super::figure::FoundIn;
use super::series::{Fold, Series};

/// What a server like Prometheus has of a series.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stored {
    /// A value, times `scale`.
    Value { part: FoundIn, scale: f64, fold: Fold },
    /// The growth per second of a counter, times `scale`.
    Rate { part: FoundIn, scale: f64 },
    /// The bound of the highest bucket of a histogram that has grown, in milliseconds.
    Longest { histogram: &'static str, else_zero: bool },
    /// How much of the growth of a counter is one part of it, in percent.
    Share { metric: &'static str, part: (&'static str, &'static str) },
}

impl Stored {
    pub(super) const fn rate(metric: &'static str, scale: f64, summed: &'static [&'static str]) -> Self {
        Self::Rate { part: FoundIn { metric, labels: &[], summed }, scale }
    }

    pub(super) const fn largest(metric: &'static str) -> Self {
        Self::Value { part: FoundIn { metric, labels: &[], summed: &[] }, scale: 1.0, fold: Fold::Max }
    }

    pub(super) const fn longest(histogram: &'static str) -> Self {
        Self::Longest { histogram, else_zero: false }
    }

    /// The same with zero where nothing was counted.
    pub(super) const fn longest_or_none(histogram: &'static str) -> Self {
        Self::Longest { histogram, else_zero: true }
    }
}

/// Which processes a question is about, and how much time each of its values tells of.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'q> {
    /// Matchers of labels that choose the processes: `service="shop",host="a"`.
    pub matchers: &'q str,
    /// The labels that tell processes apart: `service, host`.
    pub by: &'q str,
    /// The time of a value, in seconds.
    pub value_s: u64,
    /// The time over which growth is measured, in seconds. It needs two samples.
    pub growth_s: u64,
}

impl Series {
    /// The series as a question, one line for each process; `None` for quantiles, for which [`Selection::latencies`] asks, and
    /// for what is not among the metrics.
    #[must_use]
    pub fn promql(&self, of: &Selection<'_>) -> Option<String> {
        Some(match self.stored()? {
            Stored::Value { part, scale, fold } => {
                let function = match fold {
                    Fold::Mean => "avg_over_time",
                    Fold::Max => "max_over_time",
                    Fold::Last | Fold::Quantile(_) => "last_over_time",
                };
                scaled(&of.once(&part, function, of.value_s), scale)
            }
            Stored::Rate { part, scale } => scaled(&of.once(&part, "rate", of.growth_s), scale),
            Stored::Longest { histogram, else_zero } => {
                let growth = of.range("rate", &format!("{histogram}_bucket"), &[], of.growth_s);
                let longest = format!("(1000 * histogram_quantile(1, sum by ({}, le) ({growth})) >= 0)", of.by);
                if else_zero {
                    // Without any growth it is not a number, which no comparison lets through.
                    let growth = of.range("rate", &format!("{histogram}_count"), &[], of.growth_s);
                    format!("({longest} or 0 * sum by ({}) ({growth}))", of.by)
                } else {
                    longest
                }
            }
            Stored::Share { metric, part } => {
                let (its, all) =
                    (of.range("rate", metric, &[part], of.growth_s), of.range("rate", metric, &[], of.growth_s));
                format!("(100 * sum by ({by}) ({its}) / (sum by ({by}) ({all}) > 0))", by = of.by)
            }
        })
    }
}

impl Selection<'_> {
    /// How many requests ended within each bound, as the time for growth tells it: one line for each process and bound `le`.
    #[must_use]
    pub fn latencies(&self) -> String {
        let growth = self.range("increase", &format!("{REQUESTS}_bucket"), &[], self.growth_s);
        format!("max by ({}, le) ({growth})", self.by)
    }

    /// A part of a metric, once for each process: a server may have it from two hubs, or scraped and written.
    fn once(&self, part: &FoundIn, function: &str, seconds: u64) -> String {
        let values = self.range(function, part.metric, part.labels, seconds);
        let by = self.by;
        if part.summed.is_empty() {
            format!("max by ({by}) ({values})")
        } else {
            format!("sum by ({by}) (max by ({by}, {}) ({values}))", part.summed.join(", "))
        }
    }

    fn range(&self, function: &str, metric: &str, labels: &[(&str, &str)], seconds: u64) -> String {
        let mut matchers = self.matchers.to_owned();
        for (name, value) in labels {
            let _ = write!(matchers, ",{name}=\"{value}\"");
        }
        format!("{function}({metric}{{{matchers}}}[{seconds}s])")
    }
}

fn scaled(values: &str, scale: f64) -> String {
    if scale == 1.0 { values.to_owned() } else { format!("{scale} * {values}") }
}

/// A text as it stands between quotation marks.
#[must_use]
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{HISTOGRAMS, metrics, series};
    use super::*;

    const SHOP: Selection<'_> = Selection { matchers: "service=\"shop\"", by: "service", value_s: 20, growth_s: 40 };

    fn check(name: &str, expect: Option<&str>) {
        let found = series::all().into_iter().find(|series| series.name == name);
        assert_eq!(found.and_then(|series| series.promql(&SHOP)).as_deref(), expect, "{name}");
    }

    #[test]
    fn questions_are_in_the_units_of_the_series() {
        check("memory.rss", Some("max by (service) (max_over_time(neurogc_memory_rss_bytes{service=\"shop\"}[20s]))"));
        check(
            "gc.in_gap_ms",
            Some(
                "1000 * max by (service) (rate(neurogc_gc_place_seconds_total{service=\"shop\",place=\"in_gap\"}[40s]))",
            ),
        );
        check("cpu.percent", Some("100 * max by (service) (avg_over_time(neurogc_cpu_ratio{service=\"shop\"}[20s]))"));
        check(
            "gpu.allocated",
            Some(
                "sum by (service) (max by (service, device) (max_over_time(neurogc_gpu_allocated_bytes{service=\"shop\"}[20s])))",
            ),
        );
        check("requests.p99_ms", None);
        check("conduct.gap_ms", None);
    }

    #[test]
    fn all_but_quantiles_and_forecasts_can_be_asked_for() {
        let missing: BTreeSet<_> =
            series::all().iter().filter(|it| it.promql(&SHOP).is_none()).map(|series| series.name).collect();
        let expect = [
            "conduct.gap_ms",
            "conduct.gap_p10_ms",
            "conduct.gap_p50_ms",
            "conduct.gap_p90_ms",
            "requests.p50_ms",
            "requests.p95_ms",
            "requests.p99_ms",
            "requests.p999_ms",
        ];
        assert_eq!(missing, BTreeSet::from(expect));
    }

    /// The names and labels that stand in a question must be those that a hub exports.
    #[test]
    fn questions_name_metrics_that_exist() {
        let mut known: BTreeSet<String> = metrics::prometheus().iter().map(|metric| metric.name.to_owned()).collect();
        for it in HISTOGRAMS {
            known.extend(["bucket", "sum", "count"].map(|part| format!("{}_{part}", it.prometheus)));
        }
        let is_name = |it: char| it.is_ascii_lowercase() || it == '_';
        let all = series::all();
        let asked: Vec<_> = all.iter().filter_map(|it| it.promql(&SHOP)).chain([SHOP.latencies()]).collect();
        let mut seen = BTreeSet::new();
        for question in &asked {
            for (place, _) in question.match_indices('{') {
                let before = &question[..place];
                let name = &before[before.rfind(|it| !is_name(it)).map_or(0, |end| end + 1)..];
                assert!(known.contains(name), "{name} in {question}");
                seen.insert(name.to_owned());
            }
        }
        assert!(seen.len() > 40, "{seen:?}");
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a\"b\\c\n"), r#""a\"b\\c\n""#);
    }
}
