//! The plots of a scenario: a page shows them, and a run keeps each in a file of its own.

use super::plots::{self, Curve, Dot};
use super::tables;
use crate::bench::contender::DEFAULT;
use crate::bench::course::{Courses, MemoryCourse};
use crate::bench::metrics::BenchMetric;
use crate::bench::record::{ContenderTrials, Measured, Trial};
use crate::bench::statistics::median;

/// The folder of a run that holds them.
pub(crate) const FOLDER: &str = "plots";

/// What a page says about plots, for those that stand alone.
const STYLE: &str = "<style>text { font: 11.5px sans-serif; fill: #333 } .rule { stroke: #8884; stroke-width: 1 }</style>\
                     <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";

/// One plot.
#[derive(Debug)]
pub(crate) struct Drawing {
    pub(crate) title: String,
    pub(crate) svg: String,
    /// What it shows, in a word for its file.
    what: &'static str,
}

impl Drawing {
    /// The name of its file in the folder of a run.
    pub(crate) fn path(&self, scenario: &str) -> String {
        format!("{FOLDER}/{scenario}-{}.svg", self.what)
    }

    /// The file.
    pub(crate) fn alone(&self) -> String {
        let svg = self.svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
        svg.replacen("</title>", &format!("</title>{STYLE}"), 1)
    }
}

/// All plots of a scenario: ratios with their bounds, latency by percentile, and memory over time.
pub(crate) fn of(measured: &Measured) -> Vec<Drawing> {
    let metrics = [
        ("p99_ms", "p99"),
        ("p999_ms", "p999"),
        ("time_ms", "time"),
        ("stop_max_ms", "stop"),
        ("rss_peak", "rss"),
        ("cpu_each_ms", "cpu"),
    ];
    let ratios = metrics.into_iter().map(|(metric, what)| {
        let title = BenchMetric::find(metric).map_or(metric, |metric| metric.title);
        let title = format!("{title} ÷ CPython default");
        let svg = plots::ratios(&title, &dots(measured, metric));
        Drawing { title, svg, what }
    });
    let title = "Latency by percentile".to_owned();
    let latency = Drawing { title, svg: plots::percentiles(&curves(measured)), what: "latency" };
    let memory = [
        ("Resident memory over time", "memory", courses(measured, |courses| &courses.rss)),
        ("Memory of the process and its children over time", "memory-tree", courses(measured, |courses| &courses.tree)),
    ];
    let memory = memory.into_iter().filter(|(_, _, curves)| !curves.is_empty()).map(|(title, what, curves)| Drawing {
        title: title.to_owned(),
        svg: plots::course(title, "MiB", &curves),
        what,
    });
    ratios.chain([latency]).chain(memory).filter(|drawing| !drawing.svg.is_empty()).collect()
}

fn dots(measured: &Measured, metric: &str) -> Vec<Dot> {
    let others = measured.entries.iter().filter(|entry| entry.contender != DEFAULT);
    let dots = others.filter_map(|entry| {
        let ratio = tables::ratio(measured, &entry.contender, DEFAULT, metric)?;
        Some(Dot { name: entry.title.replace('`', ""), mean: ratio.mean, low: ratio.low, high: ratio.high })
    });
    dots.collect()
}

fn curves(measured: &Measured) -> Vec<Curve> {
    let drawn = measured.entries.iter().filter(|entry| entry.trials.iter().any(|trial| !trial.curve.is_empty()));
    drawn.map(|entry| Curve { name: entry.title.replace('`', ""), points: middle_curve(entry) }).collect()
}

/// The memory of each contender over time, in MiB: of the run with the middle peak, because runs do not rise in step.
fn courses(measured: &Measured, which: fn(&Courses) -> &MemoryCourse) -> Vec<Curve> {
    let peak = |trial: &&Trial| which(&trial.courses).iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
    let drawn = measured.entries.iter().filter_map(|entry| {
        let mut trials: Vec<_> = entry.trials.iter().filter(|trial| !which(&trial.courses).is_empty()).collect();
        trials.sort_by(|a, b| peak(a).total_cmp(&peak(b)));
        let middle = trials.get(trials.len() / 2)?;
        let points = which(&middle.courses).iter().map(|(at, bytes)| (*at, bytes / f64::from(1 << 20))).collect();
        Some(Curve { name: entry.title.replace('`', ""), points })
    });
    drawn.collect()
}

/// The middle of the curves of all runs, where most of them have a point.
fn middle_curve(entry: &ContenderTrials) -> Vec<(f64, f64)> {
    let curves: Vec<_> = entry.trials.iter().map(|trial| &trial.curve).filter(|curve| !curve.is_empty()).collect();
    // All curves have the same shares, as far as their number of requests allows; the last point is the maximum.
    let longest = curves.iter().map(|curve| curve.len() - 1).max().unwrap_or(0);
    (0..longest)
        .filter_map(|at| {
            let here: Vec<_> = curves.iter().filter(|curve| at + 1 < curve.len()).map(|curve| curve[at]).collect();
            let enough = here.len() * 2 > curves.len();
            let ms = median(here.iter().map(|(_, ms)| *ms)).filter(|_| enough)?;
            Some((here[0].0, ms))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::bench::report::sample;

    #[test]
    fn files_stand_alone_and_have_names_of_their_own() {
        let run = sample::run();
        let drawings: Vec<_> = run.scenarios.iter().flat_map(super::of).collect();
        assert!(!drawings.is_empty());
        let mut names: Vec<_> = drawings.iter().map(|drawing| drawing.path("attribution")).collect();
        for drawing in &drawings {
            let file = drawing.alone();
            assert!(
                file.starts_with("<svg xmlns=") && file.contains("<style>") && file.ends_with("</svg>\n"),
                "{file}"
            );
        }
        names.dedup();
        assert_eq!(names.len(), drawings.len());
    }
}
