//! Carries orders out, in the threads of the program and at moments at which CPython itself could collect.
//!
//! There are three kinds of moments: a collection has just ended (in the callback of the `gc` module, in the thread that
//! allocates), a thread of the program has nothing to do, and a thread of the program comes by. At each of them the
//! director is asked, and what it orders is done there and then. No thread of the agent ever takes the GIL, so no
//! finalizer ever runs in one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use neurogc_policy::{Bytes, Collected, Decision, Generation, Moment, Order, Scope, Thresholds};
use neurogc_wire::stop::StopKind;

use self::alignment::RankAlignment;
use self::held_up::HeldUp;
pub(crate) use self::running::Lowered;
use self::running::Running;
use super::loans::Loans;
use super::room::{self, RoomShares};
use super::vm::Vm;
use crate::decide::director::{Advice, Director, Note, PolicyState, Situation};
use crate::sense::hooks::{Hooks, Ordered};
use crate::snapshot::{HeapErrand, Latest, Launched, Reaped, SnapshotFailure, SnapshotProgress, Sortie};
use crate::sys::locks::{lock, try_lock};

/// Notes and orders that may wait to be taken in.
const NOTES: usize = 256;
const ORDERS: usize = 256;
const TROUBLES: usize = 16;

/// Walks that follow each other within this time are frequent.
const OFTEN_NS: u64 = 5_000_000_000;

/// How long a reading of resident memory is good for.
const RESIDENT_NS: u64 = 5_000_000;

/// The acting half of an agent.
#[derive(Debug)]
pub(crate) struct Actor {
    installed: u64,
    pause_budget: Duration,
    snapshots: bool,
    director: Mutex<Option<Director>>,
    /// Whether there is one.
    directed: AtomicBool,
    /// What happened and was not taken in yet, and what was ordered and is not in the books yet.
    notes: ArrayQueue<Note>,
    pub(crate) orders: ArrayQueue<(u64, Order)>,
    pub(crate) troubles: ArrayQueue<String>,
    pub(crate) landings: ArrayQueue<Latest>,
    pub(super) ids: AtomicU64,
    /// What is being carried out, for threads that hold the GIL; and whether something is, for the others.
    running: Mutex<Option<Running>>,
    acting: AtomicBool,
    /// What the sampler's look has ordered, for the next thread of the program that comes by.
    posted: Mutex<Option<Order>>,
    /// When a gap is worth a question: in any case, or from so many young objects on.
    due: AtomicBool,
    due_young: AtomicU32,
    /// When a moment was last used, by the monotonic clock.
    last_moment: AtomicU64,
    quiet: AtomicU32,
    stood_down: AtomicBool,
    /// Changes with the policy and when the program is left alone: an order that was given before is not finished then.
    terms: AtomicU64,
    alignment: RankAlignment,
    deferrals: AtomicU64,
    deferred: AtomicBool,
    /// Resident memory and when it was read; the same when the running collection began.
    resident: AtomicU64,
    resident_at: AtomicU64,
    resident_before: AtomicU64,
    /// What memory may not exceed, as the uplink sees it; zero for no limit.
    pub(crate) ceiling: AtomicU64,
    /// What the sampler saw last of the memory that is left for copies while a snapshot is out; `u64::MAX` before that.
    left_for_copies: AtomicU64,
    /// When a walk of new objects was last launched, by the monotonic clock; zero before the first.
    walked_new_at: AtomicU64,
    /// What must be left for a snapshot.
    room: RoomShares,
    held_up: HeldUp,
    pub(crate) loans: Loans,
}

/// A collection that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedCollection {
    pub(crate) generation: u8,
    pub(crate) began: u64,
    pub(crate) gathered: u32,
    pub(crate) freed: u32,
}

