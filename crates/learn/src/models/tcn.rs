//! `tcn`: causal convolutions over time, of which only what the last moment depends on is computed.

use candle_core::{Result, Tensor};

use super::descent::{NetworkPlan, TrainableNetwork};
use super::parameters::{DenseWeights, NetworkWeights};

const CHANNELS: usize = 32;

struct Tcn {
    layers: [DenseWeights; 3],
    head: DenseWeights,
}

pub(super) fn build(parameters: &mut NetworkWeights, plan: &NetworkPlan<'_>) -> Result<Box<dyn TrainableNetwork>> {
    let layers = [
        parameters.dense("layers.0", 2 * plan.features, CHANNELS)?,
        parameters.dense("layers.1", 2 * CHANNELS, CHANNELS)?,
        parameters.dense("layers.2", 2 * CHANNELS, CHANNELS)?,
    ];
    Ok(Box::new(Tcn { layers, head: parameters.head(CHANNELS, plan.says)? }))
}

impl TrainableNetwork for Tcn {
    fn forward(&self, windows: &Tensor) -> Result<Tensor> {
        let mut moments = windows.clone();
        for (at, layer) in self.layers.iter().enumerate() {
            let (samples, steps, width) = moments.dims3()?;
            let pairs = moments.reshape((samples, steps / 2, 2 * width))?;
            moments = layer.apply(&pairs)?.relu()?;
            if at > 0 {
                moments = (moments + pairs.narrow(2, width, width)?)?;
            }
        }
        self.head.apply(&moments.squeeze(1)?)
    }
}
