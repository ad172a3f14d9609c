//! From sensing to acting: the conductor's part that asks the policy and passes its orders on.

use std::time::Duration;

use neurogc_policy::{Collected, Decision, Flown, Generation, Guarded, Observation, Order, Snapshot, Thresholds};

use crate::act::stage::Waiting;
use crate::decide::models::policy_of;
use crate::lifecycle::agent::Agent;
use crate::sense::hooks::{CLONE, REAP};
use crate::sense::process::{has_room, resident};
use crate::snapshot::{COPIES, Failure, Latest, Progress};

/// How often resident memory is read.
const MEMORY_NS: u64 = 50_000_000;

/// The share of its memory that must be left for the copies that a program makes while a snapshot is out.
const COPIES_LEAST: f64 = 0.1;

/// The policy at work.
#[derive(Debug)]
pub(crate) struct Conducting<'a> {
    agent: &'a Agent,
    guarded: Guarded,
    /// The last order for each generation, whether it was given or left for the program's own thread.
    given: [Option<Order>; 5],
    /// How the snapshot stood at the last look.
    snapshot: Snapshot,
    /// Snapshots that have come to nothing in a row.
    failures: u32,
    rss: u64,
    rss_due: u64,
}

impl<'a> Conducting<'a> {
    /// Nothing, for a policy that only watches or an interpreter that is not understood.
    pub(crate) fn new(agent: &'a Agent) -> Option<Self> {
        let name = agent.policy();
        let acts = name.acts() && agent.interpreter.can_be_conducted();
        let guarded = Guarded::new(policy_of(agent, name), agent.settings.limits);
        acts.then(|| Self {
            agent,
            guarded,
            given: [None; 5],
            snapshot: Snapshot::Unavailable,
            failures: 0,
            rss: 0,
            rss_due: 0,
        })
    }

    /// The order that led to a collection of this generation, if one of ours did.
    pub(crate) fn ordered(&self, generation: u8) -> Option<Order> {
        self.given.get(usize::from(generation)).copied().flatten()
    }

    /// Takes note of a collection.
    pub(crate) fn learn(&mut self, at: u64, pause: u64, generation: u8, gathered: u32, freed: u32) {
        let generation = match generation {
            0 => Generation::Young,
            1 => Generation::Middle,
            2 => Generation::Full,
            // What snapshots do is learned when they land.
            _ => return,
        };
        if generation == Generation::Full {
            self.rss_due = 0;
            self.agent.stage.no_longer_deferred();
        }
        let at_end = at + pause;
        self.look_at_memory(at_end);
        self.guarded.learn(&Collected {
            at: self.since_start(at_end),
            generation,
            pause: Duration::from_nanos(pause),
            gathered,
            freed: u64::from(freed),
            rss: self.rss,
        });
    }

    /// Asks the policy and does what it says. `idle_ns` is how long the GIL has been free, `None` while it is held.
    pub(crate) fn round(&mut self, now: u64, idle_ns: Option<u64>) {
        // What a collection brings is not known before it is over; whoever decided now would order it again.
        if self.agent.stage.has_stood_down() || self.agent.stage.is_collecting() || self.agent.hand.is_busy() {
            return;
        }
        self.look_at_memory(now);
        self.look_at_snapshot(now);
        let observation = self.observe(now, idle_ns);
        let order = self.guarded.decide(&observation);
        let thresholds = self.guarded.thresholds(&observation);
        let applied = self.agent.hand.applied();
        let retune = thresholds.filter(|wanted| applied.is_none_or(|applied| is_far(applied, *wanted)));
        let due = if order.decision == Decision::Wait { self.guarded.at_next_gap(&observation) } else { order };
        let overdue_since = self.guarded.overdue_since().map(|since| self.agent.installed + since.as_nanos() as u64);
        self.agent.stage.waits_for(Waiting { due, overdue_since, trust: self.guarded.trust() });
        if let Some(given) = kind(due).and_then(|kind| self.given.get_mut(usize::from(kind))) {
            *given = Some(due);
        }
        if order.decision == Decision::Wait {
            self.agent.stage.post(due);
        }
        if order.decision == Decision::Snapshot && !has_room(self.rss, COPIES) {
            self.agent.snapshots.refuse(&Failure::ShortOfMemory);
            self.note_failure(now, &Failure::ShortOfMemory);
            return;
        }
        if order.decision != Decision::Wait || (retune.is_some() && observation.is_gap()) {
            self.agent.hand.give(order, retune);
        }
    }

