//! The part of the status report on allocations; `sites` has the whole table.

use serde::{Deserialize, Serialize};

use crate::sites::AllocationMode;

/// Where live memory was allocated, in short. All figures are estimates from samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocations {
    /// What is sampled.
    pub mode: AllocationMode,
    /// Why no more is sampled; empty where all is that was asked for.
    pub reason: String,
    /// Bytes allocated per second, over the last 10 seconds or so.
    pub rate_bytes_s: f64,
    /// Live bytes that were allocated since sampling began.
    pub live_bytes: u64,
    /// The share of them, from 0 to 1, whose line of Python code is known.
    pub attributed: f64,
    /// The lines with the most live bytes.
    pub top: Vec<AllocationSite>,
}

/// A line of code and what it allocated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocationSite {
    /// The place: `file.py:12 in function`.
    pub site: String,
    /// Bytes allocated here that have not been freed.
    pub bytes: u64,
    /// Blocks of them.
    pub blocks: u64,
    /// How fast the bytes have grown over the last 10 minutes, or since sampling began.
    pub growth_bytes_s: f64,
}
