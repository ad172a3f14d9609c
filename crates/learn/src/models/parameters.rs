//! The weights of a network while it learns, and how they move: Adam with decay and a limit on each step.

use candle_core::backprop::GradStore;
use candle_core::{Device, Result, Tensor, Var};
use neurogc_load::Chance;
use neurogc_neural::{Contents, MOST_WEIGHT, ModelError, Tensor as Kept, Values};

const FIRST_DECAY: f32 = 0.9;
const SECOND_DECAY: f32 = 0.999;
const EPSILON: f32 = 1e-8;
/// Weights shrink by this much of the rate in each step, biases do not.
const WEIGHT_DECAY: f32 = 1e-2;
/// A gradient is never longer, so that one odd batch cannot undo what was learned.
const LONGEST_GRADIENT: f32 = 1.0;

/// All weights of a network, by name.
pub(super) struct NetworkWeights {
    all: Vec<Parameter>,
    chance: Chance,
    steps: i32,
    weight_decay: f32,
}

struct Parameter {
    name: String,
    shape: Vec<usize>,
    variable: Var,
    values: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
}

/// A layer of weighted sums.
pub(super) struct DenseWeights {
    weight: Tensor,
    bias: Tensor,
}

impl DenseWeights {
    /// Of rows of any number of dimensions.
    pub(super) fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let (outputs, inputs) = self.weight.dims2()?;
        let mut shape = x.dims().to_vec();
        let rows = x.elem_count() / inputs;
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        x.reshape((rows, inputs))?.matmul(&self.weight.t()?)?.broadcast_add(&self.bias)?.reshape(shape)
    }
}

impl NetworkWeights {
    pub(super) fn new(seed: u64) -> Self {
        Self { all: Vec::new(), chance: Chance::new(seed), steps: 0, weight_decay: WEIGHT_DECAY }
    }

    /// The same, without decay.
    pub(super) fn without_decay(self) -> Self {
        Self { weight_decay: 0.0, ..self }
    }

    /// A layer whose outputs vary about as much as its inputs.
    pub(super) fn dense(&mut self, name: &str, inputs: usize, outputs: usize) -> Result<DenseWeights> {
        let reach = (3.0 / inputs as f32).sqrt();
        Ok(DenseWeights {
            weight: self.drawn(&format!("{name}.weight"), &[outputs, inputs], reach)?,
            bias: self.filled(&format!("{name}.bias"), &[outputs], 0.0)?,
        })
    }

    /// The last layer, which begins by saying the same whatever it is given.
    pub(super) fn head(&mut self, inputs: usize, says: &[f32]) -> Result<DenseWeights> {
        let weight = self.drawn("head.weight", &[says.len(), inputs], 0.01)?;
        Ok(DenseWeights { weight, bias: self.add("head.bias", &[says.len()], says.to_vec())? })
    }

    /// Weights drawn evenly from around zero.
    pub(super) fn drawn(&mut self, name: &str, shape: &[usize], reach: f32) -> Result<Tensor> {
        let count = shape.iter().product();
        let values = (0..count).map(|_| reach * (2.0 * self.chance.share() as f32 - 1.0)).collect();
        self.add(name, shape, values)
    }

    /// Weights that begin alike.
    pub(super) fn filled(&mut self, name: &str, shape: &[usize], value: f32) -> Result<Tensor> {
        self.add(name, shape, vec![value; shape.iter().product()])
    }

    fn add(&mut self, name: &str, shape: &[usize], values: Vec<f32>) -> Result<Tensor> {
        let variable = Var::from_vec(values.clone(), shape, &Device::Cpu)?;
        let tensor = variable.as_tensor().clone();
        let still = vec![0.0; values.len()];
        let (name, shape) = (name.to_owned(), shape.to_vec());
        self.all.push(Parameter { name, shape, variable, values, first: still.clone(), second: still });
        Ok(tensor)
    }

    /// Moves all weights against their gradients.
    pub(super) fn step(&mut self, gradients: &GradStore, rate: f32) -> Result<()> {
        let mut slopes = Vec::with_capacity(self.all.len());
        for parameter in &self.all {
            slopes.push(match gradients.get(&parameter.variable) {
                Some(gradient) => gradient.flatten_all()?.to_vec1::<f32>()?,
                None => vec![0.0; parameter.values.len()],
            });
        }
        let length = slopes.iter().flatten().map(|slope| slope * slope).sum::<f32>().sqrt();
        let shorten = if length > LONGEST_GRADIENT { LONGEST_GRADIENT / length } else { 1.0 };
        self.steps += 1;
        let first_share = 1.0 - FIRST_DECAY.powi(self.steps);
        let second_share = 1.0 - SECOND_DECAY.powi(self.steps);
        for (parameter, slopes) in self.all.iter_mut().zip(slopes) {
            let decay = if parameter.name.ends_with("weight") { 1.0 - rate * self.weight_decay } else { 1.0 };
            let moving = parameter.values.iter_mut().zip(&mut parameter.first).zip(&mut parameter.second);
            for (((value, first), second), slope) in moving.zip(slopes) {
                let slope = slope * shorten;
                *first = FIRST_DECAY * *first + (1.0 - FIRST_DECAY) * slope;
                *second = SECOND_DECAY * *second + (1.0 - SECOND_DECAY) * slope * slope;
                let step = *first / first_share / ((*second / second_share).sqrt() + EPSILON);
                *value = (*value * decay - rate * step).clamp(-MOST_WEIGHT, MOST_WEIGHT);
            }
            parameter.show()?;
        }
        Ok(())
    }

    /// The weights as they go into a file.
    pub(super) fn kept(&self) -> Vec<Kept> {
        self.all.iter().map(|it| it.kept("", &it.values)).collect()
    }

    /// The weights and how they were moving.
    pub(super) fn state(&self) -> Vec<Kept> {
        let moving =
            |it: &Parameter| [it.kept("", &it.values), it.kept("first.", &it.first), it.kept("second.", &it.second)];
        let steps = Values::Floats(vec![(self.steps / 1000) as f32, (self.steps % 1000) as f32]);
        let steps = Kept { name: "steps".to_owned(), shape: vec![2], values: steps };
        self.all.iter().flat_map(moving).chain([steps]).collect()
    }

    /// Goes on from a state.
    pub(super) fn restore(&mut self, state: &Contents<'_>) -> std::result::Result<(), ModelError> {
        for it in &mut self.all {
            it.values = state.floats(&it.name, &it.shape)?;
            it.first = state.floats(&format!("first.{}", it.name), &it.shape)?;
            it.second = state.floats(&format!("second.{}", it.name), &it.shape)?;
            it.show().map_err(|error| ModelError::Unreadable { reason: error.to_string() })?;
        }
        let steps = state.floats("steps", &[2])?;
        self.steps = (steps[0] * 1000.0 + steps[1]) as i32;
        Ok(())
    }
}

impl Parameter {
    /// Lets the network see the values.
    fn show(&self) -> Result<()> {
        self.variable.set(&Tensor::from_slice(&self.values, self.shape.as_slice(), &Device::Cpu)?)
    }

    fn kept(&self, prefix: &str, values: &[f32]) -> Kept {
        let name = format!("{prefix}{}", self.name);
        Kept { name, shape: self.shape.clone(), values: Values::Floats(values.to_vec()) }
    }
}
