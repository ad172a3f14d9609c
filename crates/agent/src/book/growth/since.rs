//! How figures of memory have changed since an earlier moment, for `neurogc memory PID --since T`.

use neurogc_diagnose::growth::FigureSeries;
use neurogc_diagnose::leaks::{MemoryEvidence, ProcessFigure};
use neurogc_wire::memory_verdict::{FigureThenAndNow, MemoryChange};

use super::GrowthBook;

/// Containers and types that are told of.
const MOST: usize = 10;

/// How far from the moment that is asked for a value may be: this many seconds, or this share of the time.
const NEAR_S: f64 = 30.0;
const NEAR: f64 = 0.25;

/// Figures of the load, which are no memory.
const LOAD: [ProcessFigure; 2] = [ProcessFigure::Requests, ProcessFigure::InFlight];

impl GrowthBook {
    /// What has changed in the last so many seconds, or since the first look where that is later.
    pub(crate) fn change(&self, since_s: u32) -> MemoryChange {
        self.kept.as_ref().map_or_else(MemoryChange::default, |kept| change(&kept.evidence, f64::from(since_s)))
    }
}

fn change(evidence: &MemoryEvidence, since_s: f64) -> MemoryChange {
    let rss = evidence.series(ProcessFigure::Rss);
    let Some((first, last)) = rss.span() else { return MemoryChange::default() };
    let wanted = (last - since_s).max(first);
    let near = NEAR_S.max((last - wanted) * NEAR);
    let then = |series: &FigureSeries| {
        let nearest = series.whole().into_iter().min_by(|a, b| apart(a.at_s, wanted).total_cmp(&apart(b.at_s, wanted)));
        nearest.filter(|point| apart(point.at_s, wanted) <= near)
    };
    let compared = |what: &str, unit: &str, series: &FigureSeries| FigureThenAndNow {
        what: what.to_owned(),
        unit: unit.to_owned(),
        before: then(series).map(|point| point.mean),
        now: series.now(),
    };
    let process = ProcessFigure::ALL.into_iter().filter(|figure| !LOAD.contains(figure));
    let process = process.filter(|figure| evidence.series(*figure).span().is_some()).map(|figure| {
        let (what, unit) = figure.words();
        compared(what, unit, evidence.series(figure))
    });
    let containers = evidence.containers.iter().map(|(name, track)| compared(name, "entries", &track.series));
    let types = evidence.types.iter().map(|(name, track)| compared(name, "objects", &track.series));
    MemoryChange {
        ago_s: then(rss).map_or(0.0, |point| (last - point.at_s).max(0.0)),
        watched_s: last - first,
        process: process.collect(),
        containers: largest(containers.collect()),
        types: largest(types.collect()),
    }
}

fn apart(one: f64, other: f64) -> f64 {
    (one - other).abs()
}

/// Those that have changed most, without those that have not.
fn largest(mut changes: Vec<FigureThenAndNow>) -> Vec<FigureThenAndNow> {
    let size = |it: &FigureThenAndNow| it.change().unwrap_or(0.0).abs();
    changes.retain(|it| size(it) > 0.0);
    changes.sort_by(|one, other| size(other).total_cmp(&size(one)).then_with(|| one.what.cmp(&other.what)));
    changes.truncate(MOST);
    changes
}

#[cfg(test)]
mod tests {
    use neurogc_diagnose::leaks::ContainerFacts;

    use super::*;

    fn grown() -> MemoryEvidence {
        let mut evidence = MemoryEvidence::default();
        evidence.containers.follow("app.seen".to_owned(), None, 5.0, 100.0, ContainerFacts::default());
        evidence.containers.follow("app.full".to_owned(), None, 5.0, 900.0, ContainerFacts::default());
        for step in 1..=400_u32 {
            let at_s = f64::from(step) * 5.0;
            evidence.push(ProcessFigure::Rss, at_s, 1e8 + 1e6 * f64::from(step));
            evidence.containers.push(&"app.seen".to_owned(), at_s, 100.0 * f64::from(step), |_| {});
            evidence.containers.push(&"app.full".to_owned(), at_s, 900.0, |_| {});
        }
        evidence
    }

    #[test]
    fn figures_are_compared_with_the_moment_asked_for() {
        let change = change(&grown(), 600.0);
        assert!((change.ago_s - 600.0).abs() < 25.0, "{change:?}");
        assert_eq!(change.process.len(), 1);
        let rss = change.process[0].change().unwrap_or(0.0);
        assert!((rss - 120e6).abs() < 5e6, "{rss}");
        let names: Vec<_> = change.containers.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(names, ["app.seen"]);
    }

    #[test]
    fn a_time_before_the_first_look_is_the_first_look() {
        let change = change(&grown(), 86_400.0);
        assert!(change.ago_s > 1900.0 && change.ago_s <= change.watched_s, "{change:?}");
        assert!(GrowthBook::default().change(60) == MemoryChange::default());
    }

    #[test]
    fn what_was_not_followed_then_has_no_value_then() {
        let mut evidence = grown();
        evidence.push(ProcessFigure::Threads, 1999.0, 7.0);
        let change = change(&evidence, 1500.0);
        let threads = change.process.iter().find(|it| it.what == "threads");
        assert_eq!(threads.and_then(|it| it.before), None);
        assert_eq!(threads.map(|it| it.now), Some(7.0));
    }
}
