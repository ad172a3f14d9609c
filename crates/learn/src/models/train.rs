//! Training a model: epochs until the validation part says that it is enough, with a state to go on from after each.

use std::collections::BTreeMap;

use neurogc_neural::{
    Contents, FORMAT, Family, Metadata, Model, ModelError, OUTPUT_NAMES, OUTPUTS, Tensor, TrainedOn, WINDOW, write,
};

use super::dataset::{Split, SplitError};
use super::descent::{Build, Descent};
use super::evaluate::ForecastQuality;
use super::loss::mean_loss;
use super::prepared::{Prepared, PreparedSamples};
use super::trees::Boosting;
use super::{gru, linear, lstm, mlp, tcn, transformer};

/// Before the names of the best tensors so far, in a checkpoint.
const BEST: &str = "best.";

/// How to train.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides all that is left to chance.
    pub seed: u64,
    /// How many samples are learned from; more are thinned out.
    pub most_samples: usize,
    /// How many times all of them are gone through at most.
    pub most_epochs: usize,
    /// How many epochs without a better loss on the validation part are enough.
    pub patience: usize,
    /// The state to go on from: `TrainingProgress::checkpoint` of an earlier run with the same data and options.
    pub checkpoint: Option<Vec<u8>>,
    /// What the traces are called.
    pub sources: Vec<String>,
    /// When, and by which version.
    pub created: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            most_samples: 40_000,
            most_epochs: 20,
            patience: 5,
            checkpoint: None,
            sources: Vec::new(),
            created: String::new(),
        }
    }
}

/// Where training stands after an epoch.
#[derive(Clone, Debug)]
pub struct TrainingProgress {
    /// What is trained.
    pub family: Family,
    /// How many epochs are done.
    pub epoch: usize,
    /// The mean loss of this epoch.
    pub train_loss: f64,
    /// The mean loss on the validation part.
    pub validation_loss: f64,
    /// The best of those so far.
    pub best_loss: f64,
    /// After how many epochs that was.
    pub best_epoch: usize,
    /// The state to go on from, as a file.
    pub checkpoint: Vec<u8>,
}

/// Why there is no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrainError {
    /// Too little to split.
    #[error(transparent)]
    TooLittle(#[from] SplitError),
    /// No targets.
    #[error("no gap is known in the data, so there is nothing to learn: record under load with requests marked")]
    NoGaps,
    /// Nothing to validate by.
    #[error("the {part} part has no samples: record for longer")]
    EmptyPart {
        /// Which.
        part: &'static str,
    },
    /// The arithmetic refused.
    #[error("training a {family} failed: {reason}")]
    Failed {
        /// What was trained.
        family: Family,
        /// What was said.
        reason: String,
    },
    /// The loss left all bounds.
    #[error(
        "training a {family} went out of bounds in epoch {epoch}: the data holds values that make no sense together"
    )]
    Diverged {
        /// What was trained.
        family: Family,
        /// When.
        epoch: usize,
    },
    /// A checkpoint of something else.
    #[error("the checkpoint cannot be gone on from ({reason}): remove it to start again")]
    Checkpoint {
        /// What is wrong.
        reason: String,
    },
    /// A file that cannot be written or read.
    #[error(transparent)]
    File(#[from] ModelError),
}

/// Something that learns. An epoch may be anything that is worth looking up after.
pub(super) trait Learner {
    /// Learns a bit more; the mean loss on what it learned from.
    fn epoch(&mut self, epoch: usize) -> Result<f64, TrainError>;
    /// Forecasts as the trainer sees them; the agent's must be the same.
    fn predict(&self, part: &PreparedSamples) -> Result<Vec<[f32; OUTPUTS]>, TrainError>;
    /// Whether there is nothing more to learn.
    fn is_done(&self) -> bool;
    /// What the agent needs.
    fn model(&self) -> Vec<Tensor>;
    /// What is needed to go on.
    fn state(&self) -> Vec<Tensor>;
    /// Goes on from a state.
    fn restore(&mut self, state: &Contents<'_>) -> Result<(), TrainError>;
}

/// The learner of a family. To add a family: its file, and its line here.
pub(super) fn learner<'a>(
    family: Family,
    data: &'a Prepared,
    options: &Options,
) -> Result<Box<dyn Learner + 'a>, TrainError> {
    let build: Build = match family {
        Family::Trees => return Ok(Box::new(Boosting::new(data, options))),
        Family::Linear | Family::Rl => linear::build,
        Family::Mlp => mlp::build,
        Family::Lstm => lstm::build,
        Family::Gru => gru::build,
        Family::Tcn => tcn::build,
        Family::Transformer => transformer::build,
    };
    let descent = Descent::new(family, build, data, options);
    Ok(Box::new(descent.map_err(|error| failed(family, &error))?))
}

pub(super) fn failed(family: Family, error: &candle_core::Error) -> TrainError {
    TrainError::Failed { family, reason: error.to_string() }
}

/// A model that was trained.
#[derive(Clone, Debug)]
pub struct Trained {
    metadata: Metadata,
    tensors: Vec<Tensor>,
}

impl Trained {
    /// What is known about it.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Writes into the file how well it does.
    pub fn set_metrics(&mut self, metrics: &ForecastQuality) {
        self.metadata.metrics.extend(metrics.figures());
    }

