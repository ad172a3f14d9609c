//! The guards: what holds whatever a policy says.
//!
//! Memory is bounded, a collection that is overdue happens, and collections never take more than their share of the
//! time. A guard's order says so.

use std::time::Duration;

use crate::observation::{Bytes, Collected, Decision, Generation, Observation, Order};
use crate::policies::{Policy, Thresholds};

/// Limits that are not left to a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The share of the ceiling at which everything is collected at once.
    pub ceiling_share: f64,
    /// The growth since the last full collection, as a share of what was left then, at which another one is forced.
    pub growth_share: f64,
    /// Growth below this many bytes is nothing to worry about.
    pub growth_least: Bytes,
    /// How long a forced collection waits for a gap, unless the ceiling is near.
    pub patience: Duration,
    /// The share of time that full collections may take.
    pub gc_share: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ceiling_share: 0.9,
            growth_share: 0.2,
            growth_least: 64 << 20,
            patience: Duration::from_secs(30),
            gc_share: 0.1,
        }
    }
}

/// A policy with the guards above it.
#[derive(Debug)]
pub struct Guarded {
    policy: Box<dyn Policy>,
    limits: Limits,
    /// What the last full collection left, or the first look at the program.
    baseline: Option<Bytes>,
    /// Since when memory has grown too much.
    grown_since: Option<Duration>,
    last_full: Option<(Duration, Duration)>,
}

impl Guarded {
    /// Puts the guards above a policy.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, limits: Limits) -> Self {
        Self { policy, limits, baseline: None, grown_since: None, last_full: None }
    }

    /// The thresholds that CPython should run with now.
    #[must_use]
    pub fn thresholds(&self, observation: &Observation) -> Option<Thresholds> {
        self.policy.thresholds(observation)
    }

    /// What to do now.
    pub fn decide(&mut self, observation: &Observation) -> Order {
        if self.policy.takes_over()
            && let Some(order) = self.guard(observation)
        {
            return order;
        }
        if observation.paused {
            return Order::WAIT;
        }
        let order = self.policy.decide(observation);
        // What people do by hand knows no such share, and is here for a comparison.
        if order.decision == Decision::Full && !order.at_once && !self.may_collect_all(observation.now) {
            return Order::WAIT;
        }
        order
    }

    /// What the program's own thread should do if it comes to a gap before anybody else sees it.
    #[must_use]
    pub fn at_next_gap(&self, observation: &Observation) -> Order {
        if observation.paused { Order::WAIT } else { self.policy.at_next_gap(observation) }
    }

    /// Takes note of a collection.
    pub fn learn(&mut self, collected: &Collected) {
        if collected.generation == Generation::Full {
            self.last_full = Some((collected.at, collected.pause));
            self.baseline = Some(collected.rss);
            self.grown_since = None;
        }
        self.policy.learn(collected);
    }

    fn guard(&mut self, observation: &Observation) -> Option<Order> {
        let baseline = *self.baseline.get_or_insert(observation.rss);
        if !self.may_collect_all(observation.now) {
            return None;
        }
        let near = |ceiling| observation.rss as f64 > ceiling as f64 * self.limits.ceiling_share;
        if observation.ceiling.is_some_and(near) {
            return Some(Order::forced(Decision::Full, "memory is near its ceiling"));
        }
        let growth = observation.rss.saturating_sub(baseline);
        let allowed = ((baseline as f64 * self.limits.growth_share) as Bytes).max(self.limits.growth_least);
        if growth <= allowed || observation.pending + u64::from(observation.counts[0]) == 0 {
            self.grown_since = None;
            return None;
        }
        let since = *self.grown_since.get_or_insert(observation.now);
        let quiet = observation.is_gap() && observation.in_flight == 0 && !observation.paused;
        (quiet || observation.now.saturating_sub(since) >= self.limits.patience)
            .then(|| Order::forced(Decision::Full, "memory has grown since the last full collection"))
    }

    /// Whether another full collection would keep within the share of time.
    fn may_collect_all(&self, now: Duration) -> bool {
        self.last_full.is_none_or(|(at, pause)| {
            now.saturating_sub(at).as_secs_f64() >= pause.as_secs_f64() / self.limits.gc_share
        })
    }
}
