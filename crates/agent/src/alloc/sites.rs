//! The allocation sites of one process: what is sampled, and what the sites were at earlier moments.

use std::sync::Mutex;

use neurogc_wire::allocations::Allocations;
use neurogc_wire::sites::{AllocationMode, SiteTable};

use super::Sampling;
use super::history::SiteHistory;
use super::report::{site_table, summary};
use crate::sys::locks::lock;
use crate::sys::native::monotonic_ns;

/// What is sampled of the program's allocations, and the moments that are kept.
#[derive(Debug)]
pub(crate) struct AllocationSites {
    pub(crate) sampling: Sampling,
    history: Mutex<SiteHistory>,
}

impl AllocationSites {
    pub(crate) fn new(sampling: Sampling) -> Self {
        Self { sampling, history: Mutex::default() }
    }

    /// Keeps a moment, where one is due.
    pub(crate) fn attend(&self, now: u64) {
        lock(&self.history).attend(now);
    }

    /// The part of the status report.
    pub(crate) fn summary(&self, installed: u64) -> Allocations {
        summary(&self.sampling, &lock(&self.history), installed, monotonic_ns())
    }

    /// Where live memory was allocated, compared with so many seconds ago if that is given; else why that is not known.
    pub(crate) fn table(&self, installed_unix_ns: u64, since: Option<u32>) -> Result<SiteTable, String> {
        let ago = since.map(|seconds| u64::from(seconds) * 1_000_000_000);
        if self.sampling.mode == AllocationMode::Off {
            let off = || "allocations are not sampled in this process: the setting `allocations` is off".to_owned();
            return Err(self.sampling.reason.clone().unwrap_or_else(off));
        }
        site_table(&lock(&self.history), installed_unix_ns / 1_000_000, monotonic_ns(), ago)
            .ok_or_else(|| "allocations are not sampled in this process".to_owned())
    }
}
