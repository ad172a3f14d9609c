//! What is seldom: a counter has run out, or a block may be a sampled one. The agent's handlers are asked, where there
//! are any.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::below::{self, real};
use crate::entry;
use crate::interface::{Handlers, Interface, SamplePoints, VERSION};

/// The agent's handlers.
static HANDLERS: AtomicPtr<Handlers> = AtomicPtr::new(null_mut());

/// Bytes that a thread allocates before it looks again whether there is an agent.
const UNATTENDED: i64 = 1 << 20;

const EINVAL: c_int = 22;
const ENOMEM: c_int = 12;

const MAP_PRIVATE: c_int = 2;
const MAP_ANONYMOUS: c_int = 0x20;
const MAP_STACK: c_int = 0x2_0000;
const MREMAP_DONTUNMAP: c_int = 4;
const PROT_WRITE: c_int = 2;
const MAP_FAILED: *mut c_void = usize::MAX as *mut c_void;

/// Gives the interface to an agent of the same version.
///
/// # Safety
/// `to` must be valid for a write.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn neurogc_preload_interface(version: u32, to: *mut Interface) -> bool {
    if version != VERSION {
        return false;
    }
    // SAFETY: the caller's promise; a caller of the same version has the same struct.
    unsafe {
        to.write(Interface {
            real: real(),
            entries: below::entries(),
            points: entry::points,
            handlers: &raw const HANDLERS,
        });
    };
    true
}

fn handlers() -> Option<&'static Handlers> {
    // SAFETY: an agent attaches handlers that live as long as the process.
    unsafe { HANDLERS.load(Ordering::Acquire).as_ref() }
}

fn points() -> &'static SamplePoints {
    // SAFETY: the thread-local of the calling thread, which no reference of ours outlives: it is not stored.
    unsafe { &*entry::points() }
}

/// The sampled block, or null.
fn sampled(align: usize, size: usize, zero: bool) -> *mut c_void {
    let points = points();
    match handlers() {
        // SAFETY: an attached handler takes any size and alignment.
        Some(handlers) => unsafe { (handlers.allocate)(points, align, size, zero) },
        None => {
            points.left.store(UNATTENDED, Ordering::Relaxed);
            null_mut()
        }
    }
}

pub(crate) unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    let block = sampled(0, size, false);
    // SAFETY: the caller's arguments are passed on.
    if block.is_null() { unsafe { below::malloc(size) } } else { block }
}

pub(crate) unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let block = match count.checked_mul(size) {
        Some(bytes) => sampled(0, bytes, true),
        None => {
            // The countdown was by a number without meaning.
            points().left.store(0, Ordering::Relaxed);
            null_mut()
        }
    };
    // SAFETY: the caller's arguments are passed on.
    if block.is_null() { unsafe { below::calloc(count, size) } } else { block }
}

pub(crate) unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if below::is_early(block) {
        return below::move_early(block, size);
    }
    let points = points();
    if let Some(handlers) = handlers() {
        // SAFETY: the block is the caller's, and no handler keeps it.
        return unsafe { (handlers.reallocate)(points, block, size) };
    }
    if points.left.load(Ordering::Relaxed) < 0 {
        points.left.store(UNATTENDED, Ordering::Relaxed);
    }
    // SAFETY: the caller's arguments are passed on.
    unsafe { below::realloc(block, size) }
}

pub(crate) unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() || below::is_early(block) {
        return;
    }
    if let Some(handlers) = handlers() {
        // SAFETY: the block is the caller's, who gives it up.
        let is_kept = unsafe { (handlers.forget)(block) };
        if is_kept {
            return;
        }
    }
    // SAFETY: the caller's argument is passed on.
    unsafe { below::free(block) }
}

/// Counts an allocation that assembly has not counted, and gives the sampled block or null.
fn counted(align: usize, size: usize) -> *mut c_void {
    let left = &points().left;
    let now = left.load(Ordering::Relaxed).wrapping_sub(size as i64);
    left.store(now, Ordering::Relaxed);
    if now < 0 && align.is_power_of_two() { sampled(align, size, false) } else { null_mut() }
}

pub(crate) unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    let block = counted(align, size);
    // SAFETY: the caller's arguments are passed on.
    if block.is_null() { unsafe { below::memalign(align, size) } } else { block }
}

pub(crate) unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
        return EINVAL;
    }
    let block = counted(align, size);
    if block.is_null() {
        // SAFETY: the caller's arguments are passed on.
        return below::posix_memalign().map_or(ENOMEM, |below| unsafe { below(to, align, size) });
    }
    // SAFETY: the caller gives a place for the pointer.
    unsafe { to.write(block) };
    0
}

pub(crate) unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    // SAFETY: a page is a power of two.
    unsafe { memalign(below::page(), size) }
}

pub(crate) unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = below::page();
    match size.max(1).checked_next_multiple_of(page) {
        // SAFETY: as above.
        Some(size) => unsafe { memalign(page, size) },
        None => {
            below::no_memory();
            null_mut()
        }
    }
}

pub(crate) unsafe extern "C" fn mmap(
    address: *mut c_void,
    size: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
    caller: usize,
) -> *mut c_void {
    let Some(below) = below::mmap() else {
        below::no_memory();
        return MAP_FAILED;
    };
    // SAFETY: the caller's arguments are passed on.
    let mapped = unsafe { below(address, size, access, flags, file, offset) };
    let is_memory = flags & (MAP_PRIVATE | MAP_ANONYMOUS) == MAP_PRIVATE | MAP_ANONYMOUS
        && flags & MAP_STACK == 0
        && access & PROT_WRITE != 0;
    if mapped != MAP_FAILED
        && is_memory
        && let Some(handlers) = handlers()
    {
        // SAFETY: the handler only notes the range.
        unsafe { (handlers.mapped)(points(), mapped as usize, size, caller) };
    }
    mapped
}

pub(crate) unsafe fn munmap(address: *mut c_void, size: usize) -> c_int {
    let Some(below) = below::munmap() else { return -1 };
    if let Some(handlers) = handlers() {
        // SAFETY: the handler only forgets the range.
        unsafe { (handlers.unmapped)(address as usize, size) };
    }
    // SAFETY: the caller's arguments are passed on.
    unsafe { below(address, size) }
}

pub(crate) unsafe fn mremap(
    address: *mut c_void,
    size: usize,
    new_size: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let Some(below) = below::mremap() else {
        below::no_memory();
        return MAP_FAILED;
    };
    let handlers = handlers().filter(|_| flags & MREMAP_DONTUNMAP == 0);
    // SAFETY: the handler only takes the range out. That is done first: another thread may get the same addresses at once.
    let known = handlers.map_or(0, |handlers| unsafe { (handlers.moving)(address as usize, size) });
    // SAFETY: the caller's arguments are passed on.
    let moved = unsafe { below(address, size, new_size, flags, to) };
    if let Some(handlers) = handlers.filter(|_| known != 0) {
        let (start, size) = if moved == MAP_FAILED { (address, size) } else { (moved, new_size) };
        // SAFETY: the handler only notes the range.
        unsafe { (handlers.moved)(start as usize, size, known) };
    }
    moved
}
