//! `gru`: a recurrent network whose units decide how much of their last output to keep.

use super::{Network, Sizes};
use crate::arithmetic::{sigmoid, tanh};
use crate::dense::Dense;
use crate::error::ModelError;
use crate::file::Contents;

pub(super) struct Gru {
    features: usize,
    units: usize,
    /// From the input, and from the last output, to: what to look at, what to keep, what to write.
    from_input: Dense,
    from_output: Dense,
    by_input: Vec<f32>,
    by_output: Vec<f32>,
    output: Vec<f32>,
    head: Dense,
}

impl Gru {
    pub(super) fn load(contents: &Contents<'_>, sizes: Sizes) -> Result<Self, ModelError> {
        let units = contents.width("input", 3)? / 3;
        Ok(Self {
            features: sizes.features,
            units,
            from_input: contents.dense_to("input", sizes.features, 3 * units)?,
            from_output: contents.dense_to("output", units, 3 * units)?,
            by_input: vec![0.0; 3 * units],
            by_output: vec![0.0; 3 * units],
            output: vec![0.0; units],
            head: contents.dense_to("head", units, sizes.outputs)?,
        })
    }
}

impl Network for Gru {
    fn run(&mut self, window: &[f32], outputs: &mut [f32]) {
        self.output.fill(0.0);
        for row in window.chunks_exact(self.features) {
            self.from_input.apply(row, &mut self.by_input);
            self.from_output.apply(&self.output, &mut self.by_output);
            let (input_look, rest) = self.by_input.split_at(self.units);
            let (input_keep, input_write) = rest.split_at(self.units);
            let (output_look, rest) = self.by_output.split_at(self.units);
            let (output_keep, output_write) = rest.split_at(self.units);
            let by_input = input_look.iter().zip(input_keep).zip(input_write);
            let by_output = output_look.iter().zip(output_keep).zip(output_write);
            for ((output, ((il, ik), iw)), ((ol, ok), ow)) in self.output.iter_mut().zip(by_input).zip(by_output) {
                let (look, keep) = (sigmoid(il + ol), sigmoid(ik + ok));
                let write = tanh(iw + look * ow);
                *output = write + keep * (*output - write);
            }
        }
        self.head.apply(&self.output, outputs);
    }
}
