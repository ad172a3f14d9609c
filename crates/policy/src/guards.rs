//! The guards: what holds whatever a policy says.
//!
//! Memory is bounded, a collection that is overdue happens, and collections never take more than their share of the
//! time. A guard's order says so.

use std::time::Duration;

use crate::observation::{Bytes, Collected, Decision, Flown, Generation, Observation, Order, Snapshot};
use crate::policies::neural::Trust;
use crate::policies::{Policy, Thresholds};

/// Limits that are not left to a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// What memory may not exceed, beside the limit of the cgroup.
    pub ceiling: Option<Bytes>,
    /// The share of either at which everything is collected at once.
    pub ceiling_share: f64,
    /// The growth since the last full collection, as a share of what was left then, at which another one is forced.
    pub growth_share: f64,
    /// Growth below this many bytes is nothing to worry about.
    pub growth_least: Bytes,
    /// How long an overdue collection of everything waits for a gap, unless the ceiling is near.
    pub patience: Duration,
    /// The share of time that full collections may take.
    pub gc_share: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ceiling: None,
            ceiling_share: 0.9,
            growth_share: 0.2,
            growth_least: 64 << 20,
            patience: Duration::from_secs(30),
            gc_share: 0.1,
        }
    }
}

/// How long a program is starting up at most, where it has served something already and where it has not: its growth
/// is what it needs to live. The first training step of a model loads libraries and sets up the accelerator.
const START_UP: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30));

/// How far a program that serves may grow before its start-up counts as over, as a share of what it had at its first request.
const LOADED_LATE: f64 = 1.25;

/// So many times the growth that makes a collection due, and it waits no longer.
const URGENT_GROWTH: u64 = 2;

/// How long a snapshot waits for a gap, whatever the patience: it stops the program for some milliseconds only.
const CLONE_PATIENCE: Duration = Duration::from_secs(5);

/// Growth by this part of the ceiling is reason enough to look again.
const GROWN_PART: u64 = 100;

/// The share of time that the program may lose to copies of pages that snapshots make it do.
const COPY_SHARE: f64 = 0.03;

/// How long no snapshot is tried after one that came to nothing; so many times longer after each further one.
const BARRED: Duration = Duration::from_secs(5);
const BARRED_MOST: Duration = Duration::from_secs(1200);

/// A policy with the guards above it.
#[derive(Debug)]
pub struct Guarded {
    policy: Box<dyn Policy>,
    limits: Limits,
    /// What the last full collection left, or what the program had when its start-up was over.
    baseline: Bytes,
    /// What it had at its first request.
    at_first_request: Option<Bytes>,
    /// Since when a full collection has been overdue.
    overdue_since: Option<Duration>,
    /// How long the last full collection has taken.
    last_pause: Option<Duration>,
    /// When everything may be collected again, by the share of time.
    free_at: Duration,
    /// Since when garbage that a snapshot found has waited to be freed.
    ready_since: Option<Duration>,
    /// When a snapshot may be tried again, and how many have come to nothing in a row.
    barred_until: Duration,
    failures: u32,
}