impl Actor {
    pub(crate) fn new(installed: u64, pause_budget: Duration, snapshots: bool, loans: Loans) -> Self {
        Self {
            installed,
            pause_budget,
            snapshots,
            director: Mutex::new(None),
            directed: AtomicBool::new(false),
            notes: ArrayQueue::new(NOTES),
            orders: ArrayQueue::new(ORDERS),
            troubles: ArrayQueue::new(TROUBLES),
            landings: ArrayQueue::new(TROUBLES),
            ids: AtomicU64::new(0),
            running: Mutex::new(None),
            acting: AtomicBool::new(false),
            posted: Mutex::new(None),
            due: AtomicBool::new(false),
            due_young: AtomicU32::new(u32::MAX),
            last_moment: AtomicU64::new(0),
            quiet: AtomicU32::new(0),
            stood_down: AtomicBool::new(false),
            terms: AtomicU64::new(0),
            alignment: RankAlignment::default(),
            deferrals: AtomicU64::new(0),
            deferred: AtomicBool::new(false),
            resident: AtomicU64::new(0),
            resident_at: AtomicU64::new(0),
            resident_before: AtomicU64::new(0),
            ceiling: AtomicU64::new(0),
            left_for_copies: AtomicU64::new(u64::MAX),
            walked_new_at: AtomicU64::new(0),
            room: RoomShares::default(),
            held_up: HeldUp::default(),
            loans,
        }
    }

    /// The acting half of a forked child.
    pub(crate) fn in_child(&self, installed: u64) -> Self {
        let mut actor = Self::new(installed, self.pause_budget, self.snapshots, self.loans.in_child());
        actor.held_up = self.held_up.in_child();
        actor.stood_down.store(self.has_stood_down(), Ordering::Relaxed);
        actor
    }

    /// Puts a policy to work, or none.
    pub(crate) fn direct(&self, director: Option<Director>) {
        let acts = director.is_some();
        self.directed.store(acts, Ordering::Relaxed);
        self.alignment.direct(director.as_ref().is_some_and(Director::may_align));
        self.terms.fetch_add(1, Ordering::Relaxed);
        *lock(&self.director) = director;
        *lock(&self.posted) = None;
        self.due.store(acts, Ordering::Relaxed);
        self.due_young.store(if acts { 0 } else { u32::MAX }, Ordering::Relaxed);
    }

    /// Whether a policy acts.
    pub(crate) fn is_directed(&self) -> bool {
        self.directed.load(Ordering::Relaxed) && !self.has_stood_down()
    }

    /// How the policy stands, where one is at work.
    pub(crate) fn policy_state(&self) -> Option<PolicyState> {
        lock(&self.director).as_ref().map(Director::state)
    }

    /// Whether a thread has the director at this instant, so that another one would wait for it.
    #[cfg(test)]
    pub(super) fn is_being_asked(&self) -> bool {
        self.director.try_lock().is_err()
    }

    /// Whether a thread that has come to a gap, with so many young objects, should use it.
    pub(crate) fn is_due(&self, young: u32) -> bool {
        self.due.load(Ordering::Relaxed) || young >= self.due_young.load(Ordering::Relaxed)
    }

    /// When a moment was last used.
    pub(crate) fn last_moment(&self) -> u64 {
        self.last_moment.load(Ordering::Relaxed)
    }

    /// Whether something waits for a thread of the program to come by.
    pub(crate) fn waits(&self) -> bool {
        self.due.load(Ordering::Relaxed) && !self.has_stood_down()
    }

    /// Whether the look of the sampler has left an order.
    pub(crate) fn has_posted(&self) -> bool {
        try_lock(&self.posted).is_some_and(|posted| posted.is_some())
    }

    /// Who ordered the collection that the calling thread is in, and the order's number.
    pub(crate) fn ordered(&self, vm: &impl Vm) -> (Ordered, u64) {
        match *lock(&self.running) {
            Some(Running { order, thread }) if thread == vm.thread() => match order.decision {
                Decision::Reap { .. } => (Ordered::InSlice, order.id),
                _ => (ordered(order), order.id),
            },
            _ => (Ordered::ByOthers, 0),
        }
    }

