//! The tables of a report, as cells: Markdown and HTML set them each in its own way.

use std::collections::BTreeSet;

use crate::bench::contender::{DEFAULT, EACH, OFF};
use crate::bench::metrics::{BenchMetric, Better, CATALOGUE, FigureUnit};
use crate::bench::record::{ContenderTrials, Measured};
use crate::bench::statistics::{Ratio, median};
use crate::figures::{bytes, ms};

/// A table: its heading and its rows.
#[derive(Debug, Default)]
pub(crate) struct ReportTable {
    pub(crate) heading: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// What stands where there is no figure.
const NONE: &str = "–";

/// Every contender with its figures. Figures that no contender has are left out.
pub(super) fn figures(measured: &Measured) -> ReportTable {
    let has = |metric: &&BenchMetric| measured.entries.iter().any(|entry| entry.median(metric.name).is_some());
    let metrics: Vec<&BenchMetric> = CATALOGUE.iter().filter(has).collect();
    let mut table = ReportTable { heading: vec![String::new()], rows: Vec::new() };
    table.heading.extend(metrics.iter().map(|metric| metric.title.to_owned()));
    for entry in &measured.entries {
        let mut row = vec![entry.title.clone()];
        row.extend(metrics.iter().map(|metric| figure(entry, metric)));
        table.rows.push(row);
    }
    table
}

/// A figure of one contender: the median of all runs, or how many of them ended in a kill.
fn figure(entry: &ContenderTrials, metric: &BenchMetric) -> String {
    let Some(median) = entry.median(metric.name) else { return NONE.to_owned() };
    if metric.unit != FigureUnit::Killed {
        return metric.show(median);
    }
    let values = entry.values(metric.name);
    match values.iter().filter(|(_, killed)| *killed > 0.0).count() {
        some if some > 0 && some < values.len() => format!("killed in {some} of {}", values.len()),
        _ => metric.show(median),
    }
}

/// What is compared, and with whom.
const RATIOS: &[(&str, &str)] = &[
    ("p50_ms", DEFAULT),
    ("p99_ms", DEFAULT),
    ("p999_ms", DEFAULT),
    ("max_ms", DEFAULT),
    ("time_ms", DEFAULT),
    ("per_second", DEFAULT),
    ("cpu_each_ms", DEFAULT),
    ("stop_max_ms", DEFAULT),
    ("rss_peak", DEFAULT),
    ("all_peak", DEFAULT),
    ("all_mean", DEFAULT),
    ("group_peak", DEFAULT),
    ("p50_ms", OFF),
    ("p99_ms", OFF),
    ("p999_ms", OFF),
    ("time_ms", OFF),
    ("rss_peak", EACH),
];

/// Every contender as ratios to CPython's default and to the limits.
pub(super) fn ratios(measured: &Measured) -> ReportTable {
    let has = |(metric, base): &&(&str, &str)| {
        measured.entry(base).is_some_and(|entry| entry.median(metric).is_some() && measured.entries.len() > 1)
    };
    let columns: Vec<_> = RATIOS.iter().filter(has).collect();
    let mut table = ReportTable { heading: vec![String::new()], rows: Vec::new() };
    if columns.is_empty() {
        return table;
    }
    table.heading.extend(columns.iter().map(|(metric, base)| {
        let title = BenchMetric::find(metric).map_or(*metric, |metric| metric.title);
        format!("{title} ÷ {base}")
    }));
    for entry in &measured.entries {
        let mut row = vec![entry.title.clone()];
        row.extend(columns.iter().map(|(metric, base)| {
            if entry.contender == *base {
                return "1".to_owned();
            }
            ratio(measured, &entry.contender, base, metric).map_or(NONE.to_owned(), show_ratio)
        }));
        table.rows.push(row);
    }
    table
}

/// Every program of a scenario that has several: its time with CPython's default, and the others' ratios to it.
pub(super) fn programs(measured: &Measured) -> ReportTable {
    let mut table = ReportTable { heading: vec![String::new()], rows: Vec::new() };
    let Some(default) = measured.entry(DEFAULT) else { return table };
    let names: BTreeSet<&String> = default.trials.iter().flat_map(|trial| trial.programs.keys()).collect();
    if names.is_empty() {
        return table;
    }
    let others: Vec<_> = measured.entries.iter().filter(|entry| entry.contender != DEFAULT).collect();
    table.heading.push(format!("time, {DEFAULT}"));
    table.heading.extend(others.iter().map(|entry| format!("{} ÷ {DEFAULT}", entry.contender)));
    for name in names {
        let base = default.program(name);
        let time = median(base.iter().map(|(_, time)| *time)).map_or(NONE.to_owned(), ms);
        let mut row = vec![name.clone(), time];
        row.extend(
            others.iter().map(|entry| Ratio::paired(&entry.program(name), &base).map_or(NONE.to_owned(), show_ratio)),
        );
        table.rows.push(row);
    }
    table
}

/// A figure of one contender against another's.
pub(super) fn ratio(measured: &Measured, contender: &str, base: &str, metric: &str) -> Option<Ratio> {
    Ratio::paired(&measured.entry(contender)?.values(metric), &measured.entry(base)?.values(metric))
}

fn show_ratio(ratio: Ratio) -> String {
    let digits = |value: f64| match value {
        small if small < 0.095 => format!("{small:.3}"),
        // The price of being there is a matter of thousandths.
        near if (0.9..1.1).contains(&near) => format!("{near:.3}"),
        middle if middle < 9.95 => format!("{middle:.2}"),
        large => format!("{large:.0}"),
    };
    if ratio.runs < 2 {
        return digits(ratio.mean);
    }
    let star = if ratio.is_clear() { "*" } else { "" };
    format!("{}{star} ({}–{})", digits(ratio.mean), digits(ratio.low), digits(ratio.high))
}

/// What was found out about a scenario before its first trial, in sentences.
pub(super) fn known(measured: &Measured) -> Vec<String> {
    let capacity = measured.capacity.filter(|capacity| *capacity > 0.0);
    let capacity = capacity.map(|it| format!("With the collector off, the service can do {it:.0} requests a second."));
    let limit = measured.limit.map(|it| {
        format!("The cgroup's limit is {}, a multiple of what CPython's default used without a limit.", bytes(it))
    });
    capacity.into_iter().chain(limit).collect()
}

/// How far runs lie apart: the lowest and the highest ratio of a run, of what matters most.
pub(super) fn spread(measured: &Measured) -> Option<String> {
    let metric = ["p99_ms", "time_ms"].into_iter().find(|name| {
        let default = measured.entry(DEFAULT);
        default.is_some_and(|entry| entry.median(name).is_some())
    })?;
    let title = BenchMetric::find(metric)?.title;
    let all: Vec<_> = measured
        .entries
        .iter()
        .filter(|entry| entry.contender != DEFAULT)
        .filter_map(|entry| {
            let ratio = ratio(measured, &entry.contender, DEFAULT, metric)?;
            (ratio.runs > 1).then(|| format!("{} {:.2}–{:.2}", entry.contender, ratio.spread.0, ratio.spread.1))
        })
        .collect();
    (!all.is_empty()).then(|| format!("Lowest and highest run of {title} ÷ default: {}.", all.join("; ")))
}

/// Who did not come to the end of a trial, and why.
pub(super) fn early_ends(measured: &Measured) -> Vec<String> {
    let ended = measured.entries.iter().filter_map(|entry| {
        let mut reasons = entry.trials.iter().filter_map(|trial| trial.ended_early.as_ref());
        let first = reasons.next()?;
        let (some, all) = (1 + reasons.count(), entry.trials.len());
        Some(format!("{}: {some} of {all} runs, for instance: {first}", entry.contender))
    });
    ended.collect()
}

/// What makes trials less than trustworthy, with how many trials it does.
pub(super) fn doubts(measured: &Measured) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in &measured.entries {
        if let Some(reason) = &entry.failed {
            lines.push(format!("{}: {reason}", entry.contender));
        }
        let doubtful: Vec<_> = entry.trials.iter().filter(|trial| !trial.doubts.is_empty()).collect();
        if let Some(first) = doubtful.first().and_then(|trial| trial.doubts.first()) {
            let (some, all) = (doubtful.len(), entry.trials.len());
            lines.push(format!("{}: {some} of {all} runs are doubtful, for instance: {first}", entry.contender));
        }
    }
    lines
}

/// Whether a figure of a contender is worth a colour: how it stands against CPython's default.
pub(super) fn better(measured: &Measured, contender: &str, metric: &BenchMetric) -> Option<bool> {
    let ratio = ratio(measured, contender, DEFAULT, metric.name).filter(Ratio::is_clear)?;
    match metric.better {
        Better::Less => Some(ratio.mean < 1.0),
        Better::More => Some(ratio.mean > 1.0),
        Better::Neither => None,
    }
}
