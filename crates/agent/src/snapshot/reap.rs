//! Freeing what a snapshot found: each candidate is looked at again, moved to the youngest generation, and judged there
//! by CPython itself. The snapshot only says where to look.

use std::ops::Range;

use pyo3::ffi;
use pyo3::prelude::*;

use super::control::Candidate;
use super::harvest::Harvest;
use super::walk::prefetch;
use crate::cpython::generations::{Generations, Head};
use crate::cpython::layout::Layout;
use crate::cpython::{arenas, vm};
use crate::sys::memory;

/// A collector's head and the beginning of the object behind it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    next: usize,
    previous: usize,
    references: i64,
    kind: usize,
}

/// How far ahead memory is brought near.
const AHEAD: usize = 8;

/// The candidates of these ranges that are still tracked objects of the same type.
pub(super) fn verified(harvest: &Harvest, ranges: &[Range<usize>], layout: &Layout) -> Vec<usize> {
    let count = ranges.iter().map(Range::len).sum();
    let mut good = Vec::with_capacity(count);
    // Addresses that cannot be read without care: for these the kernel is asked, all at once.
    let mut careful = Vec::new();
    let all_are_kept = arenas::all_are_kept();
    for range in ranges {
        let candidates = harvest.candidates(range.clone());
        for (index, candidate) in candidates.iter().enumerate() {
            if let Some(ahead) = candidates.get(index + AHEAD) {
                prefetch(ahead.object());
            }
            if !(all_are_kept && candidate.is_small()) {
                // Its place is kept, because finalizers run in this order.
                careful.push((good.len(), *candidate));
                good.push(0);
                continue;
            }
            // SAFETY: small objects lie in arenas, and all arenas of the time of the snapshot are still mapped.
            let header = unsafe { *((candidate.object() - Head::SIZE) as *const Header) };
            if is_the_same(*candidate, header, layout) {
                good.push(candidate.object());
            }
        }
    }
    let addresses: Vec<usize> = careful.iter().map(|(_, candidate)| candidate.object() - Head::SIZE).collect();
    for ((place, candidate), bytes) in careful.iter().zip(memory::copies::<{ size_of::<Header>() }>(&addresses)) {
        // SAFETY: a header is four words, and any bytes make one.
        let header = bytes.map(|bytes| unsafe { std::mem::transmute::<[u8; size_of::<Header>()], Header>(bytes) });
        if header.is_some_and(|header| is_the_same(*candidate, header, layout))
            && let Some(good) = good.get_mut(*place)
        {
            *good = candidate.object();
        }
    }
    good.retain(|object| *object != 0);
    good
}

/// Whether a candidate is still a tracked object of its type. What was freed is not: CPython takes an object out of its
/// list before it frees it.
fn is_the_same(candidate: Candidate, header: Header, layout: &Layout) -> bool {
    const COLLECTING: usize = 2;
    let head = candidate.object() - Head::SIZE;
    let references =
        if layout.object_refcount_bits == 32 { i64::from(header.references as i32) } else { header.references };
    let (next, previous) = (header.next, header.previous & !Head::FLAGS);
    let is_list_member =
        |address: usize| address != 0 && address.is_multiple_of(align_of::<Head>()) && address >> 48 == 0;
    if header.kind != candidate.kind
        || references <= 0
        || header.previous & COLLECTING != 0
        || !is_list_member(next)
        || !is_list_member(previous)
    {
        return false;
    }
    // SAFETY: a tracked object with references lies here: nothing else has this type where its type would be and two
    // pointers where its neighbours would be. So the neighbours are members of its list.
    unsafe { (*(next as *const Head)).previous & !Head::FLAGS == head && (*(previous as *const Head)).next == head }
}

/// Moves objects to the youngest generation, by themselves, and has it collected. Gives what the collection found.
///
/// # Safety
/// They must be tracked objects, which `verified` has just found, and `aside` must stay where it is.
pub(super) unsafe fn collect(
    py: Python<'_>,
    generations: Generations<'_>,
    objects: &[usize],
    aside: *mut Head,
) -> PyResult<usize> {
    // The young objects have nothing to do with these and would only make the pause longer.
    // SAFETY: the caller's promise.
    let counts = unsafe { generations.set_aside(aside) };
    for (index, object) in objects.iter().enumerate() {
        if let Some(ahead) = objects.get(index + AHEAD) {
            prefetch(*ahead - Head::SIZE);
        }
        let object = (*object) as *mut std::ffi::c_void;
        // SAFETY: the caller's promise. No code of the program runs between the two.
        unsafe {
            ffi::PyObject_GC_UnTrack(object);
            ffi::PyObject_GC_Track(object);
        }
    }
    let found = vm::collect(py, 0).and_then(|found| found.extract());
    // SAFETY: `aside` is what `set_aside` has filled.
    unsafe { generations.bring_back(aside, counts) };
    found
}
