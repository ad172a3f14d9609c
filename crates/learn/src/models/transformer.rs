//! `transformer`: rows attend to each other, and the last one answers.

use candle_core::{D, Result, Tensor};
use neurogc_neural::{TRANSFORMER_EPSILON, TRANSFORMER_HEADS, WINDOW};

use super::descent::{NetworkPlan, TrainableNetwork};
use super::linear::row;
use super::parameters::{DenseWeights, NetworkWeights};

const WIDTH: usize = 32;
const EXPANDED: usize = 48;
const LAYERS: usize = 2;

struct Transformer {
    embed: DenseWeights,
    places: Tensor,
    layers: Vec<Layer>,
    norm: Norm,
    head: DenseWeights,
}

struct Norm {
    scale: Tensor,
    shift: Tensor,
}

struct Layer {
    before_attention: Norm,
    query: DenseWeights,
    memory: DenseWeights,
    join: DenseWeights,
    before_expansion: Norm,
    expand: DenseWeights,
    contract: DenseWeights,
}

pub(super) fn build(parameters: &mut NetworkWeights, plan: &NetworkPlan<'_>) -> Result<Box<dyn TrainableNetwork>> {
    Ok(Box::new(Transformer {
        embed: parameters.dense("embed", plan.features, WIDTH)?,
        places: parameters.drawn("places", &[WINDOW, WIDTH], 0.1)?,
        layers: (0..LAYERS).map(|at| Layer::new(parameters, at)).collect::<Result<_>>()?,
        norm: Norm::new(parameters, "norm")?,
        head: parameters.head(WIDTH, plan.says)?,
    }))
}

impl Norm {
    fn new(parameters: &mut NetworkWeights, name: &str) -> Result<Self> {
        Ok(Self {
            scale: parameters.filled(&format!("{name}.weight"), &[WIDTH], 1.0)?,
            shift: parameters.filled(&format!("{name}.bias"), &[WIDTH], 0.0)?,
        })
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + f64::from(TRANSFORMER_EPSILON))?.sqrt()?;
        centred.broadcast_div(&deviation)?.broadcast_mul(&self.scale)?.broadcast_add(&self.shift)
    }
}

impl Layer {
    fn new(parameters: &mut NetworkWeights, at: usize) -> Result<Self> {
        let name = |part: &str| format!("layers.{at}.{part}");
        Ok(Self {
            before_attention: Norm::new(parameters, &name("before_attention"))?,
            query: parameters.dense(&name("query"), WIDTH, WIDTH)?,
            memory: parameters.dense(&name("memory"), WIDTH, 2 * WIDTH)?,
            join: parameters.dense(&name("join"), WIDTH, WIDTH)?,
            before_expansion: Norm::new(parameters, &name("before_expansion"))?,
            expand: parameters.dense(&name("expand"), WIDTH, EXPANDED)?,
            contract: parameters.dense(&name("contract"), EXPANDED, WIDTH)?,
        })
    }

    /// Rows from one on, after they looked at all.
    fn apply(&self, rows: &Tensor, from: usize) -> Result<Tensor> {
        let asking = rows.dim(1)? - from;
        let normed = self.before_attention.apply(rows)?;
        let query = by_head(&self.query.apply(&normed.narrow(1, from, asking)?.contiguous()?)?)?;
        let memory = self.memory.apply(&normed)?;
        let key = by_head(&memory.narrow(2, 0, WIDTH)?)?;
        let value = by_head(&memory.narrow(2, WIDTH, WIDTH)?)?;
        let by = 1.0 / ((WIDTH / TRANSFORMER_HEADS) as f64).sqrt();
        let shares = softmax(&(query.matmul(&key.t()?.contiguous()?)? * by)?)?;
        let mixed = shares.matmul(&value)?.transpose(1, 2)?.contiguous()?;
        let (samples, _, _) = rows.dims3()?;
        let joined = self.join.apply(&mixed.reshape((samples, asking, WIDTH))?)?;
        let rows = (rows.narrow(1, from, asking)? + joined)?;
        let expanded = self.expand.apply(&self.before_expansion.apply(&rows)?)?.relu()?;
        rows + self.contract.apply(&expanded)?
    }
}

/// From samples × rows × width to samples × heads × rows × what a head sees.
fn by_head(x: &Tensor) -> Result<Tensor> {
    let (samples, rows, width) = x.dims3()?;
    x.contiguous()?
        .reshape((samples, rows, TRANSFORMER_HEADS, width / TRANSFORMER_HEADS))?
        .transpose(1, 2)?
        .contiguous()
}

fn softmax(scores: &Tensor) -> Result<Tensor> {
    // What is subtracted cancels out, so nothing is learned through it.
    let powers = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?;
    powers.broadcast_div(&powers.sum_keepdim(D::Minus1)?)
}

impl TrainableNetwork for Transformer {
    fn forward(&self, windows: &Tensor) -> Result<Tensor> {
        let mut rows = self.embed.apply(windows)?.broadcast_add(&self.places)?;
        for (at, layer) in self.layers.iter().enumerate() {
            // Only the last row is asked, so the last layer need not change the others.
            rows = layer.apply(&rows, if at + 1 == LAYERS { WINDOW - 1 } else { 0 })?;
        }
        self.head.apply(&self.norm.apply(&row(&rows, rows.dim(1)? - 1)?)?)
    }
}
