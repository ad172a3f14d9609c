//! Slices of what a snapshot has found, which threads of the program free.

use std::sync::atomic::Ordering;
use std::time::Duration;

use neurogc_policy::Scope;
use pyo3::prelude::*;

use super::harvest::{Harvest, Portion};
use super::{Phase, Reaped, SnapshotFailure, SnapshotRunner, State, objects_in, reap, system};
use crate::cpython::generations::Generations;
use crate::sys::native::pthread_self;

/// A slice that has been freed, for the state.
#[derive(Debug)]
pub(super) struct EndedSlice {
    pub(super) harvest: Harvest,
    pub(super) reaped: Reaped,
    /// The first and the last frozen object: frozen ones may have been among those that were freed.
    pub(super) frozen_ends: (usize, usize),
}

impl SnapshotRunner {
    /// Frees whole components for about as long as `budget`. With `whole`, one that is too large for that goes by
    /// itself when nothing smaller is left. Nothing where there is none to be freed, or another thread has the state.
    pub(crate) fn reap(&self, py: Python<'_>, budget: Duration, whole: bool) -> Option<Reaped> {
        let began = system::now();
        let mut state = self.try_state()?;
        let Phase::Landed(harvest) = &state.phase else { return None };
        let generations = harvest.collector.generations(py);
        if generations.is_collecting() {
            return None;
        }
        if let Some(failure) = self.broken(&state, harvest, generations) {
            self.fail(&mut state, failure);
            return None;
        }
        let Phase::Landed(mut harvest) = std::mem::replace(&mut state.phase, Phase::Reaping) else { return None };
        let (most, pending) = (objects_in(budget, state.cost_ns), state.pending);
        drop(state);

        let ranges = harvest.take(Portion { most: most.max(1), whole });
        let taken: usize = ranges.iter().map(|range| range.len()).sum();
        let objects = reap::verified(&mut harvest, &ranges);
        let freed = if objects.is_empty() {
            0
        } else {
            self.aside_by.store(pthread_self(), Ordering::Relaxed);
            // SAFETY: they have just been verified, and the head is in a box that outlives the call.
            let freed = unsafe { reap::collect(py, generations, &objects, self.aside.0.get()) }.unwrap_or(0);
            self.aside_by.store(0, Ordering::Relaxed);
            freed
        };
        harvest.freed += freed;
        if harvest.left() == 0 && harvest.scope == Scope::All {
            // As after a full collection, so that CPython's own rule goes on from here where the agent ends.
            let tracked = harvest.shared.control().tracked.load(Ordering::Relaxed) as usize;
            generations.set_total(tracked.saturating_sub(harvest.freed) as isize);
            generations.set_pending((generations.pending() - pending).max(0));
        }

        let pause_ns = system::now() - began;
        let reaped =
            Reaped { freed, moved: objects.len(), dropped: taken - objects.len(), left: harvest.left(), pause_ns };
        // There is room: the next slice begins when this one has been taken in.
        let _ = self.ended.push(EndedSlice { harvest, reaped, frozen_ends: generations.frozen_ends() });
        drop(self.try_state());
        Some(reaped)
    }

    /// Why what was found can no longer be relied on.
    fn broken(&self, state: &State, harvest: &Harvest, generations: Generations<'_>) -> Option<SnapshotFailure> {
        if self.full.load(Ordering::Relaxed) != harvest.full {
            Some(SnapshotFailure::Collected)
        } else if generations.frozen_ends() != state.frozen_ends {
            Some(SnapshotFailure::Frozen)
        } else {
            None
        }
    }
}
