//! The hooks on CPython's allocators.
//!
//! Domains `obj` and `mem`: their `free` is left alone. A sampled block is foreign to pymalloc, which passes it on to
//! the `raw` domain, and so to `free()`, when it is freed. That is where it is seen again: by the preloaded library, or
//! without it by a hook on the `raw` domain.
//!
//! The way that nearly every call takes is three instructions on x86-64. The context of the allocator below is handed
//! to CPython as ours, so it is in place when the call is passed on.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use neurogc_wire::sites::AllocationDomain;

use super::fast;
use super::interface::{MARK, SamplePoints};
use super::sampler::{Sampler, sampler};
use super::spares;
use crate::cpython::allocators::{Allocator, Allocators, Calloc, Domain, Free, Malloc, Realloc};
use crate::cpython::arenas::SMALL;

/// The functions below a set of hooks.
#[derive(Debug)]
pub(super) struct Below {
    pub(super) malloc: AtomicPtr<c_void>,
    pub(super) calloc: AtomicPtr<c_void>,
    pub(super) realloc: AtomicPtr<c_void>,
    pub(super) free: AtomicPtr<c_void>,
}

/// Domains `obj` and `mem`. Their calls hold a GIL, of which there may be several: then a count may be lost.
pub(super) static OBJECTS: SamplePoints = SamplePoints::new();
pub(super) static BELOW_OBJECTS: Below = Below::new();

/// Domain `raw`, where there is no preloaded library. Any thread calls it: then a count may be lost.
pub(super) static RAW: SamplePoints = SamplePoints::new();
pub(super) static BELOW_RAW: Below = Below::new();

impl Below {
    pub(super) const fn new() -> Self {
        Self {
            malloc: AtomicPtr::new(null_mut()),
            calloc: AtomicPtr::new(null_mut()),
            realloc: AtomicPtr::new(null_mut()),
            free: AtomicPtr::new(null_mut()),
        }
    }

    pub(super) fn set(&self, allocator: &Allocator) {
        self.malloc.store(allocator.malloc as *mut c_void, Release);
        self.calloc.store(allocator.calloc as *mut c_void, Release);
        self.realloc.store(allocator.realloc as *mut c_void, Release);
        self.free.store(allocator.free as *mut c_void, Release);
    }

    /// The functions as an allocator with this context. `set` has been called.
    pub(super) fn get(&self, context: *mut c_void) -> Allocator {
        // SAFETY: `set` has put functions of these types there.
        unsafe {
            Allocator {
                context,
                malloc: std::mem::transmute::<*mut c_void, Malloc>(self.malloc.load(Acquire)),
                calloc: std::mem::transmute::<*mut c_void, Calloc>(self.calloc.load(Acquire)),
                realloc: std::mem::transmute::<*mut c_void, Realloc>(self.realloc.load(Acquire)),
                free: std::mem::transmute::<*mut c_void, Free>(self.free.load(Acquire)),
            }
        }
    }

    /// # Safety
    /// `set` has been called; the arguments are a caller's own.
    pub(super) unsafe fn malloc(&self, context: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { std::mem::transmute::<*mut c_void, Malloc>(self.malloc.load(Acquire))(context, size) }
    }

    /// # Safety
    /// As `malloc`.
    pub(super) unsafe fn calloc(&self, context: *mut c_void, count: usize, size: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { std::mem::transmute::<*mut c_void, Calloc>(self.calloc.load(Acquire))(context, count, size) }
    }

    /// # Safety
    /// As `malloc`.
    pub(super) unsafe fn realloc(&self, context: *mut c_void, block: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { std::mem::transmute::<*mut c_void, Realloc>(self.realloc.load(Acquire))(context, block, size) }
    }

    /// # Safety
    /// As `malloc`.
    pub(super) unsafe fn free(&self, context: *mut c_void, block: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { std::mem::transmute::<*mut c_void, Free>(self.free.load(Acquire))(context, block) }
    }
}

/// Hooks `obj` and `mem`, which must be pymalloc's own. The caller holds the GIL.
pub(super) fn hook_objects(allocators: Allocators, sampler: &Sampler) {
    let below = allocators.get(Domain::Object);
    BELOW_OBJECTS.set(&below);
    OBJECTS.begin(sampler.seed, sampler.interval());
    for domain in [Domain::Mem, Domain::Object] {
        let Allocator { context, free, .. } = allocators.get(domain);
        let (malloc, calloc, realloc) = (fast::object_malloc, fast::object_calloc, fast::object_realloc);
        // SAFETY: the hooks give out blocks of the allocator below, or of libc, which it passes on when they are freed.
        unsafe { allocators.set(domain, Allocator { context, malloc, calloc, realloc, free }) };
    }
}

/// Hooks domains that are libc's `malloc`. The caller holds the GIL.
pub(super) fn hook_raw(allocators: Allocators, sampler: &Sampler, domains: &[Domain]) {
    BELOW_RAW.set(&allocators.get(Domain::Raw));
    RAW.begin(sampler.seed, sampler.interval());
    for domain in domains {
        let context = allocators.get(*domain).context;
        let (malloc, calloc, realloc) = (fast::raw_malloc, fast::raw_calloc, fast::raw_realloc);
        // SAFETY: the hooks give out blocks of libc, as the allocator below does.
        unsafe { allocators.set(*domain, Allocator { context, malloc, calloc, realloc, free: fast::raw_free }) };
    }
}

/// A sampled block for a small object, or null.
fn small(size: usize, zero: bool) -> *mut c_void {
    let Some(sampler) = sampler() else { return null_mut() };
    let met = sampler.met(&OBJECTS, size);
    // A larger one is passed on to `raw` or `malloc`, and sampled there.
    if met == 0 || size > SMALL {
        return null_mut();
    }
    small_with(sampler, size, zero, met)
}

