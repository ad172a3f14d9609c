//! Holding CPython's own full collections off while a snapshot is out, by the count that they wait for.
//!
//! CPython begins a full collection by itself only when the objects that have become old since the last one are a
//! quarter of the old ones. While a snapshot is out that count begins far below zero. It is a limit and no ban: should
//! the heap grow by as much as it was, or the agent die, CPython collects as ever. A full collection sets the count to
//! zero, so a count below zero also says that none has run.

use pyo3::Python;

use super::failure::Failure;
use crate::cpython::collector::Collector;
use crate::cpython::generations::Generations;

/// A count that was lowered.
#[derive(Debug)]
pub(super) struct Hold {
    collector: Collector,
    /// What it was, and what it was made.
    before: isize,
    lowered: isize,
    frozen_ends: (usize, usize),
}

/// A heap may at least grow by so many old objects.
const LEAST: isize = 1_000_000;

impl Hold {
    pub(super) fn begin(generations: Generations<'_>) -> Self {
        let before = generations.pending();
        let lowered = -generations.total().max(LEAST);
        generations.set_pending(lowered);
        Self { collector: generations.collector(), before, lowered, frozen_ends: generations.frozen_ends() }
    }

    /// Why what the snapshot found can no longer be relied on.
    pub(super) fn broken(&self, generations: Generations<'_>) -> Option<Failure> {
        if generations.pending() >= 0 {
            Some(Failure::Collected)
        } else if generations.frozen_ends() != self.frozen_ends {
            Some(Failure::Frozen)
        } else {
            None
        }
    }

    /// Objects have been freed by us, frozen ones among them.
    pub(super) fn look_again(&mut self, generations: Generations<'_>) {
        self.frozen_ends = generations.frozen_ends();
    }

    /// The snapshot has come to nothing: as it was, with what has come since.
    pub(super) fn lift(self, py: Python<'_>) {
        let generations = self.collector.generations(py);
        if generations.pending() < 0 {
            generations.set_pending(generations.pending() - self.lowered + self.before);
        }
    }

    /// The snapshot has done what a full collection does, and left so many objects.
    pub(super) fn end(self, generations: Generations<'_>, left: usize) {
        if generations.pending() < 0 {
            generations.set_pending(generations.pending() - self.lowered);
            generations.set_total(left as isize);
        }
    }
}
