//! One driver for every snapshot that is asked for, from Python and from outside: launch, wait, free in slices.
//!
//! It is a state machine: each step does one short thing in a thread of the program and says how long the caller should
//! let go of the GIL before the next one. So nothing is repeated with the GIL held, and every wait has an end.

use std::time::Duration;

use neurogc_policy::{Decision, Order};

use super::actor::{ASKED, Actor};
use super::vm::Vm;
use crate::cpython::gather::GatheredArenas;
use crate::sense::hooks::{Hooks, Ordered};
use crate::snapshot::{HeapErrand, HeapReport, SnapshotFailure, SnapshotProgress};

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

/// The reason of orders that the program or a command has given.
pub(crate) const ASKED_FOR: &str = "asked for";

/// A snapshot that was asked for.
#[derive(Debug)]
pub(crate) struct RequestedSnapshot {
    began: u64,
    /// What it is for, if it does not collect, and the number of its own flight, from the launch on.
    errand: Option<HeapErrand>,
    flight: u64,
    stage: Stage,
    /// What was asked of the uplink before the clone, and what has become of it.
    gathering: Option<u64>,
    gathered: GatheredArenas,
    /// Since when another thread has been in the way.
    held_up_since: Option<u64>,
    tries: u32,
    freed: u64,
    /// How long the program was stopped in all, in nanoseconds.
    stopped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// One that is out already may have been launched before the caller's garbage was any: it is finished first.
    Earlier,
    /// The uplink puts small pages together, so that the clone is short.
    Gather,
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
    /// A count or a dump is there.
    Told(Box<HeapReport>),
    /// There can be none.
    Failed(SnapshotFailure),
}

impl RequestedSnapshot {
    /// One that collects.
    pub(crate) fn new(vm: &impl Vm) -> Self {
        Self::with(vm, None)
    }

    /// One that counts or dumps.
    pub(crate) fn for_heap(vm: &impl Vm, errand: HeapErrand) -> Self {
        Self::with(vm, Some(errand))
    }

    /// Where its flight writes to, if that is still to be launched.
    pub(crate) fn write_to(&mut self, errand: HeapErrand) {
        self.errand = Some(errand);
    }

    /// Whether its flight may be launched in the next step, which then needs what it writes to.
    pub(crate) fn may_launch(&self) -> bool {
        self.stage == Stage::Launch
    }

    /// Whether its own flight is out.
    pub(crate) fn is_out(&self) -> bool {
        self.stage == Stage::Out
    }

    fn with(vm: &impl Vm, errand: Option<HeapErrand>) -> Self {
        Self {
            began: vm.now(),
            errand,
            flight: 0,
            stage: Stage::Earlier,
            gathering: None,
            gathered: GatheredArenas::default(),
            held_up_since: None,
            tries: 0,
            freed: 0,
            stopped: 0,
        }
    }

    /// Does the next short thing.
    pub(crate) fn step(&mut self, actor: &Actor, vm: &impl Vm, hooks: &Hooks) -> Next {
        let now = vm.now();
        // A count or a dump that is out ends at the deadline of its own flight, and is in no collection's way.
        let is_told = self.stage == Stage::Out && self.errand.is_some();
        if now.saturating_sub(self.began) > PATIENCE_NS && !is_told {
            return Next::Failed(SnapshotFailure::Late);
        }
        let progress = vm.look();
        if progress == SnapshotProgress::Busy || (!is_told && (vm.is_collecting() || actor.is_running())) {
            let since = *self.held_up_since.get_or_insert(now);
            let over = now.saturating_sub(since) > OTHERS_NS;
            return if over { Next::Failed(SnapshotFailure::Collecting) } else { Next::Again(LOOK) };
        }
        self.held_up_since = None;
        if is_told {
            return self.wait_for_report(vm);
        }
        let Some(latest) = vm.latest() else { return Next::Again(LOOK) };
        if self.is_over(&progress, latest.number) {
            return Next::Done { freed: self.freed, stopped: Duration::from_nanos(self.stopped) };
        }
        match (self.stage, progress) {
            (_, SnapshotProgress::Busy | SnapshotProgress::InFlight { .. }) => Next::Again(LOOK),
            (_, SnapshotProgress::Ready { .. }) => self.free(actor, vm, hooks),
            (Stage::Earlier, SnapshotProgress::Idle | SnapshotProgress::Failed(_)) => {
                let gathers = self.gathering.is_none() && self.errand.is_some_and(|errand| errand.gathers());
                self.stage = if gathers { Stage::Gather } else { Stage::Launch };
                Next::Again(Duration::ZERO)
            }
            (Stage::Gather, SnapshotProgress::Idle | SnapshotProgress::Failed(_)) => self.gather(vm),
            (Stage::Launch, _) => self.launch(actor, vm, hooks),
            // A thread that serves the policy has seen it fail.
            (Stage::Out, SnapshotProgress::Idle) => self.again(SnapshotFailure::Vanished),
            // The next one leaves nothing out.
            (Stage::Out, SnapshotProgress::Failed(SnapshotFailure::Missing)) => self.again(SnapshotFailure::Missing),
            (Stage::Out, SnapshotProgress::Failed(failure)) => Next::Failed(failure),
        }
    }

