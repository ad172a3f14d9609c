//! `gap`: collections in gaps, by rules.
//!
//! Young objects are collected in a gap before CPython's own trigger would do it inside a request. How many may gather
//! follows from what they cost: CPython's trigger is set where a collection takes the pause budget. The tenured heap
//! is collected once after start-up, and then only when enough has been added to it for that to be worth it: from a
//! snapshot where the heap is large, or else in a gap that has already lasted as long as the pause would. What a
//! snapshot found is freed in slices of the budget.

use std::time::Duration;

use super::{Policy, Thresholds, Tuning};
use crate::observation::{Collected, Decision, Flown, Generation, Observation, Order, Snapshot};

/// Fewest and most young objects that may gather.
const YOUNG: (f64, f64) = (2_000.0, 200_000.0);

/// Young collections until a middle one is due, if they leave little, and until CPython does it by itself.
const MIDDLE_DUE: u32 = 10;
const MIDDLE_SWITCH: u32 = 50;

/// Middle collections that CPython waits for beyond the present count until it collects everything by itself. The
/// conductor keeps moving this on; if it dies, CPython takes over.
pub(super) const FULL_SWITCH: u32 = 100;

/// A collection that frees less than this share of what it looks at was not worth it.
const POOR_YIELD: f64 = 0.02;

/// A program that has been idle for so long, some time after its start, has settled. More is not asked of a large heap:
/// a program that serves has no such gaps.
const WARM_UP: Duration = Duration::from_secs(1);
const SETTLED: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// A program that has served nothing has started up by now.
const START_UP: Duration = Duration::from_secs(30);

/// What a clone is taken for before one has been measured.
const FIRST_CLONE: Duration = Duration::from_millis(5);

/// Seconds in which a snapshot waits for a gap as long as its clone; at the end any gap will do.
const CLONE_WAIT: f64 = 5.0;

/// How long a slice waits for a gap. After that, slices of so many budgets come without one, and take one part in so many of
/// the time, until there are gaps again.
const SLICE_WAIT: Duration = Duration::from_millis(500);
const HURRIED: u32 = 4;
const HURRIED_SHARE: u32 = 5;

/// The share of the tenured heap that must be new before it is worth a full collection, as CPython has it.
pub(super) const NEW_SHARE: f64 = 0.25;

/// The smallest number of new objects that is worth one.
pub(super) const NEW_LEAST: f64 = 10_000.0;

/// Rules for when to collect.
#[derive(Debug)]
pub(super) struct Gap {
    budget: Duration,
    /// Young objects that may gather before CPython collects them by itself.
    young_limit: f64,
    /// The part of that which must have gathered before a gap is used. It grows while collections free nothing.
    young_due: f64,
    /// Objects that young collections have left since the last middle one, which looks at all of them, and how many may
    /// gather before one is due.
    survivors: f64,
    survivors_limit: f64,
    settled: bool,
    serves: bool,
    full_pause: Duration,
    /// How long the program stood still for the last snapshot.
    clone: Duration,
    /// Since when the tenured heap has been worth a collection.
    due_since: Option<Duration>,
    /// When the program was last seen to free what a snapshot found, and how much was left then.
    reaping: Option<(Duration, u64)>,
    /// Whether no gap has come for so long that slices do not wait for one.
    hurries: bool,
    /// How much more must be new than usual, because the last full collections freed nothing.
    full_patience: f64,
}

impl Gap {
    pub(super) fn new(tuning: Tuning) -> Self {
        Self {
            budget: tuning.pause_budget,
            young_limit: 10_000.0,
            young_due: 0.25,
            survivors: 0.0,
            survivors_limit: 10_000.0,
            settled: false,
            serves: false,
            full_pause: Duration::ZERO,
            clone: FIRST_CLONE,
            due_since: None,
            reaping: None,
            hurries: false,
            full_patience: 1.0,
        }
    }

    /// Whether start-up is over and its garbage gone.
    pub(super) fn is_settled(&self) -> bool {
        self.settled && self.serves
    }

    /// How many objects may gather, after a collection that looked at so many.
    fn affordable(&self, limit: f64, looked_at: f64, pause: Duration) -> f64 {
        let now = looked_at * self.budget.as_secs_f64() / pause.as_secs_f64().max(1e-6);
        (0.7 * limit + 0.3 * now).clamp(YOUNG.0, YOUNG.1)
    }

    fn was_worth_it(&mut self, worth: bool) {
        self.due_since = None;
        // What start-up leaves says nothing about what the service will.
        let says_nothing = !self.serves || !self.settled;
        self.full_patience = if worth || says_nothing { 1.0 } else { (self.full_patience * 2.0).min(8.0) };
    }

    fn settle(&self, observation: &Observation, idle: Duration) -> Option<Order> {
        let long = observation.guessed_full_pause().clamp(SETTLED.0, SETTLED.1);
        if self.settled || observation.now < WARM_UP || idle < long {
            return None;
        }
        Some(Order::because(observation.everything(Duration::ZERO), "start-up is over"))
    }

