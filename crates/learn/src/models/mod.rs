//! Training the models of `neurogc-neural`: one file per family, all of them through one trait.
//!
//! A dataset is split by time, each family learns from the first part, stops when the second says so, and is judged on
//! the third by `evaluate`, which runs the file that the agent would load. No clock and no file here; the same seed gives
//! the same model.

mod classic;
mod constant;
mod dataset;
mod descent;
mod evaluate;
mod gru;
mod imagined;
mod linear;
mod loss;
mod lstm;
mod mlp;
mod parameters;
mod prepared;
mod tcn;
mod train;
mod transformer;
mod trees;

#[cfg(test)]
mod tests;

pub use classic::{Schooling, sampled, train_classic};
pub use dataset::{Dataset, Split, SplitError, TrainingSample};
pub use evaluate::{ForecastQuality, evaluate, evaluate_constant};
pub use imagined::imagined;
pub use train::{Options, TrainError, Trained, TrainingProgress, train};
