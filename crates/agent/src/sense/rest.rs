//! How long the agent rests after work that it does on its own account: the less the program does, the longer.

use crate::sys::native::process_cpu_ns;

/// A rest ends when the program has used this many times the processor time that the work took.
const OF_PROGRAM: u64 = 500;

/// In a program that does little it ends after this many times by the clock, at most after this long where the work took little,
/// and after so many times where it took much.
const OF_CLOCK: u64 = 5_000;
const LONG_NS: u64 = 300_000_000_000;
const OF_CLOCK_AT_LEAST: u64 = 500;

/// A rest. One before any work is over from the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    /// When it may end, and when it ends at last, by the monotonic clock.
    soonest: u64,
    latest: u64,
    /// The processor time of the process at which it ends between these two.
    used: u64,
}

impl Rest {
    /// A rest until this time, whatever the program does.
    pub(crate) fn until(time: u64) -> Self {
        Self { soonest: time, latest: time, used: 0 }
    }

    /// The rest after work that took so much processor time. It does not end before `soonest`.
    pub(crate) fn after(took: u64, now: u64, soonest: u64) -> Self {
        Self::of(took, now, soonest, process_cpu_ns())
    }

    fn of(took: u64, now: u64, soonest: u64, used: u64) -> Self {
        let long = (took * OF_CLOCK).min(LONG_NS.max(took * OF_CLOCK_AT_LEAST));
        Self { soonest, latest: soonest.max(now + long), used: used + took * OF_PROGRAM }
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        now >= self.latest || now >= self.soonest && process_cpu_ns() >= self.used
    }

    /// When it may end.
    pub(crate) fn soonest(&self) -> u64 {
        self.soonest
    }

    /// When to look again whether it is over, for a thread that has nothing else to wake up for.
    pub(crate) fn due(&self, now: u64) -> u64 {
        if now < self.soonest { self.soonest } else { self.latest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    #[test]
    fn a_program_that_does_much_ends_a_rest() {
        let used = process_cpu_ns();
        let rest = Rest::of(1_000, 0, 5 * SECOND, 0);
        assert!(used < 500_000 || !rest.is_over(5 * SECOND - 1) && rest.is_over(5 * SECOND));
        let idle = Rest::of(4 * MS, 0, 5 * SECOND, used + 3_600 * SECOND);
        assert!(!idle.is_over(20 * SECOND - 1) && idle.is_over(20 * SECOND));
        assert_eq!((idle.due(0), idle.due(6 * SECOND)), (5 * SECOND, 20 * SECOND));
    }

    #[test]
    fn a_rest_ends_by_the_clock_in_time() {
        let longest = |took: u64| Rest::of(took, 0, 0, 0).latest;
        assert_eq!(longest(MS), 5 * SECOND);
        assert_eq!(longest(100 * MS), 300 * SECOND);
        assert_eq!(longest(SECOND), 500 * SECOND);
        assert_eq!(Rest::of(0, 0, 7, 0).due(8), 7);
        assert!(Rest::default().is_over(0));
    }
}
