//! The handlers that the preloaded library calls: `malloc` and its relatives, and anonymous mappings.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

use neurogc_wire::sites::AllocationDomain;

use super::exact;
use super::interface::{Handlers, SamplePoints};
use super::mappings;
use super::sampler::{Sampler, is_active, sampler};

/// What is attached to the library.
pub(super) static HANDLERS: Handlers = Handlers { allocate, reallocate, forget, mapped, unmapped, moving, moved };

/// What the calling thread allocates from now on is not sampled: it is one of the agent's own.
pub(crate) fn ignore_this_thread() {
    if let Some(points) = sampler().and_then(|sampler| sampler.thread_points) {
        // SAFETY: the library gives the thread's own points, which live as long as the thread.
        unsafe { (*points()).busy.store(1, Relaxed) };
    }
}

/// Marks the thread as being inside a handler until it is dropped.
struct Inside<'a>(&'a SamplePoints);

impl<'a> Inside<'a> {
    /// None where the thread is inside one already.
    fn enter(points: &'a SamplePoints) -> Option<Self> {
        let busy = points.busy.load(Relaxed);
        (busy == 0).then(|| {
            points.busy.store(1, Relaxed);
            Self(points)
        })
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.busy.store(0, Relaxed);
    }
}

/// The points in a block that a caller is about to get.
fn met(sampler: &Sampler, points: &SamplePoints, size: usize) -> u64 {
    let met = sampler.met(points, size);
    if size == 0 || size > isize::MAX as usize { 0 } else { met }
}

unsafe extern "C" fn allocate(points: &SamplePoints, align: usize, size: usize, zero: bool) -> *mut c_void {
    let Some(sampler) = sampler() else { return null_mut() };
    let met = met(sampler, points, size);
    let Some(_inside) = (met > 0).then(|| Inside::enter(points)).flatten() else { return null_mut() };
    let block = sampler.marked_block(align, size, zero);
    if !block.is_null() {
        sampler.note(points, block, size, met, AllocationDomain::Malloc);
    }
    block
}

unsafe extern "C" fn reallocate(points: &SamplePoints, block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: handlers are attached after the sampler was published; `below` gets the caller's own arguments.
    let Some(sampler) = sampler() else { return unsafe { libc::realloc(block, size) } };
    if exact::is_counting() {
        sampler.forget(block);
        return exact::reallocate(sampler, block, size);
    }
    let mut points_met = if points.left.load(Relaxed) < 0 { met(sampler, points, size) } else { 0 };
    let inside = Inside::enter(points);
    if inside.is_none() {
        points_met = 0;
    }
    // SAFETY: the block is the caller's, who gives it up for the new one.
    let realloc = |block, size| unsafe { (sampler.real.realloc)(block, size) };
    sampler.reallocate(points, block, size, points_met, AllocationDomain::Malloc, realloc)
}

unsafe extern "C" fn forget(block: *mut c_void) -> bool {
    sampler().is_some_and(|sampler| sampler.take_back(block))
}

unsafe extern "C" fn mapped(points: &SamplePoints, start: usize, size: usize, caller: usize) {
    let is_counted = exact::is_counting();
    let Some(sampler) = sampler().filter(|_| is_active() || is_counted) else { return };
    if sampler.own_code.contains(&caller) || sampler.allocators.iter().any(|code| code.contains(&caller)) {
        return;
    }
    if is_counted {
        exact::note(start as *mut c_void, size);
        return;
    }
    let Some(_inside) = Inside::enter(points) else { return };
    let tables = sampler.tables;
    let sample = mappings::sample(size, sampler.node());
    if tables.mappings.add(start, size, sample.site.node()) {
        tables.stacks.count(sample);
        tables.made.fetch_add(sample.weight, Relaxed);
    } else {
        tables.live.lose();
    }
}

unsafe extern "C" fn unmapped(start: usize, size: usize) {
    exact::forget(start as *mut c_void);
    if let Some(sampler) = sampler() {
        sampler.tables.mappings.remove(start, size);
    }
}

unsafe extern "C" fn moving(start: usize, size: usize) -> u64 {
    let Some(sampler) = sampler() else { return 0 };
    exact::forget(start as *mut c_void);
    let mappings = &sampler.tables.mappings;
    let node = mappings.node_at(start);
    mappings.remove(start, size);
    node.map_or(0, |node| u64::from(node) + 1)
}

unsafe extern "C" fn moved(start: usize, size: usize, known: u64) {
    let node = known.checked_sub(1).and_then(|node| u32::try_from(node).ok());
    if let Some((sampler, node)) = sampler().zip(node)
        && !sampler.tables.mappings.add(start, size, node)
    {
        sampler.tables.live.lose();
    }
}
