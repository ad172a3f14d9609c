//! Page faults of the program: how many of those during a flight are copies of pages that it shares with the clone.
//!
//! The kernel does not tell copies from other faults. A program that takes and gives back much memory has many without a clone,
//! too, so those that it has at other times are left out.

use super::system;
use crate::sys::page::page_size;

/// A shorter time between two clones says nothing about how many faults the program has without one.
const LEAST_NS: u64 = 20_000_000;

/// Faults while there is no clone.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuietFaults {
    /// Since when there is none, and the number of faults then.
    since: FaultCount,
    /// For each nanosecond.
    rate: f64,
}

/// The number of faults at a moment.
#[derive(Clone, Copy, Debug)]
struct FaultCount {
    at: u64,
    faults: u64,
}

impl FaultCount {
    fn now() -> Self {
        Self { at: system::now(), faults: system::minor_faults() }
    }

    fn since(self, before: Self) -> (u64, u64) {
        (self.at.saturating_sub(before.at), self.faults.saturating_sub(before.faults))
    }
}

impl QuietFaults {
    pub(super) fn new() -> Self {
        Self { since: FaultCount::now(), rate: 0.0 }
    }

    /// A clone has gone.
    pub(super) fn begin(&mut self) {
        self.since = FaultCount::now();
    }

    /// A clone is made now.
    pub(super) fn end(&mut self) -> FlightFaults {
        let now = FaultCount::now();
        self.learn(now);
        FlightFaults { since: now, rate: self.rate }
    }

    fn learn(&mut self, now: FaultCount) {
        let (passed, faults) = now.since(self.since);
        if passed >= LEAST_NS {
            self.rate = faults as f64 / passed as f64;
        }
    }
}

/// Faults since a clone was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlightFaults {
    since: FaultCount,
    rate: f64,
}

impl FlightFaults {
    /// All of them.
    pub(super) fn count(&self) -> u64 {
        FaultCount::now().since(self.since).1
    }

    /// About how many bytes were copied.
    pub(super) fn copied(&self) -> u64 {
        self.copies(FaultCount::now()) * page_size() as u64
    }

    fn copies(&self, now: FaultCount) -> u64 {
        let (passed, faults) = now.since(self.since);
        faults.saturating_sub((self.rate * passed as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn count(at_ms: u64, faults: u64) -> FaultCount {
        FaultCount { at: at_ms * MS, faults }
    }

    #[test]
    fn faults_that_a_program_has_without_a_clone_are_no_copies() {
        let mut quiet = QuietFaults { since: count(0, 0), rate: 0.0 };
        quiet.learn(count(1_000, 10_000));
        let flight = FlightFaults { since: count(1_000, 10_000), rate: quiet.rate };
        assert_eq!(flight.copies(count(1_100, 11_000)), 0);
        assert_eq!(flight.copies(count(1_100, 16_000)), 5_000);
        assert_eq!(flight.copies(count(900, 0)), 0, "a clock that jumps");
    }

    #[test]
    fn a_short_time_between_two_clones_says_nothing() {
        let mut quiet = QuietFaults { since: count(0, 0), rate: 0.0 };
        quiet.learn(count(100, 1_000));
        let before = quiet.rate;
        quiet.since = count(200, 1_000);
        quiet.learn(count(201, 9_000));
        assert_eq!(quiet.rate, before);
    }
}
