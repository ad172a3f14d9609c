//! How threads come to the state of snapshots. One that holds the GIL never waits for it: a thread of the agent that has it may not
//! run for long, or has been killed.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::slices::EndedSlice;
use super::{Phase, SnapshotFailure, SnapshotRunner, State};
use crate::sys::locks::try_lock;

/// How long a thread without the GIL waits for the state, and how often it looks.
const PATIENCE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_micros(50);

impl SnapshotRunner {
    /// The state, with what was left for it; nothing where another thread has it at this instant, and in a process that native code
    /// has forked.
    pub(super) fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        if self.is_foreign() {
            return None;
        }
        let mut state = try_lock(&self.state)?;
        if self.forgotten.swap(false, Ordering::Acquire) && matches!(state.phase, Phase::Failed(_)) {
            state.phase = Phase::Idle;
        }
        if let Some(ended) = self.ended.pop() {
            self.take_in(&mut state, ended);
        }
        Some(state)
    }

    /// The same for a thread without the GIL, which waits a short while.
    pub(super) fn state_in_time(&self) -> Option<MutexGuard<'_, State>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.try_state();
            if state.is_some() || self.is_foreign() || Instant::now() > deadline {
                return state;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// A slice has ended.
    fn take_in(&self, state: &mut State, ended: EndedSlice) {
        let EndedSlice { harvest, reaped, frozen_ends } = ended;
        state.note(&reaped);
        state.frozen_ends = frozen_ends;
        let called_off = std::mem::take(&mut state.called_off);
        if harvest.left() == 0 {
            return state.finish(harvest);
        }
        state.phase = Phase::Landed(harvest);
        if called_off {
            self.fail(state, SnapshotFailure::Cancelled);
        }
    }

    /// Whether this is the memory of another process, from which this one was forked.
    pub(super) fn is_foreign(&self) -> bool {
        self.pid != std::process::id()
    }
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;

    use super::super::SnapshotProgress;
    use super::*;
    use crate::sys::locks::lock;

    #[test]
    fn no_thread_waits_for_one_that_keeps_the_state() {
        // Its end would drop Python objects, which unit tests do not link.
        let runner = ManuallyDrop::new(SnapshotRunner::default());
        runner.refuse(&SnapshotFailure::ShortOfMemory);
        let state = lock(&runner.state);
        assert_eq!(runner.look(), SnapshotProgress::Busy);
        assert!(runner.latest().is_none() && runner.heap_told(1).is_none() && runner.take_census().is_none());
        runner.refuse(&SnapshotFailure::NoMemory);
        // The failure that was seen is forgotten, and no later one.
        runner.forget_failure();
        // Without the GIL a short while is waited.
        runner.shut_down();
        assert_eq!(runner.figures().failed.len(), 0);
        drop(state);
        assert_eq!((runner.look(), runner.figures().failed.len()), (SnapshotProgress::Idle, 1));
        runner.refuse(&SnapshotFailure::NoMemory);
        assert_eq!(runner.look(), SnapshotProgress::Failed(SnapshotFailure::NoMemory));
    }
}
