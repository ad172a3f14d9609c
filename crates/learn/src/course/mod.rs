//! From recorded programs to a policy: lessons for models, weights for decisions, and how good both are on held-out
//! data.
//!
//! Every program is divided by time: models and weights learn from the first part, the choice among models is made on
//! the second, and what the report says comes from the third. Decisions are tried in the simulator on excerpts, each
//! played like a program that has just started up.

mod judge;
mod pipeline;
mod rl;
mod school;
mod search;
mod services;

use std::collections::BTreeMap;

use neurogc_neural::{Contents, Model, ModelError, write};
use neurogc_policy::features::NAMES;
use neurogc_policy::{Name, Neural, Policy, Tuning, WEIGHT_NAMES, WEIGHTS, Weights, policy};

pub use self::judge::Judgement;
pub use self::pipeline::{Training, TrainingPlan};
use self::rl::reinforce;
pub use self::school::{Audience, SchoolError, TrainedModel};
use self::search::Effort;
pub use self::services::services;
use crate::model::HeapModel;
use crate::models::{Dataset, Split, TrainError, TrainingSample};
use crate::outcome::SimulationOutcome;
use crate::simulate::{Scene, lessons, simulate_policy};
use crate::workload::Workload;

/// A program to learn from.
#[derive(Clone, Debug)]
pub struct RecordedProgram {
    /// What it is called.
    pub name: String,
    /// What its heap is like.
    pub model: HeapModel,
    /// What is asked of it.
    pub workload: Workload,
}

/// The parts of a program by time, as shares of it.
pub const TRAINING: (f64, f64) = (0.0, 0.6);
/// See `TRAINING`.
pub const VALIDATION: (f64, f64) = (0.6, 0.8);
/// See `TRAINING`.
pub const TEST: (f64, f64) = (0.8, 1.0);

/// How long excerpts are, and how much of them is tried, of all programs together and of each at least, in nanoseconds.
const EXCERPT: u64 = 20_000_000_000;
const TRIED: u64 = 160_000_000_000;
const TRIED_OF_EACH: u64 = 60_000_000_000;

/// Everything that is learned from.
#[derive(Clone, Debug)]
pub struct Course {
    programs: Vec<RecordedProgram>,
    /// What policies are told; the price of memory is that of the cost.
    tuning: Tuning,
}

impl Course {
    /// A course about these programs, at a price of memory.
    #[must_use]
    pub fn new(programs: Vec<RecordedProgram>, lambda: f64) -> Self {
        Self { programs, tuning: Tuning { memory_price: lambda, ..Tuning::default() } }
    }

    /// What models learn from: so many lessons at most, of every program under rules and under the model that there is.
    ///
    /// # Errors
    ///
    /// When there is too little.
    pub fn data(&self, most: usize) -> Result<Split, TrainError> {
        let mut joined = Split::default();
        for program in &self.programs {
            let scene = self.scene(&program.model, &program.workload);
            let mut all = Dataset::new(NAMES.map(str::to_owned).to_vec());
            let every = every(&program.workload, most / self.programs.len().max(1) / 2);
            let mut met = Vec::new();
            for name in [Name::Gap, Name::Neural(None)] {
                met.extend(lessons(&scene, policy(name, self.tuning), every));
            }
            met.sort_by(|a, b| a.at.total_cmp(&b.at));
            for lesson in &met {
                all.push(TrainingSample {
                    window: &lesson.window,
                    targets: lesson.targets,
                    weight: 1.0,
                    at: lesson.at,
                });
            }
            joined.join(&all.split()?);
        }
        Ok(joined)
    }

    fn scene<'s>(&self, model: &'s HeapModel, workload: &'s Workload) -> Scene<'s> {
        Scene { tuning: self.tuning, ..Scene::new(model, workload) }
    }

