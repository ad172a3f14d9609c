//! `tcn`: causal convolutions over time, of which only what the last moment depends on is computed.

use candle_core::{Result, Tensor};

use super::descent::{Network, Plan};
use super::parameters::{Dense, Parameters};

const CHANNELS: usize = 32;

struct Tcn {
    layers: [Dense; 3],
    head: Dense,
}

pub(super) fn build(parameters: &mut Parameters, plan: &Plan<'_>) -> Result<Box<dyn Network>> {
    let layers = [
        parameters.dense("layers.0", 2 * plan.features, CHANNELS)?,
        parameters.dense("layers.1", 2 * CHANNELS, CHANNELS)?,
        parameters.dense("layers.2", 2 * CHANNELS, CHANNELS)?,
    ];
    Ok(Box::new(Tcn { layers, head: parameters.head(CHANNELS, plan.says)? }))
}

impl Network for Tcn {
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
