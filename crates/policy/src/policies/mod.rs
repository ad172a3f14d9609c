//! The policies, one small file each, all of the same shape.

pub(crate) mod classic;
mod cpython;
mod every;
mod freeze;
mod gap;
pub(crate) mod neural;
mod observe;
mod threshold;

use std::time::Duration;

use neurogc_neural::{Model, ModelError};

use self::neural::{Neural, Trust, Weights};
use crate::bytes::Bytes;
use crate::features::NAMES;
use crate::name::Name;
use crate::observation::{Collected, Flown, Observation, Order};

/// The collector's thresholds, as `gc.set_threshold` takes them.
pub type Thresholds = [u32; 3];

/// Who runs CPython's automatic collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionControl {
    /// CPython does, with the thresholds of the program.
    Cpython,
    /// CPython does, with these thresholds.
    Fixed(Thresholds),
    /// The policy does, with these thresholds; the pacer lowers the first where memory would grow beyond its goal, and
    /// bounds memory by plain collections.
    Bounded(Thresholds),
    /// The pacer does.
    Paced,
}

/// Says when to collect.
pub trait Policy: std::fmt::Debug + Send {
    /// Who runs automatic collections.
    fn control(&self) -> CollectionControl;

    /// What to do now, beside what the pacer wants: only ever asked where that is nothing.
    fn decide(&mut self, observation: &Observation) -> Order;

    /// Whether it is to be asked every few milliseconds, beside the moments in threads of the program.
    fn wants_looks(&self) -> bool {
        false
    }

    /// Whether it is to be asked so even where that alone wakes the agent: a program that does little is looked at rarely.
    fn insists_on_looks(&self) -> bool {
        self.wants_looks()
    }

    /// The program is being looked at.
    fn looked(&mut self, _now: Duration) {}

    /// Takes note of a collection.
    fn learn(&mut self, _collected: &Collected) {}

    /// Takes note of a snapshot that has been walked.
    fn landed(&mut self, _flown: &Flown) {}

    /// Whether the pacer is told what to expect, from what the program's requests have left behind so far.
    fn foretells(&self) -> bool {
        false
    }

    /// How far its model can be relied on, where it has one.
    fn trust(&self) -> Option<Trust> {
        None
    }
}

/// What a policy may be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// How long a collection of young objects may stop the program.
    pub pause_budget: Duration,
    /// What a megabyte of garbage is worth: so many milliseconds of delay for every request.
    pub memory_price: f64,
    /// Ranks of a training job collect at every so many steps; 0 where each of them collects as it would alone.
    pub align_steps: u32,
}

/// Ranks of a training job collect at every so many steps by default. CPython's own trigger stays far enough above what ten
/// steps leave behind, and a young collection that finds little takes some microseconds.
pub const ALIGN_STEPS: u32 = 10;

/// What a megabyte of garbage is worth by default; see `Tuning::memory_price`.
pub const MEMORY_PRICE: f64 = 0.01;

impl Default for Tuning {
    fn default() -> Self {
        Self { pause_budget: Duration::from_millis(1), memory_price: MEMORY_PRICE, align_steps: ALIGN_STEPS }
    }
}

/// The policy of a name; `auto` is that of a process whose collector is understood. The caller reads
/// a model in a file and uses it with `learned`: here it is the one that comes with this version.
#[must_use]
pub fn policy(name: Name, tuning: Tuning) -> Box<dyn Policy> {
    match name.resolve(true) {
        Name::Observe => Box::new(observe::Observe),
        // Its model is always in a file: see `classic`.
        Name::Cpython | Name::Classic(_) => Box::new(cpython::Cpython),
        Name::Threshold(thresholds) => Box::new(threshold::Threshold(thresholds)),
        Name::Freeze => Box::new(freeze::Freeze::default()),
        Name::Every(count) => Box::new(every::Every::new(count)),
        Name::Gap | Name::Auto => Box::new(gap::Gap::new(tuning)),
        Name::Neural(_) => match neural(SHIPPED, tuning) {
            Ok(neural) => Box::new(neural.sparing()),
            Err(_) => Box::new(gap::Gap::new(tuning)),
        },
    }
}

/// The model that comes with this version.
pub const SHIPPED: &[u8] = include_bytes!("../../models/shipped.safetensors");

/// The policy `neural` with the model of a file, which is asked every few milliseconds.
///
/// # Errors
///
/// When the bytes are no model, or one that was trained to see something else.
pub fn learned(bytes: &[u8], tuning: Tuning) -> Result<Box<dyn Policy>, ModelError> {
    Ok(Box::new(neural(bytes, tuning)?))
}

fn neural(bytes: &[u8], tuning: Tuning) -> Result<Neural, ModelError> {
    let model = Model::load(bytes)?;
    let metadata = model.metadata();
    if metadata.features != NAMES {
        let reason = "it was trained on other features than this version has; train it again".to_owned();
        return Err(ModelError::BadMetadata { reason });
    }
    let weights = Weights::named(&metadata.weights);
    Ok(Neural::new(tuning, model, weights))
}

/// The policy `classic` with the model of its file, which collects at so many percent of urgency. Memory is what the
/// program can have, where its cgroup does not leave it less.
///
/// # Errors
///
/// When the bytes are no model, or another one.
pub fn classic(bytes: &[u8], percent: u8, memory: Bytes) -> Result<Box<dyn Policy>, ModelError> {
    Ok(Box::new(classic::Classic::new(bytes, percent, memory)?))
}
