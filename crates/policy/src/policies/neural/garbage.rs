//! What it has cost to hold garbage, and how much may gather.

use crate::features::{Shown, follow};
use crate::observation::{Generation, Observation, Snapshot};

/// What an object weighs with all that hangs on it, at least and at most, in bytes.
const WEIGHS: (f64, f64) = (60.0, 200.0);

/// Fewest and most objects that may gather in a generation.
const GATHER: (f64, f64) = (2_000.0, 200_000.0);

/// Garbage in numbers. Costs are milliseconds of delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Garbage {
    at: f64,
    /// What it has cost to hold what a snapshot has found.
    pub(super) known: f64,
    known_objects: f64,
    /// So many young objects, and so many with the survivors of young collections, take the pause budget.
    pub(super) young_limit: f64,
    pub(super) middle_limit: f64,
    /// What a middle collection takes for an object, in nanoseconds.
    pub(super) middle_cost: f64,
}

impl Garbage {
    pub(super) fn new() -> Self {
        Self {
            at: 0.0,
            known: 0.0,
            known_objects: 0.0,
            young_limit: 10_000.0,
            middle_limit: 10_000.0,
            middle_cost: 80.0,
        }
    }

    /// Time has passed; `price` is what a megabyte costs in a second.
    pub(super) fn look(&mut self, observation: &Observation, price: f64) {
        let now = observation.now.as_secs_f64();
        let passed = (now - self.at).clamp(0.0, 1.0);
        self.at = now;
        let weight = (observation.rss.as_f64() / (observation.objects() as f64 + 1.0)).clamp(WEIGHS.0, WEIGHS.1);
        let object = price * weight / 1e6 * passed;
        let known = match observation.snapshot {
            Snapshot::Ready { objects, .. } => objects as f64,
            _ => 0.0,
        };
        // With what is freed goes what it has cost.
        if known < self.known_objects {
            self.known *= known / self.known_objects;
        }
        self.known_objects = known;
        self.known += object * known;
    }

    /// Takes note of what a collection has shown. `budget` is in nanoseconds.
    pub(super) fn learn(&mut self, generation: Generation, shown: Shown, budget: f64) {
        let affordable = shown.cost.map(|cost| (budget / cost).clamp(GATHER.0, GATHER.1));
        match generation {
            Generation::Young => follow(&mut self.young_limit, affordable),
            Generation::Middle => {
                follow(&mut self.middle_limit, affordable);
                follow(&mut self.middle_cost, shown.cost);
            }
            Generation::Full => self.collected(),
        }
    }

    /// Everything has been collected, or is known.
    pub(super) fn collected(&mut self) {
        self.known = 0.0;
    }
}
