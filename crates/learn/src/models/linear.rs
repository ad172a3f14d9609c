//! `linear`: weighted sums of the last row and of how it came about.

use candle_core::{D, Result, Tensor};

use super::descent::{NetworkPlan, TrainableNetwork};
use super::parameters::{DenseWeights, NetworkWeights};

struct Linear {
    head: DenseWeights,
}

pub(super) fn build(parameters: &mut NetworkWeights, plan: &NetworkPlan<'_>) -> Result<Box<dyn TrainableNetwork>> {
    Ok(Box::new(Linear { head: parameters.head(2 * plan.features, plan.says)? }))
}

impl TrainableNetwork for Linear {
    fn forward(&self, windows: &Tensor) -> Result<Tensor> {
        self.head.apply(&summarise(windows)?)
    }
}

/// `neurogc_neural::summarise` for tensors.
pub(super) fn summarise(windows: &Tensor) -> Result<Tensor> {
    let last = row(windows, windows.dim(1)? - 1)?;
    let moved = (&last - row(windows, 0)?)?;
    Tensor::cat(&[last, moved], D::Minus1)
}

/// One row of each window.
pub(super) fn row(windows: &Tensor, at: usize) -> Result<Tensor> {
    windows.narrow(1, at, 1)?.squeeze(1)?.contiguous()
}