    /// Whether its own flight has landed, or one that was launched later, and nothing is left of what its own found.
    fn is_over(&self, progress: &SnapshotProgress, landed: u64) -> bool {
        let is_own = match progress {
            SnapshotProgress::InFlight { flight, .. } | SnapshotProgress::Ready { flight, .. } => {
                *flight == self.flight
            }
            SnapshotProgress::Idle => false,
            SnapshotProgress::Busy | SnapshotProgress::Failed(_) => true,
        };
        self.stage == Stage::Out && !is_own && landed >= self.flight
    }

    /// Its flight counts or dumps: there is nothing to free.
    fn wait_for_report(&mut self, vm: &impl Vm) -> Next {
        match vm.heap_told(self.flight) {
            Some(Ok(report)) => Next::Told(Box::new(HeapReport { gathered: self.gathered, ..report })),
            // The next one leaves nothing out.
            Some(Err(SnapshotFailure::Missing)) => self.again(SnapshotFailure::Missing),
            Some(Err(failure)) => Next::Failed(failure),
            None => Next::Again(LOOK),
        }
    }

    fn again(&mut self, failure: SnapshotFailure) -> Next {
        self.tries += 1;
        if self.tries == MOST_TRIES {
            return Next::Failed(failure);
        }
        self.stage = Stage::Launch;
        Next::Again(Duration::ZERO)
    }

    /// Waits for the uplink, which is at it for a few seconds at most.
    fn gather(&mut self, vm: &impl Vm) -> Next {
        let number = *self.gathering.get_or_insert_with(|| vm.gather());
        let Some(gathered) = vm.gathered(number) else { return Next::Again(LOOK) };
        (self.stage, self.gathered) = (Stage::Launch, gathered);
        Next::Again(Duration::ZERO)
    }

    fn launch(&mut self, actor: &Actor, vm: &impl Vm, hooks: &Hooks) -> Next {
        let began = vm.now();
        let launched = match self.errand {
            None => {
                let _running = actor.begin(vm, Order::at_once(Decision::Snapshot { scope: ASKED.scope }, ASKED_FOR));
                actor.launch(vm, hooks, ASKED)
            }
            Some(errand) => actor.launch_heap(vm, hooks, errand),
        };
        match launched {
            Ok(flight) => {
                self.stopped += vm.now().saturating_sub(began);
                (self.stage, self.flight) = (Stage::Out, flight);
                Next::Again(LOOK)
            }
            // Another thread has launched one at this instant.
            Err(SnapshotFailure::UnderWay) => {
                self.stage = Stage::Earlier;
                Next::Again(LOOK)
            }
            Err(failure) => Next::Failed(failure),
        }
    }

