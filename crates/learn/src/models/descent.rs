//! Learning by gradient descent, for every family that is a network.

use candle_core::{Device, Result, Tensor};
use neurogc_load::Chance;
use neurogc_neural::{Contents, Family, Head, OUTPUTS, Tensor as Kept, WINDOW};

use super::constant::before_head;
use super::loss::{Goal, steps_head};
use super::parameters::NetworkWeights;
use super::prepared::{Prepared, PreparedSamples};
use super::train::{Learner, Options, TrainError, failed};

/// How many samples one step learns from at most and at least; in between it is so many that an epoch has `STEPS`, as
/// few samples need as many steps as many do.
const MOST_BATCH: usize = 256;
const LEAST_BATCH: usize = 32;
const STEPS: usize = 100;

/// How many are forecast at once.
const FORECAST_BATCH: usize = 2048;

/// The rate falls to this share of itself by the last epoch.
const LAST_RATE: f64 = 0.05;

/// From windows (samples × rows × features) to what a head makes forecasts of.
pub(super) trait TrainableNetwork {
    fn forward(&self, windows: &Tensor) -> Result<Tensor>;
}

/// What a network is built for.
pub(super) struct NetworkPlan<'a> {
    /// Features in a row.
    pub(super) features: usize,
    /// What the last layer says before anything is learned.
    pub(super) says: &'a [f32],
}

/// Makes a network, and its weights in the parameters.
pub(super) type Build = fn(&mut NetworkWeights, &NetworkPlan<'_>) -> Result<Box<dyn TrainableNetwork>>;

pub(super) struct Descent<'a> {
    family: Family,
    data: &'a Prepared,
    parameters: NetworkWeights,
    network: Box<dyn TrainableNetwork>,
    seed: u64,
    rate: f64,
    epochs: usize,
}

impl<'a> Descent<'a> {
    /// A family and how its network is built.
    pub(super) fn new(family: Family, build: Build, data: &'a Prepared, options: &Options) -> Result<Self> {
        let mut parameters = NetworkWeights::new(options.seed);
        let says = before_head(Head::Steps, &data.constant);
        let network = build(&mut parameters, &NetworkPlan { features: data.features, says: &says })?;
        let rate = if family == Family::Linear { 1e-2 } else { 3e-3 };
        Ok(Self { family, data, parameters, network, seed: options.seed, rate, epochs: options.most_epochs.max(1) })
    }

    fn windows(&self, part: &PreparedSamples, rows: &[usize]) -> Result<Tensor> {
        let width = WINDOW * self.data.features;
        let values: Vec<f32> = rows.iter().flat_map(|row| &part.windows[row * width..][..width]).copied().collect();
        Tensor::from_vec(values, (rows.len(), WINDOW, self.data.features), &Device::Cpu)
    }

    fn learn(&mut self, epoch: usize) -> Result<f64> {
        let part = &self.data.train;
        let order = shuffled(part.len(), self.seed.wrapping_add(epoch as u64));
        let batch = (part.len() / STEPS).clamp(LEAST_BATCH, MOST_BATCH);
        let batches = order.chunks(batch).count().max(1);
        let mut sum = 0.0;
        for (at, rows) in order.chunks(batch).enumerate() {
            let forecasts = steps_head(&self.network.forward(&self.windows(part, rows)?)?)?;
            let loss = Goal::new(part, rows, &self.data.importance)?.loss(&forecasts)?;
            sum += f64::from(loss.to_scalar::<f32>()?) * rows.len() as f64;
            let done = (epoch as f64 + at as f64 / batches as f64) / self.epochs as f64;
            let share = LAST_RATE + (1.0 - LAST_RATE) * 0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos());
            self.parameters.step(&loss.backward()?, (self.rate * share) as f32)?;
        }
        Ok(sum / part.len().max(1) as f64)
    }

    fn forecasts(&self, part: &PreparedSamples) -> Result<Vec<[f32; OUTPUTS]>> {
        let mut all = Vec::with_capacity(part.len());
        let order: Vec<usize> = (0..part.len()).collect();
        for rows in order.chunks(FORECAST_BATCH) {
            let found = steps_head(&self.network.forward(&self.windows(part, rows)?)?)?;
            // As everywhere, no gap is shorter than nothing.
            all.extend(
                found
                    .to_vec2::<f32>()?
                    .into_iter()
                    .map(|row| std::array::from_fn(|at| if at < 5 { row[at].max(0.0) } else { row[at] })),
            );
        }
        Ok(all)
    }
}

/// All places up to a number, in an order that only the seed decides.
pub(super) fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut chance = Chance::new(seed);
    for at in (1..count).rev() {
        order.swap(at, (chance.share() * (at + 1) as f64) as usize);
    }
    order
}

impl Learner for Descent<'_> {
    fn epoch(&mut self, epoch: usize) -> std::result::Result<f64, TrainError> {
        self.learn(epoch).map_err(|error| failed(self.family, &error))
    }

    fn predict(&self, part: &PreparedSamples) -> std::result::Result<Vec<[f32; OUTPUTS]>, TrainError> {
        self.forecasts(part).map_err(|error| failed(self.family, &error))
    }

    fn is_done(&self) -> bool {
        false
    }

    fn model(&self) -> Vec<Kept> {
        self.parameters.kept()
    }

    fn state(&self) -> Vec<Kept> {
        self.parameters.state()
    }

    fn restore(&mut self, state: &Contents<'_>) -> std::result::Result<(), TrainError> {
        Ok(self.parameters.restore(state)?)
    }
}
