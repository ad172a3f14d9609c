//! Native forks and memory that is set apart keep out of each other's way: a fork that another thread makes without the
//! GIL would give its child that memory empty.
//!
//! `fork` of the C library calls handlers, and ours waits until nothing is set apart, which takes as long as a clone. A
//! process that is cloned by a bare system call has no handlers. For such ones the time of the clone is the bound, some
//! milliseconds once in a while; most of them run another program at once and never look at the memory.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Threads that are between the first handler and the last one.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Whether memory is set apart.
static APART: AtomicBool = AtomicBool::new(false);

/// How long a fork waits, and how often it looks. It goes on all the same then: the thread that has set memory apart may
/// be the one that forks, in a handler of a signal.
const LOOK_NS: libc::c_long = 100_000;
const MOST_LOOKS: u32 = 2_000;

/// The time in which no thread forks by way of the C library.
#[derive(Debug)]
pub(super) struct NoForks(());

impl NoForks {
    /// Begins it. Nothing where a thread is forking already.
    pub(super) fn begin() -> Option<Self> {
        static HANDLERS: Once = Once::new();
        static ARE_CALLED: AtomicBool = AtomicBool::new(false);
        // SAFETY: the handlers are functions of this library, which is never unloaded, and only use atomics and a sleep.
        HANDLERS.call_once(|| unsafe {
            ARE_CALLED.store(libc::pthread_atfork(Some(before), Some(after), Some(in_child)) == 0, Ordering::Relaxed);
        });
        if !ARE_CALLED.load(Ordering::Relaxed) {
            return None;
        }
        // Each side says what it is about to do before it looks at the other, so that one of them sees the other one.
        APART.store(true, Ordering::SeqCst);
        let begun = Self(());
        (FORKING.load(Ordering::SeqCst) == 0).then_some(begun)
    }
}

impl Drop for NoForks {
    fn drop(&mut self) {
        APART.store(false, Ordering::SeqCst);
    }
}

unsafe extern "C" fn before() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    let look = libc::timespec { tv_sec: 0, tv_nsec: LOOK_NS };
    for _ in 0..MOST_LOOKS {
        if !APART.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: the time is valid, and what is left of it is not asked for.
        unsafe { libc::nanosleep(&raw const look, std::ptr::null_mut()) };
    }
}

unsafe extern "C" fn after() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// The child has one thread, which has forked.
unsafe extern "C" fn in_child() {
    FORKING.store(0, Ordering::SeqCst);
    APART.store(false, Ordering::SeqCst);
}
