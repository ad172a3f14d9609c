//! A forest: trees that are added up, each fitted to what those before it missed.

use std::ops::Range;

use neurogc_neural::{Contents, MOST_WEIGHT, ModelError, OUTPUTS, Tensor, Values};

use super::super::constant::quantile;
use super::super::loss::pinball;
use super::super::prepared::{Prepared, PreparedSamples};
use super::bins::Bins;
use super::growth::{DEPTH, PRIOR, Questions, Wants, questions};

/// How much of what a tree wants is done.
const RATE: f32 = 0.1;

/// How many trees without a better validation loss are enough.
const PATIENCE: usize = 24;

/// What a forest predicts of its target.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim {
    /// Quantiles of these levels, one output each.
    Quantiles(&'static [f32]),
    /// The mean.
    Mean,
}

pub(super) struct Forest {
    aim: Aim,
    outputs: Range<usize>,
    base: Vec<f32>,
    trees: Vec<Tree>,
    best_trees: usize,
    best_loss: f64,
    /// What the trees so far say about each row, output by output.
    train: Vec<f32>,
    validation: Vec<f32>,
    /// No question helps any more.
    stuck: bool,
}

struct Tree {
    questions: Questions,
    /// For each way to answer, what is added to each output.
    leaves: Vec<f32>,
}

impl Tree {
    fn leaf(&self, summary: &[f32]) -> usize {
        self.questions
            .iter()
            .fold(0, |answers, (input, above)| 2 * answers + usize::from(summary[usize::from(*input)] > *above))
    }

    fn add(&self, summary: &[f32], to: &mut [f32]) {
        let leaf = self.leaf(summary) * to.len();
        for (to, change) in to.iter_mut().zip(&self.leaves[leaf..]) {
            *to += change;
        }
    }
}

impl Forest {
    pub(super) fn new(aim: Aim, outputs: Range<usize>, base: &[f32], data: &Prepared) -> Self {
        let says =
            |part: &PreparedSamples| base.iter().copied().cycle().take(part.len() * base.len()).collect::<Vec<f32>>();
        let mut forest = Self {
            aim,
            outputs,
            base: base.to_vec(),
            trees: Vec::new(),
            best_trees: 0,
            best_loss: 0.0,
            train: says(&data.train),
            validation: says(&data.validation),
            stuck: false,
        };
        forest.best_loss = forest.loss(&data.validation, &forest.validation, data);
        forest
    }

    pub(super) fn trees(&self) -> usize {
        self.trees.len()
    }

    pub(super) fn best_trees(&self) -> usize {
        self.best_trees
    }

    pub(super) fn is_done(&self) -> bool {
        self.stuck || self.trees.len() >= self.best_trees + PATIENCE
    }

    pub(super) fn train_loss(&self, data: &Prepared) -> f64 {
        self.loss(&data.train, &self.train, data)
    }

    /// With as many trees as were best.
    pub(super) fn predict(&self, summary: &[f32], forecast: &mut [f32; OUTPUTS]) {
        let own = &mut forecast[self.outputs.clone()];
        own.copy_from_slice(&self.base);
        self.trees.iter().take(self.best_trees).for_each(|tree| tree.add(summary, own));
    }

    /// Adds a tree.
    pub(super) fn grow(&mut self, data: &Prepared, bins: &Bins, train: &[f32], validation: &[f32], seed: u64) {
        if self.is_done() {
            return;
        }
        let mut questions = questions(bins, &self.wants(&data.train), seed);
        // A question that no sample answers with yes keeps all trees of one depth.
        let spare = questions.first().map(|(input, _)| (*input, MOST_WEIGHT));
        match spare {
            Some(spare) => questions.resize(DEPTH, spare),
            None => {
                self.stuck = true;
                return;
            }
        }
        let tree = self.filled(questions, &data.train, train, bins.cuts.len());
        self.play(&tree, train, validation, bins.cuts.len());
        self.trees.push(tree);
        self.judge(data);
    }

    fn play(&mut self, tree: &Tree, train: &[f32], validation: &[f32], inputs: usize) {
        let outputs = self.outputs.len();
        for (rows, said) in [(train, &mut self.train), (validation, &mut self.validation)] {
            for (summary, said) in rows.chunks_exact(inputs).zip(said.chunks_exact_mut(outputs)) {
                tree.add(summary, said);
            }
        }
    }

    fn judge(&mut self, data: &Prepared) {
        let loss = self.loss(&data.validation, &self.validation, data);
        if loss < self.best_loss {
            (self.best_loss, self.best_trees) = (loss, self.trees.len());
        }
    }

