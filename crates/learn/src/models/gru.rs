//! `gru`: a recurrent network whose units decide how much of their last output to keep.

use candle_core::{D, DType, Device, Result, Tensor};

use super::descent::{NetworkPlan, TrainableNetwork};
use super::linear::row;
use super::loss::sigmoid;
use super::parameters::{DenseWeights, NetworkWeights};

const UNITS: usize = 32;

struct Gru {
    input: DenseWeights,
    output: DenseWeights,
    head: DenseWeights,
}

pub(super) fn build(parameters: &mut NetworkWeights, plan: &NetworkPlan<'_>) -> Result<Box<dyn TrainableNetwork>> {
    Ok(Box::new(Gru {
        input: parameters.dense("input", plan.features, 3 * UNITS)?,
        output: parameters.dense("output", UNITS, 3 * UNITS)?,
        head: parameters.head(UNITS, plan.says)?,
    }))
}

impl TrainableNetwork for Gru {
    fn forward(&self, windows: &Tensor) -> Result<Tensor> {
        let (samples, steps, _) = windows.dims3()?;
        let mut output = Tensor::zeros((samples, UNITS), DType::F32, &Device::Cpu)?;
        for at in 0..steps {
            let by_input = self.input.apply(&row(windows, at)?)?.chunk(3, D::Minus1)?;
            let by_output = self.output.apply(&output)?.chunk(3, D::Minus1)?;
            let look = sigmoid(&(&by_input[0] + &by_output[0])?)?;
            let keep = sigmoid(&(&by_input[1] + &by_output[1])?)?;
            let write = (&by_input[2] + (look * &by_output[2])?)?.tanh()?;
            output = (&write + (keep * (output - &write)?)?)?;
        }
        self.head.apply(&output)
    }
}
