//! `mlp`: two layers with zero as their floor, over the last row and how it came about.

use candle_core::{Result, Tensor};

use super::descent::{Network, Plan};
use super::linear::summarise;
use super::parameters::{Dense, Parameters};

const UNITS: usize = 64;

struct Mlp {
    layers: [Dense; 2],
    head: Dense,
}

pub(super) fn build(parameters: &mut Parameters, plan: &Plan<'_>) -> Result<Box<dyn Network>> {
    let layers = [parameters.dense("layers.0", 2 * plan.features, UNITS)?, parameters.dense("layers.1", UNITS, UNITS)?];
    Ok(Box::new(Mlp { layers, head: parameters.head(UNITS, plan.says)? }))
}

impl Network for Mlp {
    fn forward(&self, windows: &Tensor) -> Result<Tensor> {
        let mut x = summarise(windows)?;
        for layer in &self.layers {
            x = layer.apply(&x)?.relu()?;
        }
        self.head.apply(&x)
    }
}