    /// A collection begins.
    pub(crate) fn collection_begins(&self, vm: &impl Vm) {
        if !self.directed.load(Ordering::Relaxed) {
            return;
        }
        self.resident_before.store(self.resident(vm, RESIDENT_NS), Ordering::Relaxed);
    }

    /// A collection has ended, and its callback asks what is to be done next.
    pub(crate) fn collection_ended(&self, vm: &impl Vm, hooks: &Hooks, ended: EndedCollection) {
        if !self.directed.load(Ordering::Relaxed) || self.ordered(vm).0 == Ordered::InSlice {
            // A part of a slice, which is noted as a whole.
            return;
        }
        self.count_shared(hooks, self.ordered(vm).0);
        let is_full = ended.generation >= 2;
        if is_full {
            self.deferred.store(false, Ordering::Relaxed);
        }
        let now = vm.now();
        // What is freed in large blocks goes back to the kernel at once.
        let fresh = if is_full || ended.freed > 0 { RESIDENT_NS / 10 } else { RESIDENT_NS };
        let collected = Collected {
            at: self.since_install(now),
            generation: [Generation::Young, Generation::Middle, Generation::Full][usize::from(ended.generation.min(2))],
            pause: Duration::from_nanos(now.saturating_sub(ended.began)),
            gathered: ended.gathered,
            freed: u64::from(ended.freed),
            rss: Bytes::new(self.resident(vm, fresh)),
            objects: is_full.then(|| vm.tenured()),
        };
        let before = Bytes::new(self.resident_before.load(Ordering::Relaxed)).max(collected.rss);
        let _ = self.notes.push(Note::Collected { collected, before });
        self.moment(vm, hooks, Moment::CollectionEnd);
    }

    /// Asks what is to be done at this moment, and does it. True where that was something.
    pub(crate) fn moment(&self, vm: &impl Vm, hooks: &Hooks, moment: Moment) -> bool {
        let in_callback = moment == Moment::CollectionEnd;
        let _shared = self.alignment.at(moment);
        let done = self.act(vm, hooks, moment, in_callback);
        if matches!(done, Decision::Young | Decision::Middle) {
            // The pacer goes by the ends of collections, whichever thread has ordered them.
            self.act(vm, hooks, Moment::CollectionEnd, in_callback);
        }
        done != Decision::Wait
    }

    /// Asks once, and does what is ordered.
    fn act(&self, vm: &impl Vm, hooks: &Hooks, moment: Moment, in_callback: bool) -> Decision {
        if self.has_stood_down() || self.is_running() || !self.may_act_at(moment) || !vm.is_enabled() {
            return Decision::Wait;
        }
        if in_callback != vm.is_collecting() {
            // Another thread collects, and its finalizers have let this one in; or the program has called our callback itself.
            return Decision::Wait;
        }
        let Some(order) = self.ask(vm, hooks, moment) else { return Decision::Wait };
        self.last_moment.store(vm.now(), Ordering::Relaxed);
        if order.decision != Decision::Wait {
            self.carry_out(vm, hooks, order, in_callback);
        }
        order.decision
    }

    /// The sampler has looked at the program: what the policy wants waits for a thread of the program.
    pub(crate) fn look(&self, situation: &Situation) {
        let is_busy = matches!(situation.snapshot, Some((SnapshotProgress::Busy, _)));
        if self.has_stood_down() || self.is_running() || self.keeps_to_collections() || is_busy {
            return;
        }
        let mut director = lock(&self.director);
        let Some(director) = director.as_mut() else { return };
        director.take_in(&self.notes);
        let advice = director.ask(situation);
        if advice.order.decision != Decision::Wait {
            *lock(&self.posted) = Some(advice.order);
            self.due.store(true, Ordering::Relaxed);
        }
        self.note(&advice);
    }

