//! `tcn`: causal convolutions over time. Each layer joins pairs of moments, twice as far apart as the layer before.
//!
//! Only what the last moment depends on is computed: with pairs, the first layer joins neighbouring rows, the second its
//! results, and so on, as in a tournament. Layers that keep the width add to what they were given.

use super::{MOST_LAYERS, Network, Sizes};
use crate::dense::Dense;
use crate::error::ModelError;
use crate::file::Contents;

pub(super) struct Tcn {
    features: usize,
    /// Each layer with what comes out of it.
    layers: Vec<(Dense, Vec<f32>)>,
    head: Dense,
}

impl Tcn {
    pub(super) fn load(contents: &Contents<'_>, sizes: Sizes) -> Result<Self, ModelError> {
        let mut layers: Vec<(Dense, Vec<f32>)> = Vec::new();
        let (mut width, mut moments) = (sizes.features, sizes.steps);
        while layers.len() < MOST_LAYERS && moments > 1 {
            let layer = contents.dense(&format!("layers.{}", layers.len()), 2 * width)?;
            (width, moments) = (layer.outputs(), moments / 2);
            layers.push((layer, vec![0.0; moments * width]));
        }
        Ok(Self { features: sizes.features, layers, head: contents.dense_to("head", width, sizes.outputs)? })
    }
}

impl Network for Tcn {
    fn run(&mut self, window: &[f32], outputs: &mut [f32]) {
        let mut given = window;
        let mut width = self.features;
        for (at, (layer, found)) in self.layers.iter_mut().enumerate() {
            let keeps_width = at > 0 && layer.outputs() == width;
            for (pair, found) in given.chunks_exact(2 * width).zip(found.chunks_exact_mut(layer.outputs())) {
                layer.apply_positive(pair, found);
                if keeps_width {
                    for (found, newer) in found.iter_mut().zip(&pair[width..]) {
                        *found += newer;
                    }
                }
            }
            width = layer.outputs();
            given = found;
        }
        self.head.apply(given, outputs);
    }
}