impl Guarded {
    /// Puts the guards above a policy.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, limits: Limits) -> Self {
        Self {
            policy,
            limits,
            baseline: 0,
            at_first_request: None,
            overdue_since: None,
            last_pause: None,
            free_at: Duration::ZERO,
            ready_since: None,
            barred_until: Duration::ZERO,
            failures: 0,
        }
    }

    /// The thresholds that CPython should run with now.
    #[must_use]
    pub fn thresholds(&self, observation: &Observation) -> Option<Thresholds> {
        self.policy.thresholds(observation)
    }

    /// What to do now.
    pub fn decide(&mut self, observation: &Observation) -> Order {
        let observation = &self.barred(observation);
        if self.policy.takes_over()
            && let Some(order) = self.guard(observation)
        {
            return order;
        }
        if observation.paused {
            return Order::WAIT;
        }
        let order = self.policy.decide(observation);
        let whole = matches!(order.decision, Decision::Full | Decision::Snapshot);
        // What people do by hand knows no such share, and is here for a comparison.
        if whole && !order.at_once && observation.now < self.free_at {
            return Order::WAIT;
        }
        order
    }

    /// What the program's own thread should do if it comes to a gap before anybody else sees it.
    #[must_use]
    pub fn at_next_gap(&self, observation: &Observation) -> Order {
        if observation.paused { Order::WAIT } else { self.policy.at_next_gap(&self.barred(observation)) }
    }

    /// Takes note of a collection.
    pub fn learn(&mut self, collected: &Collected) {
        if collected.generation == Generation::Full {
            self.last_pause = Some(collected.pause);
            self.free_at = collected.at + collected.pause.div_f64(self.limits.gc_share);
            self.baseline = collected.rss;
            self.overdue_since = None;
        }
        self.policy.learn(collected);
    }

    /// Takes note of a snapshot that has been walked.
    pub fn landed(&mut self, flown: &Flown) {
        self.failures = 0;
        let share = (flown.clone + flown.flight).div_f64(self.limits.gc_share);
        self.free_at = flown.at + share.max(flown.copied.div_f64(COPY_SHARE));
        self.overdue_since = None;
        self.policy.landed(flown);
    }

    /// What a snapshot found has been freed.
    pub fn drained(&mut self, rss: Bytes) {
        self.baseline = rss;
    }

    /// A snapshot came to nothing.
    pub fn failed(&mut self, now: Duration) {
        let barred = BARRED * 4_u32.saturating_pow(self.failures.min(8));
        self.barred_until = now + barred.min(BARRED_MOST);
        self.failures += 1;
    }

    /// How far the policy's model can be relied on, where it has one.
    #[must_use]
    pub fn trust(&self) -> Option<Trust> {
        self.policy.trust()
    }

    /// Since when a full collection has been overdue.
    #[must_use]
    pub fn overdue_since(&self) -> Option<Duration> {
        self.overdue_since
    }

    /// The same, without snapshots where the last one came to nothing.
    fn barred(&self, observation: &Observation) -> Observation {
        let idle = observation.snapshot == Snapshot::Idle;
        let barred = idle && observation.now < self.barred_until;
        Observation { snapshot: if barred { Snapshot::Unavailable } else { observation.snapshot }, ..*observation }
    }

    fn guard(&mut self, observation: &Observation) -> Option<Order> {
        if self.is_starting(observation) {
            self.baseline = observation.rss;
        }
        if observation.now >= self.free_at && self.is_near_ceiling(observation) {
            return Some(Order::forced(Decision::Full, "memory is near its ceiling"));
        }
        if let Some(order) = self.late_reap(observation) {
            return order;
        }
        if observation.now < self.free_at {
            return None;
        }
        let Some(reason) = self.overdue(observation) else {
            self.overdue_since = None;
            return None;
        };
        let since = *self.overdue_since.get_or_insert(observation.now);
        let waited = observation.now.saturating_sub(since);
        let decision = observation.everything(waited);
        let urgent = self.growth(observation) > self.allowed_growth() * URGENT_GROWTH;
        let patience = match decision {
            Decision::Snapshot => self.limits.patience.min(CLONE_PATIENCE),
            _ => self.limits.patience,
        };
        if waited >= patience || urgent {
            return Some(Order::forced(decision, reason));
        }
        // At first only a gap will do that has lasted as long as the pause would; the longer it waits, the shorter one.
        let left = 1.0 - waited.as_secs_f64() / self.limits.patience.as_secs_f64();
        let pause = self.last_pause.unwrap_or(observation.guessed_full_pause());
        let wanted = if decision == Decision::Full { pause.mul_f64(left) } else { Duration::ZERO };
        let quiet = observation.idle.is_some_and(|idle| idle >= wanted) && observation.in_flight == 0;
        (quiet && !observation.paused).then(|| Order::forced_in_gap(decision, reason))
    }

    /// While a snapshot is out, nothing else is forced but what it found, once that has waited for too long.
    fn late_reap(&mut self, observation: &Observation) -> Option<Option<Order>> {
        let Snapshot::Ready { piece, .. } = observation.snapshot else {
            self.ready_since = None;
            return (observation.snapshot == Snapshot::InFlight).then_some(None);
        };
        let since = *self.ready_since.get_or_insert(observation.now);
        let late = observation.now.saturating_sub(since) >= self.limits.patience;
        let budget = piece.unwrap_or(Duration::from_millis(5));
        Some(late.then(|| Order::forced(Decision::Reap { budget }, "garbage has waited for a gap for too long")))
    }

    fn is_starting(&mut self, observation: &Observation) -> bool {
        if self.baseline == 0 {
            return true;
        }
        if self.last_pause.is_some() {
            return false;
        }
        if observation.requests + observation.in_flight == 0 {
            return observation.now < START_UP.1;
        }
        // What is loaded at the first requests is needed to live, too; what is made in each of them is not.
        let first = *self.at_first_request.get_or_insert(observation.rss);
        observation.now < START_UP.0 && (observation.rss as f64) < first as f64 * LOADED_LATE
    }

    fn is_near_ceiling(&self, observation: &Observation) -> bool {
        let Some(ceiling) = [observation.ceiling, self.limits.ceiling].into_iter().flatten().min() else {
            return false;
        };
        // What the last full collection has left is alive: another one would find nothing before there is more.
        let grown = self.last_pause.is_none() || observation.rss > self.baseline + ceiling / GROWN_PART;
        grown && observation.rss as f64 > ceiling as f64 * self.limits.ceiling_share
    }

    /// Why a full collection should happen soon, gap or not.
    fn overdue(&self, observation: &Observation) -> Option<&'static str> {
        if observation.deferred {
            return Some("the program has asked for a collection");
        }
        let anything = observation.pending + u64::from(observation.counts[0]) > 0;
        let grown = self.growth(observation) > self.allowed_growth();
        (grown && anything).then_some("memory has grown since the last full collection")
    }

    fn growth(&self, observation: &Observation) -> Bytes {
        observation.rss.saturating_sub(self.baseline)
    }

    fn allowed_growth(&self) -> Bytes {
        ((self.baseline as f64 * self.limits.growth_share) as Bytes).max(self.limits.growth_least)
    }
}
