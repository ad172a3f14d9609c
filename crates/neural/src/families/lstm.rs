//! `lstm`: a recurrent network whose units keep a cell that is written, forgotten and read through gates.

use super::{MOST_LAYERS, Network, Sizes};
use crate::arithmetic::{sigmoid, tanh};
use crate::dense::Dense;
use crate::error::ModelError;
use crate::file::Contents;

pub(super) struct Lstm {
    features: usize,
    layers: Vec<Layer>,
    head: Dense,
}

struct Layer {
    /// From the layer's input and its last output to the gates: write, forget, what to write, read.
    gates: Dense,
    units: usize,
    /// The input, and behind it the last output.
    given: Vec<f32>,
    found: Vec<f32>,
    cells: Vec<f32>,
}

impl Lstm {
    pub(super) fn load(contents: &Contents<'_>, sizes: Sizes) -> Result<Self, ModelError> {
        let mut layers: Vec<Layer> = Vec::new();
        let mut width = sizes.features;
        while layers.len() < MOST_LAYERS && contents.has(&format!("layers.{}.weight", layers.len())) {
            let layer = Layer::load(contents, layers.len(), width)?;
            width = layer.units;
            layers.push(layer);
        }
        Ok(Self { features: sizes.features, layers, head: contents.dense_to("head", width, sizes.outputs)? })
    }
}

impl Layer {
    fn load(contents: &Contents<'_>, at: usize, inputs: usize) -> Result<Self, ModelError> {
        let name = format!("layers.{at}");
        let units = contents.width(&name, 4)? / 4;
        let gates = contents.dense_to(&name, inputs + units, 4 * units)?;
        let (given, found) = (vec![0.0; inputs + units], vec![0.0; 4 * units]);
        Ok(Self { gates, units, given, found, cells: vec![0.0; units] })
    }

    fn reset(&mut self) {
        self.given.fill(0.0);
        self.cells.fill(0.0);
    }

    /// Takes one input; the output then stands at the end of `given`.
    fn step(&mut self, input: &[f32]) {
        let inputs = self.given.len() - self.units;
        self.given[..inputs].copy_from_slice(input);
        self.gates.apply(&self.given, &mut self.found);
        let (write, rest) = self.found.split_at(self.units);
        let (forget, rest) = rest.split_at(self.units);
        let (value, read) = rest.split_at(self.units);
        let (_, outputs) = self.given.split_at_mut(inputs);
        let gates = write.iter().zip(forget).zip(value).zip(read);
        for ((cell, output), (((write, forget), value), read)) in self.cells.iter_mut().zip(outputs).zip(gates) {
            *cell = sigmoid(*forget) * *cell + sigmoid(*write) * tanh(*value);
            *output = sigmoid(*read) * tanh(*cell);
        }
    }

    fn output(&self) -> &[f32] {
        &self.given[self.given.len() - self.units..]
    }
}

impl Network for Lstm {
    fn run(&mut self, window: &[f32], outputs: &mut [f32]) {
        self.layers.iter_mut().for_each(Layer::reset);
        let mut last: &[f32] = &[];
        for row in window.chunks_exact(self.features) {
            last = row;
            for layer in &mut self.layers {
                layer.step(last);
                last = layer.output();
            }
        }
        self.head.apply(last, outputs);
    }
}
