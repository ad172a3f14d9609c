//! Untrained model files: the right shapes, with random numbers.

use neurogc_neural::{FORMAT, Family, Metadata, OUTPUT_NAMES, OUTPUTS, Tensor, Values, WINDOW, write};

/// As many as the agent has at most.
pub(crate) const FEATURES: usize = 32;

/// Numbers from -1 to 1 that repeat themselves.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    pub(crate) fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    pub(crate) fn window(&mut self) -> Vec<f32> {
        (0..WINDOW * FEATURES).map(|_| 3.0 * self.next()).collect()
    }
}

pub(crate) fn metadata(family: Family) -> Metadata {
    Metadata {
        format: FORMAT,
        model: family.name().to_owned(),
        window: WINDOW,
        features: (0..FEATURES).map(|at| format!("feature_{at}")).collect(),
        outputs: OUTPUT_NAMES.map(str::to_owned).to_vec(),
        means: vec![0.1; FEATURES],
        scales: vec![1.5; FEATURES],
        ..Metadata::default()
    }
}

/// The tensors of a family, in the sizes that the trainer gives it.
pub(crate) fn tensors(family: Family, draw: &mut Draw) -> Vec<Tensor> {
    let mut made = Made { draw, tensors: Vec::new() };
    match family {
        Family::Linear | Family::Rl => made.dense("head", 2 * FEATURES, OUTPUTS),
        Family::Mlp => {
            made.dense("layers.0", 2 * FEATURES, 64);
            made.dense("layers.1", 64, 64);
            made.dense("head", 64, OUTPUTS);
        }
        Family::Lstm => {
            made.dense("layers.0", FEATURES + 32, 4 * 32);
            made.dense("head", 32, OUTPUTS);
        }
        Family::Gru => {
            made.dense("input", FEATURES, 3 * 32);
            made.dense("output", 32, 3 * 32);
            made.dense("head", 32, OUTPUTS);
        }
        Family::Tcn => {
            made.dense("layers.0", 2 * FEATURES, 32);
            made.dense("layers.1", 64, 32);
            made.dense("layers.2", 64, 32);
            made.dense("head", 32, OUTPUTS);
        }
        Family::Transformer => made.transformer(),
        Family::Trees => {
            let forests = [(160, 5), (60, 1), (60, 1), (60, 1), (60, 1)];
            forests.into_iter().enumerate().for_each(|(at, (trees, outputs))| made.forest(at, trees, outputs));
        }
    }
    made.tensors
}

/// A whole file.
pub(crate) fn file(family: Family, seed: u64) -> Vec<u8> {
    write(&metadata(family), &tensors(family, &mut Draw::new(seed))).expect("a made-up model can be written")
}

struct Made<'a> {
    draw: &'a mut Draw,
    tensors: Vec<Tensor>,
}

impl Made<'_> {
    fn floats(&mut self, name: &str, shape: &[usize]) {
        let values = (0..shape.iter().product()).map(|_| 0.2 * self.draw.next()).collect();
        self.tensors.push(Tensor { name: name.to_owned(), shape: shape.to_vec(), values: Values::Floats(values) });
    }

    fn dense(&mut self, name: &str, inputs: usize, outputs: usize) {
        self.floats(&format!("{name}.weight"), &[outputs, inputs]);
        self.floats(&format!("{name}.bias"), &[outputs]);
    }

    fn transformer(&mut self) {
        let (width, wide) = (32, 48);
        self.dense("embed", FEATURES, width);
        self.floats("places", &[WINDOW, width]);
        for layer in ["layers.0", "layers.1"] {
            for norm in ["before_attention", "before_expansion"] {
                self.floats(&format!("{layer}.{norm}.weight"), &[width]);
                self.floats(&format!("{layer}.{norm}.bias"), &[width]);
            }
            let parts =
                [("query", width, width), ("memory", width, 64), ("join", width, width), ("expand", width, wide)];
            parts
                .into_iter()
                .for_each(|(part, inputs, outputs)| self.dense(&format!("{layer}.{part}"), inputs, outputs));
            self.dense(&format!("{layer}.contract"), wide, width);
        }
        self.floats("norm.weight", &[width]);
        self.floats("norm.bias", &[width]);
        self.dense("head", width, OUTPUTS);
    }

    fn forest(&mut self, at: usize, trees: usize, outputs: usize) {
        let depth = 6;
        self.floats(&format!("forests.{at}.base"), &[outputs]);
        self.floats(&format!("forests.{at}.thresholds"), &[trees, depth]);
        self.floats(&format!("forests.{at}.leaves"), &[trees, 1 << depth, outputs]);
        let inputs = 2.0 * FEATURES as f32;
        let places = (0..trees * depth).map(|_| ((self.draw.next() * 0.5 + 0.5) * inputs) as u16).collect();
        let name = format!("forests.{at}.inputs");
        self.tensors.push(Tensor { name, shape: vec![trees, depth], values: Values::Places(places) });
    }
}