    /// The model's file.
    ///
    /// # Errors
    ///
    /// When it would not be one that can be loaded.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        let bytes = write(&self.metadata, &self.tensors)?;
        Model::load(&bytes)?;
        Ok(bytes)
    }
}

/// Trains a model of a family, and tells how it goes after each epoch.
///
/// # Errors
///
/// When there is nothing to learn from, or a checkpoint is of something else.
pub fn train(
    family: Family,
    split: &Split,
    options: &Options,
    progress: &mut dyn FnMut(TrainingProgress),
) -> Result<Trained, TrainError> {
    for (part, data) in [("training", &split.train), ("validation", &split.validation)] {
        if data.is_empty() {
            return Err(TrainError::EmptyPart { part });
        }
    }
    let data = Prepared::new(split, options)?;
    let mut learner = learner(family, &data, options)?;
    let mut run = Run::new(metadata(family, split, &data, options));
    if let Some(checkpoint) = &options.checkpoint {
        run.resume(checkpoint, learner.as_mut())?;
    }
    while run.epoch < options.most_epochs && run.epoch - run.best_epoch < options.patience && !learner.is_done() {
        let train_loss = learner.epoch(run.epoch)?;
        run.epoch += 1;
        let validation_loss = mean_loss(&learner.predict(&data.validation)?, &data.validation, &data.importance);
        if !train_loss.is_finite() || !validation_loss.is_finite() {
            return Err(TrainError::Diverged { family, epoch: run.epoch });
        }
        if validation_loss < run.best_loss {
            (run.best_loss, run.best_epoch, run.best) = (validation_loss, run.epoch, learner.model());
        }
        let (best_loss, best_epoch) = (run.best_loss, run.best_epoch);
        let checkpoint = run.checkpoint(learner.as_ref())?;
        let epoch = run.epoch;
        progress(TrainingProgress { family, epoch, train_loss, validation_loss, best_loss, best_epoch, checkpoint });
    }
    let mut metadata = run.metadata;
    metadata.metrics = BTreeMap::from([("validation_loss".to_owned(), run.best_loss)]);
    Ok(Trained { metadata, tensors: run.best })
}

fn metadata(family: Family, split: &Split, data: &Prepared, options: &Options) -> Metadata {
    Metadata {
        format: FORMAT,
        model: family.name().to_owned(),
        window: WINDOW,
        features: split.train.features().to_vec(),
        outputs: OUTPUT_NAMES.map(str::to_owned).to_vec(),
        means: data.means.clone(),
        scales: data.scales.clone(),
        trained_on: TrainedOn {
            sources: options.sources.clone(),
            samples: data.train.len(),
            seconds: split.train.seconds(),
        },
        metrics: BTreeMap::new(),
        weights: BTreeMap::new(),
        created: options.created.clone(),
    }
}

/// What training knows besides what the learner does.
struct Run {
    metadata: Metadata,
    epoch: usize,
    best_epoch: usize,
    best_loss: f64,
    best: Vec<Tensor>,
}

impl Run {
    fn new(metadata: Metadata) -> Self {
        Self { metadata, epoch: 0, best_epoch: 0, best_loss: f64::INFINITY, best: Vec::new() }
    }

    fn checkpoint(&self, learner: &dyn Learner) -> Result<Vec<u8>, TrainError> {
        let mut metadata = self.metadata.clone();
        metadata.metrics = BTreeMap::from([
            ("epoch".to_owned(), self.epoch as f64),
            ("best_epoch".to_owned(), self.best_epoch as f64),
            ("best_loss".to_owned(), self.best_loss),
        ]);
        let best = self.best.iter().cloned().map(|tensor| Tensor { name: format!("{BEST}{}", tensor.name), ..tensor });
        let tensors: Vec<Tensor> = learner.state().into_iter().chain(best).collect();
        Ok(write(&metadata, &tensors)?)
    }

    fn resume(&mut self, checkpoint: &[u8], learner: &mut dyn Learner) -> Result<(), TrainError> {
        let other = |reason: &str| TrainError::Checkpoint { reason: reason.to_owned() };
        let contents = Contents::read(checkpoint).map_err(|error| other(&error.to_string()))?;
        let found = contents.metadata();
        let same = |own: &Metadata| (own.model.clone(), own.features.clone(), own.means.clone(), own.scales.clone());
        if same(found) != same(&self.metadata) || found.trained_on != self.metadata.trained_on {
            return Err(other("it is of another model or of other data"));
        }
        let figure = |name: &str| found.metrics.get(name).copied().ok_or_else(|| other("it is of a finished model"));
        self.epoch = figure("epoch")? as usize;
        self.best_epoch = figure("best_epoch")? as usize;
        self.best_loss = figure("best_loss")?;
        self.best = contents
            .names()
            .into_iter()
            .filter_map(|name| name.strip_prefix(BEST).map(|own| (own.to_owned(), name.clone())))
            .map(|(own, name)| Ok(Tensor { name: own, ..contents.tensor(&name)? }))
            .collect::<Result<_, ModelError>>()?;
        learner.restore(&contents).map_err(|error| other(&error.to_string()))
    }
}
