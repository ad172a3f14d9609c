//! Pauses in work that locks the address space again and again.
//!
//! A thread that maps memory waits until all others have let go of the lock at once. One that takes it again at once can keep it
//! waiting for four milliseconds, so it sleeps for a moment after each tenth of a millisecond.

use std::cell::Cell;
use std::time::Duration;

use super::native::monotonic_ns;

const WORK_NS: u64 = 100_000;
const PAUSE: Duration = Duration::from_micros(50);

thread_local! {
    static SINCE: Cell<u64> = const { Cell::new(0) };
}

/// Sleeps for a moment where this thread has worked for long enough since the last time.
pub(crate) fn breathe() {
    if monotonic_ns().saturating_sub(SINCE.get()) >= WORK_NS {
        std::thread::sleep(PAUSE);
        SINCE.set(monotonic_ns());
    }
}
