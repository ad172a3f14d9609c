//! `neural`: what costs least, by what a model expects.
//!
//! The model says how long this gap will last, what a collection would free and how long it would take. From that
//! follows what each possible stop would delay. Work that must be done anyway, young and middle collections and slices of what
//! a snapshot found, is done when it is cheap; the more there is of it, the more it may cost. When everything is collected is
//! the pacer's to say, with what its forecast expects: a flight costs the same whenever it begins, and each one more costs
//! another. While the model is not to be relied on, while there are no regular looks, and until the program has started up,
//! `gap` decides.

mod foresight;
mod garbage;
mod outlook;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod weights;

use std::time::Duration;

use neurogc_neural::Model;

use self::foresight::Foresight;
pub use self::foresight::{ComparedGap, Expected, Trust};
use self::garbage::Garbage;
use self::outlook::Outlook;
pub use self::weights::{WEIGHT_NAMES, WEIGHTS, Weights};
use super::gap::Gap;
use super::{CollectionControl, Policy, Tuning};
use crate::features::{GapFinder, Senses};
use crate::observation::{Collected, Decision, Flown, Observation, Order, Snapshot};

/// Looks that come at most so far apart, for so long, show a model what it was trained to see.
const LOOKS_APART: Duration = Duration::from_millis(60);
const LOOKED: Duration = Duration::from_millis(400);

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
    /// Whether looks must be regular, however little the program does.
    insists: bool,
    /// Since when looks have been regular, and the latest one.
    looked: Option<(Duration, Duration)>,
}

impl Neural {
    /// With a model and the weights that were found for it. It is asked every few milliseconds.
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
            insists: true,
            looked: None,
        }
    }

    /// The same where the model is only used while the program is looked at anyway.
    #[must_use]
    pub fn sparing(self) -> Self {
        Self { insists: false, ..self }
    }

    /// Whether the program has been looked at regularly for as long as a model's window is. One that insists takes the looks that
    /// there are.
    fn sees(&self, now: Duration) -> bool {
        let regular = |(since, latest): &(Duration, Duration)| {
            now.saturating_sub(*latest) <= LOOKS_APART && latest.saturating_sub(*since) >= LOOKED
        };
        self.insists || self.looked.as_ref().is_some_and(regular)
    }

    fn follows_rules(&self) -> bool {
        self.foresight.trust().drifted || !self.rules.is_settled()
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

    fn insists_on_looks(&self) -> bool {
        self.insists
    }

    fn looked(&mut self, now: Duration) {
        let since = self.looked.filter(|(_, latest)| now.saturating_sub(*latest) <= LOOKS_APART);
        self.looked = Some((since.map_or(now, |(since, _)| since), now));
    }

    fn decide(&mut self, observation: &Observation) -> Order {
        let by_rules = self.rules.decide(observation);
        if !self.sees(observation.now) {
            self.foresight.lose_sight();
        }
        let observation = &self.gaps.look(observation);
        self.senses.look(observation);
        self.expected = self.foresight.look(observation, &self.senses);
        let rates = self.senses.rates();
        let rate = rates.iter().copied().fold(0.0, f64::max) / 1e3;
        self.outlook = Outlook { gap: self.expected.gap, rate, busy: self.senses.busy() };
        self.garbage.look(observation, self.tuning.memory_price * rates[2].max(1.0));
        if self.follows_rules() || observation.paused || !self.sees(observation.now) {
            return by_rules;
        }
        if !observation.is_gap() {
            return self.hurry(observation);
        }
        let none_is_out = matches!(observation.snapshot, Snapshot::Idle | Snapshot::Unavailable);
        let cycle = if none_is_out { self.rules.cycle(observation) } else { None };
        cycle.unwrap_or_else(|| self.small(observation))
    }

    fn learn(&mut self, collected: &Collected) {
        let shown = self.senses.learn(collected);
        self.foresight.learn(collected.generation, shown);
        self.garbage.learn(collected.generation, shown, self.tuning.pause_budget.as_nanos() as f64);
        self.rules.learn(collected);
    }

    fn landed(&mut self, flown: &Flown) {
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
