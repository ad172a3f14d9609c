//! Learned forecasts: the file that a model is kept in, and what it predicts from the last moments of a program.
//!
//! This is loaded into users' processes. A model allocates when it is loaded and never again; it starts no thread, reads
//! no clock and opens no file. How models are trained is `neurogc-learn`'s business. What both sides must agree on
//! stands here once: the file, how inputs are prepared, and what outputs mean.

#![forbid(unsafe_code)]

mod arithmetic;
mod dense;
mod error;
mod families;
mod file;
mod forecast;
mod inputs;
mod metadata;
mod model;
mod sequence;

pub use arithmetic::{NORMALISE_EPSILON as TRANSFORMER_EPSILON, sigmoid};
pub use error::ModelError;
pub use families::Family;
pub use families::transformer::HEADS as TRANSFORMER_HEADS;
pub use file::{Contents, MOST_BYTES, MOST_WEIGHT, Tensor, Values, write};
pub use forecast::{GAP_LEVELS, Head, OUTPUT_NAMES, OUTPUTS};
pub use inputs::{CLIP, MOST_FEATURES, Scaling, WINDOW, summarise};
pub use metadata::{FORMAT, Metadata, TrainedOn};
pub use model::Model;
pub use sequence::{ModelRequirements, Sequence};
