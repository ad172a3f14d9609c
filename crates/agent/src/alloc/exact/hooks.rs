//! What a counted section puts before the allocators: CPython's three, and `malloc` and its relatives where the library
//! is preloaded. A block that one of them takes from another is counted by both, at the same address, and so once.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};

use super::super::interface::Real;
use super::super::python::Below;
use super::super::sampler::{Sampler, sampler};
use super::{forget, note, restore, section, take};
use crate::cpython::allocators::{Allocator, Allocators, Domain};

macro_rules! hooks {
    ($domain:ident, $below:ident) => {
        mod $domain {
            use super::*;

            pub(super) unsafe extern "C" fn malloc(context: *mut c_void, size: usize) -> *mut c_void {
                // SAFETY: the caller's arguments are passed on.
                let block = unsafe { $below.malloc(context, size) };
                note(block, size);
                block
            }

            pub(super) unsafe extern "C" fn calloc(context: *mut c_void, count: usize, size: usize) -> *mut c_void {
                // SAFETY: as above.
                let block = unsafe { $below.calloc(context, count, size) };
                note(block, count.wrapping_mul(size));
                block
            }

            pub(super) unsafe extern "C" fn realloc(
                context: *mut c_void,
                block: *mut c_void,
                size: usize,
            ) -> *mut c_void {
                // It goes before the block does: another thread may get the same address at once.
                let was = take(block);
                // SAFETY: as above.
                let moved = unsafe { $below.realloc(context, block, size) };
                if moved.is_null() {
                    restore(block, was)
                } else {
                    note(moved, size)
                }
                moved
            }

            pub(super) unsafe extern "C" fn free(context: *mut c_void, block: *mut c_void) {
                forget(block);
                // SAFETY: as above.
                unsafe { $below.free(context, block) }
            }
        }
    };
}

static BELOW_RAW: Below = Below::new();
static BELOW_MEM: Below = Below::new();
static BELOW_OBJECT: Below = Below::new();
hooks!(raw, BELOW_RAW);
hooks!(mem, BELOW_MEM);
hooks!(object, BELOW_OBJECT);

/// The hooks on one of CPython's allocators.
struct Hooks {
    domain: Domain,
    below: &'static Below,
    /// Whether they are in place, perhaps below those of another tool.
    are_in: AtomicBool,
    /// The context of the allocator below, which is ours, too.
    context: AtomicPtr<c_void>,
}

static HOOKS: [Hooks; 3] = [
    Hooks::new(Domain::Raw, &BELOW_RAW),
    Hooks::new(Domain::Mem, &BELOW_MEM),
    Hooks::new(Domain::Object, &BELOW_OBJECT),
];

impl Hooks {
    const fn new(domain: Domain, below: &'static Below) -> Self {
        Self { domain, below, are_in: AtomicBool::new(false), context: AtomicPtr::new(null_mut()) }
    }

    fn allocator(&self, context: *mut c_void) -> Allocator {
        match self.domain {
            Domain::Raw => {
                Allocator { context, malloc: raw::malloc, calloc: raw::calloc, realloc: raw::realloc, free: raw::free }
            }
            Domain::Mem => {
                Allocator { context, malloc: mem::malloc, calloc: mem::calloc, realloc: mem::realloc, free: mem::free }
            }
            Domain::Object => Allocator {
                context,
                malloc: object::malloc,
                calloc: object::calloc,
                realloc: object::realloc,
                free: object::free,
            },
        }
    }

    fn are_on_top(&self, allocators: Allocators) -> bool {
        std::ptr::fn_addr_eq(allocators.get(self.domain).malloc, self.allocator(null_mut()).malloc)
    }

    fn put_in(&self, allocators: Allocators) {
        let top = allocators.get(self.domain);
        if self.are_in.load(Relaxed) && (self.are_on_top(allocators) || is_reached(&top)) {
            return;
        }
        self.below.set(&top);
        self.context.store(top.context, Release);
        // SAFETY: the hooks pass everything on to the allocator that was in force, with its own context.
        unsafe { allocators.set(self.domain, self.allocator(top.context)) };
        self.are_in.store(true, Relaxed);
    }

    /// Takes the hooks out, unless another tool has come on top of them, which may pass calls on to them at any time.
    fn take_out(&self, allocators: Allocators) {
        if self.are_in.load(Relaxed) && self.are_on_top(allocators) {
            let below = self.below.get(self.context.load(Acquire));
            // SAFETY: the allocator that was in force before, which gave out all blocks that live.
            unsafe { allocators.set(self.domain, below) };
            self.are_in.store(false, Relaxed);
        }
    }
}

