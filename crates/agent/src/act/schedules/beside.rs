//! The threads of the agent in a schedule, which have no GIL: they run between any two calls of a thread that has it.

use std::rc::Rc;
use std::time::Duration;

use neurogc_policy::{
    Bytes, CollectionControl, Decision, Guarded, Limits, Moment, Name, Observation, Order, Policy, Scope, Tuning,
    policy,
};
use neurogc_wire::control::{How, Outcome};

use super::process::{ActingAgent, FakeProcess};
use crate::act::fake::Random;
use crate::decide::director::{Director, Situation};
use crate::snapshot::SnapshotProgress;
use crate::sys::locks::lock;

/// The sampler and the uplink.
#[derive(Default)]
pub(super) struct Beside {
    /// The agent that they belong to: they may be late to notice that it was uninstalled.
    agent: Option<Rc<ActingAgent>>,
    /// A command under way: its ticket, when it was taken on, and after how many full collections.
    ticket: Option<(u64, u64, u64)>,
    /// The threshold for young objects that the sampler has read and is about to lower, and one that it has lowered.
    lowers: Option<u32>,
    lowered: Option<u32>,
}

/// What the sampler lowers the threshold for young objects to.
const LOWERED: u32 = 50;

impl FakeProcess {
    /// One round of one of them.
    pub(super) fn run_beside(&self) {
        let Some(mut beside) = self.beside.borrow_mut().take() else { return };
        let current = self.current();
        let stale = match (&beside.agent, &current) {
            (Some(own), Some(current)) => !Rc::ptr_eq(own, current),
            (own, current) => own.is_some() != current.is_some(),
        };
        if stale && self.once_in(2) {
            self.check_threshold(&mut beside);
            beside = Beside { agent: current, ..Beside::default() };
        }
        if let Some(agent) = beside.agent.clone() {
            // A thread of the program that asks the director at this instant is waited for.
            if agent.lost.get() {
                // The uplink sees to what the program's threads need.
                agent.called.set(agent.remote.is_waiting() || agent.leaves.get());
                self.serve(&agent, &mut beside);
            } else if self.once_in(400) {
                self.check_threshold(&mut beside);
                self.lose_sampler(&agent);
            } else if self.once_in(2) && !agent.actor.is_being_asked() {
                self.look_at_memory(&agent, &mut beside);
                self.sample(&agent);
            } else if !stale {
                self.serve(&agent, &mut beside);
            }
        }
        *self.beside.borrow_mut() = Some(beside);
    }

    /// The sampler ends unasked. The uplink notices it, and `gc_functions::leave_to_cpython` follows.
    fn lose_sampler(&self, agent: &ActingAgent) {
        agent.lost.set(true);
        agent.holds_snapshots.set(self.once_in(2));
        if !agent.actor.has_stood_down() {
            agent.actor.stand_down();
            agent.leaves.set(true);
        }
        self.count(|tally| tally.lost += 1);
    }

    /// A round of the sampler.
    fn sample(&self, agent: &ActingAgent) {
        agent.book();
        while agent.actor.troubles.pop().is_some() {}
        while agent.actor.landings.pop().is_some() {}
        if agent.undirected.take() && !agent.actor.has_stood_down() {
            agent.actor.direct(Some(self.director()));
        } else if self.once_in(40) {
            agent.actor.direct(None);
            agent.switched.set(true);
            agent.undirected.set(true);
            self.count(|tally| tally.switches += 1);
        } else {
            agent.actor.look(&self.situation(agent));
        }
        if agent.remote.is_waiting() || agent.actor.waits() || agent.actor.has_posted() || agent.census.is_wanted() {
            agent.called.set(true);
        }
    }

    /// `Attendant::look_at_memory`, which may be interrupted after it has read, and after it has written.
    fn look_at_memory(&self, agent: &ActingAgent, beside: &mut Beside) {
        self.check_threshold(beside);
        let young = &mut lock(&self.interpreter).thresholds[0];
        match beside.lowers.take() {
            Some(read) if *young == read => {
                *young = LOWERED;
                beside.lowered = Some(read);
            }
            None if self.once_in(4) => beside.lowers = agent.actor.loans.own_young().map(|_| *young),
            _ => {}
        }
    }

    /// The end of it: a threshold that was lowered comes back where that was the program's own meanwhile.
    fn check_threshold(&self, beside: &mut Beside) {
        let (Some(read), Some(agent)) = (beside.lowered.take(), &beside.agent) else { return };
        let young = &mut lock(&self.interpreter).thresholds[0];
        if agent.actor.loans.own_young().is_none() && *young == LOWERED {
            *young = read;
        }
    }

