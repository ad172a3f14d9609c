//! The allocator below: the functions that would have been called without this library.
//!
//! They are looked up at the first call of the process. The look-up may itself allocate; that is served from a few
//! blocks of static memory.

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::interface::{Entries, Real};

#[link(name = "c")]
unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
    fn sysconf(name: c_int) -> c_long;
}

#[link(name = "dl")]
unsafe extern "C" {}

/// `RTLD_NEXT`.
const NEXT: *mut c_void = usize::MAX as *mut c_void;
const ENOMEM: c_int = 12;
const SC_PAGESIZE: c_int = 30;

/// The five functions that assembly jumps to. Until they are known, those that look them up.
pub(crate) static MALLOC: AtomicPtr<c_void> = AtomicPtr::new(first_malloc as *mut c_void);
pub(crate) static CALLOC: AtomicPtr<c_void> = AtomicPtr::new(first_calloc as *mut c_void);
pub(crate) static REALLOC: AtomicPtr<c_void> = AtomicPtr::new(first_realloc as *mut c_void);
pub(crate) static FREE: AtomicPtr<c_void> = AtomicPtr::new(first_free as *mut c_void);
static MEMALIGN: AtomicPtr<c_void> = AtomicPtr::new(first_memalign as *mut c_void);
static POSIX_MEMALIGN: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static MMAP: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static MUNMAP: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static MREMAP: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static MALLOCX: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static IS_GLIBC: AtomicBool = AtomicBool::new(false);

/// Whether the look-up has begun.
static BEGUN: AtomicBool = AtomicBool::new(false);

pub(crate) type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
pub(crate) type Mmap = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;
pub(crate) type Mremap = unsafe extern "C" fn(*mut c_void, usize, usize, c_int, ...) -> *mut c_void;
pub(crate) type Munmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

/// Looks everything up. The first call comes from the dynamic linker or from libc's own start, before there is a
/// second thread.
fn look_up() {
    if BEGUN.load(Ordering::Acquire) || BEGUN.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the names are C strings, and nothing is called.
    let next = |name: &CStr| unsafe { dlsym(NEXT, name.as_ptr()) };
    let own = next(c"__libc_malloc");
    let found = [
        (&MEMALIGN, next(c"memalign")),
        (&POSIX_MEMALIGN, next(c"posix_memalign")),
        (&MMAP, next(c"mmap")),
        (&MUNMAP, next(c"munmap")),
        (&MREMAP, next(c"mremap")),
        (&MALLOCX, next(c"mallocx")),
        (&CALLOC, next(c"calloc")),
        (&REALLOC, next(c"realloc")),
        (&FREE, next(c"free")),
        (&MALLOC, next(c"malloc")),
    ];
    let malloc = found[9].1;
    IS_GLIBC.store(!own.is_null() && malloc == own, Ordering::Relaxed);
    for (place, function) in found {
        if !function.is_null() {
            place.store(function, Ordering::Release);
        }
    }
}

/// The allocator below.
pub(crate) fn real() -> Real {
    look_up();
    let at = |place: &AtomicPtr<c_void>| place.load(Ordering::Acquire);
    // SAFETY: each place holds a function of this type: ours, or the one of that name that the linker found.
    unsafe {
        Real {
            malloc: core::mem::transmute::<*mut c_void, unsafe extern "C" fn(usize) -> *mut c_void>(at(&MALLOC)),
            calloc: core::mem::transmute::<*mut c_void, unsafe extern "C" fn(usize, usize) -> *mut c_void>(at(&CALLOC)),
            realloc: core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>(at(
                &REALLOC,
            )),
            free: core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(at(&FREE)),
            memalign: core::mem::transmute::<*mut c_void, unsafe extern "C" fn(usize, usize) -> *mut c_void>(at(
                &MEMALIGN,
            )),
            mallocx: core::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn(usize, c_int) -> *mut c_void>>(
                at(&MALLOCX),
            ),
            is_glibc: IS_GLIBC.load(Ordering::Relaxed),
        }
    }
}

/// The places of the functions that calls are passed on to.
pub(crate) fn entries() -> Entries {
    Entries {
        malloc: &MALLOC,
        calloc: &CALLOC,
        realloc: &REALLOC,
        free: &FREE,
        memalign: &MEMALIGN,
        posix_memalign: &POSIX_MEMALIGN,
    }
}

/// `malloc` below.
///
/// # Safety
/// As libc's.
pub(crate) unsafe fn malloc(size: usize) -> *mut c_void {
    type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
    // SAFETY: the place holds a function of this type, which gets its caller's arguments.
    unsafe { core::mem::transmute::<*mut c_void, Malloc>(MALLOC.load(Ordering::Acquire))(size) }
}

/// `calloc` below.
///
/// # Safety
/// As libc's.
pub(crate) unsafe fn calloc(count: usize, size: usize) -> *mut c_void {
    type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
    // SAFETY: as above.
    unsafe { core::mem::transmute::<*mut c_void, Calloc>(CALLOC.load(Ordering::Acquire))(count, size) }
}

/// `realloc` below.
///
/// # Safety
/// As libc's.
pub(crate) unsafe fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
    // SAFETY: as above.
    unsafe { core::mem::transmute::<*mut c_void, Realloc>(REALLOC.load(Ordering::Acquire))(block, size) }
}

