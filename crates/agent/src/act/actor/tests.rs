//! Orders in the fake interpreter, one at a time.

use std::cell::{Cell, RefCell};

use neurogc_policy::{CollectionControl, Guarded, Limits, Name, Observation, Policy, Tuning, policy};

use super::*;
use crate::act::census::OwnCensus;
use crate::act::fake::{Fake, FakeCollector, FakeFlight, Rig, TestSurroundings};

/// A policy that always says the same.
#[derive(Debug)]
struct Says(Decision);

impl Policy for Says {
    fn control(&self) -> CollectionControl {
        CollectionControl::Cpython
    }

    fn decide(&mut self, _: &Observation) -> Order {
        Order::at_once(self.0, "a test")
    }
}

fn direct(rig: &Rig, decision: Decision) {
    let guarded = Guarded::new(Box::new(Says(decision)), Limits::default(), Tuning::default(), [700, 10, 10]);
    rig.actor.direct(Some(Director::new(guarded, Name::Gap)));
}

fn collections(rig: &Rig) -> u64 {
    lock(&rig.interpreter).collections
}

fn act(rig: &Rig, moment: Moment) -> bool {
    rig.actor.moment(&rig.vm(1), &rig.hooks, moment)
}

#[test]
fn an_order_is_carried_out_and_booked() {
    let rig = Rig::with_garbage(10);
    direct(&rig, Decision::Full);
    assert!(act(&rig, Moment::Gap) && act(&rig, Moment::Passing));
    let ids: Vec<u64> = std::iter::from_fn(|| rig.actor.orders.pop()).map(|(_, order)| order.id).collect();
    assert_eq!((collections(&rig), ids), (2, vec![1, 2]));
    assert!(!rig.actor.is_running());
}

#[test]
fn who_has_stood_down_does_nothing() {
    let rig = Rig::new(1_000);
    direct(&rig, Decision::Full);
    rig.actor.stand_down();
    assert!(![Moment::Gap, Moment::Passing, Moment::CollectionEnd].map(|moment| act(&rig, moment)).contains(&true));
    assert!(collections(&rig) == 0 && !rig.actor.waits() && !rig.actor.is_due(u32::MAX - 1));
}

#[test]
fn nothing_is_done_where_collection_is_off_or_another_thread_collects() {
    let rig = Rig::new(1_000);
    direct(&rig, Decision::Full);
    lock(&rig.interpreter).enabled = false;
    assert!(!act(&rig, Moment::Gap));
    lock(&rig.interpreter).enabled = true;
    lock(&rig.interpreter).collecting = true;
    assert!(!act(&rig, Moment::Gap));
    lock(&rig.interpreter).collecting = false;
    let _running = rig.actor.begin(&rig.vm(2), Order::WAIT);
    assert!(!act(&rig, Moment::Gap));
    assert_eq!((collections(&rig), rig.actor.running_in()), (0, Some(2)));
}

#[test]
fn without_a_policy_there_is_nothing_to_do() {
    let rig = Rig::new(1_000);
    assert!(!act(&rig, Moment::Gap));
    direct(&rig, Decision::Full);
    rig.actor.direct(None);
    assert!(!act(&rig, Moment::Gap) && !rig.actor.waits());
}

#[test]
fn what_a_look_has_ordered_is_done_once() {
    let rig = Rig::new(1_000);
    direct(&rig, Decision::Full);
    let situation = Situation {
        now: Duration::from_secs(5),
        moment: Moment::Look,
        idle: None,
        in_flight: 0,
        requests: 0,
        counts: [0; 3],
        promoted: 0,
        rss: Bytes::ZERO,
        ceiling: None,
        left_for_copies: None,
        paused: false,
        deferred: false,
        snapshot: None,
        ranks: None,
    };
    rig.actor.look(&situation);
    assert!(rig.actor.has_posted() && rig.actor.waits());
    // From now on only what was posted.
    *lock(&rig.actor.director) = None;
    let guarded = Guarded::new(Box::new(Says(Decision::Wait)), Limits::default(), Tuning::default(), [700, 10, 10]);
    *lock(&rig.actor.director) = Some(Director::new(guarded, Name::Gap));
    assert!(act(&rig, Moment::Gap) && !act(&rig, Moment::Gap));
    assert_eq!(collections(&rig), 1);
    rig.actor.look(&situation);
    rig.actor.direct(None);
    assert!(!rig.actor.has_posted());
}

