//! Where new objects begin in the list of old ones: two lists of ours that stay tracked among them.
//!
//! What comes behind the first marker is new; the second stands where the last launch was. At the launch of a snapshot of
//! everything the second becomes the first: what became old shortly before is still new, for much of it is about to die.
//! After a full collection both stand at the end. Objects only ever move towards the end of their list, so what was behind a marker stays there.

use neurogc_policy::Scope;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::cpython::generations::{GcHead, Generations};

/// Both markers.
#[derive(Debug)]
pub(super) struct Markers {
    first: Marker,
    second: Marker,
}

/// The markers' heads, as far as they stand where they were put.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    /// Everything behind it in its list is new.
    pub(super) first: Option<usize>,
    /// Everything behind it became old after the last launch.
    pub(super) second: Option<usize>,
}

#[derive(Debug)]
struct Marker {
    object: Py<PyAny>,
    /// The frozen objects' ends when it was put in its place: freezing moves it to another list.
    frozen_ends: (usize, usize),
    /// Full collections that there had been: each of them strings the list anew.
    full: u64,
}

impl Markers {
    /// Two that have no place yet.
    pub(super) fn make(py: Python<'_>) -> Self {
        Self { first: Marker::make(py), second: Marker::make(py) }
    }

    /// Where both stand now.
    pub(super) fn places(&self, generations: Generations<'_>, full: u64) -> Places {
        let place =
            |marker: &Marker| marker.stands(generations, full).then(|| marker.object.as_ptr() as usize - GcHead::SIZE);
        Places { first: place(&self.first), second: place(&self.second) }
    }

    /// A snapshot is launched, and the young objects become old next.
    pub(super) fn launched(&mut self, generations: Generations<'_>, full: u64, scope: Scope) {
        if scope == Scope::All {
            std::mem::swap(&mut self.first, &mut self.second);
            // At the first launch, and after a full collection, new is what comes from now on.
            if !self.first.stands(generations, full) {
                self.first.put(generations, full);
            }
        }
        self.second.put(generations, full);
    }

    /// A full collection has ended, the last of so many: all that it has left is old, and new is what comes from now on.
    pub(super) fn all_are_old(&mut self, generations: Generations<'_>, full: u64) {
        for marker in [&mut self.first, &mut self.second] {
            marker.put(generations, full);
            // Walks look for it there.
            generations.make_last_old();
        }
    }
}

impl Marker {
    fn make(py: Python<'_>) -> Self {
        Self { object: PyList::empty(py).into_any().unbind(), frozen_ends: (0, 0), full: u64::MAX }
    }

    /// Whether it is still where it was put.
    fn stands(&self, generations: Generations<'_>, full: u64) -> bool {
        self.full == full && self.frozen_ends == generations.frozen_ends()
    }

    /// Puts it to the end of the young objects.
    fn put(&mut self, generations: Generations<'_>, full: u64) {
        let address = self.object.as_ptr().cast::<std::ffi::c_void>();
        // SAFETY: it is a list, which is a tracked object of ours, and no code of the program runs between the two.
        unsafe {
            pyo3::ffi::PyObject_GC_UnTrack(address);
            pyo3::ffi::PyObject_GC_Track(address);
        }
        (self.frozen_ends, self.full) = (generations.frozen_ends(), full);
    }
}