/// `free` below.
///
/// # Safety
/// As libc's.
pub(crate) unsafe fn free(block: *mut c_void) {
    type Free = unsafe extern "C" fn(*mut c_void);
    // SAFETY: as above.
    unsafe { core::mem::transmute::<*mut c_void, Free>(FREE.load(Ordering::Acquire))(block) }
}

/// `memalign` below.
///
/// # Safety
/// As libc's.
pub(crate) unsafe fn memalign(align: usize, size: usize) -> *mut c_void {
    type Memalign = unsafe extern "C" fn(usize, usize) -> *mut c_void;
    // SAFETY: as above.
    unsafe { core::mem::transmute::<*mut c_void, Memalign>(MEMALIGN.load(Ordering::Acquire))(align, size) }
}

/// `posix_memalign` below.
pub(crate) fn posix_memalign() -> Option<PosixMemalign> {
    look_up();
    // SAFETY: the place holds null or the function of that name.
    unsafe { core::mem::transmute::<*mut c_void, Option<PosixMemalign>>(POSIX_MEMALIGN.load(Ordering::Acquire)) }
}

/// `mmap` below.
pub(crate) fn mmap() -> Option<Mmap> {
    look_up();
    // SAFETY: as above.
    unsafe { core::mem::transmute::<*mut c_void, Option<Mmap>>(MMAP.load(Ordering::Acquire)) }
}

/// `munmap` below.
pub(crate) fn munmap() -> Option<Munmap> {
    look_up();
    // SAFETY: as above.
    unsafe { core::mem::transmute::<*mut c_void, Option<Munmap>>(MUNMAP.load(Ordering::Acquire)) }
}

/// `mremap` below.
pub(crate) fn mremap() -> Option<Mremap> {
    look_up();
    // SAFETY: as above.
    unsafe { core::mem::transmute::<*mut c_void, Option<Mremap>>(MREMAP.load(Ordering::Acquire)) }
}

/// Reports that there is no memory.
pub(crate) fn no_memory() {
    // SAFETY: libc gives the calling thread's own place.
    unsafe { *__errno_location() = ENOMEM };
}

/// The size of a page.
pub(crate) fn page() -> usize {
    // SAFETY: it has no preconditions.
    unsafe { sysconf(SC_PAGESIZE) as usize }
}

/// The blocks for what is allocated during the look-up. They lie at marked addresses, so that `free` and `realloc`
/// take the slow way with them, and are never used again.
#[repr(C, align(1024))]
struct Early([u8; EARLY * EARLY_SIZE]);

const EARLY: usize = 16;
const EARLY_SIZE: usize = 1024;

static EARLY_BLOCKS: AtomicPtr<c_void> = AtomicPtr::new((&raw const EARLY_MEMORY) as *mut c_void);
static mut EARLY_MEMORY: Early = Early([0; EARLY * EARLY_SIZE]);
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

fn early(size: usize) -> *mut c_void {
    if size > EARLY_SIZE {
        return core::ptr::null_mut();
    }
    let index = EARLY_USED.fetch_add(1, Ordering::Relaxed);
    if index >= EARLY {
        return core::ptr::null_mut();
    }
    EARLY_BLOCKS.load(Ordering::Relaxed).wrapping_byte_add(index * EARLY_SIZE)
}

/// Whether a block is one of the early ones.
pub(crate) fn is_early(block: *const c_void) -> bool {
    let first = EARLY_BLOCKS.load(Ordering::Relaxed) as usize;
    (block as usize).wrapping_sub(first) < EARLY * EARLY_SIZE
}

/// Copies an early block to one of the allocator below.
pub(crate) fn move_early(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the real function, or the one that serves early blocks.
    let moved = unsafe { malloc(size) };
    if !moved.is_null() {
        // SAFETY: early blocks have 1024 bytes, and the new one has at least `size`.
        unsafe { core::ptr::copy_nonoverlapping(block as *const u8, moved as *mut u8, size.min(EARLY_SIZE)) };
    }
    moved
}

/// Whether the look-up has come to an end, so that the places hold real functions.
fn is_known(place: &AtomicPtr<c_void>, first: *mut c_void) -> bool {
    look_up();
    place.load(Ordering::Acquire) != first
}

unsafe extern "C" fn first_malloc(size: usize) -> *mut c_void {
    // SAFETY: a real function gets its caller's arguments.
    if is_known(&MALLOC, first_malloc as *mut c_void) { unsafe { malloc(size) } } else { early(size) }
}

unsafe extern "C" fn first_calloc(count: usize, size: usize) -> *mut c_void {
    if is_known(&CALLOC, first_calloc as *mut c_void) {
        // SAFETY: as above.
        return unsafe { calloc(count, size) };
    }
    count.checked_mul(size).map_or(core::ptr::null_mut(), early)
}

unsafe extern "C" fn first_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if is_known(&REALLOC, first_realloc as *mut c_void) {
        // SAFETY: as above.
        return unsafe { realloc(block, size) };
    }
    early(size)
}

unsafe extern "C" fn first_free(block: *mut c_void) {
    if is_known(&FREE, first_free as *mut c_void) {
        // SAFETY: as above.
        unsafe { free(block) }
    }
}

unsafe extern "C" fn first_memalign(align: usize, size: usize) -> *mut c_void {
    if is_known(&MEMALIGN, first_memalign as *mut c_void) {
        // SAFETY: as above.
        return unsafe { memalign(align, size) };
    }
    if align <= EARLY_SIZE { early(size) } else { core::ptr::null_mut() }
}
