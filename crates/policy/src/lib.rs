//! When to collect: policies turn observations into decisions.
//!
//! No Python, no clock, no files, no threads: time and randomness are arguments, so that the same code runs in the
//! agent, in a simulator and in tests. `policies` holds one file per policy; `pacer` keeps memory within its goal
//! above them all, and `guards` puts both together. `forecast` and `phase` learn from the program while it runs.

#![forbid(unsafe_code)]

mod bytes;
mod catalogue;
pub mod features;
pub mod forecast;
mod guards;
pub mod metrics;
mod name;
mod near;
mod observation;
mod pacer;
pub mod phase;
mod policies;
mod ranks;
#[cfg(test)]
mod rehearsal;
mod trim;

pub use bytes::Bytes;
pub use catalogue::{POLICIES, Parameter, PolicyEntry, written};
pub use guards::{Guarded, Limits};
pub use name::{Name, NameError, names_a_file};
pub use near::suggestion;
pub use neurogc_neural::{MOST_BYTES, ModelError};
pub use observation::{Collected, Decision, Flown, Generation, Moment, Observation, Order, Scope, Snapshot};
pub use pacer::{MemoryLook, Pacer, PacerBound, SMALL_HEAP, SuddenGrowth};
pub use policies::classic::CLASSIC_MODEL;
pub use policies::neural::{ComparedGap, Expected, Neural, Trust, WEIGHT_NAMES, WEIGHTS, Weights};
pub use policies::{
    ALIGN_STEPS, CollectionControl, MEMORY_PRICE, Policy, SHIPPED, Thresholds, Tuning, classic, learned, policy,
};
pub use ranks::{RankStep, is_shared_step, is_wide_step, next_shared_step};
pub use trim::{TrimReading, TrimRule};
