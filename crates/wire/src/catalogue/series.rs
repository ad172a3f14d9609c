//! The series that a hub keeps: those of single figures, and those that are computed from several.

use serde::Serialize;

use super::distributions::{PAUSES, REQUESTS, SERVED, STALLS, WAITS};
use super::figure::{Figure, FigureKind, FoundIn, Unit};
use super::figures;
use super::promql::Stored;
use crate::buckets::Buckets;
use crate::report::Sample;
use crate::status::Compared;

/// How several values over time become one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// Their mean.
    Mean,
    /// The largest.
    Max,
    /// The latest.
    Last,
    /// Taken from the merged histogram of request latencies, never from other percentiles.
    #[serde(serialize_with = "as_quantile", untagged)]
    Quantile(f64),
}

fn as_quantile<S: serde::Serializer>(_: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str("quantile")
}

impl Fold {
    /// How it is written in tables and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Max => "max",
            Self::Last => "last",
            Self::Quantile(_) => "quantile",
        }
    }
}

/// Two samples of one process and the time between them.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'s> {
    /// The earlier one.
    pub before: &'s Sample,
    /// The later one.
    pub after: &'s Sample,
    /// Time between them.
    pub seconds: f64,
    /// Latencies of the requests that ended in it.
    pub latency: &'s Buckets,
    /// Lengths of the collections in it.
    pub pauses: &'s Buckets,
    /// Lengths of the stalls in it.
    pub stalls: &'s Buckets,
}

/// How the value of a series over an interval is found.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// From one figure.
    Figure(&'static Figure),
    /// By a computation; Prometheus has it as this, if at all.
    Computed(fn(&Interval<'_>) -> Option<f64>, Option<Stored>),
}

/// One series.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Series {
    /// Its name.
    pub name: &'static str,
    /// What its values are in.
    pub unit: &'static str,
    /// How it is down-sampled.
    pub fold: Fold,
    /// What it is.
    pub help: &'static str,
    #[serde(skip)]
    source: Source,
}

impl Series {
    /// The series of a figure, where it has one.
    fn of(figure: &'static Figure) -> Option<Self> {
        let (unit, fold) = match figure.kind {
            FigureKind::Counter => (figure.unit.rate_name(), Fold::Mean),
            FigureKind::Gauge(fold) => (figure.unit.name(), fold),
            FigureKind::Quantile(share) => (figure.unit.name(), Fold::Quantile(share)),
            FigureKind::List => (figure.unit.name(), Fold::Max),
            FigureKind::Largest | FigureKind::Text | FigureKind::Switch => return None,
        };
        Some(Self { name: figure.series?, unit, fold, help: figure.help, source: Source::Figure(figure) })
    }

    /// Its value over an interval; `None` for quantiles, which are read from the histogram, and for what was not measured.
    #[must_use]
    pub fn read(&self, interval: &Interval<'_>) -> Option<f64> {
        match self.source {
            Source::Figure(figure) => match figure.kind {
                FigureKind::Counter => interval.rate(figure.read),
                FigureKind::Quantile(_) => None,
                _ => (figure.read)(interval.after),
            },
            Source::Computed(read, _) => read(interval),
        }
    }

    /// What Prometheus has of it; `None` for quantiles, which are read from the histogram, and for what it does not have.
    pub(super) fn stored(&self) -> Option<Stored> {
        let figure = match self.source {
            Source::Figure(figure) => figure,
            Source::Computed(_, stored) => return stored,
        };
        let own = figure.prometheus.map(|it| FoundIn { metric: it.name, labels: it.labels, summed: &[] });
        let part = own.or(figure.found_in)?;
        let scale = 1.0 / figure.unit.to_base();
        match figure.kind {
            FigureKind::Counter => Some(Stored::Rate { part, scale }),
            FigureKind::Quantile(_) => None,
            _ => Some(Stored::Value { part, scale, fold: self.fold }),
        }
    }
}

impl Interval<'_> {
    /// How fast a figure has grown. One that fell belongs to an agent that began anew.
    fn rate(&self, of: fn(&Sample) -> Option<f64>) -> Option<f64> {
        Some((of(self.after)? - of(self.before)?) / self.seconds).filter(|rate| *rate >= 0.0)
    }

    /// The latest gap of which a model has said something, where one has ended meanwhile.
    fn foreseen(&self) -> Option<&Compared> {
        let gaps = self.before.status.conduct.model.as_ref().map_or(0, |model| model.gaps);
        self.after.status.conduct.model.as_ref().filter(|model| model.gaps != gaps)?.latest.as_ref()
    }

    /// A bucket says it roughly; what is known of the longest ever says it better.
    fn longest_pause_ms(&self) -> f64 {
        let gc = &self.after.status.gc;
        let known = [gc.young.max_ms, gc.middle.max_ms, gc.full.max_ms, gc.reap.max_ms, gc.snapshot.clone_max_ms];
        self.pauses.max_ms().unwrap_or(0.0).min(known.into_iter().fold(0.0, f64::max))
    }
}

