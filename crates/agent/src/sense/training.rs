//! A training loop: how far it has come, as its adapters report.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far the training loop of this process has come.
#[derive(Debug, Default)]
pub(crate) struct LoopProgress {
    batches: AtomicU64,
}

impl LoopProgress {
    /// A loader has delivered a batch.
    pub(crate) fn batch(&self) {
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    /// Batches that loaders have delivered.
    pub(crate) fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }
}
