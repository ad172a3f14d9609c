//! What policies cost on excerpts, and how far each is from the best that could have been done.

use neurogc_neural::Model as Net;
use neurogc_policy::{Name, Neural, Policy, Weights, policy};

use super::{Course, Excerpt, LEAST_COST};
use crate::oracle::{Resolution, oracle};
use crate::outcome::Outcome;
use crate::simulate::simulate_policy;

/// What came of a policy on all excerpts.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The policy, or the family of its model.
    pub name: String,
    /// The mean of its costs, in milliseconds.
    pub cost: f64,
    /// The geometric mean of its costs over those of `gap`.
    pub over_rules: f64,
    /// How much more it costs than the oracle's schedule, all excerpts added up, as a share of that.
    pub regret: f64,
    /// The worst 99.9th percentile of an excerpt, in milliseconds.
    pub p999_ms: f64,
    /// The most memory, in megabytes.
    pub peak_mb: f64,
}

/// Judges rules and models, each with its weights, on the same excerpts. The first is the oracle.
#[must_use]
pub fn judge(
    course: &Course,
    excerpts: &[Excerpt<'_>],
    rules: &[Name],
    models: &[(String, Vec<u8>)],
) -> Vec<Judgement> {
    let lambda = course.tuning.memory_price;
    let best: Vec<Outcome> = excerpts
        .iter()
        .map(|excerpt| {
            let undivided = excerpt.workload.undivided();
            let scene = course.scene(&excerpt.program.model, &undivided);
            oracle(&scene, lambda, Resolution::default()).map(|plan| plan.outcome).unwrap_or_default()
        })
        .collect();
    let least: f64 = best.iter().map(|outcome| outcome.cost(lambda)).sum();
    let judged = |name: &str, outcomes: &[Outcome]| {
        let costs: Vec<f64> = outcomes.iter().map(|outcome| outcome.cost(lambda)).collect();
        let count = costs.len().max(1) as f64;
        let ratio =
            |(cost, excerpt): (&f64, &Excerpt<'_>)| (cost.max(LEAST_COST) / excerpt.by_rules.max(LEAST_COST)).ln();
        Judgement {
            name: name.to_owned(),
            cost: costs.iter().sum::<f64>() / count,
            over_rules: (costs.iter().zip(excerpts).map(ratio).sum::<f64>() / count).exp(),
            regret: costs.iter().sum::<f64>() / least.max(LEAST_COST) - 1.0,
            p999_ms: outcomes.iter().map(|outcome| outcome.p999_ms).fold(0.0, f64::max),
            peak_mb: outcomes.iter().map(|outcome| outcome.peak_mb).fold(0.0, f64::max),
        }
    };
    let play = |make: &dyn Fn() -> Option<Box<dyn Policy>>| -> Option<Vec<Outcome>> {
        excerpts
            .iter()
            .map(|excerpt| {
                let scene = course.scene(&excerpt.program.model, &excerpt.workload);
                Some(simulate_policy(&scene, make()?, true))
            })
            .collect()
    };
    let mut all = vec![judged("(oracle)", &best)];
    for name in rules {
        let outcomes = play(&|| Some(policy(*name, course.tuning)));
        all.extend(outcomes.map(|outcomes| judged(&name.to_string(), &outcomes)));
    }
    for (name, bytes) in models {
        let outcomes = play(&|| {
            let model = Net::load(bytes).ok()?;
            let weights = Weights::named(&model.metadata().weights);
            Some(Box::new(Neural::new(course.tuning, model, weights)))
        });
        all.extend(outcomes.map(|outcomes| judged(name, &outcomes)));
    }
    all
}
