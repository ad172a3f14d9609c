//! `neural`: what costs least, by what a model expects.
//!
//! The model says how long this gap will last, what a collection would free and how long it would take. From that
//! follows what each possible stop would delay. Work that must be done anyway, young and middle collections and slices of what
//! a snapshot found, is done when it is cheap; the more there is of it, the more it may cost. A collection of everything
//! costs the same whenever it is done, so it waits until the garbage has cost as much as its collection would: in a
//! lull that is soon, in a rush late. While the model is not to be relied on, and until the program has started up, `gap`
//! decides.

mod flights;
mod foresight;
mod garbage;
mod outlook;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod weights;

use std::time::Duration;

use neurogc_neural::Model;

use self::flights::Flights;
use self::foresight::Foresight;
pub use self::foresight::{ComparedGap, Expected, Trust};
use self::garbage::Garbage;
use self::outlook::Outlook;
pub use self::weights::{WEIGHT_NAMES, WEIGHTS, Weights};
use super::gap::Gap;
use super::{CollectionControl, Policy, Tuning};
use crate::features::{GapFinder, Senses};
use crate::observation::{Collected, Decision, Flown, Observation, Order, Snapshot};

/// The share of the old heap that is new when CPython would collect it, and the smallest number that is worth it.
const NEW_SHARE: f64 = 0.25;
const NEW_LEAST: f64 = 10_000.0;

/// What a millisecond of a processor is worth, in milliseconds of delay.
const PROCESSOR: f64 = 0.1;

/// What freeing an object takes that a snapshot found, in milliseconds.
const FREEING: f64 = 250e-6;

/// Young objects that are worth a collection, before weights.
const YOUNG: f64 = 3_000.0;

/// How many times the young objects that take the pause budget may gather before CPython collects them by itself: only
/// a program without any gap comes to that. When as many times the survivors that take the budget are there, any gap will
/// do.
const ROOM: f64 = 2.0;

/// The shortest and the longest slice in a gap, in milliseconds.
const SLICE: (f64, f64) = (0.5, 4.0);

/// The least delay that each millisecond of small work may cost, before weights.
const SMALL: f64 = 0.3;

/// How the cost of a collection of everything is followed from look to look, as a logarithm: a tenth of the time it is
/// lower than what comes out.
const CHEAPER: (f64, f64) = (0.018, 0.002);

/// How fast it presses when as much is new as CPython would wait for.
const NEW_PRESSING: i32 = 8;

/// A collection that frees less than this share of what is new is not worth it; so many times as much may be new then.
const POOR_YIELD: f64 = 0.05;
const POOR_PATIENCE: f64 = 2.0;

/// Fewest new objects for which everything is collected, however cheap that is.
const NEW_FEWEST: f64 = 2_000.0;

/// Decisions by expectations.
#[derive(Debug)]
pub struct Neural {
    tuning: Tuning,
    weights: Weights,
    gaps: GapFinder,
    senses: Senses,
    foresight: Foresight,
    garbage: Garbage,
    /// Decides where the model cannot.
    rules: Gap,
    expected: Expected,
    outlook: Outlook,
    flights: Flights,
    /// The logarithm of what a collection of everything costs at a good moment.
    cheap: f64,
}

impl Neural {
    /// With a model and the weights that were found for it.
    #[must_use]
    pub fn new(tuning: Tuning, model: Model, weights: Weights) -> Self {
        Self {
            tuning,
            weights,
            gaps: GapFinder::default(),
            senses: Senses::default(),
            foresight: Foresight::new(model),
            garbage: Garbage::new(),
            rules: Gap::new(tuning),
            expected: Expected::default(),
            outlook: Outlook::default(),
            flights: Flights::new(),
            cheap: 0.0,
        }
    }

    fn follows_rules(&self) -> bool {
        self.foresight.trust().drifted || !self.rules.is_settled()
    }

    /// Everything, where holding what it would free has cost as much as collecting it would, and no better moment is
    /// worth waiting for; and in any gap by the time at which CPython would collect it.
    fn whole(&mut self, observation: &Observation) -> Option<Order> {
        if self.senses.new_objects() < NEW_FEWEST {
            return None;
        }
        let pause = self.expected.full_cost * observation.objects() as f64 / 1e6;
        let full = self.weights.full * (self.outlook.delay(pause) + PROCESSOR * pause);
        let fly = Decision::Snapshot { scope: observation.scope };
        let can_fly = observation.everything(observation.scope) == fly;
        let clone = self.flights.clone;
        let snapshot = if can_fly { self.snapshot(observation, self.outlook.delay(clone)) } else { f64::INFINITY };
        let (cost, decision) = if snapshot < full { (snapshot, fly) } else { (full, Decision::Full) };
        let logarithm = cost.ln();
        self.cheap = if logarithm < self.cheap {
            (self.cheap - CHEAPER.0).max(logarithm)
        } else {
            (self.cheap + CHEAPER.1).min(logarithm)
        };
        let worth = cost <= self.garbage.old;
        let later = self.cheap.exp() + self.weights.patience * self.garbage.old_second;
        if worth && cost <= later {
            return Some(Order::because(decision, "garbage costs more than its collection"));
        }
        let at_worst = self.snapshot(observation, self.outlook.delay_in_requests(clone, 1.0));
        (snapshot <= self.filled(observation).powi(NEW_PRESSING) * at_worst)
            .then(|| Order::because(fly, "much of the old heap is new"))
    }

