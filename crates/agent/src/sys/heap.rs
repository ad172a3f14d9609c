//! The agent's own heap: counted, so that the status report can say what the agent costs, and patient, because a
//! program with no memory left may get along with that, but not with an agent that aborts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
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

// SAFETY: every call is handed to the system's allocator unchanged; only sizes are counted beside it, and a null is asked for again.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is passed on.
        self.patiently(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is passed on.
        self.patiently(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's contract is passed on; a `realloc` that fails leaves the old memory as it was.
        let moved = self.patiently(size, || unsafe { System.realloc(pointer, layout, size) });
        if !moved.is_null() {
            self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        moved
    }
}
