//! What a snapshot would take, by those there have been. Times are milliseconds.

use crate::observation::Flown;

/// How much of an estimate the latest snapshot changes.
const FOLLOWS: f64 = 0.5;

/// Who hardly runs while a snapshot is walked shows nothing about copies.
const TELLING: f64 = 0.1;

/// The next snapshot, as expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flights {
    /// How long the program stops for the clone.
    pub(super) clone: f64,
    /// How long a million objects are walked.
    walk: f64,
    /// How much longer the program's work takes meanwhile, as a share of it, because it copies pages.
    pub(super) slowdown: f64,
}

impl Flights {
    /// What snapshots of middling programs take.
    pub(super) fn new() -> Self {
        Self { clone: 5.0, walk: 120.0, slowdown: 0.4 }
    }

    /// One has come back, to a program that has lately run for this share of the time.
    pub(super) fn landed(&mut self, flown: &Flown, busy: f64) {
        let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        self.clone += FOLLOWS * (ms(flown.clone) - self.clone);
        self.walk += FOLLOWS * (ms(flown.flight) / (flown.objects as f64 / 1e6).max(1e-3) - self.walk);
        if busy >= TELLING {
            let slowdown = ms(flown.copied) / (ms(flown.flight) * busy).max(1e-3);
            self.slowdown += FOLLOWS * (slowdown.min(2.0) - self.slowdown);
        }
    }

    /// How long so many objects are walked.
    pub(super) fn walk(&self, objects: u64) -> f64 {
        self.walk * objects as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_snapshot_of_an_idle_program_says_nothing_about_copies() {
        let ms = Duration::from_millis;
        let flown = Flown { clone: ms(3), flight: ms(100), copied: ms(0), objects: 1_000_000, ..Flown::default() };
        let mut flights = Flights::new();
        flights.landed(&flown, 0.02);
        assert_eq!(flights.slowdown, Flights::new().slowdown);
        (0..20).for_each(|_| flights.landed(&Flown { copied: ms(30), ..flown }, 0.5));
        assert!((flights.slowdown - 0.6).abs() < 0.01 && (flights.clone - 3.0).abs() < 0.01, "{flights:?}");
        assert!((flights.walk(2_000_000) - 200.0).abs() < 0.1, "{flights:?}");
    }
}
