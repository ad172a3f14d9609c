//! `mlp`: two layers with zero as their floor, over the last row and how it came about.

use candle_core::{Result, Tensor};

use super::descent::{NetworkPlan, TrainableNetwork};
use super::linear::summarise;
use super::parameters::{DenseWeights, NetworkWeights};

const UNITS: usize = 64;

struct Mlp {
    layers: [DenseWeights; 2],
    head: DenseWeights,
}

pub(super) fn build(parameters: &mut NetworkWeights, plan: &NetworkPlan<'_>) -> Result<Box<dyn TrainableNetwork>> {
    let layers = [parameters.dense("layers.0", 2 * plan.features, UNITS)?, parameters.dense("layers.1", UNITS, UNITS)?];
    Ok(Box::new(Mlp { layers, head: parameters.head(UNITS, plan.says)? }))
}

impl TrainableNetwork for Mlp {
    fn forward(&self, windows: &Tensor) -> Result<Tensor> {
        let mut x = summarise(windows)?;
        for layer in &self.layers {
            x = layer.apply(&x)?.relu()?;
        }
        self.head.apply(&x)
    }
}
