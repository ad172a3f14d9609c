//! `trees`: gradient-boosted decision trees over the last row and how it came about.
//!
//! All nodes at the same depth of a tree ask the same question, so a tree is a list of questions and a table of answers,
//! and the answers to the questions are the place in the table. A forest is trees that predict the same outputs.

use super::{Network, Sizes};
use crate::error::ModelError;
use crate::file::Contents;
use crate::inputs::summarise;

/// How many trees a forest has at most.
const MOST_TREES: usize = 512;

/// How many questions a tree has at most.
const MOST_DEPTH: usize = 8;

pub(super) struct Trees {
    summary: Vec<f32>,
    forests: Vec<Forest>,
}

struct Forest {
    depth: usize,
    outputs: usize,
    base: Vec<f32>,
    /// Of each tree: which input, and whether it is above what.
    questions: Vec<(u16, f32)>,
    /// Of each tree: one row of outputs for each way to answer its questions.
    leaves: Vec<f32>,
}

impl Trees {
    pub(super) fn load(contents: &Contents<'_>, sizes: Sizes) -> Result<Self, ModelError> {
        let inputs = 2 * sizes.features;
        let mut forests: Vec<Forest> = Vec::new();
        let mut outputs = 0;
        while outputs < sizes.outputs {
            let forest = Forest::load(contents, forests.len(), inputs, sizes.outputs - outputs)?;
            outputs += forest.outputs;
            forests.push(forest);
        }
        Ok(Self { summary: vec![0.0; inputs], forests })
    }
}

impl Forest {
    fn load(contents: &Contents<'_>, at: usize, inputs: usize, most_outputs: usize) -> Result<Self, ModelError> {
        let name = |part: &str| format!("forests.{at}.{part}");
        let leaves = name("leaves");
        let (trees, depth, outputs) = match contents.shape(&leaves)? {
            [trees, leaves, outputs] if *trees <= MOST_TREES && leaves.is_power_of_two() && *outputs > 0 => {
                (*trees, leaves.trailing_zeros() as usize, *outputs)
            }
            _ => (0, 0, 0),
        };
        if !(1..=MOST_DEPTH).contains(&depth) || outputs > most_outputs {
            let wanted = format!("up to {MOST_TREES} trees of depth 1 to {MOST_DEPTH}, 1 to {most_outputs} outputs");
            return Err(contents.wrong_shape(&leaves, wanted));
        }
        let which = contents.places(&name("inputs"), &[trees, depth], inputs)?;
        let above = contents.floats(&name("thresholds"), &[trees, depth])?;
        Ok(Self {
            depth,
            outputs,
            base: contents.floats(&name("base"), &[outputs])?,
            questions: which.into_iter().zip(above).collect(),
            leaves: contents.floats(&leaves, &[trees, 1 << depth, outputs])?,
        })
    }

    fn run(&self, summary: &[f32], outputs: &mut [f32]) {
        outputs.copy_from_slice(&self.base);
        let table = self.outputs << self.depth;
        for (questions, table) in self.questions.chunks_exact(self.depth).zip(self.leaves.chunks_exact(table)) {
            let answers = questions.iter().fold(0, |answers, (which, above)| {
                let yes = summary.get(usize::from(*which)).is_some_and(|value| value > above);
                2 * answers + usize::from(yes)
            });
            let leaf = table.iter().skip(answers * self.outputs);
            for (output, change) in outputs.iter_mut().zip(leaf) {
                *output += change;
            }
        }
    }
}

impl Network for Trees {
    fn run(&mut self, window: &[f32], outputs: &mut [f32]) {
        summarise(window, &mut self.summary);
        let mut rest = outputs;
        for forest in &self.forests {
            let (own, others) = rest.split_at_mut(forest.outputs);
            forest.run(&self.summary, own);
            rest = others;
        }
    }
}
