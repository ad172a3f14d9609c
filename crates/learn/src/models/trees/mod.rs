//! `trees`: gradient boosting of small symmetric trees.
//!
//! It is made here and not taken from a crate. `perpetual`, the liveliest, needs a nightly compiler in its last release
//! (2.3), limits trees by free memory alone and has an ensemble for each output; `gbdt` and `forust` know no quantiles;
//! LightGBM's binding needs cmake and libclang. Trees whose every level asks one question cost the agent a few nanoseconds
//! each, and one tree serves all quantiles.

mod bins;
mod forest;
mod growth;

use neurogc_neural::{Contents, GAP_LEVELS, Head, OUTPUTS, Tensor, WINDOW, summarise};

use self::bins::Bins;
use self::forest::{Aim, Forest};
use super::prepared::{Prepared, PreparedSamples};
use super::train::{Learner, Options, TrainError};

/// How many trees each forest gains in an epoch.
const TREES_PER_EPOCH: usize = 8;

/// What the forests predict: all gaps together, everything else by itself.
const FORESTS: [(Aim, std::ops::Range<usize>); 5] =
    [(Aim::Quantiles(&GAP_LEVELS), 0..5), (Aim::Mean, 5..6), (Aim::Mean, 6..7), (Aim::Mean, 7..8), (Aim::Mean, 8..9)];

pub(super) struct Boosting<'a> {
    data: &'a Prepared,
    bins: Bins,
    train: Vec<f32>,
    validation: Vec<f32>,
    forests: Vec<Forest>,
    seed: u64,
}

impl<'a> Boosting<'a> {
    pub(super) fn new(data: &'a Prepared, options: &Options) -> Self {
        let (train, validation) = (summaries(&data.train, data.features), summaries(&data.validation, data.features));
        let bins = Bins::new(&train, 2 * data.features);
        let forests = FORESTS
            .into_iter()
            .map(|(aim, outputs)| Forest::new(aim, outputs.clone(), &data.constant[outputs], data))
            .collect();
        Self { data, bins, train, validation, forests, seed: options.seed }
    }
}

/// What trees see of each window.
fn summaries(part: &PreparedSamples, features: usize) -> Vec<f32> {
    let mut all = vec![0.0; part.len() * 2 * features];
    let windows = part.windows.chunks_exact((WINDOW * features).max(1));
    for (window, summary) in windows.zip(all.chunks_exact_mut((2 * features).max(1))) {
        summarise(window, summary);
    }
    all
}

impl Learner for Boosting<'_> {
    fn epoch(&mut self, epoch: usize) -> Result<f64, TrainError> {
        for (at, forest) in self.forests.iter_mut().enumerate() {
            for tree in 0..TREES_PER_EPOCH {
                let number = (epoch * TREES_PER_EPOCH + tree) * OUTPUTS + at;
                // Far apart, so that the draws of one tree are not those of the next.
                let seed = self.seed.wrapping_add(number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                forest.grow(self.data, &self.bins, &self.train, &self.validation, seed);
            }
        }
        Ok(self.forests.iter().map(|forest| forest.train_loss(self.data)).sum())
    }

    fn predict(&self, part: &PreparedSamples) -> Result<Vec<[f32; OUTPUTS]>, TrainError> {
        let summaries = summaries(part, self.data.features);
        let rows = summaries.chunks_exact((2 * self.data.features).max(1));
        Ok(rows
            .map(|summary| {
                let mut forecast = [0.0; OUTPUTS];
                self.forests.iter().for_each(|forest| forest.predict(summary, &mut forecast));
                Head::Plain.finish(&mut forecast);
                forecast
            })
            .collect())
    }

    fn is_done(&self) -> bool {
        self.forests.iter().all(Forest::is_done)
    }

    fn model(&self) -> Vec<Tensor> {
        self.forests.iter().enumerate().flat_map(|(at, forest)| forest.tensors(at, forest.best_trees())).collect()
    }

    fn state(&self) -> Vec<Tensor> {
        self.forests.iter().enumerate().flat_map(|(at, forest)| forest.tensors(at, forest.trees())).collect()
    }

    fn restore(&mut self, state: &Contents<'_>) -> Result<(), TrainError> {
        for (at, forest) in self.forests.iter_mut().enumerate() {
            forest.restore(at, state, self.data, &self.train, &self.validation)?;
        }
        Ok(())
    }
}
