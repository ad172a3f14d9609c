//! A policy under the pacer: whatever the policy says, memory stays within its goal.
//!
//! The pacer is asked first, at every moment in a thread of the program. Where it has nothing to say, the policy decides
//! what is done early, in gaps.

use std::time::Duration;

use crate::bytes::Bytes;
use crate::forecast::{Forecast, RouteTables};
use crate::observation::{Collected, Decision, Flown, Moment, Observation, Order, Scope, Snapshot};
use crate::pacer::{Pacer, PacerBound};
use crate::policies::neural::Trust;
use crate::policies::{CollectionControl, Policy, Thresholds, Tuning};

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
}

impl Guarded {
    /// Puts the pacer above a policy. `own` are the thresholds that the program runs with.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, limits: Limits, tuning: Tuning, own: Thresholds) -> Self {
        let pacer = Pacer::new(limits, own, tuning.pause_budget);
        let routes = policy.foretells().then(Box::default);
        let mut guarded = Self { policy, pacer, limits, overdue_since: None, routes };
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
        // The pacer knows by itself whether snapshots rest.
        let snapshot = observation.snapshot;
        let observation = &self.seen_by_policy(observation);
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

    /// Takes note of a collection; `before` is resident memory when it began.
    pub fn learn(&mut self, collected: &Collected, before: Bytes) {
        self.pacer.collected(collected, before);
        let full = collected.generation == crate::Generation::Full;
        if full {
            self.overdue_since = None;
        }
        if let Some(routes) = &mut self.routes {
            if full {
                routes.cycle(collected.freed as f64);
            } else {
                routes.became_old(collected.at, f64::from(collected.gathered) - collected.freed as f64);
            }
            self.foretell();
        }
        self.policy.learn(collected);
    }

    /// A snapshot was launched; so many young objects are old now.
    pub fn launched(&mut self, now: Duration, scope: Scope, young: u32) {
        self.overdue_since = None;
        self.pacer.launched(now, scope, young);
    }

    /// Takes note of a snapshot that has been walked.
    pub fn landed(&mut self, flown: &Flown) {
        self.pacer.landed(flown);
        self.policy.landed(flown);
        if let Some(routes) = &mut self.routes {
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
            let reason = "the program has asked for a collection";
            if late { Order::forced(order, reason) } else { Order::because(order, reason) }
        })
    }

    /// What the policy sees: the program, and how the pacer stands.
    #[must_use]
    pub fn seen_by_policy(&self, observation: &Observation) -> Observation {
        let barred = observation.snapshot == Snapshot::Idle && self.pacer.is_barred(observation.now);
        let (tenured, pending) = self.pacer.live_and_new();
        let (young, survivors, survivors_limit) = self.pacer.young_limits();
        Observation {
            snapshot: if barred { Snapshot::Unavailable } else { observation.snapshot },
            tenured,
            pending,
            young_limit: young as u32,
            survivors: survivors as u32,
            survivors_limit: survivors_limit as u32,
            cycle_due: self.pacer.is_due_in_gap(),
            scope: self.pacer.scope(),
            hurry: self.pacer.is_in_a_hurry(),
            ..*observation
        }
    }
}
