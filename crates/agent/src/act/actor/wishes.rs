//! What the program has asked for: full collections that are put off, and quiet.

use std::sync::atomic::Ordering;

use super::Actor;

impl Actor {
    /// Puts a full collection of the program off.
    pub(crate) fn defer(&self) {
        self.deferrals.fetch_add(1, Ordering::Relaxed);
        self.deferred.store(true, Ordering::Relaxed);
        self.due.store(true, Ordering::Relaxed);
    }

    /// How many were put off so far.
    pub(crate) fn deferrals(&self) -> u64 {
        self.deferrals.load(Ordering::Relaxed)
    }

    /// Whether one is still due.
    pub(crate) fn is_deferred(&self) -> bool {
        self.deferred.load(Ordering::Relaxed)
    }

    /// Increments or decrements the number of `paused()` blocks that the program is in.
    pub(crate) fn quiet(&self, more: bool) {
        if more {
            self.quiet.fetch_add(1, Ordering::Relaxed);
        } else {
            let _ = self.quiet.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        }
    }

    /// Whether the program is in a `paused()` block.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed) > 0
    }
}
