//! The GIL's state, read without taking it.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use super::layout::Layout;

/// A view of the main interpreter's GIL. The struct lives as long as the interpreter: inside the runtime until 3.11,
/// inside the statically allocated main interpreter from 3.12 on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GilView {
    address: usize,
    layout: &'static Layout,
}

/// An address of a Python thread state. It may be stale: everything behind it is read through `memory`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ThreadState(pub(crate) usize);

impl GilView {
    /// # Safety
    /// `address` must be that of the main interpreter's `_gil_runtime_state` laid out as `layout` says, which the
    /// self-check has shown by reading it through `memory`.
    pub(super) unsafe fn at(address: usize, layout: &'static Layout) -> Self {
        Self { address, layout }
    }

    /// Whether some thread holds it now.
    pub(crate) fn is_held(self) -> bool {
        // SAFETY: the constructor's contract: a live, aligned int that CPython writes atomically.
        let locked = unsafe { &*((self.address + self.layout.gil_locked) as *const AtomicI32) };
        locked.load(Ordering::Relaxed) == 1
    }

    /// The thread that holds it or held it last.
    pub(crate) fn last_holder(self) -> ThreadState {
        // SAFETY: the constructor's contract: a live, aligned pointer that CPython writes atomically.
        let holder = unsafe { &*((self.address + self.layout.gil_last_holder) as *const AtomicUsize) };
        ThreadState(holder.load(Ordering::Relaxed))
    }

    /// How often it has gone from one thread to another.
    pub(crate) fn switches(self) -> u64 {
        // SAFETY: the constructor's contract: a live, aligned unsigned long.
        let switches = unsafe { &*((self.address + self.layout.gil_switch_number) as *const AtomicUsize) };
        switches.load(Ordering::Relaxed) as u64
    }
}
