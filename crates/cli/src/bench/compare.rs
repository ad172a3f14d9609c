//! Two kept runs, side by side: what changed, and whether that can be chance.

use serde::Serialize;

use super::metrics::{BenchMetric, Better, CATALOGUE};
use super::record::Run;
use super::statistics::{median, permutation};
use crate::table::{Alignment, Table};

/// Less likely than this by chance is called a difference.
const UNLIKELY: f64 = 0.05;

/// One figure of one contender in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FigureChange {
    pub(crate) scenario: String,
    pub(crate) contender: String,
    pub(crate) metric: &'static str,
    /// Medians.
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// After by before.
    pub(crate) ratio: f64,
    /// How likely whole runs would differ this much by chance; `None` where there are too few.
    pub(crate) p: Option<f64>,
    /// `better`, `worse`, `different` or nothing.
    pub(crate) verdict: &'static str,
}

/// All figures that both runs have and that can be judged.
pub(crate) fn changes(before: &Run, after: &Run) -> Vec<FigureChange> {
    let mut found = Vec::new();
    for old in &before.scenarios {
        let Some(new) = after.scenarios.iter().find(|new| new.scenario == old.scenario) else { continue };
        for old_entry in &old.entries {
            let Some(new_entry) = new.entry(&old_entry.contender) else { continue };
            for metric in CATALOGUE.iter().filter(|metric| metric.better != Better::Neither) {
                let values = |entry: &super::record::ContenderTrials| -> Vec<f64> {
                    entry.values(metric.name).into_iter().map(|(_, value)| value).collect()
                };
                let (left, right) = (values(old_entry), values(new_entry));
                let (Some(before), Some(after)) = (median(left.iter().copied()), median(right.iter().copied())) else {
                    continue;
                };
                // Chance acts on ratios here, so logarithms are compared where there are any.
                let positive = left.iter().chain(&right).all(|value| *value > 0.0);
                let scale = |values: &[f64]| -> Vec<f64> {
                    values.iter().map(|value| if positive { value.ln() } else { *value }).collect()
                };
                let p = permutation(&scale(&left), &scale(&right));
                let (scenario, contender) = (old.scenario.clone(), old_entry.contender.clone());
                let verdict = verdict(metric, before, after, p);
                let ratio = after / before;
                found.push(FigureChange { scenario, contender, metric: metric.name, before, after, ratio, p, verdict });
            }
        }
    }
    found
}

fn verdict(metric: &BenchMetric, before: f64, after: f64, p: Option<f64>) -> &'static str {
    if p.is_none_or(|p| p >= UNLIKELY) {
        return "";
    }
    match metric.better {
        Better::Neither => "different",
        Better::Less if after < before => "better",
        Better::More if after > before => "better",
        _ => "worse",
    }
}

/// The comparison as a person reads it: what differs, or everything.
pub(crate) fn text(before: &Run, after: &Run, all: bool) -> String {
    let changes = changes(before, after);
    if changes.is_empty() {
        return "The two runs have no scenario and contender in common.\n".to_owned();
    }
    let mut table = Table::new(&[
        ("SCENARIO", Alignment::Left),
        ("CONTENDER", Alignment::Left),
        ("FIGURE", Alignment::Left),
        ("BEFORE", Alignment::Right),
        ("AFTER", Alignment::Right),
        ("RATIO", Alignment::Right),
        ("P", Alignment::Right),
        ("", Alignment::Left),
    ]);
    let mut shown = 0;
    for change in changes.iter().filter(|change| all || !change.verdict.is_empty()) {
        let Some(metric) = BenchMetric::find(change.metric) else { continue };
        shown += 1;
        let ratio = if change.ratio.is_finite() { format!("{:.2}", change.ratio) } else { "–".to_owned() };
        table.row([
            change.scenario.clone(),
            change.contender.clone(),
            metric.title.to_owned(),
            metric.show(change.before),
            metric.show(change.after),
            ratio,
            change.p.map_or_else(|| "–".to_owned(), |p| format!("{p:.3}")),
            change.verdict.to_owned(),
        ]);
    }
    let mut text = if shown > 0 { table.render(0) } else { String::new() };
    let tested = changes.iter().filter(|change| change.p.is_some()).count();
    let differing = changes.iter().filter(|change| !change.verdict.is_empty()).count();
    if tested == 0 {
        text.push_str("Each side needs at least two runs to tell a difference from chance: bench with --runs 5.\n");
    } else {
        text.push_str(&format!(
            "{differing} of {tested} figures differ (permutation test over whole runs, p < {UNLIKELY}); by chance alone \
             about {:.0} would.\n",
            tested as f64 * UNLIKELY
        ));
    }
    if before.machine.processor != after.machine.processor || before.machine.python != after.machine.python {
        text.push_str("The two are from different machines or Python versions, which may cause the differences.\n");
    }
    if before.quick || after.quick {
        text.push_str("At least one of them was run with --quick, so the results are not conclusive.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::sample;

    /// The sample, with one contender's latencies changed and two more runs.
    fn longer(factor: f64) -> Run {
        let mut run = sample::run();
        for entry in &mut run.scenarios[0].entries {
            for more in 3..5 {
                let mut trial = entry.trials.first().cloned().unwrap_or_default();
                trial.run = more;
                trial.figures.values_mut().for_each(|value| *value *= 1.0 + 0.02 * f64::from(more));
                entry.trials.push(trial);
            }
            if entry.contender == "gap" {
                for trial in &mut entry.trials {
                    if let Some(value) = trial.figures.get_mut("p99_ms") {
                        *value *= factor;
                    }
                }
            }
        }
        run
    }

    #[test]
    fn comparison_of_two_runs() {
        insta::assert_snapshot!(text(&longer(1.0), &longer(1.7), false));
    }

    #[test]
    fn a_run_does_not_differ_from_itself() {
        let same = changes(&longer(1.0), &longer(1.0));
        assert!(!same.is_empty() && same.iter().all(|change| change.verdict.is_empty()));
    }

    #[test]
    fn more_is_better_for_throughput() {
        let metric = BenchMetric::find("per_second");
        assert!(metric.is_some_and(|it| verdict(it, 100.0, 150.0, Some(0.01)) == "better"));
        assert!(metric.is_some_and(|it| verdict(it, 150.0, 100.0, Some(0.01)) == "worse"));
        let metric = BenchMetric::find("p99_ms");
        assert!(metric.is_some_and(|it| verdict(it, 150.0, 100.0, Some(0.01)) == "better"));
        assert!(metric.is_some_and(|it| verdict(it, 100.0, 150.0, Some(0.01)) == "worse"));
        assert!(metric.is_some_and(|it| verdict(it, 100.0, 150.0, Some(0.2)).is_empty()));
    }
}
