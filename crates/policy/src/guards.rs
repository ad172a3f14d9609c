//! A policy under the pacer: whatever the policy says, memory stays within its goal.
//!
//! The pacer is asked first, at every moment in a thread of the program. Where it has nothing to say, the policy decides
//! what is done early, in gaps. In a training job with several ranks, a plan that they share takes the policy's place.

use std::time::Duration;

use crate::bytes::Bytes;
use crate::forecast::{Forecast, RouteTables};
use crate::observation::{Collected, Decision, Flown, Moment, Observation, Order, Scope, Snapshot};
use crate::pacer::{LongGapUse, Pacer, PacerBound};
use crate::policies::neural::Trust;
use crate::policies::{CollectionControl, Policy, Thresholds, Tuning};
use crate::ranks::{PlannedStop, RankPlan};

/// The longest slice at a step that ranks share, and the longest piece of garbage that is freed there whole.
const SLICE: Duration = Duration::from_millis(5);
const LONGEST_PIECE: Duration = Duration::from_millis(20);

/// The longest plain collection of everything that the plan of ranks is used for.
const LONGEST_PLAIN: Duration = Duration::from_millis(100);

/// A heap that fills so many rooms does not wait for a wide step.
const URGENT: f64 = 1.5;

/// Limits that are not left to a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// What memory may not exceed, beside the limit of the cgroup.
    pub ceiling: Option<Bytes>,
    /// The share of either at which everything is collected at once.
    pub ceiling_share: f64,
    /// How far the heap may grow beyond what the last cycle left alive, as a share of that.
    pub growth_share: f64,
    /// Memory may always grow by so many bytes.
    pub growth_least: Bytes,
    /// How long a full collection that the program has asked for waits for a gap, where it may wait.
    pub patience: Duration,
    /// The share of time that full collections may take which only the growth of memory in bytes asks for.
    pub gc_share: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ceiling: None,
            ceiling_share: 0.9,
            growth_share: 0.25,
            growth_least: Bytes::mebibytes(16),
            patience: Duration::from_secs(30),
            gc_share: 0.1,
        }
    }
}

const ASKED_FOR: &str = "the program has asked for a collection";

/// A policy with the pacer above it.
#[derive(Debug)]
pub struct Guarded {
    policy: Box<dyn Policy>,
    pacer: Pacer,
    limits: Limits,
    /// Since when the program has waited for a full collection that it asked for.
    overdue_since: Option<Duration>,
    /// What requests leave behind, where the policy wants the pacer to know.
    routes: Option<Box<RouteTables>>,
    /// By which ranks of a training job collect together; and whether what a snapshot found is being freed.
    plan: Option<RankPlan>,
    frees: bool,
}

