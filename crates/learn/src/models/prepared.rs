//! A split dataset as learners want it: scaled, thinned, with what each output is measured by.

use neurogc_neural::{GAP_LEVELS, OUTPUTS, Scaling, WINDOW};

use super::constant::constant;
use super::dataset::{Dataset, Split};
use super::train::{Options, TrainError};

/// Samples whose windows are prepared as a model prepares them.
#[derive(Clone, Debug)]
pub(super) struct PreparedSamples {
    pub(super) windows: Vec<f32>,
    pub(super) targets: Vec<[f32; OUTPUTS]>,
    pub(super) weights: Vec<f32>,
}

/// All that a learner is given.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) features: usize,
    pub(super) means: Vec<f32>,
    pub(super) scales: Vec<f32>,
    pub(super) train: PreparedSamples,
    pub(super) validation: PreparedSamples,
    /// The best forecast that does not look at features.
    pub(super) constant: [f32; OUTPUTS],
    /// What an error of each output counts, so that all count about the same.
    pub(super) importance: [f32; OUTPUTS],
}

impl Prepared {
    pub(super) fn new(split: &Split, options: &Options) -> Result<Self, TrainError> {
        let features = split.train.features().len();
        let train = split.train.thinned(options.most_samples);
        let validation = split.validation.thinned(options.most_samples / 4);
        let rows = train.samples().flat_map(|sample| sample.window.chunks_exact(features.max(1)));
        let (means, scales) = moments(rows, features);
        let scaling = Scaling::new(&means, &scales);
        let (train, validation) = (PreparedSamples::new(&train, &scaling), PreparedSamples::new(&validation, &scaling));
        let constant = constant(train.known()).ok_or(TrainError::NoGaps)?;
        let importance = importance(&train, &constant);
        Ok(Self { features, means, scales, train, validation, constant, importance })
    }
}

impl PreparedSamples {
    pub(super) fn new(data: &Dataset, scaling: &Scaling) -> Self {
        let mut windows = Vec::with_capacity(data.len() * WINDOW * data.features().len());
        for sample in data.samples() {
            let from = windows.len();
            windows.resize(from + sample.window.len(), 0.0);
            scaling.apply(sample.window, &mut windows[from..]);
        }
        let targets = data.samples().map(|sample| sample.targets).collect();
        Self { windows, targets, weights: data.samples().map(|sample| sample.weight).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    pub(super) fn known(&self) -> impl Iterator<Item = (&[f32; OUTPUTS], f32)> + Clone {
        self.targets.iter().zip(self.weights.iter().copied())
    }
}

/// Mean and deviation of each feature over all rows. A feature that never changes keeps its scale.
pub(super) fn moments<'d>(rows: impl Iterator<Item = &'d [f32]>, features: usize) -> (Vec<f32>, Vec<f32>) {
    let mut sums = vec![(0.0_f64, 0.0_f64, 0.0_f64); features];
    for row in rows {
        for (value, (count, sum, squares)) in row.iter().map(|it| f64::from(*it)).zip(&mut sums) {
            if value.is_finite() {
                *count += 1.0;
                *sum += value;
                *squares += value * value;
            }
        }
    }
    let moments = sums.into_iter().map(|(count, sum, squares)| {
        let mean = sum / count.max(1.0);
        let deviation = (squares / count.max(1.0) - mean * mean).max(0.0).sqrt();
        let moves = deviation > 1e-6 * (1.0 + mean.abs());
        (mean as f32, if moves { deviation as f32 } else { 1.0 })
    });
    moments.unzip()
}

/// One over what the constant forecast typically misses by, and over how often the target is known.
fn importance(train: &PreparedSamples, constant: &[f32; OUTPUTS]) -> [f32; OUTPUTS] {
    let mut importance = [0.0; OUTPUTS];
    let all: f64 = train.weights.iter().map(|weight| f64::from(*weight)).sum();
    for (at, importance) in importance.iter_mut().enumerate() {
        let known = train.known().filter(|(targets, _)| targets[at].is_finite());
        let (squares, weight) = known.fold((0.0, 0.0), |(squares, all), (targets, weight)| {
            let miss = f64::from(targets[at] - constant[at]);
            (squares + miss * miss * f64::from(weight), all + f64::from(weight))
        });
        // Where nothing varies an error matters little, and dividing by it would make noise of it.
        let variance = (squares / weight.max(1e-9)).max(1e-4);
        let unit = if at < GAP_LEVELS.len() { variance.sqrt() } else { variance };
        *importance = if weight > 0.0 { (all / weight / unit) as f32 } else { 0.0 };
    }
    importance
}