    /// In which direction each row would have each output move.
    fn wants(&self, part: &PreparedSamples) -> Wants {
        let outputs = self.outputs.len();
        let mut rows = vec![0.0; part.len() * (outputs + 1)];
        let given = part.known().zip(self.train.chunks_exact(outputs));
        for (row, ((targets, weight), said)) in rows.chunks_exact_mut(outputs + 1).zip(given) {
            let targets = &targets[self.outputs.clone()];
            if weight > 0.0 && targets.iter().all(|target| target.is_finite()) {
                for (at, (want, (target, said))) in row.iter_mut().zip(targets.iter().zip(said)).enumerate() {
                    *want = weight
                        * match self.aim {
                            Aim::Quantiles(levels) if target > said => levels[at],
                            Aim::Quantiles(levels) => levels[at] - 1.0,
                            Aim::Mean => target - said,
                        };
                }
                row[outputs] = weight;
            }
        }
        Wants { outputs, rows }
    }

    /// A tree with the leaves that fit best: of all rows, and exactly for the loss.
    fn filled(&self, questions: Questions, part: &PreparedSamples, train: &[f32], inputs: usize) -> Tree {
        let outputs = self.outputs.len();
        let mut tree = Tree { leaves: vec![0.0; outputs << questions.len()], questions };
        let mut missed = vec![Vec::new(); tree.leaves.len()];
        let given = train.chunks_exact(inputs).zip(part.known()).zip(self.train.chunks_exact(outputs));
        for ((summary, (targets, weight)), said) in given {
            let targets = &targets[self.outputs.clone()];
            if weight > 0.0 && targets.iter().all(|target| target.is_finite()) {
                let leaf = tree.leaf(summary) * outputs;
                for ((missed, target), said) in missed[leaf..].iter_mut().zip(targets).zip(said) {
                    missed.push((target - said, weight));
                }
            }
        }
        for (at, (leaf, missed)) in tree.leaves.iter_mut().zip(&mut missed).enumerate() {
            let all: f32 = missed.iter().map(|(_, weight)| weight).sum();
            let middle = match self.aim {
                Aim::Quantiles(levels) => quantile(missed, levels[at % outputs]).unwrap_or(0.0),
                Aim::Mean => missed.iter().map(|(miss, weight)| miss * weight).sum::<f32>() / all.max(1e-9),
            };
            *leaf = RATE * middle * all / (all + PRIOR);
        }
        tree
    }

    fn loss(&self, part: &PreparedSamples, said: &[f32], data: &Prepared) -> f64 {
        let mut sum = 0.0;
        for ((targets, weight), said) in part.known().zip(said.chunks_exact(self.outputs.len())) {
            for (at, (output, said)) in self.outputs.clone().zip(said).enumerate() {
                let target = targets[output];
                if target.is_finite() {
                    let loss = match self.aim {
                        Aim::Quantiles(levels) => pinball(levels[at], target, *said),
                        Aim::Mean => (target - said) * (target - said),
                    };
                    sum += f64::from(loss * data.importance[output] * weight);
                }
            }
        }
        sum / part.weights.iter().map(|weight| f64::from(*weight)).sum::<f64>().max(1e-9)
    }

    /// The first trees as they go into a file.
    pub(super) fn tensors(&self, at: usize, trees: usize) -> Vec<Tensor> {
        let kept = &self.trees[..trees.min(self.trees.len())];
        let named = |part: &str, shape: &[usize], values| Tensor {
            name: format!("forests.{at}.{part}"),
            shape: shape.to_vec(),
            values,
        };
        let questions = || kept.iter().flat_map(|tree| &tree.questions);
        let leaves = kept.iter().flat_map(|tree| &tree.leaves).copied().collect();
        let outputs = self.outputs.len();
        vec![
            named("base", &[outputs], Values::Floats(self.base.clone())),
            named("inputs", &[kept.len(), DEPTH], Values::Places(questions().map(|(input, _)| *input).collect())),
            named("thresholds", &[kept.len(), DEPTH], Values::Floats(questions().map(|(_, above)| *above).collect())),
            named("leaves", &[kept.len(), 1 << DEPTH, outputs], Values::Floats(leaves)),
        ]
    }

    /// Plays kept trees again.
    pub(super) fn restore(
        &mut self,
        at: usize,
        state: &Contents<'_>,
        data: &Prepared,
        train: &[f32],
        validation: &[f32],
    ) -> Result<(), ModelError> {
        let name = |part: &str| format!("forests.{at}.{part}");
        let (inputs, outputs) = (2 * data.features, self.outputs.len());
        let trees = state.shape(&name("leaves"))?.first().copied().unwrap_or(0);
        let which = state.places(&name("inputs"), &[trees, DEPTH], inputs)?;
        let above = state.floats(&name("thresholds"), &[trees, DEPTH])?;
        let leaves = state.floats(&name("leaves"), &[trees, 1 << DEPTH, outputs])?;
        let questions: Questions = which.into_iter().zip(above).collect();
        for (questions, leaves) in questions.chunks_exact(DEPTH).zip(leaves.chunks_exact(outputs << DEPTH)) {
            let tree = Tree { questions: questions.to_vec(), leaves: leaves.to_vec() };
            self.play(&tree, train, validation, inputs);
            self.trees.push(tree);
            self.judge(data);
        }
        Ok(())
    }
}
