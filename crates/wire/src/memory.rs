//! The part of the status report on memory.

use serde::{Deserialize, Serialize};

use crate::breakdown::{Breakdown, Trims};

/// Memory of the process in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Resident set.
    pub rss: u64,
    /// Largest resident set so far.
    pub peak_rss: u64,
    /// Proportional set: shared pages divided among their users.
    pub pss: Option<u64>,
    /// Unique set: what would be free if the process ended.
    pub uss: Option<u64>,
    /// Address space.
    pub vms: u64,
    /// Swapped out.
    pub swap: u64,
    /// The smallest cgroup limit that holds here.
    pub limit: Option<u64>,
    /// In transparent huge pages.
    pub huge_pages: Option<u64>,
    /// Where the resident set is.
    pub breakdown: Breakdown,
    /// Free memory that was given back.
    pub trim: Trims,
}
