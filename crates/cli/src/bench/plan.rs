//! What is run and in which order: contenders take turns, starting with a different one in each run.

use super::contender::Contender;
use super::scenario::{CATALOGUE, Scenario, Size};

/// One scenario with those who take part.
#[derive(Clone, Debug)]
pub(crate) struct ScenarioPlan {
    pub(crate) scenario: &'static Scenario,
    pub(crate) contenders: Vec<Contender>,
}

/// One trial that is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedTrial {
    pub(crate) run: u32,
    /// Which heat.
    pub(crate) heat: usize,
    /// Which of its contenders.
    pub(crate) contender: usize,
}

/// The heats of a bench: the scenarios that were named, or all that run by default, with the contenders that were named,
/// or their own.
pub(crate) fn heats(names: &[String], contenders: Option<&[Contender]>) -> Result<Vec<ScenarioPlan>, String> {
    let scenarios: Vec<&'static Scenario> = if names.is_empty() {
        CATALOGUE.iter().filter(|scenario| scenario.by_default).collect()
    } else {
        names.iter().map(|name| Scenario::find(name)).collect::<Result<_, _>>()?
    };
    scenarios
        .into_iter()
        .map(|scenario| {
            let contenders = match contenders {
                Some(named) => named.to_vec(),
                None => Contender::parse_list(scenario.contenders)?,
            };
            Ok(ScenarioPlan { scenario, contenders })
        })
        .collect()
}

/// All turns. Scenarios alternate within a run too, so that a slow minute of the machine falls on different ones.
pub(crate) fn turns(heats: &[ScenarioPlan], runs: u32) -> Vec<PlannedTrial> {
    let mut all = Vec::new();
    for run in 0..runs {
        for (heat, it) in heats.iter().enumerate() {
            let count = it.contenders.len();
            all.extend((0..count).map(|at| PlannedTrial { run, heat, contender: (at + run as usize + heat) % count }));
        }
    }
    all
}

/// About how long it takes, in seconds.
pub(crate) fn seconds(heats: &[ScenarioPlan], runs: u32, size: Size) -> f64 {
    let trials = heats.iter().map(|heat| {
        let trials = f64::from(heat.scenario.calibrations()) + heat.contenders.len() as f64 * f64::from(runs);
        heat.scenario.trial_seconds(size) * trials
    });
    trials.sum()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_whole_default_bench_fits_in_half_an_hour() {
        let all = heats(&[], None).unwrap();
        let minutes = seconds(&all, 5, Size { quick: false, measured: None }) / 60.0;
        assert!(minutes <= 30.0, "{minutes:.1} minutes");
    }

    #[test]
    fn every_contender_has_every_turn_once_and_goes_first_in_turn() {
        let contenders = Contender::parse_list("default,off,gap").unwrap();
        let two = heats(&["acyclic".to_owned(), "leak".to_owned()], Some(&contenders)).unwrap();
        let all = turns(&two, 3);
        assert_eq!(all.len(), 18);
        for run in 0..3 {
            for heat in 0..2 {
                let mut seen: Vec<_> =
                    all.iter().filter(|it| (it.run, it.heat) == (run, heat)).map(|it| it.contender).collect();
                assert_eq!(seen[0], (run as usize + heat) % 3);
                seen.sort_unstable();
                assert_eq!(seen, [0, 1, 2]);
            }
        }
    }
}