    /// The sampler is waited for: it ends.
    pub(super) fn let_sampler_finish(&self) {
        if let Some(beside) = &mut *self.beside.borrow_mut() {
            self.check_threshold(beside);
            beside.lowers = None;
        }
    }

    /// A round of the uplink.
    fn serve(&self, agent: &ActingAgent, beside: &mut Beside) {
        let (now, full) = {
            let interpreter = lock(&self.interpreter);
            (interpreter.now, interpreter.full_collections)
        };
        self.see_to_census(agent, now);
        let Some((ticket, since, full_before)) = beside.ticket else {
            let how = [How::Auto, How::Young, How::Full, How::Snapshot][self.below(4) as usize];
            if self.once_in(4) {
                beside.ticket = agent.remote.take_on(how, now).map(|ticket| (ticket, now, full));
                assert!(beside.ticket.is_some(), "a command is refused, and none is under way");
            }
            return;
        };
        match agent.remote.outcome(ticket) {
            Ok(Some(outcome)) => {
                let plain = matches!(outcome, Outcome::Collected { how: How::Full, .. });
                assert!(!plain || full > full_before, "a collection is reported that has not happened");
                beside.ticket = None;
                self.count(|tally| tally.outcomes += 1);
            }
            Ok(None) => assert!(
                now < since + 300_000_000_000,
                "a command has no outcome: {:?} {:?}",
                agent.remote,
                agent.actor.is_running()
            ),
            Err(reason) => panic!("{reason}"),
        }
    }

    /// What the uplink does for censuses.
    fn see_to_census(&self, agent: &ActingAgent, now: u64) {
        let progress = agent.snapshots.look(now);
        if agent.census.is_out() && !matches!(progress, SnapshotProgress::InFlight { .. }) {
            agent.census.has_ended();
        }
        agent.census.ask_if_due(now, &progress, || lock(&self.interpreter).generations[2].live);
    }

    /// Whether a command has no outcome yet.
    pub(super) fn waits_for_outcome(&self) -> bool {
        let beside = self.beside.borrow();
        let Some(Beside { agent: Some(agent), ticket: Some((ticket, ..)), .. }) = &*beside else { return false };
        let installed = self.current().is_some_and(|current| Rc::ptr_eq(agent, &current));
        installed && agent.remote.outcome(*ticket) == Ok(None)
    }

    fn situation(&self, agent: &ActingAgent) -> Situation {
        let (now, counts, promoted) = {
            let interpreter = lock(&self.interpreter);
            (interpreter.now, interpreter.counts.map(|count| count as u32), interpreter.pending)
        };
        Situation {
            now: agent.actor.since_install(now),
            moment: Moment::Look,
            idle: None,
            in_flight: agent.hooks.in_flight(),
            requests: agent.hooks.ended(),
            counts,
            promoted,
            rss: Bytes::new(agent.actor.resident_seen()),
            ceiling: None,
            left_for_copies: None,
            paused: agent.actor.is_quiet(),
            deferred: agent.actor.is_deferred(),
            snapshot: self.script.snapshots.then(|| (agent.snapshots.look(now), agent.snapshots.latest())),
            ranks: None,
        }
    }

    fn director(&self) -> Director {
        let tuning = Tuning::default();
        let (name, policy): (Name, Box<dyn Policy>) = match self.script.policy {
            0 => (Name::Freeze, policy(Name::Freeze, tuning)),
            1 => (Name::Every(3), policy(Name::Every(3), tuning)),
            2..=4 => (Name::Neural(None), Box::new(Restless(Random::new(self.below(u64::MAX))))),
            _ => (Name::Gap, policy(Name::Gap, tuning)),
        };
        let mut guarded = Guarded::new(policy, Limits::default(), tuning, self.own.get());
        let objects = lock(&self.interpreter).generations[2].live;
        guarded.begin(Bytes::mebibytes(20), objects);
        Director::new(guarded, name)
    }
}

/// A policy that orders anything at any time.
#[derive(Debug)]
struct Restless(Random);

impl Policy for Restless {
    fn control(&self) -> CollectionControl {
        CollectionControl::Paced
    }

    fn wants_looks(&self) -> bool {
        true
    }

    fn decide(&mut self, _: &Observation) -> Order {
        let decision = match self.0.below(14) {
            0 => Decision::Young,
            1 => Decision::Middle,
            2 => Decision::Full,
            3 if self.0.once_in(4) => Decision::Freeze,
            4 | 5 => Decision::Snapshot { scope: Scope::All },
            6 => Decision::Snapshot { scope: Scope::New },
            7..=9 => Decision::Reap { budget: Duration::from_micros(self.0.below(10_000)) },
            _ => Decision::Wait,
        };
        let order = [Order::because, Order::at_once, Order::forced][self.0.below(3) as usize];
        order(decision, "restless")
    }
}
