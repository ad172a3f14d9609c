//! `gap`: collections in gaps, by rules.
//!
//! The pacer keeps memory within its goal whatever happens. This policy does the same work earlier, where it disturbs no
//! request: young objects and survivors are collected in a gap before CPython's own trigger would do it inside a request,
//! a cycle begins in a gap once most of its room is filled, and what a snapshot found is freed in slices of the budget.

use std::time::Duration;

use super::{CollectionControl, Policy, Tuning};
use crate::observation::{Collected, Decision, Flown, Generation, Observation, Order, Scope, Snapshot};

/// Fewest young objects that are worth a collection in a gap.
const YOUNG_FEWEST: f64 = 500.0;

/// Young collections until a middle one is due, if they leave little.
const MIDDLE_DUE: u32 = 10;

/// A collection that frees less than this share of what it looks at was not worth it.
const POOR_YIELD: f64 = 0.02;

/// A program that has a gap this long after its start has started up.
const WARM_UP: Duration = Duration::from_secs(1);

/// A program that has served nothing has started up by now.
const START_UP: Duration = Duration::from_secs(30);

/// The longest plain collection of everything, and the longest piece of garbage, that a gap is used for.
const LONGEST: Duration = Duration::from_millis(20);
const LONGEST_PIECE: Duration = Duration::from_millis(4);

/// Rules for when to collect.
#[derive(Debug)]
pub(super) struct Gap {
    budget: Duration,
    /// The part of the limit of young objects which must have gathered before a gap is used. It grows while collections
    /// free nothing.
    young_due: f64,
    settled: bool,
    serves: bool,
}

impl Gap {
    pub(super) fn new(tuning: Tuning) -> Self {
        Self { budget: tuning.pause_budget, young_due: 0.25, settled: false, serves: false }
    }

    /// Whether start-up is over and its garbage gone.
    pub(super) fn is_settled(&self) -> bool {
        self.settled && self.serves
    }

    /// Begins a cycle where the pacer wants one soon, or where start-up has left its garbage, unless that is not worth one yet.
    pub(super) fn cycle(&self, observation: &Observation) -> Option<Order> {
        let settles = !self.settled && observation.now >= WARM_UP && !observation.first_waits;
        if observation.in_flight > 0 || !(observation.cycle_due || settles) {
            return None;
        }
        let scope = if settles { Scope::All } else { observation.scope };
        let decision = if observation.fits { Decision::Full } else { observation.everything(scope) };
        let long = decision == Decision::Full && observation.guessed_full_pause() > LONGEST && !observation.fits;
        let reason = match () {
            () if settles => "start-up is over",
            () if observation.fits => "a long gap was foretold",
            () => "much of the old heap is new",
        };
        let order = if observation.hurry { Order::at_once } else { Order::because };
        (!long).then(|| order(decision, reason))
    }

    /// Frees what a snapshot found.
    fn reap(&self, observation: &Observation) -> Option<Order> {
        let Snapshot::Ready { piece, .. } = observation.snapshot else { return None };
        let budget = piece.unwrap_or(self.budget);
        (budget <= LONGEST_PIECE.max(self.budget))
            .then(|| Order::because(Decision::Reap { budget }, "a snapshot has found garbage"))
    }

    fn young(&self, observation: &Observation) -> Option<Order> {
        let gathered = f64::from(observation.counts[0]);
        let due = gathered >= (f64::from(observation.young_limit) * self.young_due).max(YOUNG_FEWEST);
        let are_many = observation.survivors >= observation.survivors_limit;
        if !due && !are_many {
            return None;
        }
        if observation.counts[1] >= MIDDLE_DUE || are_many {
            return Some(Order::because(Decision::Middle, "young collections have left survivors"));
        }
        Some(Order::because(Decision::Young, "young objects have gathered"))
    }
}

impl Policy for Gap {
    fn control(&self) -> CollectionControl {
        CollectionControl::Paced
    }

    fn decide(&mut self, observation: &Observation) -> Order {
        self.serves |= observation.requests > 0 || observation.now > START_UP;
        if observation.paused || !observation.is_gap() {
            return Order::WAIT;
        }
        self.settled |= observation.first_waits && observation.now >= WARM_UP;
        let none_is_out = matches!(observation.snapshot, Snapshot::Idle | Snapshot::Unavailable);
        let cycle = if none_is_out { self.cycle(observation) } else { None };
        cycle.or_else(|| self.young(observation)).or_else(|| self.reap(observation)).unwrap_or(Order::WAIT)
    }

    fn learn(&mut self, collected: &Collected) {
        match collected.generation {
            // Tiny collections say nothing.
            Generation::Young if collected.gathered >= 500 => {
                let poor = (collected.freed as f64) < POOR_YIELD * f64::from(collected.gathered);
                self.young_due = (self.young_due * if poor { 1.5 } else { 0.5 }).clamp(0.25, 0.9);
            }
            Generation::Young | Generation::Middle => {}
            Generation::Full => self.settled |= collected.at >= WARM_UP,
        }
    }

    fn landed(&mut self, flown: &Flown) {
        self.settled |= flown.at >= WARM_UP;
    }
}