fn small_with(sampler: &Sampler, size: usize, zero: bool, met: u64) -> *mut c_void {
    let size = size.max(1);
    let mut block = spares::take(size);
    if block.is_null() {
        block = sampler.marked_block(0, spares::room(size), false);
    }
    if !block.is_null() {
        if zero {
            // SAFETY: the block has at least this size.
            unsafe { std::ptr::write_bytes(block as *mut u8, 0, size) };
        }
        sampler.note(&OBJECTS, block, size, met, AllocationDomain::Object);
    }
    block
}

#[cold]
pub(super) unsafe extern "C" fn slow_object_malloc(context: *mut c_void, size: usize) -> *mut c_void {
    let block = small(size, false);
    // SAFETY: the caller's arguments are passed on.
    if block.is_null() { unsafe { BELOW_OBJECTS.malloc(context, size) } } else { block }
}

#[cold]
pub(super) unsafe extern "C" fn slow_object_calloc(context: *mut c_void, count: usize, size: usize) -> *mut c_void {
    let block = count.checked_mul(size).map_or(null_mut(), |bytes| small(bytes, true));
    if block.is_null() {
        if OBJECTS.left.load(Relaxed) < 0 {
            // The countdown was by a number without meaning.
            OBJECTS.left.store(0, Relaxed);
        }
        // SAFETY: the caller's arguments are passed on.
        return unsafe { BELOW_OBJECTS.calloc(context, count, size) };
    }
    block
}

#[cold]
pub(super) unsafe extern "C" fn slow_object_realloc(
    context: *mut c_void,
    block: *mut c_void,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's arguments are passed on.
    let realloc = |block, size| unsafe { BELOW_OBJECTS.realloc(context, block, size) };
    let Some(sampler) = sampler() else { return realloc(block, size) };
    let met = if OBJECTS.left.load(Relaxed) < 0 { sampler.met(&OBJECTS, size) } else { 0 };
    let met = if size > SMALL { 0 } else { met };
    if block.is_null() {
        let fresh = if met > 0 { small_with(sampler, size, false, met) } else { null_mut() };
        return if fresh.is_null() { realloc(block, size) } else { fresh };
    }
    // A block of another domain that comes along here is noted anew by that domain.
    let address = block as usize;
    let before = sampler.tables.live.get(address).filter(|sample| sample.site.domain() == AllocationDomain::Object);
    if before.is_some() {
        // The record goes first: pymalloc passes the block on to libc, which may free it.
        sampler.forget(block);
    }
    let moved = realloc(block, size);
    if moved.is_null() {
        if let Some(before) = before {
            sampler.tables.live.add(address, before);
        }
        return moved;
    }
    let mut better = if met > 0 { small_with(sampler, size, false, met) } else { null_mut() };
    if better.is_null() && address & MARK == 0 && size <= SMALL && moved != block {
        // It may have been a sampled block, which libc has moved. A snapshot expects every small object in an arena or
        // at a marked address (`arenas::may_be_elsewhere`).
        // SAFETY: a new block for the same caller.
        better = unsafe { BELOW_OBJECTS.malloc(context, size) };
    }
    if better.is_null() {
        return moved;
    }
    // SAFETY: both blocks have at least this size, and are different ones. The first is not used any more.
    unsafe {
        std::ptr::copy_nonoverlapping(moved as *const u8, better as *mut u8, size);
        BELOW_OBJECTS.free(context, moved);
    }
    better
}

#[cold]
pub(super) unsafe extern "C" fn slow_raw_malloc(context: *mut c_void, size: usize) -> *mut c_void {
    let block = raw(size, false);
    // SAFETY: the caller's arguments are passed on.
    if block.is_null() { unsafe { BELOW_RAW.malloc(context, size) } } else { block }
}

#[cold]
pub(super) unsafe extern "C" fn slow_raw_calloc(context: *mut c_void, count: usize, size: usize) -> *mut c_void {
    let block = count.checked_mul(size).map_or(null_mut(), |bytes| raw(bytes, true));
    if block.is_null() {
        if RAW.left.load(Relaxed) < 0 {
            RAW.left.store(0, Relaxed);
        }
        // SAFETY: the caller's arguments are passed on.
        return unsafe { BELOW_RAW.calloc(context, count, size) };
    }
    block
}

#[cold]
pub(super) unsafe extern "C" fn slow_raw_realloc(context: *mut c_void, block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's arguments are passed on.
    let realloc = |block, size| unsafe { BELOW_RAW.realloc(context, block, size) };
    let Some(sampler) = sampler() else { return realloc(block, size) };
    let met = if RAW.left.load(Relaxed) < 0 { sampler.met(&RAW, size) } else { 0 };
    // CPython's `raw` gives a block for zero bytes, and so keeps the old one where it fails.
    let size = size.max(1);
    sampler.reallocate(&RAW, block, size, met, AllocationDomain::Raw, realloc)
}

#[cold]
pub(super) unsafe extern "C" fn slow_raw_free(context: *mut c_void, block: *mut c_void) {
    if sampler().is_some_and(|sampler| sampler.take_back(block)) {
        return;
    }
    // SAFETY: the caller's arguments are passed on.
    unsafe { BELOW_RAW.free(context, block) }
}

fn raw(size: usize, zero: bool) -> *mut c_void {
    let Some(sampler) = sampler() else { return null_mut() };
    let met = sampler.met(&RAW, size);
    if met == 0 || size == 0 || size > isize::MAX as usize {
        return null_mut();
    }
    let block = sampler.marked_block(0, size, zero);
    if !block.is_null() {
        sampler.note(&RAW, block, size, met, AllocationDomain::Raw);
    }
    block
}