    /// What is to be done now; nothing where no policy is at work, or where the sampler has the director or the snapshot at this
    /// instant: then the next moment asks again.
    fn ask(&self, vm: &impl Vm, hooks: &Hooks, moment: Moment) -> Option<Order> {
        self.wait_for_director(vm, moment);
        let snapshot = if self.snapshots { Some(seen_snapshot(vm)?) } else { None };
        let situation = Situation {
            now: self.since_install(vm.now()),
            moment,
            idle: (moment == Moment::Gap).then_some(Duration::ZERO),
            in_flight: hooks.in_flight(),
            requests: hooks.ended(),
            counts: vm.counts(),
            promoted: vm.pending(),
            rss: Bytes::new(self.resident(vm, RESIDENT_NS)),
            ceiling: self.ceiling().map(Bytes::new),
            left_for_copies: self.left_for_copies().map(Bytes::new),
            paused: self.is_quiet(),
            deferred: self.is_deferred(),
            snapshot,
            ranks: hooks.training.ranks(),
        };
        // Nothing that may run Python code, and so a finalizer, may be called with the director in hand.
        let advice = {
            let mut director = try_lock(&self.director)?;
            let director = director.as_mut()?;
            director.take_in(&self.notes);
            director.ask(&situation)
        };
        if advice.failed {
            vm.forget_failure();
        }
        self.note(&advice);
        if let Some(thresholds) = advice.thresholds {
            self.tune(vm, thresholds);
        }
        self.alignment.is_on(advice.aligned);
        self.due_young.store(advice.due.young, Ordering::Relaxed);
        let takes = advice.order.decision == Decision::Wait && moment != Moment::CollectionEnd;
        let posted = if takes { try_lock(&self.posted).and_then(|mut posted| posted.take()) } else { None };
        // What a look has ordered waits on where this thread has something else to do.
        self.due.store(advice.due.now || self.has_posted(), Ordering::Relaxed);
        Some(posted.unwrap_or(advice.order))
    }

    fn note(&self, advice: &Advice) {
        if let Some(trouble) = &advice.trouble {
            let _ = self.troubles.push(trouble.clone());
        }
        if let Some(latest) = advice.landed {
            let _ = self.landings.push(latest);
            self.room.landed(latest.scope, latest.own_bytes, self.resident.load(Ordering::Relaxed));
        }
    }

    fn tune(&self, vm: &impl Vm, wanted: Thresholds) {
        let set = self.loans.set_thresholds(vm, wanted);
        if let Err(reason) = set {
            let _ = self.troubles.push(format!("the collector's thresholds could not be set: {reason}"));
        }
    }

    /// Carries an order out in the calling thread. In the callback of a collection CPython's flag still says that the
    /// collection runs, although its lists are in order and nothing of it is left to do: it is lowered meanwhile.
    fn carry_out(&self, vm: &impl Vm, hooks: &Hooks, order: Order, in_callback: bool) {
        let terms = self.terms.load(Ordering::Relaxed);
        let (began, used) = (vm.now(), vm.processor_time());
        let _running = self.begin(vm, order);
        let lowers = in_callback && !matches!(order.decision, Decision::Throttle { .. });
        let _lowered = lowers.then(|| Lowered::new(vm));
        let done = match order.decision {
            Decision::Wait | Decision::Trim => Ok(()),
            Decision::Young => vm.collect(0).map(drop),
            Decision::Middle => vm.collect(1).map(drop),
            Decision::Full => vm.collect(2).map(drop),
            Decision::Freeze => vm.collect(2).and_then(|_| {
                // Finalizers may have let in a thread that has repaid all loans.
                if self.terms.load(Ordering::Relaxed) == terms { self.loans.freeze(vm) } else { Ok(()) }
            }),
            Decision::Snapshot { scope } => {
                let polite = !order.at_once;
                // Where that is refused the next question sees it.
                let _ = self.launch(vm, hooks, Sortie { scope, polite });
                Ok(())
            }
            Decision::Reap { budget } => {
                self.reap(vm, hooks, budget, budget > self.pause_budget, ordered(order));
                Ok(())
            }
            Decision::Throttle { pause } => {
                vm.let_others_run(pause);
                Ok(())
            }
        };
        if let Err(reason) = done {
            let _ = self.troubles.push(format!("a collection could not be carried out: {reason}"));
        }
        let pause = Duration::from_nanos(vm.now().saturating_sub(began));
        self.note_length(vm, order, pause, used);
        let _ = self.notes.push(Note::Stopped { decision: order.decision, pause });
    }