/// Whether a call of this allocator comes to hooks of ours further below. The section has not begun: the block that is
/// allocated for it is counted by nothing else.
fn is_reached(top: &Allocator) -> bool {
    super::COUNTING.store(true, Release);
    // Of a size that takes the way of large blocks as well as of small ones.
    // SAFETY: an allocation by the allocator in force, and its end.
    let block = unsafe { (top.malloc)(top.context, 40) };
    super::COUNTING.store(false, Release);
    let found = section().remove(block as usize).is_some();
    // SAFETY: the block from above.
    unsafe { (top.free)(top.context, block) };
    found
}

/// Puts all hooks in place. The caller holds the GIL.
pub(super) fn put_in(sampler: &Sampler) {
    if let Some(allocators) = Allocators::find() {
        HOOKS.iter().for_each(|hooks| hooks.put_in(allocators));
    }
    if let Some(entries) = &sampler.entries {
        REAL_POSIX_MEMALIGN.store(entries.posix_memalign.load(Acquire), Release);
        entries.malloc.store(native_malloc as *mut c_void, Release);
        entries.calloc.store(native_calloc as *mut c_void, Release);
        entries.realloc.store(native_realloc as *mut c_void, Release);
        entries.memalign.store(native_memalign as *mut c_void, Release);
        entries.posix_memalign.store(native_posix_memalign as *mut c_void, Release);
        entries.free.store(native_free as *mut c_void, Release);
    }
}

/// Takes them out again. The caller holds the GIL.
pub(super) fn take_out(sampler: &Sampler) {
    if let Some(allocators) = Allocators::find() {
        HOOKS.iter().for_each(|hooks| hooks.take_out(allocators));
    }
    if let Some(entries) = &sampler.entries {
        let Real { malloc, calloc, realloc, free, memalign, .. } = sampler.real;
        entries.malloc.store(malloc as *mut c_void, Release);
        entries.calloc.store(calloc as *mut c_void, Release);
        entries.realloc.store(realloc as *mut c_void, Release);
        entries.memalign.store(memalign as *mut c_void, Release);
        entries.posix_memalign.store(REAL_POSIX_MEMALIGN.load(Acquire), Release);
        entries.free.store(free as *mut c_void, Release);
    }
}

type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;

static REAL_POSIX_MEMALIGN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

const ENOMEM: c_int = 12;

unsafe extern "C" fn native_malloc(size: usize) -> *mut c_void {
    let Some(sampler) = sampler() else { return null_mut() };
    // SAFETY: the caller's arguments are passed on.
    let block = unsafe { (sampler.real.malloc)(size) };
    note(block, size);
    block
}

unsafe extern "C" fn native_calloc(count: usize, size: usize) -> *mut c_void {
    let Some(sampler) = sampler() else { return null_mut() };
    // SAFETY: as above.
    let block = unsafe { (sampler.real.calloc)(count, size) };
    note(block, count.wrapping_mul(size));
    block
}

unsafe extern "C" fn native_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    let Some(sampler) = sampler() else { return null_mut() };
    realloc(sampler, block, size)
}

/// `realloc` of the allocator below, counted. The block is the caller's, who gives it up for the new one.
pub(in crate::alloc) fn realloc(sampler: &Sampler, block: *mut c_void, size: usize) -> *mut c_void {
    let was = take(block);
    // SAFETY: the caller's promise.
    let moved = unsafe { (sampler.real.realloc)(block, size) };
    if !moved.is_null() {
        note(moved, size);
    } else if size != 0 {
        restore(block, was);
    }
    moved
}

unsafe extern "C" fn native_memalign(align: usize, size: usize) -> *mut c_void {
    let Some(sampler) = sampler() else { return null_mut() };
    // SAFETY: as above.
    let block = unsafe { (sampler.real.memalign)(align, size) };
    note(block, size);
    block
}

unsafe extern "C" fn native_posix_memalign(to: *mut *mut c_void, align: usize, size: usize) -> c_int {
    let real = REAL_POSIX_MEMALIGN.load(Acquire);
    if real.is_null() {
        return ENOMEM;
    }
    // SAFETY: the place holds the function of that name; the caller's arguments are passed on, and the block that it
    // writes to the caller's place is read only where it says that there is one.
    unsafe {
        let result = std::mem::transmute::<*mut c_void, PosixMemalign>(real)(to, align, size);
        if result == 0 {
            note(*to, size);
        }
        result
    }
}

unsafe extern "C" fn native_free(block: *mut c_void) {
    forget(block);
    if let Some(sampler) = sampler() {
        // SAFETY: as above.
        unsafe { (sampler.real.free)(block) }
    }
}