    /// Collects the tenured heap where enough of it is new.
    fn whole(&mut self, observation: &Observation, idle: Duration) -> Option<Order> {
        let worth = (observation.tenured as f64 * NEW_SHARE).max(NEW_LEAST) * self.full_patience;
        if observation.pending as f64 <= worth {
            self.due_since = None;
            return None;
        }
        let since = *self.due_since.get_or_insert(observation.now);
        let waited = observation.now.saturating_sub(since);
        let decision = observation.everything(waited);
        let wanted = match decision {
            // Any gap will do in the end: the pause is short.
            Decision::Snapshot => self.clone.mul_f64(1.0 - (waited.as_secs_f64() / CLONE_WAIT).min(1.0)),
            // A gap that has lasted as long as the pause would will hardly end within it.
            _ => self.full_pause.max(observation.guessed_full_pause()).max(SETTLED.0),
        };
        (idle >= wanted).then(|| Order::because(decision, "much of the old heap is new"))
    }

    /// Frees what a snapshot found; a piece that is larger than the budget in a gap that has lasted as long as it takes.
    fn reap(&self, observation: &Observation) -> Option<Order> {
        let Snapshot::Ready { piece, .. } = observation.snapshot else { return None };
        let budget = piece.unwrap_or(self.budget);
        let fits = piece.is_none_or(|piece| observation.idle.is_some_and(|idle| idle >= piece));
        fits.then(|| Order::because(Decision::Reap { budget }, "a snapshot has found garbage"))
    }

    /// A slice outside of gaps, where none has come for a while: garbage must go faster than it is made.
    fn hurry(&mut self, observation: &Observation) -> Option<Order> {
        // A moment between two requests that have waited for each other is no gap.
        self.hurries &= observation.idle.is_none_or(|idle| idle < 2 * self.budget);
        let Snapshot::Ready { objects, piece } = observation.snapshot else {
            self.reaping = None;
            return None;
        };
        let last = self.reaping.filter(|(_, left)| *left == objects).unwrap_or((observation.now, objects));
        self.reaping = Some(last);
        let budget = HURRIED * self.budget;
        let waits = if self.hurries { budget * (HURRIED_SHARE - 1) } else { SLICE_WAIT };
        let late = piece.is_none() && observation.now.saturating_sub(last.0) > waits;
        self.hurries |= late;
        late.then(|| Order::at_once(Decision::Reap { budget }, "garbage has waited for a gap"))
    }
}

impl Policy for Gap {
    fn thresholds(&self, observation: &Observation) -> Option<Thresholds> {
        Some([self.young_limit as u32, MIDDLE_SWITCH, observation.counts[2] + FULL_SWITCH])
    }

    fn takes_over(&self) -> bool {
        true
    }

    fn decide(&mut self, observation: &Observation) -> Order {
        if observation.paused {
            return Order::WAIT;
        }
        self.serves |= observation.requests > 0 || observation.now > START_UP;
        if let Some(order) = self.hurry(observation) {
            return order;
        }
        let Some(idle) = observation.idle else { return Order::WAIT };
        let none_is_out = matches!(observation.snapshot, Snapshot::Idle | Snapshot::Unavailable);
        if none_is_out
            && observation.in_flight == 0
            && let Some(order) = self.settle(observation, idle).or_else(|| self.whole(observation, idle))
        {
            return order;
        }
        self.at_next_gap(observation)
    }

    fn at_next_gap(&self, observation: &Observation) -> Order {
        let young_are_due = f64::from(observation.counts[0]) >= self.young_limit * self.young_due;
        let are_many = self.survivors >= self.survivors_limit;
        if !young_are_due && !are_many {
            return self.reap(observation).unwrap_or(Order::WAIT);
        }
        if observation.counts[1] >= MIDDLE_DUE || are_many {
            return Order::because(Decision::Middle, "young collections have left survivors");
        }
        Order::because(Decision::Young, "young objects have gathered")
    }

    fn learn(&mut self, collected: &Collected) {
        match collected.generation {
            Generation::Young => {
                self.survivors += (f64::from(collected.gathered) - collected.freed as f64).max(0.0);
                // Tiny collections say nothing about the cost of an object.
                if collected.gathered >= 500 {
                    self.young_limit =
                        self.affordable(self.young_limit, f64::from(collected.gathered), collected.pause);
                    let poor = (collected.freed as f64) < POOR_YIELD * f64::from(collected.gathered);
                    self.young_due = (self.young_due * if poor { 1.5 } else { 0.5 }).clamp(0.25, 0.9);
                }
            }
            Generation::Middle => {
                let looked_at = self.survivors + f64::from(collected.gathered);
                if looked_at >= 500.0 {
                    self.survivors_limit = self.affordable(self.survivors_limit, looked_at, collected.pause);
                }
                self.survivors = 0.0;
            }
            Generation::Full => {
                self.survivors = 0.0;
                self.full_pause = collected.pause;
                let poor = collected.pause > self.budget && collected.freed < NEW_LEAST as u64 / 10;
                self.was_worth_it(!poor);
                self.settled |= collected.at >= WARM_UP;
            }
        }
    }

    fn landed(&mut self, flown: &Flown) {
        self.clone = flown.clone;
        self.was_worth_it(flown.found as f64 >= POOR_YIELD * flown.objects as f64);
        self.settled |= flown.at >= WARM_UP;
    }
}
