//! One driver for every snapshot that is asked for, from Python and from outside: launch, wait, free in slices.
//!
//! It is a state machine: each step does one short thing in a thread of the program and says how long the caller should
//! let go of the GIL before the next one. So nothing is repeated with the GIL held, and every wait has an end.

use std::time::Duration;

use neurogc_policy::{Decision, Order};

use super::actor::{ASKED, Actor};
use super::vm::Vm;
use crate::sense::hooks::{Hooks, Ordered};
use crate::snapshot::{Failure, Progress};

/// How long the caller waits before the next look at a flight, or for another thread's collection to end.
const LOOK: Duration = Duration::from_millis(1);

/// Between two slices other threads have their turn.
const BREATH: Duration = Duration::from_micros(50);

/// How long everything may take: what flights may take, and a minute to free what they found.
const PATIENCE_NS: u64 = 120_000_000_000;

/// How long another thread's collection, or a slice that another thread frees, is waited for.
pub(super) const OTHERS_NS: u64 = 10_000_000_000;

/// Flights that come to nothing for a reason that the next one may not have, before it is given up.
const MOST_TRIES: u32 = 3;

/// A snapshot that was asked for.
#[derive(Debug)]
pub(crate) struct Drive {
    began: u64,
    stage: Stage,
    /// Since when another thread has been in the way.
    held_up_since: Option<u64>,
    /// Flights that had landed when its own was launched.
    landings: u64,
    tries: u32,
    freed: u64,
    /// How long the program was stopped in all, in nanoseconds.
    stopped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// One that is out already may have been launched before the caller's garbage was any: it is finished first.
    Earlier,
    /// Its own is to be launched.
    Launch,
    /// Its own is out.
    Out,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// The caller lets go of the GIL for so long, and comes again.
    Again(Duration),
    /// So many objects were freed, and the program stood still for so long in all.
    Done { freed: u64, stopped: Duration },
    /// There can be none.
    Failed(Failure),
}

impl Drive {
    pub(crate) fn new(vm: &impl Vm) -> Self {
        Self {
            began: vm.now(),
            stage: Stage::Earlier,
            held_up_since: None,
            landings: 0,
            tries: 0,
            freed: 0,
            stopped: 0,
        }
    }

    /// Does the next short thing.
    pub(crate) fn step(&mut self, actor: &Actor, vm: &impl Vm, hooks: &Hooks) -> Next {
        let now = vm.now();
        if now.saturating_sub(self.began) > PATIENCE_NS {
            return Next::Failed(Failure::Late);
        }
        let progress = vm.look();
        if vm.is_collecting() || actor.is_running() || progress == Progress::Busy {
            let since = *self.held_up_since.get_or_insert(now);
            let over = now.saturating_sub(since) > OTHERS_NS;
            return if over { Next::Failed(Failure::Collecting) } else { Next::Again(LOOK) };
        }
        self.held_up_since = None;
        if self.is_over(vm, &progress) {
            return Next::Done { freed: self.freed, stopped: Duration::from_nanos(self.stopped) };
        }
        match (self.stage, progress) {
            (_, Progress::Busy | Progress::InFlight { .. }) => Next::Again(LOOK),
            (_, Progress::Ready { .. }) => self.free(actor, vm, hooks),
            (Stage::Earlier, Progress::Idle | Progress::Failed(_)) => {
                self.stage = Stage::Launch;
                Next::Again(Duration::ZERO)
            }
            (Stage::Launch, _) => self.launch(actor, vm, hooks),
            // A thread that serves the policy has seen it fail.
            (Stage::Out, Progress::Idle) => self.again(Failure::Vanished),
            // The next one leaves nothing out.
            (Stage::Out, Progress::Failed(Failure::Missing)) => self.again(Failure::Missing),
            (Stage::Out, Progress::Failed(failure)) => Next::Failed(failure),
        }
    }

    /// Whether its own flight has landed and nothing is left of what it found: there is none, or there is a later one.
    fn is_over(&self, vm: &impl Vm, progress: &Progress) -> bool {
        let landed = vm.latest().number.saturating_sub(self.landings);
        self.stage == Stage::Out
            && match progress {
                Progress::Idle | Progress::InFlight { .. } => landed >= 1,
                Progress::Ready { .. } => landed >= 2,
                Progress::Busy | Progress::Failed(_) => false,
            }
    }

    fn again(&mut self, failure: Failure) -> Next {
        self.tries += 1;
        if self.tries == MOST_TRIES {
            return Next::Failed(failure);
        }
        self.stage = Stage::Launch;
        Next::Again(Duration::ZERO)
    }

    fn launch(&mut self, actor: &Actor, vm: &impl Vm, hooks: &Hooks) -> Next {
        let (began, landings) = (vm.now(), vm.latest().number);
        match actor.launch(vm, hooks, ASKED) {
            Ok(()) => {
                self.stopped += vm.now().saturating_sub(began);
                (self.stage, self.landings) = (Stage::Out, landings);
                Next::Again(LOOK)
            }
            // Another thread has launched one at this instant.
            Err(Failure::UnderWay) => {
                self.stage = Stage::Earlier;
                Next::Again(LOOK)
            }
            Err(failure) => Next::Failed(failure),
        }
    }

    fn free(&mut self, actor: &Actor, vm: &impl Vm, hooks: &Hooks) -> Next {
        let budget = actor.slice();
        let order = Order::at_once(Decision::Reap { budget }, "asked for");
        let running = actor.begin(vm, order);
        let reaped = actor.reap(vm, hooks, budget, true, Ordered::Anywhere);
        drop(running);
        if self.stage == Stage::Out {
            self.freed += reaped.freed as u64;
        }
        self.stopped += reaped.pause_ns;
        Next::Again(BREATH)
    }
}
