//! What policies cost on excerpts, and how far each is from what no schedule can be below.

use neurogc_neural::Model;
use neurogc_policy::{Name, Neural, Policy, Weights, policy};

use super::{Course, Excerpt};
use crate::bound::lower_bound;
use crate::oracle::{Resolution, oracle};
use crate::outcome::SimulationOutcome;
use crate::simulate::{Scene, simulate_policy};

/// What came of a policy on all excerpts.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The policy, or the family of its model.
    pub name: String,
    /// The mean of its costs, in milliseconds.
    pub cost: f64,
    /// The geometric mean of its costs over those of `gap`.
    pub over_rules: f64,
    /// How much more it costs than the lower bound, as a share of that: all excerpts added up for which there is one above
    /// zero; `None` where no excerpt has one.
    pub regret: Option<f64>,
    /// The worst 99.9th percentile of an excerpt, in milliseconds.
    pub p999_ms: f64,
    /// The most memory, in megabytes.
    pub peak_mb: f64,
}

fn scene<'e>(course: &Course, excerpt: &'e Excerpt<'_>) -> Scene<'e> {
    course.scene(&excerpt.program.model, &excerpt.workload)
}

/// Judges rules and models, each with its weights, on the same excerpts. The first is the best plan, where there is
/// one.
pub(super) fn judge(
    course: &Course,
    excerpts: &[Excerpt<'_>],
    rules: &[Name],
    models: &[(String, Vec<u8>)],
) -> Vec<Judgement> {
    let lambda = course.tuning.memory_price;
    let bounds: Vec<f64> = excerpts.iter().map(|excerpt| lower_bound(&scene(course, excerpt), lambda)).collect();
    let plan = |excerpt| oracle(&scene(course, excerpt), lambda, Resolution::default()).map(|plan| plan.outcome);
    let plans: Vec<Option<SimulationOutcome>> = excerpts.iter().map(plan).collect();
    let judged = |name: &str, outcomes: &[Option<SimulationOutcome>]| {
        let count = outcomes.iter().flatten().count().max(1) as f64;
        let (mut sum, mut bounded, mut least, mut logarithms) = (0.0, 0.0, 0.0, 0.0);
        for ((outcome, bound), excerpt) in outcomes.iter().zip(&bounds).zip(excerpts) {
            let Some(outcome) = outcome else { continue };
            let cost = outcome.cost(lambda);
            sum += cost;
            if *bound > 0.0 {
                bounded += cost;
                least += bound;
            }
            logarithms += excerpt.over_rules(outcome, lambda);
        }
        let most = |of: fn(&SimulationOutcome) -> f64| outcomes.iter().flatten().map(of).fold(0.0, f64::max);
        Judgement {
            name: name.to_owned(),
            cost: sum / count,
            over_rules: (logarithms / count).exp(),
            regret: (least > 0.0).then(|| bounded / least - 1.0),
            p999_ms: most(|outcome| outcome.p999_ms),
            peak_mb: most(|outcome| outcome.peak_mb),
        }
    };
    let play = |make: &dyn Fn() -> Option<Box<dyn Policy>>| -> Vec<Option<SimulationOutcome>> {
        let play = |excerpt: &Excerpt<'_>| Some(simulate_policy(&scene(course, excerpt), make()?, true));
        excerpts.iter().map(play).collect()
    };
    let mut all = Vec::new();
    if plans.iter().any(Option::is_some) {
        all.push(judged("(plan)", &plans));
    }
    for name in rules {
        all.push(judged(&name.to_string(), &play(&|| Some(policy(name.clone(), course.tuning)))));
    }
    for (name, bytes) in models {
        let outcomes = play(&|| {
            let model = Model::load(bytes).ok()?;
            let weights = Weights::named(&model.metadata().weights);
            Some(Box::new(Neural::new(course.tuning, model, weights)))
        });
        all.push(judged(name, &outcomes));
    }
    all
}
