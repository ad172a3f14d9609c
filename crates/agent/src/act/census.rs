//! The census of a process that takes no snapshots, whose collections would count: when one is due, and its launch.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use neurogc_policy::SMALL_HEAP;

use super::actor::Actor;
use super::vm::Vm;
use crate::sense::hooks::Hooks;
use crate::snapshot::{HeapErrand, SnapshotFailure, SnapshotProgress};

/// The first one comes after this time at most, so that there is something to compare the second one with.
const FIRST: Duration = Duration::from_secs(60);

/// A census that has waited for this long does not wait for a gap any more.
const OVERDUE_NS: u64 = 1_500_000_000;

/// Where walks of new objects follow each other, the next one takes the census, if it comes within this time.
const WALK_NS: u64 = 10_000_000_000;

/// Due times, and whether a thread of the program shall send one out.
#[derive(Debug)]
pub(crate) struct OwnCensus {
    every_ns: Option<u64>,
    /// When the next one is due, by the monotonic clock.
    due: AtomicU64,
    wanted: AtomicBool,
    /// Since when it has been wanted, and whether a walk of the policy was asked to take it.
    since: AtomicU64,
    asked: AtomicBool,
    out: AtomicBool,
    /// It is worth a clone in a small heap, too.
    hastened: AtomicBool,
}

impl OwnCensus {
    pub(crate) fn new(every: Option<Duration>, installed: u64) -> Self {
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        let first = every.map_or(u64::MAX, |every| installed + nanoseconds(every.min(FIRST)));
        Self {
            every_ns: every.map(nanoseconds),
            due: AtomicU64::new(first),
            wanted: AtomicBool::new(false),
            since: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            out: AtomicBool::new(false),
            hastened: AtomicBool::new(false),
        }
    }

    /// There is a census of this moment: the next one has time.
    pub(crate) fn taken(&self, at: u64) {
        if let Some(every) = self.every_ns {
            self.due.store(at + every, Ordering::Relaxed);
            self.wanted.store(false, Ordering::Relaxed);
        }
    }

    /// Has one come at this moment, or now if that is over, where it would come later: memory grows. True if it is to come
    /// now. One that is switched off stays so.
    pub(crate) fn hasten(&self, now: u64, at: u64) -> bool {
        if self.every_ns.is_none() || self.is_wanted() || self.is_out() || at > now {
            return false;
        }
        self.hastened.store(true, Ordering::Relaxed);
        self.due.fetch_min(now, Ordering::Relaxed);
        true
    }

    /// Asks for one if it is due, in a heap of about so many objects. A small one is not worth a clone.
    pub(crate) fn ask_if_due(&self, now: u64, progress: &SnapshotProgress, objects: impl FnOnce() -> u64) {
        let Some(every) = self.every_ns.filter(|_| now >= self.due.load(Ordering::Relaxed)) else { return };
        // A flight that is out counts itself, or is a dump that a client waits for.
        if is_free(progress) {
            self.due.store(now + every, Ordering::Relaxed);
            let hastened = self.hastened.swap(false, Ordering::Relaxed);
            self.since.store(now, Ordering::Relaxed);
            self.asked.store(false, Ordering::Relaxed);
            self.wanted.store(hastened || objects() >= SMALL_HEAP, Ordering::Relaxed);
        }
    }

    /// When the next one is due.
    pub(crate) fn due(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    /// Whether a thread of the program shall send one out.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether it waits for so long that the end of a collection is a moment for it, too: the main thread may be asleep, and
    /// the others may never have a gap.
    pub(crate) fn is_overdue(&self, now: u64) -> bool {
        self.is_wanted() && now.saturating_sub(self.since.load(Ordering::Relaxed)) >= OVERDUE_NS
    }

    /// Whether one was sent out and has not been seen to end.
    pub(crate) fn is_out(&self) -> bool {
        self.out.load(Ordering::Relaxed)
    }

    /// Notes that no flight is out.
    pub(crate) fn has_ended(&self) {
        self.out.store(false, Ordering::Relaxed);
    }

    /// Whether a walk that the policy will order soon takes it: a clone of its own would have the program copy as many pages again.
    fn is_left_to_a_walk(&self, actor: &Actor, now: u64) -> bool {
        let has_time = now.saturating_sub(self.since.load(Ordering::Relaxed)) < WALK_NS;
        let is_left = has_time && actor.walks_often(now);
        if is_left && !self.asked.swap(true, Ordering::Relaxed) {
            actor.want_census();
        }
        is_left
    }

    /// Sends it out from the calling thread, which is one of the program's. True if it did. Where that is refused, for
    /// instance because memory is short, the next one comes in its time.
    pub(crate) fn step(&self, actor: &Actor, vm: &impl Vm, hooks: &Hooks) -> bool {
        if !self.is_wanted() || actor.is_quiet() || actor.is_running() || vm.is_collecting() {
            return false;
        }
        if self.is_left_to_a_walk(actor, vm.now()) {
            return false;
        }
        let progress = vm.look();
        if progress == SnapshotProgress::Busy {
            return false;
        }
        let launched = is_free(&progress).then(|| actor.launch_heap(vm, hooks, HeapErrand::Census));
        // One that another thread is in the way of at this instant is tried again.
        self.wanted.store(matches!(launched, Some(Err(SnapshotFailure::UnderWay))), Ordering::Relaxed);
        let sent = launched.is_some_and(|launched| launched.is_ok());
        self.out.fetch_or(sent, Ordering::Relaxed);
        sent
    }
}

/// Whether no other flight is out and nothing that one has found is left.
fn is_free(progress: &SnapshotProgress) -> bool {
    matches!(progress, SnapshotProgress::Idle | SnapshotProgress::Failed(_))
}

#[cfg(test)]
mod tests {
    use super::super::actor::ASKED;
    use super::super::fake::Rig;
    use super::*;
    use crate::sys::locks::lock;

