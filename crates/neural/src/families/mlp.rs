//! `mlp`: layers of weighted sums with zero as their floor, over the last row and how it came about.

use super::{MOST_LAYERS, Network, Sizes};
use crate::dense::Dense;
use crate::error::ModelError;
use crate::file::Contents;
use crate::inputs::summarise;

pub(super) struct Mlp {
    summary: Vec<f32>,
    /// Each layer with what comes out of it.
    layers: Vec<(Dense, Vec<f32>)>,
    head: Dense,
}

impl Mlp {
    pub(super) fn load(contents: &Contents<'_>, sizes: Sizes) -> Result<Self, ModelError> {
        let summary = vec![0.0; 2 * sizes.features];
        let mut layers: Vec<(Dense, Vec<f32>)> = Vec::new();
        let mut width = summary.len();
        while layers.len() < MOST_LAYERS && contents.has(&format!("layers.{}.weight", layers.len())) {
            let layer = contents.dense(&format!("layers.{}", layers.len()), width)?;
            width = layer.outputs();
            layers.push((layer, vec![0.0; width]));
        }
        Ok(Self { summary, layers, head: contents.dense_to("head", width, sizes.outputs)? })
    }
}

impl Network for Mlp {
    fn run(&mut self, window: &[f32], outputs: &mut [f32]) {
        summarise(window, &mut self.summary);
        let mut given: &[f32] = &self.summary;
        for (layer, found) in &mut self.layers {
            layer.apply_positive(given, found);
            given = found;
        }
        self.head.apply(given, outputs);
    }
}