    /// What a snapshot costs whose clone causes so much delay.
    fn snapshot(&self, observation: &Observation, delay: f64) -> f64 {
        let objects = observation.objects();
        let walk = self.flights.walk(objects);
        let copies = self.weights.copies * self.outlook.delay_by_slowness(self.flights.slowdown, walk);
        let freeing = SMALL * self.weights.slice * FREEING * self.expected.old_yield * self.senses.new_objects();
        let processor = PROCESSOR * (self.flights.clone + walk);
        self.weights.snapshot * (delay + copies + freeing + processor)
    }

    /// How much of the room for new objects will be filled by the time at which a snapshot that begins now is back. Where
    /// hardly any are expected to be garbage there is more room, but not without end: no walk has checked it.
    fn filled(&self, observation: &Observation) -> f64 {
        let walk = self.flights.walk(observation.objects()) / 1e3;
        let new = self.senses.new_objects() + self.senses.new_in_second() * walk;
        let patience = if self.expected.old_yield < POOR_YIELD { POOR_PATIENCE } else { 1.0 };
        new / (patience * self.weights.share * NEW_SHARE * observation.tenured as f64).max(NEW_LEAST)
    }

    /// What is left to do for the next gap, as the outlook is for it.
    fn small(&self, observation: &Observation) -> Order {
        let weights = &self.weights;
        if let Snapshot::Ready { objects, piece } = observation.snapshot {
            let fits = Duration::from_secs_f64(self.outlook.gap[1].clamp(SLICE.0, SLICE.1) / 1e3);
            let budget = piece.unwrap_or(fits);
            let slice = budget.as_secs_f64() * 1e3;
            let press = self.garbage.known / (FREEING * objects as f64 + slice);
            if self.outlook.delay(slice) <= slice * (SMALL * weights.slice + press) {
                return Order::because(Decision::Reap { budget }, "a snapshot has found garbage");
            }
        }
        let (young, survivors) = (f64::from(observation.counts[0]), self.senses.survivors());
        let at_worst = self.outlook.delay_in_requests(1.0, 1.0);
        let middle = self.garbage.middle_cost * (young + survivors) / 1e6;
        let wanted = self.garbage.middle_limit * weights.survivors.min(1.0);
        let price = SMALL * weights.small + (survivors / (ROOM * wanted)).min(1.0) * at_worst;
        if survivors >= wanted && self.outlook.delay(middle) <= price * middle {
            return Order::because(Decision::Middle, "young collections have left survivors");
        }
        let pause = self.expected.young_cost * young / 1e6;
        let filled = (young / (self.garbage.young_limit * weights.room.min(1.0))).min(1.0);
        let price = SMALL * weights.small + filled.powf(weights.pressing) * at_worst;
        // CPython's own trigger may come sooner than so many have gathered.
        let enough = (YOUNG * weights.young).min(f64::from(observation.young_limit) / 2.0);
        if young >= enough && self.outlook.delay(pause) <= price * pause {
            return Order::because(Decision::Young, "young objects have gathered");
        }
        Order::WAIT
    }

    /// A slice in the middle of requests, where the garbage has waited for long.
    fn hurry(&self, observation: &Observation) -> Order {
        let Snapshot::Ready { objects, piece: None } = observation.snapshot else { return Order::WAIT };
        let slice = self.tuning.pause_budget.as_secs_f64() * 1e3;
        let press = slice * self.garbage.known / (FREEING * objects as f64 + slice);
        let costs = self.weights.hurry * self.outlook.delay_in_requests(slice, observation.in_flight as f64);
        if costs > press {
            return Order::WAIT;
        }
        Order::at_once(Decision::Reap { budget: self.tuning.pause_budget }, "garbage has waited for a gap")
    }
}

impl Policy for Neural {
    fn control(&self) -> CollectionControl {
        CollectionControl::Paced
    }

    fn foretells(&self) -> bool {
        true
    }

    fn wants_looks(&self) -> bool {
        true
    }

    fn decide(&mut self, observation: &Observation) -> Order {
        let by_rules = self.rules.decide(observation);
        let observation = &self.gaps.look(observation);
        self.senses.look(observation);
        self.expected = self.foresight.look(observation, &self.senses);
        let rates = self.senses.rates();
        let rate = rates.iter().copied().fold(0.0, f64::max) / 1e3;
        self.outlook =
            Outlook { gap: self.expected.gap, rate, busy: self.senses.busy(), busiest: self.senses.busiest() };
        let old = self.expected.old_yield * self.senses.new_objects();
        self.garbage.look(observation, old, self.tuning.memory_price * rates[2].max(1.0));
        if self.follows_rules() || observation.paused {
            return by_rules;
        }
        if !observation.is_gap() {
            return self.hurry(observation);
        }
        let none_is_out = matches!(observation.snapshot, Snapshot::Idle | Snapshot::Unavailable);
        let whole = if none_is_out { self.whole(observation) } else { None };
        whole.unwrap_or_else(|| self.small(observation))
    }

    fn learn(&mut self, collected: &Collected) {
        let shown = self.senses.learn(collected);
        self.foresight.learn(collected.generation, shown);
        self.garbage.learn(collected.generation, shown, self.tuning.pause_budget.as_nanos() as f64);
        self.rules.learn(collected);
    }

    fn landed(&mut self, flown: &Flown) {
        self.flights.landed(flown, self.senses.busy());
        if let Some(share) = self.senses.landed(flown) {
            self.foresight.landed(share);
        }
        self.garbage.collected();
        self.rules.landed(flown);
    }

    fn trust(&self) -> Option<Trust> {
        Some(self.foresight.trust())
    }
}