    fn observe(&self, now: u64, idle_ns: Option<u64>) -> Observation {
        let collector = self.agent.interpreter.collector;
        let ledger = self.agent.ledger();
        Observation {
            now: self.since_start(now),
            idle: idle_ns.map(Duration::from_nanos),
            in_flight: self.agent.hooks.in_flight(),
            requests: ledger.requests.count(),
            counts: collector.map_or([0; 3], |collector| collector.counts()),
            tenured: collector.map_or(0, |collector| collector.tenured()),
            pending: collector.map_or(0, |collector| collector.pending()),
            rss: self.rss,
            ceiling: ledger.seen.memory.limit,
            paused: self.agent.stage.is_quiet(),
            deferred: self.agent.stage.is_deferred(),
            snapshot: self.snapshot,
        }
    }

    /// Looks how a snapshot stands, and tells the policy what has become of it.
    fn look_at_snapshot(&mut self, now: u64) {
        if !self.agent.settings.snapshots {
            return;
        }
        let before = self.snapshot;
        self.snapshot = match self.agent.snapshots.look() {
            Progress::Idle => Snapshot::Idle,
            // Somebody is at it; the next look sees the outcome.
            Progress::Busy => before,
            Progress::InFlight { .. } => Snapshot::InFlight,
            Progress::Ready { candidates, piece, .. } => Snapshot::Ready { objects: candidates as u64, piece },
            Progress::Failed(failure) => {
                self.note_failure(now, &failure);
                if failure.is_final() { Snapshot::Unavailable } else { Snapshot::Idle }
            }
        };
        match (before, self.snapshot) {
            (Snapshot::InFlight, Snapshot::Ready { .. }) => {
                self.failures = 0;
                let latest = self.agent.snapshots.figures().latest;
                self.agent.ledger().flight(now, &latest);
                self.guarded.landed(&flown(self.since_start(now), &latest));
            }
            (Snapshot::Ready { .. }, Snapshot::Idle) => {
                self.rss_due = 0;
                self.look_at_memory(now);
                self.agent.stage.no_longer_deferred();
                self.guarded.drained(self.rss);
            }
            _ => {}
        }
    }

    fn note_failure(&mut self, now: u64, failure: &Failure) {
        const NOT_BY_CHANCE: u32 = 3;
        self.agent.snapshots.forget_failure();
        self.guarded.failed(self.since_start(now));
        self.failures += 1;
        if failure.is_final() || self.failures == NOT_BY_CHANCE {
            self.agent.ledger().trouble(format!("the heap is not collected from snapshots: {failure}"));
        }
    }

    fn look_at_memory(&mut self, now: u64) {
        if now < self.rss_due {
            return;
        }
        self.rss_due = now + MEMORY_NS;
        // The kernel would end the walk before the program, but others may live in the same cgroup.
        if self.snapshot == Snapshot::InFlight && !has_room(self.rss, COPIES_LEAST) {
            self.agent.snapshots.cancel();
        }
        if let Some(rss) = resident() {
            self.rss = rss;
        }
    }

    fn since_start(&self, at: u64) -> Duration {
        Duration::from_nanos(at.saturating_sub(self.agent.installed))
    }
}

/// What an order leads to, as it is reported.
fn kind(order: Order) -> Option<u8> {
    match order.decision {
        Decision::Wait => None,
        Decision::Young => Some(Generation::Young.number()),
        Decision::Middle => Some(Generation::Middle.number()),
        Decision::Full | Decision::Freeze => Some(Generation::Full.number()),
        Decision::Snapshot => Some(CLONE),
        Decision::Reap { .. } => Some(REAP),
    }
}

/// A flight as the policy sees it.
fn flown(at: Duration, latest: &Latest) -> Flown {
    Flown {
        at,
        clone: Duration::from_nanos(latest.clone_ns),
        flight: Duration::from_nanos(latest.flight_ns),
        copied: latest.copied(),
        objects: latest.tracked,
        found: latest.candidates,
    }
}

/// Whether thresholds are so far from those in force that it is worth setting them.
fn is_far(applied: Thresholds, wanted: Thresholds) -> bool {
    let [young, middle, full] = [0, 1, 2].map(|index| f64::from(wanted[index]) / f64::from(applied[index].max(1)));
    !(0.75..=1.33).contains(&young)
        || middle != 1.0
        || (applied[2] < wanted[2] && wanted[2] - applied[2] > 20)
        || full < 0.5
}