#[test]
fn a_launch_without_memory_is_a_failure_that_the_policy_sees() {
    let rig = Rig::new(1_000);
    lock(&rig.interpreter).has_room = false;
    direct(&rig, Decision::Snapshot { scope: Scope::All });
    assert!(act(&rig, Moment::Gap));
    assert_eq!(rig.vm(1).look(), SnapshotProgress::Failed(SnapshotFailure::ShortOfMemory));
    // The next question takes note of it, and tries again.
    lock(&rig.interpreter).has_room = true;
    assert!(act(&rig, Moment::Gap));
    assert!(matches!(rig.vm(1).look(), SnapshotProgress::InFlight { .. }));
}

#[test]
fn a_final_failure_is_said() {
    let rig = Rig::new(1_000);
    let refused = Some(SnapshotFailure::Unsupported("a test".to_owned()));
    rig.snapshots.plan(FakeFlight { refused, ..FakeFlight::default() });
    direct(&rig, Decision::Snapshot { scope: Scope::All });
    assert!(act(&rig, Moment::Gap) && rig.actor.troubles.is_empty());
    act(&rig, Moment::Gap);
    assert!(rig.actor.troubles.pop().is_some_and(|trouble| trouble.contains("a test")));
}

#[test]
fn thresholds_are_lent_and_the_program_s_own_are_known() {
    let rig = Rig::new(1_000);
    rig.actor.tune(&rig.vm(1), [9_000, 10, 10]);
    assert_eq!((rig.actor.loans.own_young(), rig.vm(1).thresholds()), (Some(700), Ok([9_000, 10, 10])));
    let child = rig.actor.in_child(0);
    assert_eq!(child.loans.thresholds(), Some([700, 10, 10]));
}

/// The sampler has the snapshot at one of the calls of a thread of the program.
struct HoldsOnce {
    at: u64,
    calls: Cell<u64>,
}

impl TestSurroundings for HoldsOnce {
    fn holds_snapshots(&self) -> bool {
        self.calls.set(self.calls.get() + 1);
        self.calls.get() == self.at
    }
}

#[test]
fn every_slice_is_booked_also_where_the_sampler_is_in_the_way() {
    for at in 1..5 {
        let rig = Rig::with_garbage(10);
        assert!(rig.actor.launch(&rig.vm(1), &rig.hooks, ASKED).is_ok());
        rig.pass(Duration::from_secs(1));
        assert!(matches!(rig.vm(1).look(), SnapshotProgress::Ready { .. }));
        let around = HoldsOnce { at, calls: Cell::new(0) };
        let vm = Fake { interpreter: &rig.interpreter, snapshots: &rig.snapshots, around: &around, thread: 1 };
        let reaped = rig.actor.reap(&vm, &rig.hooks, Duration::from_millis(1), true, Ordered::Anywhere);
        let is_last = |note: &Note| matches!(note, Note::Reaped { freed: 10, left: 0, .. });
        let booked = std::iter::from_fn(|| rig.actor.notes.pop()).filter(is_last).count();
        assert_eq!((booked == 1, reaped.is_some()), (rig.garbage() == 0, rig.garbage() == 0), "{at}");
    }
}

#[test]
fn where_the_sampler_has_the_snapshot_the_next_moment_asks_again() {
    let rig = Rig::new(1_000);
    direct(&rig, Decision::Full);
    for (at, acts) in [(1, false), (2, false), (3, true)] {
        let around = HoldsOnce { at, calls: Cell::new(0) };
        let vm = Fake { interpreter: &rig.interpreter, snapshots: &rig.snapshots, around: &around, thread: 1 };
        assert_eq!(rig.actor.moment(&vm, &rig.hooks, Moment::Gap), acts, "{at}");
        assert!(rig.actor.waits());
    }
}

#[test]
fn a_callback_that_the_program_calls_itself_changes_nothing() {
    let rig = Rig::new(1_000);
    let tuning = Tuning::default();
    let guarded = Guarded::new(policy(Name::Gap, tuning), Limits::default(), tuning, [700, 10, 10]);
    rig.actor.direct(Some(Director::new(guarded, Name::Gap)));
    // The pacer orders a collection at once.
    rig.actor.ceiling.store(1 << 20, Ordering::Relaxed);
    let ended = EndedCollection { generation: 0, began: rig.now(), gathered: 0, freed: 0 };
    rig.actor.collection_ended(&rig.vm(1), &rig.hooks, ended);
    assert_eq!((collections(&rig), rig.vm(1).is_collecting()), (0, false));
    assert!(act(&rig, Moment::Gap) && collections(&rig) == 1, "it was due");
}

/// Carries one order out in the callback of the first collection, and notes CPython's flag while others run.
struct InCallback<'a> {
    rig: &'a Rig,
    decision: Decision,
    seen: RefCell<Vec<bool>>,
    done: Cell<bool>,
    /// What a finalizer does.
    finalizer: fn(&Actor),
}

