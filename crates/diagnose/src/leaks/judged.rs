//! What each series of the evidence looks like.

use neurogc_wire::memory_verdict::{EvidenceSeries, Rate};

use super::evidence::{ContainerFacts, MemoryEvidence, ProcessFigure, SiteFacts, TypeFacts};
use crate::growth::{FigureSeries, Growth, Scale, Slope, judge};

const MIB: f64 = 1024.0 * 1024.0;

/// Points that are given out of a series.
const SHOWN_POINTS: usize = 60;

/// A thing with its growth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged<'a, F> {
    pub(super) name: &'a str,
    pub(super) facts: &'a F,
    pub(super) series: &'a FigureSeries,
    pub(super) growth: Growth,
}

/// All of the evidence, judged. The fastest growing come first.
#[derive(Debug)]
pub(super) struct AllJudged<'a> {
    pub(super) evidence: &'a MemoryEvidence,
    process: Vec<Growth>,
    pub(super) sites: Vec<Judged<'a, SiteFacts>>,
    pub(super) types: Vec<Judged<'a, TypeFacts>>,
    pub(super) containers: Vec<Judged<'a, ContainerFacts>>,
}

impl<'a> AllJudged<'a> {
    pub(super) fn of(evidence: &'a MemoryEvidence) -> Self {
        let loads = [ProcessFigure::Requests, ProcessFigure::InFlight].map(|figure| evidence.series(figure));
        let loads: Vec<_> = loads.into_iter().filter(|load| load.span().is_some()).collect();
        let process = ProcessFigure::ALL
            .iter()
            .map(|figure| judge(evidence.series(*figure), &loads, &scale_of(*figure, evidence.grain)))
            .collect();
        let counted = Scale { least: 200.0, least_share: 0.02, z: 3.0, grain: 0.0, exact: true };
        let site = Scale { least: MIB / 4.0, least_share: 0.02, z: 3.3, grain: evidence.grain, exact: false };
        let mut sites: Vec<_> = evidence
            .sites
            .iter()
            .map(|(_, track)| judged(&track.facts.line, &track.facts, &track.series, &loads, &site))
            .collect();
        let mut types: Vec<_> = evidence
            .types
            .iter()
            .map(|(name, track)| judged(name, &track.facts, &track.series, &loads, &counted))
            .collect();
        let mut containers: Vec<_> = evidence
            .containers
            .iter()
            .map(|(name, track)| judged(name, &track.facts, &track.series, &loads, &counted))
            .collect();
        sort(&mut sites);
        sort(&mut types);
        sort(&mut containers);
        Self { evidence, process, sites, types, containers }
    }

    pub(super) fn of_process(&self, figure: ProcessFigure) -> &Growth {
        &self.process[figure as usize]
    }

    /// The series of a figure as evidence.
    pub(super) fn explain(&self, figure: ProcessFigure) -> EvidenceSeries {
        let (what, unit) = figure.words();
        explain(what.to_owned(), unit, self.evidence.series(figure), self.of_process(figure))
    }

    /// How fast the memory of the process grows, in bytes per second: the resident set, or what is not shared of it where
    /// that is known and less is shared from now on.
    pub(super) fn process_rate(&self) -> Option<Slope> {
        [ProcessFigure::Rss, ProcessFigure::Uss]
            .into_iter()
            .map(|figure| self.of_process(figure))
            .find(|growth| growth.is_rising())
            .map(|growth| growth.rate)
    }
}

fn judged<'a, F>(
    name: &'a str,
    facts: &'a F,
    series: &'a FigureSeries,
    loads: &[&FigureSeries],
    scale: &Scale,
) -> Judged<'a, F> {
    Judged { name, facts, series, growth: judge(series, loads, scale) }
}

fn sort<F>(all: &mut [Judged<'_, F>]) {
    let order = |it: &Judged<'_, F>| (it.growth.is_rising(), it.growth.rate.middle);
    all.sort_unstable_by(|one, other| {
        let ((one_rises, one_rate), (other_rises, other_rate)) = (order(one), order(other));
        other_rises.cmp(&one_rises).then(other_rate.total_cmp(&one_rate)).then(one.name.cmp(other.name))
    });
}

fn scale_of(figure: ProcessFigure, grain: f64) -> Scale {
    let bytes = Scale { least: 2.0 * MIB, least_share: 0.002, z: 2.6, grain: 0.0, exact: false };
    let count = |least: f64, least_share: f64| Scale { least, least_share, ..bytes };
    match figure {
        ProcessFigure::Rss | ProcessFigure::Uss => Scale { least: 4.0 * MIB, least_share: 0.005, ..bytes },
        ProcessFigure::Sampled => Scale { least: MIB, grain, ..bytes },
        ProcessFigure::PythonUsed
        | ProcessFigure::PythonFree
        | ProcessFigure::MallocUsed
        | ProcessFigure::MallocFree => Scale { least: MIB, exact: true, ..bytes },
        ProcessFigure::ChildrenBytes => Scale { least: 8.0 * MIB, least_share: 0.02, ..bytes },
        ProcessFigure::Descriptors => count(10.0, 0.1),
        ProcessFigure::Threads => count(6.0, 0.2),
        ProcessFigure::Children => count(4.0, 0.25),
        ProcessFigure::Tracked => count(5000.0, 0.02),
        ProcessFigure::Reachable => Scale { exact: true, ..count(5000.0, 0.02) },
        ProcessFigure::Uncollectable => count(20.0, 0.02),
        ProcessFigure::Frozen => count(1000.0, 0.05),
        ProcessFigure::Requests | ProcessFigure::InFlight => count(10.0, 0.2),
    }
}

/// A series as it is given out.
pub(super) fn explain(what: String, unit: &str, series: &FigureSeries, growth: &Growth) -> EvidenceSeries {
    let mut points: Vec<_> = series.whole().iter().map(|point| (point.at_s, point.mean)).collect();
    if points.len() > SHOWN_POINTS {
        let every = points.len().div_ceil(SHOWN_POINTS);
        // The last one is kept.
        let skipped = (points.len() - 1) % every;
        points = points.into_iter().skip(skipped).step_by(every).collect();
    }
    EvidenceSeries {
        what,
        unit: unit.to_owned(),
        shape: growth.shape.words().to_owned(),
        growth: rate(growth.rate),
        now: growth.now,
        seconds: growth.seconds,
        points,
    }
}

/// A rate for a report.
pub(super) fn rate(slope: Slope) -> Rate {
    let hour = slope.times(3600.0);
    let known = |bound: f64| bound.is_finite().then_some(bound);
    Rate { per_hour: hour.middle, low: known(hour.low), high: known(hour.high) }
}
