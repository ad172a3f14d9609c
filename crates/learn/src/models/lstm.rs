//! `lstm`: a recurrent network whose units keep a cell that is written, forgotten and read through gates.

use candle_core::{D, DType, Device, Result, Tensor};

use super::descent::{NetworkPlan, TrainableNetwork};
use super::linear::row;
use super::loss::sigmoid;
use super::parameters::{DenseWeights, NetworkWeights};

const UNITS: usize = 32;
const LAYERS: usize = 1;

pub(super) struct TrainableLstm {
    layers: Vec<DenseWeights>,
    units: usize,
    head: DenseWeights,
}

pub(super) fn build(parameters: &mut NetworkWeights, plan: &NetworkPlan<'_>) -> Result<Box<dyn TrainableNetwork>> {
    Ok(Box::new(TrainableLstm::of_size(parameters, plan, LAYERS, UNITS)?))
}

impl TrainableLstm {
    /// So many layers of so many units.
    pub(super) fn of_size(
        parameters: &mut NetworkWeights,
        plan: &NetworkPlan<'_>,
        count: usize,
        units: usize,
    ) -> Result<Self> {
        let mut layers = Vec::new();
        let mut width = plan.features;
        for at in 0..count {
            layers.push(parameters.dense(&format!("layers.{at}"), width + units, 4 * units)?);
            width = units;
        }
        Ok(Self { layers, units, head: parameters.head(width, plan.says)? })
    }

    /// The same as `forward`, where something is done to whatever one layer gives to the next.
    pub(super) fn forward_with(
        &self,
        windows: &Tensor,
        between: &mut dyn FnMut(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (samples, steps, _) = windows.dims3()?;
        let nothing = Tensor::zeros((samples, self.units), DType::F32, &Device::Cpu)?;
        let mut rows = (0..steps).map(|at| row(windows, at)).collect::<Result<Vec<_>>>()?;
        let mut output = nothing.clone();
        for (at, layer) in self.layers.iter().enumerate() {
            if at > 0 {
                rows = rows.iter().map(&mut *between).collect::<Result<_>>()?;
            }
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

impl TrainableNetwork for TrainableLstm {
    fn forward(&self, windows: &Tensor) -> Result<Tensor> {
        self.forward_with(windows, &mut |row| Ok(row.clone()))
    }
}