    /// Excerpts of a part of every program, with what they cost under rules.
    #[must_use]
    pub fn excerpts(&self, part: (f64, f64)) -> Vec<Excerpt<'_>> {
        let each = (TRIED / self.programs.len().max(1) as u64).max(TRIED_OF_EACH);
        let all = self.programs.iter().flat_map(|program| {
            program.workload.excerpts(part, EXCERPT, each).into_iter().map(move |workload| (program, workload))
        });
        all.map(|(program, workload)| {
            let scene = self.scene(&program.model, &workload);
            let by_rules = simulate_policy(&scene, policy(Name::Gap, self.tuning), true);
            Excerpt { program, workload, by_rules }
        })
        .collect()
    }

    /// How much cheaper a policy is than rules: the mean of the logarithms of its cost over theirs. Where its tail is
    /// longer or its peak of memory higher than theirs, that counts besides.
    fn score(&self, excerpts: &[Excerpt<'_>], policy: &dyn Fn() -> Option<Box<dyn Policy>>) -> f64 {
        let mut sum = 0.0;
        for excerpt in excerpts {
            let Some(policy) = policy() else { return f64::INFINITY };
            let scene = self.scene(&excerpt.program.model, &excerpt.workload);
            let (outcome, rules) = (simulate_policy(&scene, policy, true), &excerpt.by_rules);
            let worse = |its: f64, theirs: f64| (its.max(LEAST_COST) / theirs.max(LEAST_COST)).ln().max(0.0);
            sum += excerpt.over_rules(&outcome, self.tuning.memory_price)
                + TAIL * worse(outcome.p999_ms, rules.p999_ms)
                + PEAK * worse(outcome.peak_rss_mb, rules.peak_rss_mb);
        }
        sum / excerpts.len().max(1) as f64
    }

    /// The score of a model with weights.
    fn score_of(&self, excerpts: &[Excerpt<'_>], bytes: &[u8], weights: Weights) -> f64 {
        self.score(excerpts, &|| {
            let model = Model::load(bytes).ok()?;
            Some(Box::new(Neural::new(self.tuning, model, weights)))
        })
    }

    /// The weights that suit a model best, and their score.
    fn weights(
        &self,
        excerpts: &[Excerpt<'_>],
        bytes: &[u8],
        start: Weights,
        effort: Effort,
        tell: &mut dyn FnMut(usize, f64),
    ) -> (Weights, f64) {
        let start = <[f64; WEIGHTS]>::from(start).map(f64::ln);
        let score = |point: &[f64]| self.score_of(excerpts, bytes, from_logarithms(point));
        let (point, score) = search::search(&start, SPREAD, effort, &score, tell);
        (from_logarithms(&point), score)
    }
}

/// How far from the start weights are looked for, as a logarithm.
const SPREAD: f64 = 0.4;

/// Costs below this are nothing, in milliseconds.
const LEAST_COST: f64 = 1e-4;

/// What a longer tail and a higher peak than under rules count, against a higher cost.
const TAIL: f64 = 1.0;
const PEAK: f64 = 5.0;

/// A stretch of a program.
#[derive(Debug)]
pub struct Excerpt<'c> {
    /// Of which program.
    program: &'c RecordedProgram,
    /// What is asked in it.
    workload: Workload,
    /// What comes of it under `gap`.
    by_rules: SimulationOutcome,
}

impl Excerpt<'_> {
    /// The logarithm of what something costs over what rules cost.
    fn over_rules(&self, outcome: &SimulationOutcome, lambda: f64) -> f64 {
        (outcome.cost(lambda).max(LEAST_COST) / self.by_rules.cost(lambda).max(LEAST_COST)).ln()
    }
}

/// How often the conductor looks in a second, about.
const LOOKS: f64 = 400.0;

/// One look in how many becomes a lesson, so that there are about so many.
fn every(workload: &Workload, most: usize) -> usize {
    (workload.seconds() * LOOKS / most.max(1) as f64).ceil().max(1.0) as usize
}

fn from_logarithms(point: &[f64]) -> Weights {
    let mut weights = <[f64; WEIGHTS]>::from(Weights::default());
    weights.iter_mut().zip(point).for_each(|(weight, logarithm)| *weight = logarithm.clamp(-6.0, 6.0).exp());
    weights.into()
}

/// The same file with other weights.
fn reweighted(bytes: &[u8], weights: Weights) -> Result<Vec<u8>, ModelError> {
    let contents = Contents::read(bytes)?;
    let mut metadata = contents.metadata().clone();
    metadata.weights = named(weights);
    let tensors = contents.names().iter().map(|name| contents.tensor(name)).collect::<Result<Vec<_>, _>>()?;
    write(&metadata, &tensors)
}

fn named(weights: Weights) -> BTreeMap<String, f64> {
    WEIGHT_NAMES.iter().map(|name| (*name).to_owned()).zip(<[f64; WEIGHTS]>::from(weights)).collect()
}
