//! `transformer`: rows attend to each other, and the last one answers.

use super::{MOST_LAYERS, Network, Sizes};
use crate::arithmetic::{dot, normalise, softmax};
use crate::dense::Dense;
use crate::error::ModelError;
use crate::file::Contents;

/// How many ways of attending a layer has. The trainer has the same.
pub const HEADS: usize = 2;

pub(super) struct Transformer {
    features: usize,
    width: usize,
    embed: Dense,
    /// What is added to each row for its place in the window.
    places: Vec<f32>,
    layers: Vec<Layer>,
    norm: Norm,
    head: Dense,
    /// One row of `width` for each row of the window.
    rows: Vec<f32>,
    scratch: Scratch,
}

struct Norm {
    scale: Vec<f32>,
    shift: Vec<f32>,
}

struct Layer {
    before_attention: Norm,
    query: Dense,
    /// Keys and values of a row.
    memory: Dense,
    join: Dense,
    before_expansion: Norm,
    expand: Dense,
    contract: Dense,
}

/// Room for what is computed on the way.
struct Scratch {
    normed: Vec<f32>,
    query: Vec<f32>,
    memory: Vec<f32>,
    scores: Vec<f32>,
    mixed: Vec<f32>,
    added: Vec<f32>,
    expanded: Vec<f32>,
}

impl Transformer {
    pub(super) fn load(contents: &Contents<'_>, sizes: Sizes) -> Result<Self, ModelError> {
        let width = contents.width("embed", HEADS)?;
        let mut layers: Vec<Layer> = Vec::new();
        while layers.len() < MOST_LAYERS && contents.has(&format!("layers.{}.query.weight", layers.len())) {
            layers.push(Layer::load(contents, layers.len(), width)?);
        }
        let widest = layers.iter().map(|layer| layer.expand.outputs()).max().unwrap_or(0);
        Ok(Self {
            features: sizes.features,
            width,
            embed: contents.dense_to("embed", sizes.features, width)?,
            places: contents.floats("places", &[sizes.steps, width])?,
            layers,
            norm: Norm::load(contents, "norm", width)?,
            head: contents.dense_to("head", width, sizes.outputs)?,
            rows: vec![0.0; sizes.steps * width],
            scratch: Scratch {
                normed: vec![0.0; sizes.steps * width],
                query: vec![0.0; width],
                memory: vec![0.0; sizes.steps * 2 * width],
                scores: vec![0.0; sizes.steps],
                mixed: vec![0.0; width],
                added: vec![0.0; width],
                expanded: vec![0.0; widest],
            },
        })
    }
}

impl Norm {
    fn load(contents: &Contents<'_>, name: &str, width: usize) -> Result<Self, ModelError> {
        let part = |part: &str| contents.floats(&format!("{name}.{part}"), &[width]);
        Ok(Self { scale: part("weight")?, shift: part("bias")? })
    }

    fn apply(&self, row: &[f32], to: &mut [f32]) {
        normalise(row, &self.scale, &self.shift, to);
    }
}

impl Layer {
    fn load(contents: &Contents<'_>, at: usize, width: usize) -> Result<Self, ModelError> {
        let name = |part: &str| format!("layers.{at}.{part}");
        let expand = contents.dense(&name("expand"), width)?;
        Ok(Self {
            before_attention: Norm::load(contents, &name("before_attention"), width)?,
            query: contents.dense_to(&name("query"), width, width)?,
            memory: contents.dense_to(&name("memory"), width, 2 * width)?,
            join: contents.dense_to(&name("join"), width, width)?,
            before_expansion: Norm::load(contents, &name("before_expansion"), width)?,
            contract: contents.dense_to(&name("contract"), expand.outputs(), width)?,
            expand,
        })
    }

    /// Changes rows from one on; those before it are only attended to.
    fn run(&self, rows: &mut [f32], from: usize, width: usize, scratch: &mut Scratch) {
        let given = rows.chunks_exact(width).zip(scratch.normed.chunks_exact_mut(width));
        for ((row, normed), memory) in given.zip(scratch.memory.chunks_exact_mut(2 * width)) {
            self.before_attention.apply(row, normed);
            self.memory.apply(normed, memory);
        }
        let given = rows.chunks_exact_mut(width).zip(scratch.normed.chunks_exact_mut(width));
        for (row, normed) in given.skip(from) {
            self.query.apply(normed, &mut scratch.query);
            attend(&scratch.query, &scratch.memory, &mut scratch.scores, &mut scratch.mixed);
            self.join.apply(&scratch.mixed, &mut scratch.added);
            add(row, &scratch.added);
            self.before_expansion.apply(row, normed);
            let expanded = &mut scratch.expanded[..self.expand.outputs()];
            self.expand.apply_positive(normed, expanded);
            self.contract.apply(expanded, &mut scratch.added);
            add(row, &scratch.added);
        }
    }
}

/// Mixes the values of all rows by how well their keys fit the query, for each head by itself.
fn attend(query: &[f32], memory: &[f32], scores: &mut [f32], mixed: &mut [f32]) {
    let width = query.len();
    let part = width / HEADS;
    let by = 1.0 / (part as f32).sqrt();
    for (head, (query, mixed)) in query.chunks_exact(part).zip(mixed.chunks_exact_mut(part)).enumerate() {
        for (score, row) in scores.iter_mut().zip(memory.chunks_exact(2 * width)) {
            *score = by * dot(query, &row[head * part..][..part]);
        }
        softmax(scores);
        mixed.fill(0.0);
        for (share, row) in scores.iter().zip(memory.chunks_exact(2 * width)) {
            for (mixed, value) in mixed.iter_mut().zip(&row[width + head * part..]) {
                *mixed += share * value;
            }
        }
    }
}

fn add(to: &mut [f32], added: &[f32]) {
    for (to, added) in to.iter_mut().zip(added) {
        *to += added;
    }
}

impl Network for Transformer {
    fn run(&mut self, window: &[f32], outputs: &mut [f32]) {
        let given = window.chunks_exact(self.features).zip(self.places.chunks_exact(self.width));
        for ((features, place), row) in given.zip(self.rows.chunks_exact_mut(self.width)) {
            self.embed.apply(features, row);
            add(row, place);
        }
        let last = (self.rows.len() / self.width).saturating_sub(1);
        for (at, layer) in self.layers.iter().enumerate() {
            // Only the last row is asked, so the last layer need not change the others.
            let from = if at + 1 == self.layers.len() { last } else { 0 };
            layer.run(&mut self.rows, from, self.width, &mut self.scratch);
        }
        let (answer, normed) = (&self.rows[last * self.width..], &mut self.scratch.normed[..self.width]);
        self.norm.apply(answer, normed);
        self.head.apply(normed, outputs);
    }
}