const fn computed(
    name: &'static str,
    unit: &'static str,
    fold: Fold,
    help: &'static str,
    stored: Option<Stored>,
    read: fn(&Interval<'_>) -> Option<f64>,
) -> Series {
    Series { name, unit, fold, help, source: Source::Computed(read, stored) }
}

const MS: &str = Unit::Milliseconds.name();

/// Series that are not the course of one figure.
const COMPUTED: &[Series] = &[
    computed("requests.max_ms", MS, Fold::Max, "The longest request", Some(Stored::longest(REQUESTS)), |it| {
        it.latency.max_ms().map(|longest| longest.min(it.after.status.requests.max_ms))
    }),
    computed(
        "requests.wait_max_ms",
        MS,
        Fold::Max,
        "The longest wait of a request for the application",
        Some(Stored::longest(WAITS)),
        |it| it.after.wait.buckets.since(&it.before.wait.buckets).max_ms(),
    ),
    computed(
        "requests.service_max_ms",
        MS,
        Fold::Max,
        "The longest service of a request, without its wait",
        Some(Stored::longest(SERVED)),
        |it| it.after.service.buckets.since(&it.before.service.buckets).max_ms(),
    ),
    computed(
        "requests.rps",
        "1/s",
        Fold::Mean,
        "Requests ended",
        Some(Stored::rate("neurogc_requests_total", 1.0, &[])),
        |it| it.rate(|sample| Some(sample.status.requests.count as f64)),
    ),
    computed("gc.max_ms", MS, Fold::Max, "The longest collection pause", Some(Stored::longest_or_none(PAUSES)), |it| {
        Some(it.longest_pause_ms())
    }),
    computed(
        "gc.paused_ms",
        "ms/s",
        Fold::Mean,
        "Time spent in collections",
        Some(Stored::rate("neurogc_gc_pause_seconds_sum", 1e3, &["kind"])),
        |it| it.rate(|sample| Some(sample.pauses.values().map(|kind| kind.total_ms).sum())),
    ),
    computed("stalls.max_ms", MS, Fold::Max, "The longest stall", Some(Stored::longest_or_none(STALLS)), |it| {
        Some(it.stalls.max_ms().unwrap_or(0.0).min(it.after.status.stalls.max_ms))
    }),
    computed(
        "gil.busy_percent",
        "percent",
        Fold::Mean,
        "Share of time in which a thread held the GIL",
        Some(Stored::Share { metric: "neurogc_gil_seconds_total", part: ("state", "busy") }),
        |it| {
            let busy = it.after.gil_busy_ms - it.before.gil_busy_ms;
            let idle = it.after.gil_idle_ms - it.before.gil_idle_ms;
            (busy >= 0.0 && idle >= 0.0 && busy + idle > 0.0).then(|| 100.0 * busy / (busy + idle))
        },
    ),
    computed(
        "memory.children",
        "bytes",
        Fold::Max,
        "Resident sets of the child processes",
        Some(Stored::largest("neurogc_children_rss_bytes")),
        |it| Some(it.after.status.children.iter().map(|child| child.rss as f64).sum()),
    ),
    computed("conduct.gap_ms", MS, Fold::Last, "How long the latest gap lasted that a model foresaw", None, |it| {
        it.foreseen().map(|gap| gap.lasted_ms)
    }),
    computed(
        "conduct.gap_p10_ms",
        MS,
        Fold::Last,
        "By when the model expected it to be over in 10 of 100 cases",
        None,
        |it| it.foreseen()?.expected_ms.first().copied(),
    ),
    computed("conduct.gap_p50_ms", MS, Fold::Last, "By when in half of them", None, |it| {
        it.foreseen()?.expected_ms.get(2).copied()
    }),
    computed("conduct.gap_p90_ms", MS, Fold::Last, "By when in 90 of 100", None, |it| {
        it.foreseen()?.expected_ms.last().copied()
    }),
    computed(
        "agent.cpu_percent",
        "percent",
        Fold::Mean,
        "Processor use of the agent itself",
        Some(Stored::rate("neurogc_agent_cpu_seconds_total", 100.0, &[])),
        |it| it.rate(|sample| Some(sample.status.agent.cpu_ms / 10.0)),
    ),
];

/// Every series there is, those with the same first word together.
#[must_use]
pub fn all() -> Vec<Series> {
    let mut words: Vec<&str> = Vec::new();
    let mut series: Vec<Series> = figures().filter_map(Series::of).chain(COMPUTED.iter().copied()).collect();
    let word = |series: &Series| series.name.split('.').next().unwrap_or_default();
    for series in &series {
        if !words.contains(&word(series)) {
            words.push(word(series));
        }
    }
    series.sort_by_key(|series| words.iter().position(|known| *known == word(series)));
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_once() {
        let mut names: Vec<_> = all().iter().map(|series| series.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_figure_that_asks_for_a_series_gets_one() {
        let wanted = figures().filter(|figure| figure.series.is_some()).count();
        assert_eq!(all().len(), wanted + COMPUTED.len());
    }

    #[test]
    fn a_fold_is_written_by_its_name() {
        let written = serde_json::to_value([Fold::Mean, Fold::Quantile(0.5)]).unwrap_or_default();
        assert_eq!(written, serde_json::json!(["mean", "quantile"]));
        assert_eq!([Fold::Mean, Fold::Quantile(0.5)].map(Fold::name), ["mean", "quantile"]);
    }

    #[test]
    fn a_counter_becomes_a_rate_and_a_gauge_stays_what_it_is() {
        let (before, mut after) = (Sample::default(), Sample::default());
        after.status.gc.young.count = 10;
        after.status.memory.rss = 4096;
        let none = Buckets::default();
        let value = |before: &Sample, after: &Sample, name: &str| {
            let it = Interval { before, after, seconds: 2.0, latency: &none, pauses: &none, stalls: &none };
            all().iter().find(|series| series.name == name)?.read(&it)
        };
        assert_eq!(value(&before, &after, "gc.young"), Some(5.0));
        assert_eq!(value(&before, &after, "memory.rss"), Some(4096.0));
        // The agent began anew.
        assert_eq!(value(&after, &before, "gc.young"), None);
    }
}
