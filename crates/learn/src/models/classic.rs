//! `classic`: the original's network, taught the original's formula on seconds of simulated programs.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};

use candle_core::{D, Device, Result, Tensor};
use neurogc_load::Chance;
use neurogc_neural::{FORMAT, Family, Metadata, ModelRequirements, Scaling, Sequence, TrainedOn, write};
use neurogc_policy::metrics::{METRICS, MetricSample, Metrics, NAMES, OUTPUTS, SAMPLES, target};
use neurogc_policy::{Bytes, Collected, CollectionControl, Observation, Order, Policy};

use super::descent::{NetworkPlan, TrainableNetwork, shuffled};
use super::loss::sigmoid;
use super::lstm::TrainableLstm;
use super::parameters::NetworkWeights;
use super::prepared::moments;
use super::train::{TrainError, failed};
use crate::simulate::{Scene, simulate_policy};

/// The original's network and how it was trained.
const LAYERS: usize = 2;
const UNITS: usize = 64;
const DROPOUT: f32 = 0.2;
const RATE: f32 = 1e-3;
const BATCH: usize = 32;

/// One run in so many is kept to judge by.
const HELD_OUT: usize = 5;

/// Plays a scene under CPython alone, and gives the metrics of each second of a program that can have so much memory.
#[must_use]
pub fn sampled(scene: &Scene<'_>, memory: Bytes) -> Vec<MetricSample> {
    let (samples, all) = channel();
    let _ = simulate_policy(scene, Box::new(Witness { metrics: Metrics::new(memory), samples }), true);
    all.into_iter().collect()
}

/// Looks and does nothing.
#[derive(Debug)]
struct Witness {
    metrics: Metrics,
    samples: Sender<MetricSample>,
}

impl Policy for Witness {
    fn control(&self) -> CollectionControl {
        CollectionControl::Cpython
    }

    fn wants_looks(&self) -> bool {
        true
    }

    fn decide(&mut self, observation: &Observation) -> Order {
        if let Some(sample) = self.metrics.look(observation) {
            // The receiver is still open: `sampled` takes the samples after the run.
            let _ = self.samples.send(sample);
        }
        Order::WAIT
    }

    fn learn(&mut self, collected: &Collected) {
        self.metrics.learn(collected);
    }
}

/// How to train it.
#[derive(Clone, Debug)]
pub struct Schooling {
    /// Decides all that is left to chance.
    pub seed: u64,
    /// How many times all samples are gone through.
    pub epochs: usize,
    /// When, and by which version.
    pub created: String,
}

/// Trains the network on runs of programs, tells the mean squared error of each epoch, and gives the model's file.
///
/// # Errors
///
/// When there are no runs of ten seconds to learn from and to judge by.
pub fn train_classic(
    runs: &[Vec<MetricSample>],
    schooling: &Schooling,
    progress: &mut dyn FnMut(usize, f64),
) -> std::result::Result<Vec<u8>, TrainError> {
    let part = |held_out: bool| {
        let runs = runs.iter().enumerate().filter(|(at, _)| (at % HELD_OUT == HELD_OUT - 1) == held_out);
        Lessons::new(runs.map(|(_, run)| run.as_slice()))
    };
    let (mut train, mut test) = (part(false), part(true));
    for (part, lessons) in [("training", &train), ("test", &test)] {
        if lessons.targets.is_empty() {
            return Err(TrainError::EmptyPart { part });
        }
    }
    let (means, scales) = moments(train.windows.chunks_exact(METRICS), METRICS);
    let scaling = Scaling::new(&means, &scales);
    train.prepare(&scaling);
    test.prepare(&scaling);
    let mut teach = || -> Result<(Pupil, f64)> {
        let mut pupil = Pupil::new(&train, schooling.seed)?;
        for epoch in 0..schooling.epochs {
            progress(epoch + 1, pupil.epoch(&train, schooling.seed.wrapping_add(epoch as u64))?);
        }
        let error = pupil.error(&test)?;
        Ok((pupil, error))
    };
    let (pupil, error) = teach().map_err(|error| failed(Family::Lstm, &error))?;
    let metadata = Metadata {
        format: FORMAT,
        model: Family::Lstm.name().to_owned(),
        window: SAMPLES,
        features: NAMES.map(str::to_owned).to_vec(),
        outputs: OUTPUTS.map(str::to_owned).to_vec(),
        means,
        scales,
        trained_on: TrainedOn {
            sources: vec![format!("{} simulated programs", runs.len())],
            samples: train.targets.len(),
            seconds: train.targets.len() as f64,
        },
        metrics: BTreeMap::from([("mean_error".to_owned(), error)]),
        weights: BTreeMap::new(),
        created: schooling.created.clone(),
    };
    let bytes = write(&metadata, &pupil.parameters.kept())?;
    Sequence::load(&bytes, ModelRequirements { window: SAMPLES, outputs: &OUTPUTS })?;
    Ok(bytes)
}

