//! A training loop: how far it has come, as its adapters report.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use neurogc_policy::RankStep;

/// How far the training loop of this process has come. Only threads that hold the GIL write here.
#[derive(Debug, Default)]
pub(crate) struct LoopProgress {
    batches: AtomicU64,
    /// How many ranks the job has; 0 where it is not known to have several.
    ranks: AtomicU32,
    /// Steps that have ended since the ranks know of each other.
    steps: AtomicU64,
    /// Epochs and evaluations that have ended.
    boundaries: AtomicU64,
    /// Collections, clones and slices at steps that ranks share, and others meanwhile.
    shared: AtomicU64,
    others: AtomicU64,
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

    /// A step has ended in a job of so many ranks. Gives its number; the first one is 1.
    pub(crate) fn step(&self, ranks: u32) -> u64 {
        if self.ranks.swap(ranks, Ordering::Relaxed) != ranks {
            self.steps.store(0, Ordering::Relaxed);
        }
        self.steps.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The ranks have parted.
    pub(crate) fn part(&self) {
        self.ranks.store(0, Ordering::Relaxed);
    }

    /// An epoch or an evaluation has ended.
    pub(crate) fn boundary(&self) {
        self.boundaries.fetch_add(1, Ordering::Relaxed);
    }

    /// How many have ended.
    pub(crate) fn boundaries(&self) -> u64 {
        self.boundaries.load(Ordering::Relaxed)
    }

    /// Where the process is in a job with several ranks.
    pub(crate) fn ranks(&self) -> Option<RankStep> {
        let ranks = self.ranks.load(Ordering::Relaxed);
        (ranks > 1).then(|| RankStep { ranks, step: self.steps.load(Ordering::Relaxed) })
    }

    /// While ranks collect together, the program was stopped: at a step that they share, or not.
    pub(crate) fn stopped(&self, shared: bool) {
        (if shared { &self.shared } else { &self.others }).fetch_add(1, Ordering::Relaxed);
    }

    /// How often, in this order.
    pub(crate) fn stops(&self) -> (u64, u64) {
        (self.shared.load(Ordering::Relaxed), self.others.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_count_from_when_ranks_know_of_each_other() {
        let progress = LoopProgress::default();
        assert_eq!((progress.step(1), progress.step(1), progress.ranks()), (1, 2, None));
        assert_eq!((progress.step(4), progress.step(4)), (1, 2));
        assert_eq!(progress.ranks(), Some(RankStep { ranks: 4, step: 2 }));
        progress.part();
        assert_eq!((progress.ranks(), progress.step(4)), (None, 1));
    }
}