    fn free(&mut self, actor: &Actor, vm: &impl Vm, hooks: &Hooks) -> Next {
        let budget = actor.slice();
        let running = actor.begin(vm, Order::at_once(Decision::Reap { budget }, ASKED_FOR));
        let reaped = actor.reap(vm, hooks, budget, true, Ordered::Anywhere);
        drop(running);
        let Some(reaped) = reaped else { return Next::Again(LOOK) };
        if self.stage == Stage::Out {
            self.freed += reaped.freed as u64;
        }
        self.stopped += reaped.pause_ns;
        Next::Again(BREATH)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::fake::{Fake, FakeFlight, Rig, TestSurroundings};
    use super::*;
    use crate::sense::hooks::HookEvent;
    use crate::snapshot::Destination;
    use crate::sys::locks::lock;

    /// Drives to the end, with time that passes as the steps say. `meanwhile` runs each time the GIL is free.
    fn drive(rig: &Rig, meanwhile: impl Fn(&Rig)) -> Next {
        drive_on(rig, &rig.vm(1), meanwhile)
    }

    fn drive_on(rig: &Rig, vm: &Fake<'_>, meanwhile: impl Fn(&Rig)) -> Next {
        let mut drive = RequestedSnapshot::new(vm);
        loop {
            match drive.step(&rig.actor, vm, &rig.hooks) {
                Next::Again(pause) => rig.pass(pause),
                over => return over,
            }
            vm.has_let_go();
            meanwhile(rig);
        }
    }

    fn check(rig: &Rig, expected: &Next, launches: u64) {
        assert_eq!((&drive(rig, |_| ()), rig.snapshots.launches()), (expected, launches));
    }

    fn freed(next: &Next) -> Option<u64> {
        if let Next::Done { freed, .. } = next { Some(*freed) } else { None }
    }

    #[test]
    fn everything_that_is_found_is_freed() {
        let rig = Rig::with_garbage(20_000);
        assert_eq!(freed(&drive(&rig, |_| ())), Some(20_000));
        assert_eq!((rig.garbage(), rig.vm(1).look()), (0, SnapshotProgress::Idle));
    }

    /// The sampler does something to the snapshot just before a call of the program's thread.
    struct Sampler<'a> {
        rig: &'a Rig,
        calls: Cell<u64>,
        before: u64,
        /// It has the snapshot at that instant; else it sees a flight land.
        holds: bool,
    }

    impl TestSurroundings for Sampler<'_> {
        fn holds_snapshots(&self) -> bool {
            self.calls.set(self.calls.get() + 1);
            self.holds && self.calls.get() == self.before
        }

