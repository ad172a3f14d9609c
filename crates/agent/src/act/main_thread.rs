//! What the main thread of the program is asked for by threads without the GIL, and what it still has to do when it comes by.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::Python;

use crate::cpython::pending::call_soon;

/// Functions that the main thread calls with the GIL held, as soon as it is back in Python code. They are those of the layer
/// above, which Python calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MainThreadCalls {
    /// It has nothing to do, and comes by.
    pub(crate) gap: fn(Python<'_>),
    /// It comes by.
    pub(crate) passing: fn(Python<'_>),
    /// It changes in Python what another policy needs.
    pub(crate) follow_switch: fn(Python<'_>),
    /// It restores the program's thresholds.
    pub(crate) restore: fn(Python<'_>),
}

/// Whether another policy has been put in force, and the program still has the stand-ins and thresholds of the one before.
static SWITCHED: AtomicBool = AtomicBool::new(false);

/// Whether the program's thresholds are to be restored.
static LEAVE: AtomicBool = AtomicBool::new(false);

impl MainThreadCalls {
    /// Asks the main thread to come by as soon as it runs Python code; `idle` says that the program has nothing to do. The
    /// caller needs no GIL.
    pub(crate) fn come_by(&self, idle: bool) -> bool {
        call_soon(if idle { self.gap } else { self.passing })
    }

    /// Another policy is in force.
    pub(super) fn switched(&self) {
        SWITCHED.store(true, Ordering::Release);
    }

    /// Has it look whether another policy is in force.
    pub(super) fn follow_switch(&self) {
        call_soon(self.follow_switch);
    }

    /// Has it restore the program's thresholds.
    pub(super) fn restore(&self) {
        LEAVE.store(true, Ordering::Relaxed);
        call_soon(self.restore);
    }
}

/// Whether another policy has been put in force since this was last asked.
pub(crate) fn has_switched() -> bool {
    SWITCHED.load(Ordering::Relaxed) && SWITCHED.swap(false, Ordering::Acquire)
}

/// Whether the program's thresholds are to be restored, and were not since this was last asked.
pub(crate) fn must_restore() -> bool {
    LEAVE.load(Ordering::Relaxed) && LEAVE.swap(false, Ordering::Relaxed)
}