/// Ten seconds each, and what should be said about them.
struct Lessons {
    windows: Vec<f32>,
    targets: Vec<f32>,
}

impl Lessons {
    fn new<'r>(runs: impl Iterator<Item = &'r [MetricSample]>) -> Self {
        let mut lessons = Self { windows: Vec::new(), targets: Vec::new() };
        for window in runs.flat_map(|run| run.windows(SAMPLES)) {
            lessons.windows.extend(window.iter().flatten());
            lessons.targets.push(target(&window[SAMPLES - 1]));
        }
        lessons
    }

    fn prepare(&mut self, scaling: &Scaling) {
        let rows = self.windows.clone();
        scaling.apply(&rows, &mut self.windows);
    }

    fn batch(&self, rows: &[usize]) -> Result<(Tensor, Tensor)> {
        const WIDTH: usize = SAMPLES * METRICS;
        let windows: Vec<f32> = rows.iter().flat_map(|row| &self.windows[row * WIDTH..][..WIDTH]).copied().collect();
        let targets: Vec<f32> = rows.iter().map(|row| self.targets[*row]).collect();
        let count = rows.len();
        Ok((
            Tensor::from_vec(windows, (count, SAMPLES, METRICS), &Device::Cpu)?,
            Tensor::from_vec(targets, (count, 1), &Device::Cpu)?,
        ))
    }
}

/// The network while it learns.
struct Pupil {
    parameters: NetworkWeights,
    network: TrainableLstm,
    chance: Chance,
}

impl Pupil {
    fn new(lessons: &Lessons, seed: u64) -> Result<Self> {
        let mean = lessons.targets.iter().sum::<f32>() / lessons.targets.len() as f32;
        let says = [(mean / (1.0 - mean)).ln()];
        let mut parameters = NetworkWeights::new(seed).without_decay();
        let network =
            TrainableLstm::of_size(&mut parameters, &NetworkPlan { features: METRICS, says: &says }, LAYERS, UNITS)?;
        Ok(Self { parameters, network, chance: Chance::new(seed) })
    }

    fn epoch(&mut self, lessons: &Lessons, seed: u64) -> Result<f64> {
        let mut sum = 0.0;
        for rows in shuffled(lessons.targets.len(), seed).chunks(BATCH) {
            let (windows, targets) = lessons.batch(rows)?;
            let chance = &mut self.chance;
            let raw = self.network.forward_with(&windows, &mut |row| dropped(row, chance))?;
            let loss = (sigmoid(&raw)? - targets)?.sqr()?.mean_all()?;
            sum += f64::from(loss.to_scalar::<f32>()?) * rows.len() as f64;
            self.parameters.step(&loss.backward()?, RATE)?;
        }
        Ok(sum / lessons.targets.len() as f64)
    }

    /// By how much it is wrong on average.
    fn error(&self, lessons: &Lessons) -> Result<f64> {
        let said = self.urgencies(lessons)?;
        let errors = said.iter().zip(&lessons.targets).map(|(said, target)| f64::from((said - target).abs()));
        Ok(errors.sum::<f64>() / lessons.targets.len() as f64)
    }

    fn urgencies(&self, lessons: &Lessons) -> Result<Vec<f32>> {
        let all: Vec<usize> = (0..lessons.targets.len()).collect();
        let (windows, _) = lessons.batch(&all)?;
        sigmoid(&self.network.forward(&windows)?)?.squeeze(D::Minus1)?.to_vec1()
    }
}

