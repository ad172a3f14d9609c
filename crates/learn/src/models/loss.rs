//! What a forecast costs: pinball loss for quantiles, squared error for the rest, nothing where the target is unknown.
//!
//! The same twice: for tensors, so that it can be learned from, and for numbers, so that every family is judged alike.

use candle_core::{D, Device, Result, Tensor};
use neurogc_neural::{GAP_LEVELS, OUTPUTS};

use super::prepared::PreparedSamples;

const GAPS: usize = GAP_LEVELS.len();

/// The pinball loss of a quantile: being too low costs its level, being too high the rest.
pub(super) fn pinball(level: f32, target: f32, forecast: f32) -> f32 {
    let over = target - forecast;
    (level * over).max((level - 1.0) * over)
}

/// The mean loss of forecasts.
pub(super) fn mean_loss(forecasts: &[[f32; OUTPUTS]], part: &PreparedSamples, importance: &[f32; OUTPUTS]) -> f64 {
    let mut sum = 0.0;
    for (forecast, (targets, weight)) in forecasts.iter().zip(part.known()) {
        for at in (0..OUTPUTS).filter(|at| targets[*at].is_finite()) {
            let loss = match GAP_LEVELS.get(at) {
                Some(level) => pinball(*level, targets[at], forecast[at]),
                None => (targets[at] - forecast[at]) * (targets[at] - forecast[at]),
            };
            sum += f64::from(loss * importance[at] * weight);
        }
    }
    sum / part.weights.iter().map(|weight| f64::from(*weight)).sum::<f64>().max(1e-9)
}

/// What a batch should have been forecast, as tensors.
pub(super) struct Goal {
    targets: Tensor,
    /// Weight times importance; zero where the target is unknown.
    weights: Tensor,
    total: f64,
}

impl Goal {
    pub(super) fn new(part: &PreparedSamples, rows: &[usize], importance: &[f32; OUTPUTS]) -> Result<Self> {
        let mut targets = Vec::with_capacity(rows.len() * OUTPUTS);
        let mut weights = Vec::with_capacity(rows.len() * OUTPUTS);
        for row in rows {
            for (target, importance) in part.targets[*row].iter().zip(importance) {
                let known = target.is_finite();
                targets.push(if known { *target } else { 0.0 });
                weights.push(if known { part.weights[*row] * importance } else { 0.0 });
            }
        }
        let total: f64 = rows.iter().map(|row| f64::from(part.weights[*row])).sum();
        let shape = (rows.len(), OUTPUTS);
        let tensor = |values: Vec<f32>| Tensor::from_vec(values, shape, &Device::Cpu);
        Ok(Self { targets: tensor(targets)?, weights: tensor(weights)?, total: total.max(1e-9) })
    }

    /// The mean loss of forecasts.
    pub(super) fn loss(&self, forecasts: &Tensor) -> Result<Tensor> {
        let over = (&self.targets - forecasts)?;
        let levels = Tensor::new(&GAP_LEVELS, &Device::Cpu)?;
        let gaps = over.narrow(D::Minus1, 0, GAPS)?;
        let pinball = (gaps.relu()?.broadcast_mul(&levels)? + gaps.neg()?.relu()?.broadcast_mul(&(1.0 - levels)?)?)?;
        let squared = over.narrow(D::Minus1, GAPS, OUTPUTS - GAPS)?.sqr()?;
        (Tensor::cat(&[pinball, squared], D::Minus1)? * &self.weights)?.sum_all()? / self.total
    }
}

/// `Head::Steps` for tensors.
pub(super) fn steps_head(raw: &Tensor) -> Result<Tensor> {
    let first = raw.narrow(D::Minus1, 0, 1)?;
    let steps = softplus(&raw.narrow(D::Minus1, 1, GAPS - 1)?)?;
    // Summing up is a product with a triangle of ones.
    let triangle: Vec<f32> = (0..GAPS * GAPS).map(|at| f32::from(u8::from(at / GAPS <= at % GAPS))).collect();
    let triangle = Tensor::from_vec(triangle, (GAPS, GAPS), &Device::Cpu)?;
    let gaps = Tensor::cat(&[first, steps], D::Minus1)?.matmul(&triangle)?;
    let yields = sigmoid(&raw.narrow(D::Minus1, GAPS, 2)?)?;
    let pauses = raw.narrow(D::Minus1, GAPS + 2, OUTPUTS - GAPS - 2)?;
    Tensor::cat(&[gaps, yields, pauses], D::Minus1)
}

/// From 0 to 1.
pub(super) fn sigmoid(x: &Tensor) -> Result<Tensor> {
    ((x * 0.5)?.tanh()? * 0.5)? + 0.5
}

fn softplus(x: &Tensor) -> Result<Tensor> {
    x.relu()? + (x.abs()?.neg()?.exp()? + 1.0)?.log()?
}
