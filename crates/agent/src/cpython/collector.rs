//! The collector's own counters, read without the GIL.

use std::sync::atomic::{AtomicI32, Ordering};

use super::layout::Layout;
use crate::sys::memory::{self, Pages};

/// More objects of the middle generation than this are not counted.
const MOST_MIDDLE: usize = 100_000;

/// CPython 3.12 freezes a few hundred objects itself when it starts. More than this were frozen by the program.
const FROZEN_AT_START: usize = 2_000;

/// More frozen objects than this are not counted.
const MOST_FROZEN: usize = 10_000_000;

/// A view of the main interpreter's `_gc_runtime_state`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collector {
    address: usize,
    layout: &'static Layout,
}

impl Collector {
    /// `address` is that of the main interpreter's `_gc_runtime_state` laid out as `layout` says, which the self-check
    /// has shown.
    pub(super) fn at(address: usize, layout: &'static Layout) -> Self {
        Self { address, layout }
    }

    /// A collector that cannot be read.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self { address: 0, layout: super::layout::any() }
    }

    pub(super) fn address(self) -> usize {
        self.address
    }

    /// The offsets that it is read with.
    pub(crate) fn layout(self) -> &'static Layout {
        self.layout
    }

    /// Net allocations since the last young collection, young collections since the last middle one, middle ones
    /// since the last full one.
    pub(crate) fn counts(self) -> [u32; 3] {
        let first = self.address + self.layout.gc_generations + self.layout.gc_generation_count;
        let places =
            [0, 1, 2].map(|generation| (first + generation * self.layout.gc_generation_size, size_of::<i32>()));
        let mut counts = [0; 3 * size_of::<i32>()];
        memory::gather(&places, &mut counts);
        let (counts, _) = counts.as_chunks();
        [0, 1, 2].map(|generation: usize| i32::from_ne_bytes(counts[generation]).max(0) as u32)
    }

    /// Net allocations since the last young collection, for a caller that holds the GIL: no system call.
    pub(crate) fn gathered(self, _: pyo3::Python<'_>) -> u32 {
        let count = self.address + self.layout.gc_generations + self.layout.gc_generation_count;
        // SAFETY: the self-check has compared this struct with the public API, and it lives while the interpreter
        // does, which the token shows. It is an aligned int.
        unsafe { std::ptr::read_volatile(count as *const i32) }.max(0) as u32
    }

    /// Objects that the last full collection left in the oldest generation.
    pub(crate) fn tenured(self) -> u64 {
        self.word(self.layout.gc_long_lived_total) as u64
    }

    /// Objects that have reached the oldest generation since then.
    pub(crate) fn pending(self) -> u64 {
        (self.word(self.layout.gc_long_lived_pending) as isize).max(0) as u64
    }

    /// The threshold for young objects that is in force.
    pub(crate) fn young_threshold(self) -> u32 {
        self.int(self.layout.gc_generations + self.layout.gc_generation_threshold).max(0) as u32
    }

    /// Changes the threshold for young objects from one number to another, and says whether it was the first one. The caller
    /// needs no GIL: CPython reads the number at each allocation, and only `gc.set_threshold` writes it.
    pub(crate) fn change_young_threshold(self, from: u32, to: u32) -> bool {
        let (Ok(from), Ok(to)) = (i32::try_from(from), i32::try_from(to)) else { return false };
        let at = self.address + self.layout.gc_generations + self.layout.gc_generation_threshold;
        // SAFETY: the self-check has compared this number with `gc.get_threshold()`. It is an aligned int in the state
        // of the main interpreter, which lives as long as the process runs Python.
        let threshold = unsafe { AtomicI32::from_ptr(at as *mut i32) };
        threshold.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// About how many objects are tracked: those that survived the last full collection, those that reached the
    /// oldest generation since, and the younger ones. The oldest generation is not walked, so what died old since then
    /// still counts.
    pub(crate) fn tracked_estimate(self) -> u64 {
        let middle = self.address + self.layout.gc_generations + self.layout.gc_generation_size;
        let middle = match walk(middle, MOST_MIDDLE) {
            Some(WalkEnd::Whole(length)) => length,
            Some(WalkEnd::Partly) => MOST_MIDDLE,
            None => 0,
        };
        self.tenured() + self.pending() + middle as u64 + u64::from(self.counts()[0])
    }

    /// How many objects are frozen. The list is followed through safe reads while the program may change it: a walk
    /// that loses its way gives `None`.
    pub(crate) fn frozen(self) -> Option<u64> {
        match walk(self.address + self.layout.gc_permanent_generation, MOST_FROZEN)? {
            WalkEnd::Whole(length) => Some(length as u64),
            WalkEnd::Partly => Some(MOST_FROZEN as u64),
        }
    }

    /// Whether the program has frozen its heap. Only as much is walked as is needed to tell.
    pub(crate) fn has_frozen_heap(self) -> bool {
        !matches!(walk(self.address + self.layout.gc_permanent_generation, FROZEN_AT_START), Some(WalkEnd::Whole(_)))
    }

    /// The first and the last frozen object, which change when objects are frozen or thawed.
    pub(crate) fn frozen_ends(self) -> Option<(usize, usize)> {
        let head = self.address + self.layout.gc_permanent_generation;
        Some((memory::word(head)?, memory::word(head + size_of::<usize>())?))
    }

    // The interpreter may be gone already when a thread of ours is late to end, so these are safe reads, too.

    fn int(self, offset: usize) -> i32 {
        memory::int(self.address + offset).unwrap_or(0)
    }

    fn word(self, offset: usize) -> usize {
        memory::word(self.address + offset).unwrap_or(0)
    }
}

/// How far a walk came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// Round the list, which has so many members.
    Whole(usize),
    /// As far as allowed.
    Partly,
}

/// Follows a list of `PyGC_Head` and checks that every neighbour points back.
pub(super) fn walk(head: usize, longest: usize) -> Option<WalkEnd> {
    const PREVIOUS: usize = size_of::<usize>();
    // Both pointers carry flags in their low bits.
    const FLAGS: usize = 3;
    let mut pages = Pages::new();
    let mut at = head;
    for length in 0..longest {
        let next = pages.word(at)? & !FLAGS;
        if pages.word(next + PREVIOUS)? & !FLAGS != at {
            return None;
        }
        if next == head {
            return Some(WalkEnd::Whole(length));
        }
        at = next;
    }
    Some(WalkEnd::Partly)
}
