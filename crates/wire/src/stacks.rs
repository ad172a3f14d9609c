//! Stalls by the Python stack at which they were met.

use serde::{Deserialize, Serialize};

use crate::status::Cause;

/// Stalls of one cause at one stack, since the agent was installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StallStack {
    /// Their cause.
    pub cause: Cause,
    /// The place and its callers, the nearest caller first: `file.py:12 in handler`.
    pub frames: Vec<String>,
    /// How many.
    pub count: u64,
    /// How long they lasted together.
    pub total_ms: f64,
    /// The longest.
    pub max_ms: f64,
}
