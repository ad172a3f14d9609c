//! A training loop in the status report, and the ranks of its job.

use serde::{Deserialize, Serialize};

/// A training loop, as far as adapters see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainingLoop {
    /// Ranks that collect at the same steps, this one included; 0 where the process collects on its own.
    pub ranks: u32,
    /// Steps of the optimizer that have ended since the ranks know of each other.
    pub step: u64,
    /// The step at whose end ranks collect next.
    pub next_step: u64,
    /// Collections, clones and slices at steps that ranks share.
    pub aligned: u64,
    /// Others meanwhile: those that a guard has forced, that CPython's own trigger has begun, or that the program asked for.
    pub unaligned: u64,
    /// Ends of epochs and evaluations that were seen.
    pub boundaries: u64,
}