impl Guarded {
    /// Puts the pacer above a policy. `own` are the thresholds that the program runs with.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, limits: Limits, tuning: Tuning, own: Thresholds) -> Self {
        let pacer = Pacer::new(limits, own, tuning.pause_budget);
        let routes = policy.foretells().then(Box::default);
        let plan = RankPlan::new(tuning.align_steps).filter(|_| policy.control() == CollectionControl::Paced);
        let mut guarded = Self { policy, pacer, limits, overdue_since: None, routes, plan, frees: false };
        guarded.foretell();
        guarded
    }

    /// The program begins with so much memory and so many objects.
    pub fn begin(&mut self, resident: Bytes, objects: u64) {
        self.pacer.begin(resident, objects);
    }

    /// The thresholds that CPython should run with now; none to leave those of the program.
    #[must_use]
    pub fn thresholds(&self, observation: &Observation) -> Option<Thresholds> {
        if self.is_aligned(observation) {
            return Some(self.pacer.last_thresholds(observation));
        }
        match self.policy.control() {
            CollectionControl::Cpython => None,
            CollectionControl::Fixed(thresholds) => Some(thresholds),
            CollectionControl::Bounded([young, middle, full]) => {
                Some([young.min(self.pacer.last_threshold()), middle, full])
            }
            CollectionControl::Paced => Some(self.pacer.thresholds(observation)),
        }
    }

    /// The pacer is told what to expect; before that is known, that it is not known.
    fn foretell(&mut self) {
        let unknown = Forecast { promoted: f64::INFINITY, dead: None };
        let forecast = self.routes.as_ref().map(|routes| routes.forecast().unwrap_or(unknown));
        self.pacer.foretell(forecast);
    }

    /// The pacer is told something, right or wrong.
    #[cfg(test)]
    pub(crate) fn expect(&mut self, forecast: Option<Forecast>) {
        self.pacer.foretell(forecast);
    }

    /// What to do now.
    pub fn decide(&mut self, observation: &Observation) -> Order {
        if let Some(routes) = &mut self.routes {
            routes.served(observation.requests);
        }
        if observation.moment == Moment::Look {
            self.policy.looked(observation.now);
        }
        // The pacer knows by itself whether snapshots rest.
        let snapshot = observation.snapshot;
        let observation = &self.seen_by_policy(observation);
        if self.is_aligned(observation) {
            return self.decide_together(observation, snapshot);
        }
        let control = self.policy.control();
        if matches!(control, CollectionControl::Paced | CollectionControl::Bounded(_))
            && observation.moment != Moment::Look
        {
            let paced = Observation {
                // People who collect by hand know no snapshots; the pacer keeps their memory bounded without.
                snapshot: if control == CollectionControl::Paced { snapshot } else { Snapshot::Unavailable },
                ..*observation
            };
            if let Some(order) = self.pacer.must(&paced).or_else(|| self.deferred(observation)) {
                return order;
            }
        }
        if observation.paused || observation.moment == Moment::CollectionEnd {
            return Order::WAIT;
        }
        self.policy.decide(observation)
    }

    /// Whether a rank of a training job is left to the plan that ranks share.
    #[must_use]
    pub fn may_align(&self) -> bool {
        self.plan.is_some()
    }

    /// Whether the process collects together with other ranks of its training job.
    #[must_use]
    pub fn is_aligned(&self, observation: &Observation) -> bool {
        self.plan.is_some() && observation.ranks.is_some_and(|at| at.ranks > 1)
    }

    /// What to do now in a rank of a training job: what the plan has for this step, and before it only what cannot wait.
    fn decide_together(&mut self, observation: &Observation, snapshot: Snapshot) -> Order {
        let (Some(plan), Some(at)) = (&mut self.plan, observation.ranks) else { return Order::WAIT };
        if observation.moment == Moment::Look {
            return Order::WAIT;
        }
        if let Some(order) = self.pacer.cannot_wait(&Observation { snapshot, ..*observation }) {
            return order;
        }
        if observation.paused {
            return Order::WAIT;
        }
        let Some(planned) = plan.planned(observation.moment, at.step) else { return Order::WAIT };
        let (wide, starts_up) = (plan.is_wide(at.step), plan.starts_up(at.step));
        let none_is_out = matches!(observation.snapshot, Snapshot::Idle | Snapshot::Unavailable);
        if none_is_out {
            self.frees = false;
            if observation.deferred {
                return Order::because(observation.everything(Scope::All), ASKED_FOR);
            }
            if let PlannedStop::Everything(reason) = planned {
                let decision = observation.everything(Scope::All);
                let long = decision == Decision::Full && observation.guessed_full_pause() > LONGEST_PLAIN;
                return Order::because(if long { Decision::Middle } else { decision }, reason);
            }
            let rooms = if wide { 1.0 } else { URGENT };
            if self.pacer.wants_cycle(observation, rooms) {
                let reason = "the heap has reached its goal, and ranks collect at this step";
                return Order::forced_in_gap(observation.everything(observation.scope), reason);
            }
        }
        if let Snapshot::Ready { piece, .. } = observation.snapshot {
            self.frees |= wide || starts_up;
            let budget = piece.unwrap_or(SLICE).max(SLICE);
            if self.frees && budget <= LONGEST_PIECE {
                return Order::because(Decision::Reap { budget }, "ranks free what their snapshots found");
            }
        }
        match planned {
            PlannedStop::Young => Order::because(Decision::Young, "ranks collect at this step"),
            PlannedStop::Middle => Order::because(Decision::Middle, "ranks collect at this step"),
            // A snapshot is out already.
            PlannedStop::Everything(reason) => Order::because(Decision::Middle, reason),
        }
    }

    /// Takes note of a collection; `before` is resident memory when it began.
    pub fn learn(&mut self, collected: &Collected, before: Bytes) {
        self.pacer.collected(collected, before);
        let full = collected.generation == crate::Generation::Full;
        if full {
            self.overdue_since = None;
        }
        if let Some(routes) = &mut self.routes {
            let left = f64::from(collected.gathered) - collected.freed as f64;
            routes.collected(collected.at, collected.generation, left);
            if full {
                routes.cycle(collected.freed as f64);
            }
            self.foretell();
        }
        self.policy.learn(collected);
    }

    /// The next walk shall be one of everything.
    pub fn walk_all_next(&mut self) {
        self.pacer.walk_all_next();
    }

    /// A snapshot was launched; so many young objects are old now.
    pub fn launched(&mut self, now: Duration, scope: Scope, young: u32) {
        self.overdue_since = None;
        self.pacer.launched(now, scope, young);
        if let Some(routes) = &mut self.routes {
            // They are old without a collection.
            routes.all_became_old(now, f64::from(young));
        }
    }

    /// So many young objects are old now, without a snapshot that looks for garbage among them.
    pub fn made_old(&mut self, young: u32) {
        self.pacer.made_old(young);
    }

    /// Memory was too short for a snapshot. True if one of new objects should be tried instead.
    pub fn short_of_memory(&mut self) -> bool {
        self.pacer.short_of_memory()
    }

    /// Whether walks of new objects may be worth it.
    #[must_use]
    pub fn may_walk_new(&self) -> bool {
        self.pacer.may_walk_new()
    }

    /// Takes note of a snapshot that has been walked.
    pub fn landed(&mut self, flown: &Flown) {
        self.pacer.landed(flown);
        self.policy.landed(flown);
        if let Some(routes) = &mut self.routes {
            routes.flown(flown.flight);
            routes.cycle(flown.found as f64);
            self.foretell();
        }
    }

    /// A slice has freed so many objects, and took so long.
    pub fn reaped(&mut self, now: Duration, freed: u64, pause: Duration) {
        self.pacer.reaped(now, freed, pause);
    }

    /// What a snapshot found has been freed.
    pub fn drained(&mut self, rss: Bytes) {
        self.pacer.drained(rss);
    }

    /// A snapshot came to nothing.
    pub fn failed(&mut self, now: Duration) {
        self.pacer.failed(now);
    }

    /// The snapshot that was out has been called off.
    pub fn called_off(&mut self) {
        self.pacer.called_off();
    }

    /// An order was carried out and stopped the program for so long.
    pub fn stopped_for(&mut self, decision: Decision, pause: Duration) {
        self.pacer.stopped_for(decision, pause);
    }

    /// How the promise on memory stands.
    #[must_use]
    pub fn bound(&self) -> PacerBound {
        self.pacer.bound()
    }

    /// How far the policy's model can be relied on, where it has one.
    #[must_use]
    pub fn trust(&self) -> Option<Trust> {
        self.policy.trust()
    }

    /// Since when the program has waited for a full collection that it asked for.
    #[must_use]
    pub fn overdue_since(&self) -> Option<Duration> {
        self.overdue_since
    }

    /// Whether the policy wants to be asked by looks, beside the moments in threads of the program.
    #[must_use]
    pub fn wants_looks(&self) -> bool {
        self.policy.wants_looks()
    }

    /// Whether it wants that even where the looks are made for nothing else.
    #[must_use]
    pub fn insists_on_looks(&self) -> bool {
        self.policy.insists_on_looks()
    }

    /// Whether it is told what requests leave behind and when they come.
    #[must_use]
    pub fn foretells(&self) -> bool {
        self.routes.is_some()
    }

    /// So many requests of a route have ended.
    pub fn ended(&mut self, route: u8, requests: u32) {
        if let Some(routes) = &mut self.routes {
            routes.ended(route, requests);
        }
    }

    /// Whether nothing has been collected yet because the first cycle waits until it is worth it.
    #[must_use]
    pub fn first_waits(&self) -> bool {
        self.pacer.first_waits()
    }

    /// The program is being looked at, whatever is asked then.
    pub fn looked(&mut self, now: Duration) {
        self.policy.looked(now);
    }

    /// What the program has asked for comes in a gap, or when it has waited for long enough.
    fn deferred(&mut self, observation: &Observation) -> Option<Order> {
        if !observation.deferred {
            self.overdue_since = None;
            return None;
        }
        let none_is_out = matches!(observation.snapshot, Snapshot::Idle | Snapshot::Unavailable);
        let since = *self.overdue_since.get_or_insert(observation.now);
        let late = observation.now.saturating_sub(since) >= self.limits.patience;
        let quiet = observation.is_gap() && !observation.paused;
        (none_is_out && (quiet || late)).then(|| {
            let order = observation.everything(Scope::All);
            if late { Order::forced(order, ASKED_FOR) } else { Order::because(order, ASKED_FOR) }
        })
    }

    /// What the policy sees: the program, and how the pacer stands.
    #[must_use]
    pub fn seen_by_policy(&self, observation: &Observation) -> Observation {
        let barred = observation.snapshot == Snapshot::Idle && self.pacer.is_barred(observation.now);
        let (tenured, pending) = self.pacer.live_and_new();
        let (young, survivors, survivors_limit) = self.pacer.young_limits();
        let rhythm = observation.rhythm.filter(|_| self.routes.is_some());
        let long_gap = rhythm.map_or(LongGapUse::None, |rhythm| self.pacer.use_of(&rhythm, observation));
        let due = match long_gap {
            LongGapUse::Collect => true,
            LongGapUse::Wait => false,
            LongGapUse::None => self.pacer.is_due_in_gap(),
        };
        Observation {
            snapshot: if barred { Snapshot::Unavailable } else { observation.snapshot },
            tenured,
            pending,
            young_limit: young as u32,
            survivors: survivors as u32,
            survivors_limit: survivors_limit as u32,
            cycle_due: due || (observation.moment == Moment::Boundary && self.pacer.is_worth()),
            first_waits: self.pacer.first_waits(),
            fits: long_gap == LongGapUse::Collect,
            scope: self.pacer.scope(),
            hurry: self.pacer.is_in_a_hurry(),
            ..*observation
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::policies::policy;

    #[test]
    fn young_objects_that_a_launch_makes_old_count() {
        let tuning = Tuning::default();
        let policy = policy(Name::Neural(None), tuning);
        let mut guarded = Guarded::new(policy, Limits::default(), tuning, [700, 10, 10]);
        for tick in 1..=50_u64 {
            let now = Duration::from_millis(200 * tick);
            guarded.decide(&Observation { now, requests: 40 * tick, ..Observation::default() });
            guarded.launched(now, Scope::All, 4_000);
        }
        let found = guarded.routes.as_ref().map_or(0.0, |routes| routes.route(0).0);
        assert!((found - 100.0).abs() < 10.0, "{found}");
    }
}
