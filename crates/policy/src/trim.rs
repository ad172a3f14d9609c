//! When free memory that the C library keeps goes back to the system.
//!
//! The program gets such memory back from the system, page by page, when it needs it again. So only memory that has been free
//! for a while is worth giving back, and a program that takes it all again is left alone for longer and longer.

use std::time::Duration;

use crate::bytes::Bytes;
use crate::observation::{Decision, Order};

/// Less than this, or than this share of the resident memory, is not worth it.
const LEAST: u64 = 32 << 20;
const LEAST_SHARE: f64 = 0.1;

/// Near the memory limit less is.
const NEAR_LIMIT: f64 = 0.85;
const LEAST_NEAR_LIMIT: u64 = 4 << 20;

/// How long an order waits for a moment without requests.
const PATIENCE: Duration = Duration::from_secs(20);

/// The shortest and the longest time between two.
const SOONEST: Duration = Duration::from_secs(30);
const LATEST: Duration = Duration::from_secs(3600);

/// It did not pay where the program has taken more than this share back by the next reading.
const TAKEN_BACK: f64 = 0.5;

/// A reading of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrimReading {
    /// When, since the agent was installed.
    pub at: Duration,
    /// Resident memory.
    pub resident: Bytes,
    /// Free memory that could be given back.
    pub trimmable: Bytes,
    /// What the process may have.
    pub limit: Option<Bytes>,
}

/// Decides on it. Readings come every half minute or more seldom.
#[derive(Clone, Debug, PartialEq)]
pub struct TrimRule {
    latest: Option<TrimReading>,
    /// What has been free at the last two readings.
    lasting: u64,
    /// Since when an order waits for a moment without requests.
    waits_since: Option<Duration>,
    /// The last one, with what it gave back and the memory after it, until it is known whether it paid.
    last: Option<(u64, u64)>,
    not_before: Duration,
    pause: Duration,
}

impl Default for TrimRule {
    fn default() -> Self {
        Self { latest: None, lasting: 0, waits_since: None, last: None, not_before: Duration::ZERO, pause: SOONEST }
    }
}

impl TrimRule {
    /// Takes a new reading in.
    pub fn read(&mut self, reading: TrimReading) {
        let free = reading.trimmable.get();
        self.lasting = self.latest.map_or(0, |before| before.trimmable.get().min(free));
        self.latest = Some(reading);
        if let Some((saved, resident)) = self.last.take() {
            let taken_back = reading.resident.get().saturating_sub(resident);
            let paid = saved > 0 && (taken_back as f64) < saved as f64 * TAKEN_BACK;
            self.pause = if paid { SOONEST } else { (2 * self.pause).min(LATEST) };
            self.not_before = reading.at + self.pause;
        }
    }

    /// Whether memory goes back now. `busy` is whether requests are being served.
    pub fn decide(&mut self, now: Duration, busy: bool) -> Option<Order> {
        let TrimReading { resident, trimmable, limit, .. } = self.latest?;
        let is_near = limit.is_some_and(|limit| resident.get() as f64 > NEAR_LIMIT * limit.get() as f64);
        if is_near && trimmable.get() >= LEAST_NEAR_LIMIT && self.last.is_none() && now >= self.not_before {
            return Some(Order::forced(Decision::Trim, "memory is near its ceiling, and malloc keeps free memory"));
        }
        let least = LEAST.max((LEAST_SHARE * resident.get() as f64) as u64);
        if self.lasting < least || now < self.not_before || self.last.is_some() {
            self.waits_since = None;
            return None;
        }
        let waits_since = *self.waits_since.get_or_insert(now);
        if busy && now.saturating_sub(waits_since) < PATIENCE {
            return None;
        }
        Some(Order::because(Decision::Trim, "malloc keeps memory that has been free for a while"))
    }

    /// An order was carried out: it saved so much, and so much is resident now.
    pub fn trimmed(&mut self, saved: Bytes, resident: Bytes) {
        self.last = Some((saved.get(), resident.get()));
        self.waits_since = None;
        self.lasting = 0;
        self.latest = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn reading(at: u64, resident: u64, trimmable: u64) -> TrimReading {
        TrimReading {
            at: Duration::from_secs(at),
            resident: Bytes::new(resident * MB),
            trimmable: Bytes::new(trimmable * MB),
            limit: None,
        }
    }

    fn is_ordered(rule: &mut TrimRule, at: u64, busy: bool) -> bool {
        rule.decide(Duration::from_secs(at), busy).is_some()
    }

    #[test]
    fn memory_goes_back_when_it_has_been_free_for_two_readings() {
        let mut rule = TrimRule::default();
        assert!(!is_ordered(&mut rule, 0, false));
        rule.read(reading(30, 1000, 500));
        assert!(!is_ordered(&mut rule, 31, false));
        rule.read(reading(60, 1000, 400));
        assert!(is_ordered(&mut rule, 61, false));
        rule.trimmed(Bytes::new(400 * MB), Bytes::new(600 * MB));
        assert!(!is_ordered(&mut rule, 62, false));
    }

    #[test]
    fn little_or_short_lived_free_memory_stays() {
        for (first, second) in [(500, 20), (20, 500), (99, 99)] {
            let mut rule = TrimRule::default();
            rule.read(reading(30, 1000, first));
            rule.read(reading(60, 1000, second));
            assert!(!is_ordered(&mut rule, 61, false), "{first} {second}");
        }
    }

    #[test]
    fn it_waits_for_a_gap_but_not_for_ever() {
        let mut rule = TrimRule::default();
        rule.read(reading(30, 1000, 500));
        rule.read(reading(60, 1000, 500));
        assert!(!is_ordered(&mut rule, 61, true) && !is_ordered(&mut rule, 70, true));
        assert!(is_ordered(&mut rule.clone(), 70, false) && is_ordered(&mut rule, 81, true));
    }

    #[test]
    fn a_program_that_takes_the_memory_back_is_left_alone() {
        let mut rule = TrimRule::default();
        let mut orders = Vec::new();
        for round in 1..200 {
            let at = 30 * round;
            // Every order finds 500 MB, and the program has them again at the next reading.
            rule.read(reading(at, 1000, 500));
            if is_ordered(&mut rule, at, false) {
                orders.push(at);
                rule.trimmed(Bytes::new(500 * MB), Bytes::new(500 * MB));
            }
        }
        assert!((3..8).contains(&orders.len()), "{orders:?}");
        // Where it pays, it is done again soon.
        let mut rule = TrimRule::default();
        let mut count = 0;
        for round in 1..200 {
            rule.read(reading(30 * round, 500, 500));
            if is_ordered(&mut rule, 30 * round, false) {
                count += 1;
                rule.trimmed(Bytes::new(500 * MB), Bytes::new(500 * MB));
            }
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn near_the_limit_it_is_done_at_once() {
        let mut rule = TrimRule::default();
        let near = TrimReading { limit: Some(Bytes::new(1000 * MB)), ..reading(30, 900, 10) };
        rule.read(near);
        let order = rule.decide(Duration::from_secs(30), true);
        assert!(order.is_some_and(|order| order.forced && order.decision == Decision::Trim));
    }
}
