//! The agent's own heap: counted, so that the status report can say what the agent costs, and patient, because a
//! program with no memory left may get along with that, but not with an agent that aborts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct Counting {
    bytes: AtomicUsize,
}

#[global_allocator]
static HEAP: Counting = Counting { bytes: AtomicUsize::new(0) };

thread_local! {
    static PATIENT: Cell<bool> = const { Cell::new(false) };
}

/// The functions of the allocator below the library that samples the program's allocations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    pub(crate) malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    pub(crate) calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    pub(crate) realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    pub(crate) free: unsafe extern "C" fn(*mut c_void),
}

static BELOW: OnceLock<Functions> = OnceLock::new();

/// What `malloc` aligns to on every machine that we know.
const ALIGNED: usize = 16;

/// From now on the agent's own memory comes from these functions, so that it is in no sample. They must be of the allocator
/// that `malloc` belongs to.
pub(crate) fn allocate_by(functions: Functions) {
    let _ = BELOW.set(functions);
}

/// The functions for memory of this layout, where they are known and align well enough.
fn below(layout: Layout) -> Option<&'static Functions> {
    BELOW.get().filter(|_| layout.align() <= ALIGNED)
}

/// Bytes that the agent has allocated now.
pub(crate) fn allocated() -> usize {
    HEAP.bytes.load(Ordering::Relaxed)
}

/// From now on the calling thread waits for memory where there is none.
pub(crate) fn wait_for_memory() {
    PATIENT.set(true);
}

/// Whether there is memory for what the agent does at a time. A thread that finds none when it begins would end the
/// process: libc has nowhere to put its thread-locals.
pub(crate) fn has_room() -> bool {
    const ENOUGH: usize = 8 * 1024 * 1024;
    // Not by way of `malloc`, which learns from large blocks how much of the program's memory to hold on to.
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of nothing at an address of the kernel's choice touches no other.
    let room = unsafe { libc::mmap(std::ptr::null_mut(), ENOUGH, access, kind, -1, 0) };
    // SAFETY: what has just been mapped is not used yet.
    room != libc::MAP_FAILED && unsafe { libc::munmap(room, ENOUGH) } == 0
}

impl Counting {
    /// Tries until it works, where the calling thread is one that may wait.
    fn patiently(&self, grown: usize, attempt: impl Fn() -> *mut u8) -> *mut u8 {
        loop {
            let pointer = attempt();
            if !pointer.is_null() {
                self.bytes.fetch_add(grown, Ordering::Relaxed);
                return pointer;
            }
            if !PATIENT.get() {
                return pointer;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

// SAFETY: every call is handed to the system's allocator, or to the functions that it calls itself; only sizes are counted
// beside it, and a null is asked for again.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is passed on.
        self.patiently(layout.size(), || unsafe {
            match below(layout) {
                Some(below) => (below.malloc)(layout.size()).cast(),
                None => System.alloc(layout),
            }
        })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe {
            match below(layout) {
                Some(below) => (below.free)(pointer.cast()),
                None => System.dealloc(pointer, layout),
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is passed on.
        self.patiently(layout.size(), || unsafe {
            match below(layout) {
                Some(below) => (below.calloc)(layout.size(), 1).cast(),
                None => System.alloc_zeroed(layout),
            }
        })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's contract is passed on; a `realloc` that fails leaves the old memory as it was.
        let moved = self.patiently(size, || unsafe {
            match below(layout) {
                Some(below) => (below.realloc)(pointer.cast(), size).cast(),
                None => System.realloc(pointer, layout, size),
            }
        });
        if !moved.is_null() {
            self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        moved
    }
}