/// The same numbers with a share of them gone, so that none is relied on alone; the others make up for it.
fn dropped(row: &Tensor, chance: &mut Chance) -> Result<Tensor> {
    let mut draw = || if (chance.share() as f32) < DROPOUT { 0.0 } else { 1.0 / (1.0 - DROPOUT) };
    let mask: Vec<f32> = (0..row.elem_count()).map(|_| draw()).collect();
    row * Tensor::from_vec(mask, row.dims(), &Device::Cpu)?
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use neurogc_neural::sigmoid;

    use super::*;
    use crate::{HeapModel, Start, TrafficShape, imagined};

    fn runs() -> Vec<Vec<MetricSample>> {
        let model = HeapModel::default();
        let run = |(rate, memory): (u32, u64)| {
            let start = Start { at: 0, tenured: 1e5, pending: 0.0 };
            let shape: TrafficShape = format!("bursty:{rate}").parse().unwrap();
            let workload = shape.requests(40 * rate as usize, &imagined(100, 300.0, 1), start, u64::from(rate));
            sampled(&Scene::new(&model, &workload), Bytes::mebibytes(memory))
        };
        [(5, 4000), (100, 70), (300, 500), (20, 100), (200, 80)].map(run).to_vec()
    }

    fn schooling(epochs: usize) -> Schooling {
        Schooling { seed: 3, epochs, created: String::new() }
    }

    #[test]
    fn every_second_of_a_run_is_a_sample() {
        for run in runs() {
            assert!((25..=55).contains(&run.len()), "{}", run.len());
            assert!(run.iter().flatten().all(|value| value.is_finite()));
            assert!(run.iter().any(|sample| sample[0] > 0.0 && sample[2] > 0.0));
        }
    }

    #[test]
    fn it_learns_the_formula_and_the_same_seed_gives_the_same_model() {
        let runs = runs();
        let mut losses = Vec::new();
        let bytes = train_classic(&runs, &schooling(10), &mut |_, loss| losses.push(loss)).unwrap();
        assert!(losses[9] < 0.3 * losses[0] && losses[9] < 0.01, "{losses:?}");
        let again = train_classic(&runs, &schooling(10), &mut |_, _| ()).unwrap();
        assert!(bytes == again);
    }

    #[test]
    fn the_agent_says_what_the_trainer_says() {
        let runs = runs();
        let bytes = train_classic(&runs, &schooling(1), &mut |_, _| ()).unwrap();
        let mut model = Sequence::load(&bytes, ModelRequirements { window: SAMPLES, outputs: &OUTPUTS }).unwrap();
        let mut odd = runs.concat();
        for (at, value) in [f32::NAN, f32::INFINITY, -1e30, 1e30, 0.0].into_iter().enumerate() {
            odd[30 + at][at] = value;
        }
        let windows: Vec<f32> = odd.windows(SAMPLES).flatten().flatten().copied().collect();
        let mut lessons = Lessons { targets: vec![0.0; windows.len() / SAMPLES / METRICS], windows: windows.clone() };
        lessons.prepare(&Scaling::of(model.metadata()));
        // Training is deterministic: this is the pupil who wrote the file.
        let mut train = Lessons::new(runs[..4].iter().map(Vec::as_slice));
        train.prepare(&Scaling::of(model.metadata()));
        let mut pupil = Pupil::new(&train, 3).unwrap();
        pupil.epoch(&train, 3).unwrap();
        for (window, wanted) in windows.chunks(SAMPLES * METRICS).zip(pupil.urgencies(&lessons).unwrap()) {
            let mut found = [f32::NAN];
            model.run(window, &mut found);
            assert!((sigmoid(found[0]) - wanted).abs() < 1e-4, "{found:?} {wanted}");
        }
    }

    #[test]
    fn too_short_a_run_is_refused() {
        let error = train_classic(&[vec![[0.0; METRICS]; 9]], &schooling(1), &mut |_, _| ()).unwrap_err();
        assert_eq!(error, TrainError::EmptyPart { part: "training" });
    }
}