    /// Launches a snapshot, if memory has room for the copies that the program makes meanwhile, and gives the number of its flight.
    pub(crate) fn launch(&self, vm: &impl Vm, hooks: &Hooks, sortie: Sortie) -> Result<u64, SnapshotFailure> {
        // Where no policy acts, the program is not held up.
        let share = self.room.for_one_of(sortie.scope);
        let share = if self.is_directed() { share } else { share.max(room::NOT_HELD_UP) };
        if !vm.has_room(self.resident(vm, RESIDENT_NS), share) {
            vm.refuse(&SnapshotFailure::ShortOfMemory);
            return Err(SnapshotFailure::ShortOfMemory);
        }
        self.note_left_for_copies(None);
        let began = vm.now();
        let Launched { flight, scope, young } = vm.launch(sortie)?;
        self.due.store(true, Ordering::Relaxed);
        if scope == Scope::New {
            self.walked_new_at.store(vm.now(), Ordering::Relaxed);
        }
        let at = self.since_install(vm.now());
        let _ = self.notes.push(Note::Launched { at, scope, young });
        let (by, id) =
            lock(&self.running).map_or((Ordered::ByOthers, 0), |running| (ordered(running.order), running.order.id));
        hooks.stopped(StopKind::Clone, began, by, id, 0, 0);
        self.count_shared(hooks, by);
        Ok(flight)
    }

    /// Whether walks of new objects follow each other closely: then the next walk of any kind is not far.
    pub(crate) fn walks_often(&self, now: u64) -> bool {
        let last = self.walked_new_at.load(Ordering::Relaxed);
        self.is_directed() && last > 0 && now.saturating_sub(last) < OFTEN_NS
    }

    /// Has the next walk look at everything, so that it takes a census.
    pub(crate) fn want_census(&self) {
        let _ = self.notes.push(Note::CensusWanted);
    }

    /// Has the status report tell of something that went wrong.
    pub(crate) fn complain(&self, trouble: String) {
        let _ = self.troubles.push(trouble);
    }

    /// Sends out a count or a dump, if memory has room for the copies that the program makes meanwhile.
    pub(crate) fn launch_heap(&self, vm: &impl Vm, hooks: &Hooks, errand: HeapErrand) -> Result<u64, SnapshotFailure> {
        let share = self.room.for_one_of(Scope::All).max(room::NOT_HELD_UP);
        if !errand.is_urgent() && !vm.has_room(self.resident(vm, RESIDENT_NS), share) {
            return Err(SnapshotFailure::ShortOfMemory);
        }
        let began = vm.now();
        let flight = vm.launch_heap(errand)?;
        if self.is_directed() {
            // A young collection beside the clone would write to each of them, and the program would copy a page for each.
            let _ = self.notes.push(Note::MadeOld { young: vm.make_all_old() });
        }
        hooks.stopped(StopKind::Clone, began, Ordered::ByOthers, 0, 0, 0);
        self.count_shared(hooks, Ordered::InGap);
        Ok(flight)
    }

