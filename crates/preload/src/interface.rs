//! What the preloaded library and the agent know of each other. The agent compiles this same file.
//!
//! The library holds no tables. It passes every call on to the allocator below, and asks the agent's handlers only
//! when a thread has allocated as much as its counter said, or when a block may be one that was sampled.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64};

/// Raised whenever something below changes: an agent attaches to its own version only.
pub(crate) const VERSION: u32 = 4;

/// Sampled blocks lie at multiples of this. The next one is so far away at least: a larger number takes more memory, and a
/// smaller one has more blocks looked up that were not sampled.
pub(crate) const MARKED: usize = 512;

/// A block whose address has none of these bits may be a sampled one: it is a multiple of `MARKED`, or, as a block that
/// glibc maps on its own, 16 bytes behind one.
pub(crate) const MARK: usize = MARKED - 1 - 16;

/// From this size on glibc's own size field, in front of the block, says that a block may be a sampled one. A look-up for every
/// such block that is freed takes less than a marked block for every one that is sampled: about 70 instructions each time,
/// where one in 32 KiB would take 1,700.
pub(crate) const LARGE: usize = 2 * 1024;

/// Where a stream of allocations stands between its sampling points.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SamplePoints {
    /// Bytes until the next point. Below zero: a point lies in the block that is being allocated. It comes first,
    /// because assembly counts it down.
    pub(crate) left: AtomicI64,
    /// Bytes behind that point until its stretch ends.
    pub(crate) rest: AtomicI64,
    /// State of the random numbers; zero before the first.
    pub(crate) random: AtomicU64,
    /// Above zero while the thread is inside a handler: what is allocated there is passed on.
    pub(crate) busy: AtomicU32,
}

/// The functions of the allocator below.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Real {
    pub(crate) malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    pub(crate) calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    pub(crate) realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    pub(crate) free: unsafe extern "C" fn(*mut c_void),
    pub(crate) memalign: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    /// jemalloc's own entry, which aligns and clears at once.
    pub(crate) mallocx: Option<unsafe extern "C" fn(usize, c_int) -> *mut c_void>,
    /// Whether this is glibc, whose blocks have their size in front.
    pub(crate) is_glibc: bool,
}

/// Where the library keeps the functions that it passes calls on to. An agent may put its own there, which pass on, too.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries {
    pub(crate) malloc: &'static AtomicPtr<c_void>,
    pub(crate) calloc: &'static AtomicPtr<c_void>,
    pub(crate) realloc: &'static AtomicPtr<c_void>,
    pub(crate) free: &'static AtomicPtr<c_void>,
    pub(crate) memalign: &'static AtomicPtr<c_void>,
    pub(crate) posix_memalign: &'static AtomicPtr<c_void>,
}

/// What an agent attaches. None of them may allocate, wait or unwind.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Handlers {
    /// A point may lie in a block of this alignment (0 for any) and size that the caller is about to get. Gives the
    /// block where it was sampled, or null: then the library calls the real function.
    pub(crate) allocate: unsafe extern "C" fn(&SamplePoints, usize, usize, bool) -> *mut c_void,
    /// The same for `realloc`. It always does the whole work.
    pub(crate) reallocate: unsafe extern "C" fn(&SamplePoints, *mut c_void, usize) -> *mut c_void,
    /// A block that may be a sampled one is about to be freed. Says whether the agent keeps it, to use it again.
    pub(crate) forget: unsafe extern "C" fn(*mut c_void) -> bool,
    /// Anonymous private memory was mapped; the last is the address that the caller continues at.
    pub(crate) mapped: unsafe extern "C" fn(&SamplePoints, usize, usize, usize),
    /// Memory is about to be unmapped.
    pub(crate) unmapped: unsafe extern "C" fn(usize, usize),
    /// A mapping is about to be moved or resized. Gives what `moved` wants to know of it, or zero where it is not known.
    pub(crate) moving: unsafe extern "C" fn(usize, usize) -> u64,
    /// It is here now, or still where it was.
    pub(crate) moved: unsafe extern "C" fn(usize, usize, u64),
}

/// What the library offers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interface {
    /// The allocator below.
    pub(crate) real: Real,
    /// Its places.
    pub(crate) entries: Entries,
    /// The calling thread's points.
    pub(crate) points: unsafe extern "C" fn() -> *const SamplePoints,
    /// Where the handlers go; null until an agent attaches. They must live as long as the process.
    pub(crate) handlers: *const AtomicPtr<Handlers>,
}