        fn beside(&self) {
            if !self.holds && self.calls.get() == self.before {
                self.rig.snapshots.look(u64::MAX);
            }
        }
    }

    #[test]
    fn whatever_the_sampler_does_meanwhile_all_that_is_found_is_freed() {
        for (before, holds) in (0..40).flat_map(|before| [(before, true), (before, false)]) {
            let rig = Rig::with_garbage(50);
            // Another one has landed before.
            assert_eq!(freed(&drive(&rig, |_| ())), Some(50));
            lock(&rig.interpreter).generations[2].garbage = 20_000;
            let around = Sampler { rig: &rig, calls: Cell::new(0), before, holds };
            let vm = Fake { interpreter: &rig.interpreter, snapshots: &rig.snapshots, around: &around, thread: 1 };
            assert_eq!(freed(&drive_on(&rig, &vm, |_| ())), Some(20_000), "{before} {holds}");
            assert!(rig.snapshots.launches() == 2 && around.calls.get() > 15, "{before} {holds}");
        }
    }

    #[test]
    fn what_is_asked_for_is_booked_with_ids() {
        let rig = Rig::with_garbage(20_000);
        drive(&rig, |_| ());
        let orders: Vec<Order> = std::iter::from_fn(|| rig.actor.orders.pop()).map(|(_, order)| order).collect();
        assert!(orders.len() > 1 && orders.iter().all(|order| order.id > 0 && order.reason == ASKED_FOR), "{orders:?}");
        let mut stops = Vec::new();
        while let Some(event) = rig.hooks.take() {
            if let HookEvent::Collection { order, .. } = event {
                stops.push(order);
            }
        }
        assert_eq!(stops, orders.iter().map(|order| order.id).collect::<Vec<_>>());
    }

    #[test]
    fn a_walk_that_found_nothing_is_over_too() {
        let rig = Rig::new(1_000);
        assert_eq!(freed(&drive(&rig, |_| ())), Some(0));
        assert_eq!(rig.vm(1).look(), SnapshotProgress::Idle);
    }

    #[test]
    fn a_walk_that_missed_memory_is_tried_three_times() {
        let rig = Rig::new(1_000);
        rig.snapshots.plan(FakeFlight { fails: Some(SnapshotFailure::Missing), ..FakeFlight::default() });
        check(&rig, &Next::Failed(SnapshotFailure::Missing), 3);
    }

    #[test]
    fn another_failure_is_not_tried_again() {
        let rig = Rig::new(1_000);
        rig.snapshots.plan(FakeFlight { fails: Some(SnapshotFailure::Vanished), ..FakeFlight::default() });
        check(&rig, &Next::Failed(SnapshotFailure::Vanished), 1);
    }

    #[test]
    fn a_flight_that_never_lands_is_given_up() {
        let rig = Rig::new(1_000);
        let began = rig.now();
        rig.snapshots.plan(FakeFlight { flight_ns: u64::MAX / 2, ..FakeFlight::default() });
        check(&rig, &Next::Failed(SnapshotFailure::Late), 1);
        assert!(rig.now() - began < PATIENCE_NS + 10_000_000);
    }

    #[test]
    fn without_memory_none_is_launched() {
        let rig = Rig::new(1_000);
        lock(&rig.interpreter).has_room = false;
        check(&rig, &Next::Failed(SnapshotFailure::ShortOfMemory), 0);
    }

    #[test]
    fn a_refusal_of_the_kernel_is_told() {
        let rig = Rig::new(1_000);
        rig.snapshots.plan(FakeFlight { refused: Some(SnapshotFailure::Clone(12)), ..FakeFlight::default() });
        check(&rig, &Next::Failed(SnapshotFailure::Clone(12)), 0);
    }

    #[test]
    fn a_collection_of_another_thread_is_waited_for() {
        let rig = Rig::with_garbage(100);
        lock(&rig.interpreter).collecting = true;
        let until = rig.now() + OTHERS_NS / 2;
        let ends = |rig: &Rig| {
            let runs = rig.now() < until;
            lock(&rig.interpreter).collecting = runs;
        };
        assert_eq!(freed(&drive(&rig, ends)), Some(100));
    }

    #[test]
    fn a_collection_that_does_not_end_is_not_waited_for_for_ever() {
        let rig = Rig::new(1_000);
        lock(&rig.interpreter).collecting = true;
        check(&rig, &Next::Failed(SnapshotFailure::Collecting), 0);
    }

    #[test]
    fn a_flight_that_is_out_already_comes_first() {
        let rig = Rig::with_garbage(100);
        assert!(rig.actor.launch(&rig.vm(2), &rig.hooks, ASKED).is_ok());
        lock(&rig.interpreter).generations[2].garbage += 50;
        assert_eq!(freed(&drive(&rig, |_| ())), Some(50));
        assert_eq!((rig.snapshots.launches(), rig.garbage()), (2, 0));
    }

    #[test]
    fn a_failure_that_the_policy_has_seen_first_is_no_success() {
        let rig = Rig::with_garbage(100);
        rig.snapshots.plan(FakeFlight { fails: Some(SnapshotFailure::Vanished), ..FakeFlight::default() });
        let outcome = drive(&rig, |rig| {
            if matches!(rig.vm(2).look(), SnapshotProgress::Failed(_)) {
                rig.vm(2).forget_failure();
                rig.snapshots.plan(FakeFlight::default());
            }
        });
        assert_eq!((freed(&outcome), rig.snapshots.launches()), (Some(100), 2));
    }

    #[test]
    fn a_later_flight_of_another_thread_is_not_waited_for() {
        let rig = Rig::with_garbage(100);
        let outcome = drive(&rig, |rig| {
            // What was found is freed by the policy, which launches another one at once.
            if matches!(rig.vm(2).look(), SnapshotProgress::Ready { .. }) {
                rig.vm(2).reap(Duration::from_secs(1), true);
                assert!(rig.actor.launch(&rig.vm(2), &rig.hooks, ASKED).is_ok());
            }
        });
        assert_eq!((freed(&outcome), rig.snapshots.launches()), (Some(0), 2));
    }

    /// What a count tells here.
    fn told() -> Next {
        Next::Told(Box::new(HeapReport {
            gathered: GatheredArenas { pages: 1, ..GatheredArenas::default() },
            ..HeapReport::default()
        }))
    }

    /// Drives a count to its end.
    fn count(rig: &Rig, meanwhile: impl Fn(&Rig)) -> Next {
        let vm = rig.vm(1);
        let mut drive = RequestedSnapshot::for_heap(&vm, HeapErrand::Count);
        loop {
            match drive.step(&rig.actor, &vm, &rig.hooks) {
                Next::Again(pause) => rig.pass(pause),
                over => return over,
            }
            vm.has_let_go();
            meanwhile(rig);
        }
    }

    #[test]
    fn a_count_frees_nothing_and_leaves_collections_to_the_policy() {
        let rig = Rig::with_garbage(100);
        assert_eq!(count(&rig, |_| ()), told());
        assert_eq!((rig.garbage(), rig.vm(1).look()), (100, SnapshotProgress::Idle));
    }

    #[test]
    fn a_count_waits_until_pages_are_put_together() {
        let rig = Rig::new(1_000);
        lock(&rig.interpreter).gather_ns = 2_000_000_000;
        let began = rig.now();
        assert_eq!(count(&rig, |_| ()), told());
        assert!(rig.now() - began >= 2_000_000_000);
    }

    #[test]
    fn what_is_urgent_or_collects_does_not_wait_for_pages() {
        let urgent = HeapErrand::Dump { to: Destination::NONE, texts: true, urgent: true };
        for errand in [Some(urgent), None] {
            let rig = Rig::new(1_000);
            lock(&rig.interpreter).gather_ns = u64::MAX / 4;
            let vm = rig.vm(1);
            let mut drive = RequestedSnapshot::with(&vm, errand);
            while !drive.is_out() {
                assert!(matches!(drive.step(&rig.actor, &vm, &rig.hooks), Next::Again(_)));
            }
        }
    }

    #[test]
    fn a_flight_that_missed_memory_does_not_gather_again() {
        let rig = Rig::new(1_000);
        lock(&rig.interpreter).gather_ns = 1_000_000_000;
        rig.snapshots.plan(FakeFlight { fails: Some(SnapshotFailure::Missing), ..FakeFlight::default() });
        let began = rig.now();
        assert_eq!(count(&rig, |_| ()), Next::Failed(SnapshotFailure::Missing));
        assert!(rig.now() - began < 1_500_000_000);
    }

    #[test]
    fn a_count_lets_a_flight_that_is_out_end_first() {
        let rig = Rig::with_garbage(100);
        assert!(rig.actor.launch(&rig.vm(2), &rig.hooks, ASKED).is_ok());
        assert_eq!(count(&rig, |_| ()), told());
        assert_eq!((rig.garbage(), rig.snapshots.launches()), (0, 1));
    }

    #[test]
    fn a_count_that_fails_says_why_and_is_no_failure_of_collections() {
        let rig = Rig::new(1_000);
        rig.snapshots.plan(FakeFlight { fails: Some(SnapshotFailure::Vanished), ..FakeFlight::default() });
        assert_eq!(count(&rig, |_| ()), Next::Failed(SnapshotFailure::Vanished));
        assert_eq!(rig.vm(1).look(), SnapshotProgress::Idle);
    }

    #[test]
    fn a_collection_during_a_count_is_in_no_one_s_way() {
        let rig = Rig::new(1_000);
        let outcome = count(&rig, |rig| rig.snapshots.full_collection_ended());
        assert_eq!(outcome, told());
    }

    #[test]
    fn without_memory_there_is_no_count() {
        let rig = Rig::new(1_000);
        lock(&rig.interpreter).has_room = false;
        assert_eq!(count(&rig, |_| ()), Next::Failed(SnapshotFailure::ShortOfMemory));
    }
}