    /// Frees a slice of what a snapshot found; nothing where there is none to be freed now.
    pub(crate) fn reap(
        &self,
        vm: &impl Vm,
        hooks: &Hooks,
        budget: Duration,
        whole: bool,
        by: Ordered,
    ) -> Option<Reaped> {
        let began = vm.now();
        let reaped = vm.reap(budget, whole)?;
        if reaped.moved + reaped.dropped > 0 || reaped.left == 0 {
            let id = lock(&self.running).map_or(0, |running| running.order.id);
            hooks.stopped(StopKind::Reap, began, by, id, u32::try_from(reaped.freed).unwrap_or(u32::MAX), 0);
            self.count_shared(hooks, by);
            let now = vm.now();
            let note = Note::Reaped {
                at: self.since_install(now),
                freed: reaped.freed as u64,
                left: reaped.left as u64,
                pause: Duration::from_nanos(now.saturating_sub(began)),
                resident: Bytes::new(self.resident(vm, RESIDENT_NS)),
            };
            let _ = self.notes.push(note);
            if reaped.left == 0 {
                self.deferred.store(false, Ordering::Relaxed);
            }
        }
        Some(reaped)
    }

    /// Whether an order is being carried out.
    pub(crate) fn is_running(&self) -> bool {
        self.acting.load(Ordering::Relaxed)
    }

    /// The length of a slice for callers who wait for all of it.
    pub(crate) fn slice(&self) -> Duration {
        4 * self.pause_budget
    }

    /// Resident memory, read anew when the last reading is older than this.
    fn resident(&self, vm: &impl Vm, age_ns: u64) -> u64 {
        let now = vm.now();
        if now.saturating_sub(self.resident_at.load(Ordering::Relaxed)) >= age_ns
            && let Some(resident) = vm.resident()
        {
            self.resident.store(resident, Ordering::Relaxed);
            self.resident_at.store(now, Ordering::Relaxed);
        }
        self.resident.load(Ordering::Relaxed)
    }

    /// Resident memory at the last reading.
    pub(crate) fn resident_seen(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    pub(crate) fn left_for_copies(&self) -> Option<u64> {
        Some(self.left_for_copies.load(Ordering::Relaxed)).filter(|left| *left < u64::MAX)
    }

    /// The sampler has seen that so much memory is left while a snapshot is out.
    pub(crate) fn note_left_for_copies(&self, left: Option<u64>) {
        self.left_for_copies.store(left.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn ceiling(&self) -> Option<u64> {
        Some(self.ceiling.load(Ordering::Relaxed)).filter(|ceiling| *ceiling > 0)
    }

    pub(crate) fn since_install(&self, at: u64) -> Duration {
        Duration::from_nanos(at.saturating_sub(self.installed))
    }

    /// Whether the program has taken the collector into its own hands.
    pub(crate) fn has_stood_down(&self) -> bool {
        self.stood_down.load(Ordering::Relaxed)
    }

    /// From now on the program is left alone.
    pub(crate) fn stand_down(&self) {
        self.stood_down.store(true, Ordering::Relaxed);
        self.terms.fetch_add(1, Ordering::Relaxed);
        self.due.store(false, Ordering::Relaxed);
        self.due_young.store(u32::MAX, Ordering::Relaxed);
    }
}

/// Who gave an order.
fn ordered(order: Order) -> Ordered {
    match order {
        Order { forced: true, .. } => Ordered::ByGuard,
        Order { at_once: true, .. } => Ordered::Anywhere,
        _ => Ordered::InGap,
    }
}

/// How the snapshot stands, and the latest flight; nothing where another thread has them at this instant.
fn seen_snapshot(vm: &impl Vm) -> Option<(SnapshotProgress, Latest)> {
    let progress = vm.look();
    if progress == SnapshotProgress::Busy { None } else { Some((progress, vm.latest()?)) }
}

/// What a snapshot that was asked for looks at.
pub(crate) const ASKED: Sortie = Sortie { scope: Scope::All, polite: true };

mod alignment;
mod held_up;
mod running;
#[cfg(test)]
mod tests;
mod wishes;