impl InCallback<'_> {
    fn vm(&self) -> Fake<'_> {
        Fake { interpreter: &self.rig.interpreter, snapshots: &self.rig.snapshots, around: self, thread: 1 }
    }
}

impl TestSurroundings for InCallback<'_> {
    fn collection_ended(&self, _: usize, _: u8, _: u64) {
        if !self.done.replace(true) {
            let order = Order::at_once(self.decision, "a test");
            self.rig.actor.carry_out(&self.vm(), &self.rig.hooks, order, true);
        }
    }

    fn finalizers(&self, _: usize, _: u64) -> u64 {
        if self.done.get() {
            (self.finalizer)(&self.rig.actor);
        }
        0
    }

    fn others_run(&self, interpreter: &Mutex<FakeCollector>, _: usize, _: Duration) {
        self.seen.borrow_mut().push(lock(interpreter).collecting);
    }
}

fn in_callback(rig: &Rig, decision: Decision, finalizer: fn(&Actor)) -> Vec<bool> {
    let around = InCallback { rig, decision, seen: RefCell::default(), done: Cell::new(false), finalizer };
    around.vm().gc_collect(0);
    assert!(!lock(&rig.interpreter).collecting);
    around.seen.take()
}

#[test]
fn who_is_held_up_keeps_others_from_collecting() {
    let rig = Rig::new(1_000);
    let seen = in_callback(&rig, Decision::Throttle { pause: Duration::from_millis(1) }, |_| ());
    assert_eq!((seen, collections(&rig)), (vec![true], 1));
}

#[test]
fn a_collection_may_follow_another_in_its_callback() {
    let rig = Rig::with_garbage(10);
    in_callback(&rig, Decision::Full, |_| ());
    assert_eq!((collections(&rig), rig.garbage()), (2, 0));
}

#[test]
fn nothing_is_frozen_after_the_loans_were_repaid() {
    for ends in [(|actor| actor.stand_down()) as fn(&Actor), |actor| actor.direct(None)] {
        let rig = Rig::with_garbage(10);
        in_callback(&rig, Decision::Freeze, ends);
        assert_eq!(rig.vm(1).frozen(), 0);
    }
    let rig = Rig::with_garbage(10);
    in_callback(&rig, Decision::Freeze, |_| ());
    assert_eq!(rig.vm(1).frozen(), 1_000 * 100);
}

#[test]
fn young_objects_are_old_beside_a_dump_where_a_policy_lets_them_gather() {
    let young = |directed: bool| {
        let rig = Rig::with_garbage(10);
        if directed {
            direct(&rig, Decision::Wait);
        }
        rig.vm(1).allocate(500, 0);
        let before = rig.vm(1).counts()[0];
        assert!(rig.actor.launch_heap(&rig.vm(1), &rig.hooks, HeapErrand::Count).is_ok());
        let noted = std::iter::from_fn(|| rig.actor.notes.pop())
            .find_map(|note| if let Note::MadeOld { young } = note { Some(young) } else { None });
        assert_eq!(collections(&rig), 0);
        (before, rig.vm(1).counts()[0], noted)
    };
    let (before, after, noted) = young(false);
    assert_eq!((after, noted), (before, None));
    let (before, after, noted) = young(true);
    assert_eq!((after, noted), (0, Some(before)));
    assert!(before > 0);
}

#[test]
fn where_walks_of_new_objects_are_frequent_the_next_walk_takes_a_due_census() {
    let rig = Rig::new(100_000);
    let census = |rig: &Rig| {
        let census = OwnCensus::new(Some(Duration::from_secs(1)), rig.now());
        rig.pass(Duration::from_secs(1));
        census.ask_if_due(rig.now(), &SnapshotProgress::Idle, || u64::MAX);
        census
    };
    direct(&rig, Decision::Wait);
    let sortie = Sortie { scope: Scope::New, ..ASKED };
    assert!(rig.actor.launch(&rig.vm(1), &rig.hooks, sortie).is_ok());
    let due = census(&rig);
    assert!(!due.step(&rig.actor, &rig.vm(1), &rig.hooks) && due.is_wanted(), "it is left to the next walk");
    let asked = std::iter::from_fn(|| rig.actor.notes.pop()).filter(|note| matches!(note, Note::CensusWanted)).count();
    assert!(!due.step(&rig.actor, &rig.vm(1), &rig.hooks));
    assert_eq!((asked, rig.actor.notes.pop().is_none()), (1, true), "it is asked for once");
    due.taken(rig.now());
    assert!(!due.is_wanted());
    // Without a policy that acts there is no next walk.
    rig.actor.direct(None);
    assert!(!rig.actor.walks_often(rig.now()));
}