    const EVERY: Duration = Duration::from_secs(10);

    fn wanted(rig: &Rig) -> OwnCensus {
        let census = OwnCensus::new(Some(EVERY), rig.now());
        rig.pass(EVERY);
        census.ask_if_due(rig.now(), &SnapshotProgress::Idle, || SMALL_HEAP);
        assert!(census.is_wanted());
        census
    }

    #[test]
    fn one_is_due_after_its_time_and_not_again_at_once() {
        let census = OwnCensus::new(Some(EVERY), 0);
        let every = EVERY.as_nanos() as u64;
        let ask = |now: u64, objects: u64| {
            census.ask_if_due(now, &SnapshotProgress::Idle, || objects);
            census.is_wanted()
        };
        assert!(!ask(every - 1, SMALL_HEAP));
        assert!(ask(every, SMALL_HEAP));
        census.taken(every);
        assert!(!ask(2 * every - 1, SMALL_HEAP) && !ask(2 * every, SMALL_HEAP - 1));
        // The heap was too small, which is not looked at all the time either.
        assert!(!ask(3 * every - 1, SMALL_HEAP) && ask(3 * every, SMALL_HEAP));
    }

    #[test]
    fn one_that_is_switched_off_is_never_due() {
        let census = OwnCensus::new(None, 0);
        census.ask_if_due(u64::MAX, &SnapshotProgress::Idle, || u64::MAX);
        assert!(!census.is_wanted() && census.due() == u64::MAX);
    }

    #[test]
    fn it_is_sent_out_once() {
        let rig = Rig::new(100_000);
        let census = wanted(&rig);
        assert!(census.step(&rig.actor, &rig.vm(1), &rig.hooks) && census.is_out());
        assert!(!census.step(&rig.actor, &rig.vm(1), &rig.hooks));
        assert!(matches!(rig.vm(1).look(), SnapshotProgress::InFlight { .. }));
    }

    #[test]
    fn it_stays_out_of_the_way_of_other_flights() {
        let rig = Rig::new(100_000);
        let census = wanted(&rig);
        assert!(rig.actor.launch(&rig.vm(2), &rig.hooks, ASKED).is_ok());
        assert!(!census.step(&rig.actor, &rig.vm(1), &rig.hooks));
        assert!(!census.is_wanted() && !census.is_out());
    }

    #[test]
    fn it_waits_for_collections_and_for_paused_blocks() {
        let rig = Rig::new(100_000);
        let census = wanted(&rig);
        rig.actor.quiet(true);
        assert!(!census.step(&rig.actor, &rig.vm(1), &rig.hooks) && census.is_wanted());
        rig.actor.quiet(false);
        lock(&rig.interpreter).collecting = true;
        assert!(!census.step(&rig.actor, &rig.vm(1), &rig.hooks) && census.is_wanted());
        lock(&rig.interpreter).collecting = false;
        assert!(census.step(&rig.actor, &rig.vm(1), &rig.hooks));
    }

    #[test]
    fn one_that_waits_for_long_is_overdue() {
        let rig = Rig::new(100_000);
        let census = wanted(&rig);
        assert!(!census.is_overdue(rig.now()));
        rig.pass(Duration::from_nanos(OVERDUE_NS));
        assert!(census.is_overdue(rig.now()));
        assert!(census.step(&rig.actor, &rig.vm(1), &rig.hooks) && !census.is_overdue(rig.now()));
    }

    #[test]
    fn without_memory_there_is_none() {
        let rig = Rig::new(100_000);
        let census = wanted(&rig);
        lock(&rig.interpreter).has_room = false;
        assert!(!census.step(&rig.actor, &rig.vm(1), &rig.hooks) && !census.is_wanted() && !census.is_out());
    }
}
