//! The agent's two threads as other threads deal with them: how they start, whether they are still there, what tells them to end
//! and how their rounds are waited for.

pub(crate) mod member;
pub(crate) mod rounds;

use std::sync::atomic::{AtomicBool, Ordering};

use self::rounds::Rounds;

/// What other threads tell both of them. It has no lock, so a fork cannot leave one locked.
#[derive(Debug, Default)]
pub(crate) struct ThreadControl {
    stop: AtomicBool,
    /// The sampler's and the uplink's, so that a report can wait for fresh figures.
    pub(crate) sampler: Rounds,
    pub(crate) uplink: Rounds,
}

impl ThreadControl {
    /// Whether the threads should end.
    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Has them end, or go on.
    pub(crate) fn stop(&self, stop: bool) {
        self.stop.store(stop, Ordering::Release);
    }
}
