//! `lstm`: a recurrent network whose units keep a cell that is written, forgotten and read through gates.

use candle_core::{D, DType, Device, Result, Tensor};

use super::descent::{Network, Plan};
use super::linear::row;
use super::loss::sigmoid;
use super::parameters::{Dense, Parameters};

const UNITS: usize = 32;
const LAYERS: usize = 1;

struct Lstm {
    layers: Vec<Dense>,
    head: Dense,
}

pub(super) fn build(parameters: &mut Parameters, plan: &Plan<'_>) -> Result<Box<dyn Network>> {
    let mut layers = Vec::new();
    let mut width = plan.features;
    for at in 0..LAYERS {
        layers.push(parameters.dense(&format!("layers.{at}"), width + UNITS, 4 * UNITS)?);
        width = UNITS;
    }
    Ok(Box::new(Lstm { layers, head: parameters.head(width, plan.says)? }))
}

impl Network for Lstm {
    fn forward(&self, windows: &Tensor) -> Result<Tensor> {
        let (samples, steps, _) = windows.dims3()?;
        let nothing = Tensor::zeros((samples, UNITS), DType::F32, &Device::Cpu)?;
        let mut rows = (0..steps).map(|at| row(windows, at)).collect::<Result<Vec<_>>>()?;
        let mut output = nothing.clone();
        for layer in &self.layers {
            let mut cells = nothing.clone();
            output = nothing.clone();
            for row in &mut rows {
                let gates = layer.apply(&Tensor::cat(&[&*row, &output], D::Minus1)?)?.chunk(4, D::Minus1)?;
                let written = (sigmoid(&gates[0])? * gates[2].tanh()?)?;
                cells = ((sigmoid(&gates[1])? * cells)? + written)?;
                output = (sigmoid(&gates[3])? * cells.tanh()?)?;
                *row = output.clone();
            }
        }
        self.head.apply(&output)
    }
}
