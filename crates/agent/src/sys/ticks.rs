//! The ticks of the kernel's clock, in which it tells when data came: how long they are, and when they begin.
//!
//! Ticks follow each other at equal times of the monotonic clock. The kernel does not say at which, and its coarse clock
//! does not either: it steps in ticks of its own. But a wait for data with a time limit ends with a tick.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::native::{monotonic_coarse_ns, monotonic_ns};
use super::wake::UPLINK;

/// So many ticks are awaited to find out when they begin.
const AWAITED: usize = 6;

/// On a busy machine a thread can be late.
const ATTEMPTS: u32 = 5;

/// Ticks that are this many times closer together than a tick is long agree.
const AGREEMENT: u64 = 4;

/// Not found out yet, and after an attempt that failed: there is no other one.
const UNKNOWN: u64 = u64::MAX;
const HIDDEN: u64 = u64::MAX - 1;

/// When ticks begin, in nanoseconds after a multiple of their length.
static PHASE: AtomicU64 = AtomicU64::new(UNKNOWN);

/// A thread of the program needs to know.
static WANTED: AtomicBool = AtomicBool::new(false);

/// The length of a tick in nanoseconds.
pub(crate) fn length_ns() -> u64 {
    static LENGTH: OnceLock<u64> = OnceLock::new();
    *LENGTH.get_or_init(|| {
        let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the clock exists on every Linux, and `step` is valid for the write.
        let told = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) };
        if told == 0 { (step.tv_nsec as u64).clamp(100_000, 10_000_000) } else { 4_000_000 }
    })
}

/// When the tick began in which this time is. Before ticks are known, that is up to one tick too early.
pub(crate) fn began(now: u64) -> u64 {
    match PHASE.load(Ordering::Relaxed) {
        unknown @ (UNKNOWN | HIDDEN) => {
            if unknown == UNKNOWN && !WANTED.swap(true, Ordering::Relaxed) {
                UPLINK.wake();
            }
            monotonic_coarse_ns().min(now)
        }
        phase => now - now.saturating_sub(phase) % length_ns(),
    }
}

/// Finds out when ticks begin, if that is wanted: sleeps for some ticks. For a thread whose descriptors are its own.
pub(crate) fn learn_if_wanted() {
    if WANTED.swap(false, Ordering::Relaxed) {
        let find = || ends_of_waits().ok().and_then(|ends| phase_of(&ends, length_ns()));
        let phase = (0..ATTEMPTS).find_map(|_| find());
        PHASE.store(phase.unwrap_or(HIDDEN), Ordering::Relaxed);
    }
}

fn ends_of_waits() -> io::Result<[u64; AWAITED]> {
    let (mut waits, _other) = UnixStream::pair()?;
    waits.set_read_timeout(Some(Duration::from_micros(1)))?;
    let mut ends = [0; AWAITED];
    for end in &mut ends {
        if !waits.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            return Err(io::ErrorKind::Other.into());
        }
        *end = monotonic_ns();
    }
    Ok(ends)
}

/// The phase of ticks, from times soon after each of some: the earliest one of those that agree.
fn phase_of(ends: &[u64], length: u64) -> Option<u64> {
    let late = |phase: u64| ends.iter().map(|end| (end % length + length - phase) % length).max();
    let phase = ends.iter().map(|end| end % length).min_by_key(|phase| late(*phase))?;
    (late(phase)? < length / AGREEMENT).then_some(phase)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_of_times_after_ticks_is_their_phase() {
        assert_eq!(phase_of(&[4_100, 8_040, 12_090], 1_000), Some(40));
        // The first of them is just before the next multiple.
        assert_eq!(phase_of(&[4_020, 7_990, 13_100], 1_000), Some(990));
        assert_eq!(phase_of(&[4_000, 8_300, 12_600], 1_000), None);
    }

    #[test]
    fn waits_end_with_ticks() {
        // A busy machine may be late every time.
        let known = (0..50).find_map(|_| phase_of(&ends_of_waits().unwrap(), length_ns()));
        assert!(known.unwrap() < length_ns());
    }
}
