//! `linear`: weighted sums of the last row and of how it came about.

use super::{Network, Sizes};
use crate::dense::Dense;
use crate::error::ModelError;
use crate::file::Contents;
use crate::inputs::summarise;

pub(super) struct Linear {
    head: Dense,
    summary: Vec<f32>,
}

impl Linear {
    pub(super) fn load(contents: &Contents<'_>, sizes: Sizes) -> Result<Self, ModelError> {
        let inputs = 2 * sizes.features;
        Ok(Self { head: contents.dense_to("head", inputs, sizes.outputs)?, summary: vec![0.0; inputs] })
    }
}

impl Network for Linear {
    fn run(&mut self, window: &[f32], outputs: &mut [f32]) {
        summarise(window, &mut self.summary);
        self.head.apply(&self.summary, outputs);
    }
}
