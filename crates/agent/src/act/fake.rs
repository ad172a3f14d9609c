//! A fake interpreter for tests of the acting half: CPython's collector in numbers, with virtual time. What its threads
//! and finalizers do is up to the test; it checks at every call that CPython's own rules are kept.

mod snapshots;

use std::sync::Mutex;
use std::time::Duration;

use neurogc_policy::Thresholds;
use neurogc_wire::gpu::GpuReport;

pub(super) use self::snapshots::{FakeFlight, FakeSnapshots};
use super::actor::Actor;
use super::loans::Loans;
use super::remote::Remote;
use super::vm::Vm;
use crate::cpython::gather::GatheredArenas;
use crate::sense::hooks::Hooks;
use crate::snapshot::{HeapErrand, HeapReport, Latest, Launched, Reaped, SnapshotFailure, SnapshotProgress, Sortie};
use crate::sys::locks::lock;

/// Calls that a thread may make before it lets go of the GIL. A loop that waits with the GIL held makes more.
const MOST_CALLS: u32 = 300;

/// What an object weighs, in bytes, and what a collection takes for each, in nanoseconds.
const WEIGHT: u64 = 200;
const COST: u64 = 50;

/// Random numbers of a seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True once in so many times.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Objects of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FakeObjects {
    pub(super) live: u64,
    pub(super) garbage: u64,
}

impl FakeObjects {
    fn add(&mut self, more: Self) {
        self.live += more.live;
        self.garbage += more.garbage;
    }

    fn all(self) -> u64 {
        self.live + self.garbage
    }
}

/// CPython's `_gc_runtime_state`, and the clock.
#[derive(Clone, Debug)]
pub(super) struct FakeCollector {
    pub(super) now: u64,
    /// The part of it that finalizers have waited for something.
    pub(super) waited: u64,
    pub(super) enabled: bool,
    pub(super) collecting: bool,
    pub(super) counts: [i64; 3],
    pub(super) generations: [FakeObjects; 3],
    pub(super) frozen: FakeObjects,
    pub(super) thresholds: Thresholds,
    /// How often objects were frozen or thawed, which moves the ends of their list.
    pub(super) frozen_changes: u64,
    total: u64,
    pub(super) pending: u64,
    /// Young objects that were set aside for a slice, by which thread, and the counts with them.
    aside: Option<(usize, FakeObjects, [i64; 2])>,
    /// The collections that run, innermost last: their threads, and whether they are in the callback that tells of their
    /// end.
    running: Vec<(usize, bool)>,
    /// Calls since a thread has last let go of the GIL.
    calls: u32,
    /// Collections that have begun, and those of them that were of everything.
    pub(super) collections: u64,
    pub(super) full_collections: u64,
    pub(super) has_room: bool,
    /// How long it takes to put pages together, and until when that lasts.
    pub(super) gather_ns: u64,
    gathered_at: u64,
    /// Memory beside objects.
    pub(super) ballast: u64,
}

impl FakeCollector {
    pub(super) fn new(live: u64, thresholds: Thresholds) -> Self {
        Self {
            now: 5_000_000_000,
            waited: 0,
            enabled: true,
            collecting: false,
            counts: [0; 3],
            generations: [FakeObjects::default(), FakeObjects::default(), FakeObjects { live, garbage: 0 }],
            frozen: FakeObjects::default(),
            thresholds,
            frozen_changes: 0,
            total: live,
            pending: 0,
            aside: None,
            running: Vec::new(),
            calls: 0,
            collections: 0,
            full_collections: 0,
            has_room: true,
            gather_ns: 0,
            gathered_at: 0,
            ballast: 20 << 20,
        }
    }

    /// Garbage that a full collection would find.
    pub(super) fn garbage(&self) -> u64 {
        self.generations.iter().map(|objects| objects.garbage).sum()
    }

    /// Whether a thread is in a collection.
    pub(super) fn is_in_collection(&self, thread: usize) -> bool {
        self.running.iter().any(|(other, _)| *other == thread)
    }

    /// Some objects of the program die as parts of cycles.
    pub(super) fn die(&mut self, most: u64) {
        for objects in &mut self.generations {
            let dead = most.min(objects.live / 2);
            objects.live -= dead;
            objects.garbage += dead;
        }
    }

    /// In a forked child only the forking thread goes on.
    pub(super) fn in_child(&self, thread: usize) -> Self {
        let mut child = self.clone();
        child.running.retain(|(other, _)| *other == thread);
        child
    }

    /// What `SnapshotRunner::leave_to_parent` does to the lists of a forked child.
    pub(super) fn bring_back_in_child(&mut self, thread: usize) {
        if let Some((by, objects, _)) = self.aside
            && by != thread
        {
            self.aside = None;
            self.generations[0].add(objects);
        }
    }

    fn young_objects_all_become_old(&mut self) -> u32 {
        let young = self.counts[0].max(0);
        for generation in [1, 0] {
            let objects = std::mem::take(&mut self.generations[generation]);
            self.generations[2].add(objects);
        }
        self.pending += young as u64;
        (self.counts[0], self.counts[1]) = (0, 0);
        young as u32
    }

    fn resident(&self) -> u64 {
        let objects: u64 = self.generations.iter().map(|objects| objects.all()).sum();
        let aside = self.aside.map_or(0, |(_, objects, _)| objects.all());
        self.ballast + WEIGHT * (objects + aside + self.frozen.all())
    }
}

/// What a test has happen around the interpreter.
pub(super) trait TestSurroundings {
    /// The callbacks of `gc` are told that a collection begins.
    fn collection_begins(&self, _: usize) {}

    /// They are told that it has ended.
    fn collection_ended(&self, _: usize, _generation: u8, _freed: u64) {}

    /// Finalizers of unreachable objects run in a thread; gives how many objects they bring back to life.
    fn finalizers(&self, _: usize, _unreachable: u64) -> u64 {
        0
    }

    /// A thread has let go of the GIL for so long.
    fn others_run(&self, interpreter: &Mutex<FakeCollector>, _: usize, pause: Duration) {
        lock(interpreter).now += pause.as_nanos() as u64;
    }

    /// Whether the next collection that is asked for comes to an exception instead.
    fn interrupts(&self) -> bool {
        false
    }

    /// Whether a thread of the agent has the snapshots at this instant.
    fn holds_snapshots(&self) -> bool {
        false
    }

    /// A thread of the agent runs, beside the one that holds the GIL.
    fn beside(&self) {}
}

/// A test in which nothing happens around.
pub(super) struct Alone;

impl TestSurroundings for Alone {}

/// An interpreter with the parts of an agent, for tests in which nothing else happens.
pub(super) struct Rig {
    pub(super) interpreter: Mutex<FakeCollector>,
    pub(super) snapshots: FakeSnapshots,
    pub(super) hooks: Hooks,
    pub(super) actor: Actor,
    pub(super) remote: Remote,
}

impl Rig {
    /// With so many live objects.
    pub(super) fn new(live: u64) -> Self {
        Self {
            interpreter: Mutex::new(FakeCollector::new(live, [700, 10, 10])),
            snapshots: FakeSnapshots::default(),
            hooks: Hooks::default(),
            actor: Actor::new(0, Duration::from_millis(1), true, Loans::default()),
            remote: Remote::default(),
        }
    }

    /// With garbage among the old objects.
    pub(super) fn with_garbage(garbage: u64) -> Self {
        let rig = Self::new(100_000);
        lock(&rig.interpreter).generations[2].garbage = garbage;
        rig
    }

    /// The interpreter for a thread.
    pub(super) fn vm(&self, thread: usize) -> Fake<'_> {
        Fake { interpreter: &self.interpreter, snapshots: &self.snapshots, around: &Alone, thread }
    }

    /// Time passes.
    pub(super) fn pass(&self, time: Duration) {
        lock(&self.interpreter).now += time.as_nanos() as u64;
    }

    pub(super) fn now(&self) -> u64 {
        lock(&self.interpreter).now
    }

    /// What a full collection would find.
    pub(super) fn garbage(&self) -> u64 {
        lock(&self.interpreter).garbage()
    }
}

/// The fake interpreter for one of its threads.
pub(super) struct Fake<'a> {
    pub(super) interpreter: &'a Mutex<FakeCollector>,
    pub(super) snapshots: &'a FakeSnapshots,
    pub(super) around: &'a dyn TestSurroundings,
    pub(super) thread: usize,
}

impl Fake<'_> {
    fn collector<T>(&self, body: impl FnOnce(&mut FakeCollector) -> T) -> T {
        body(&mut lock(self.interpreter))
    }

    /// A call of the acting half.
    fn call<T>(&self, body: impl FnOnce(&mut FakeCollector) -> T) -> T {
        self.around.beside();
        self.collector(|collector| {
            collector.calls += 1;
            assert!(collector.calls < MOST_CALLS, "thread {} repeats calls with the GIL held", self.thread);
            body(collector)
        })
    }

    /// Nothing where a thread of the agent has the snapshots.
    fn snapshots(&self) -> Option<()> {
        (!self.around.holds_snapshots()).then_some(())
    }

    /// The thread has let go of the GIL and has it again.
    pub(super) fn has_let_go(&self) {
        self.collector(|collector| collector.calls = 0);
    }

    /// Allocates objects, of which some are garbage at once; CPython collects where a threshold is exceeded.
    pub(super) fn allocate(&self, live: u64, garbage: u64) {
        let due = self.collector(|collector| {
            collector.now += 100 + (live + garbage) / 10;
            collector.generations[0].add(FakeObjects { live, garbage });
            collector.counts[0] += (live + garbage) as i64;
            let over = |generation: usize| collector.counts[generation] > i64::from(collector.thresholds[generation]);
            let begins = collector.enabled && !collector.collecting && collector.thresholds[0] > 0 && over(0);
            let quarter = collector.pending >= collector.total / 4;
            begins.then(|| [2, 1, 0].into_iter().find(|&it| over(it) && (it < 2 || quarter))).flatten()
        });
        if let Some(generation) = due {
            self.collect_with_callbacks(generation as u8);
        }
    }

    /// `gc.collect()` as CPython made it.
    pub(super) fn gc_collect(&self, generation: u8) -> u64 {
        if self.collector(|collector| collector.collecting) { 0 } else { self.collect_with_callbacks(generation) }
    }

    fn collect_with_callbacks(&self, generation: u8) -> u64 {
        self.collector(|collector| {
            let others = collector.running.iter().all(|(thread, ends)| *thread == self.thread && *ends);
            assert!(!collector.collecting && others, "a collection begins inside of another: {:?}", collector.running);
            collector.collecting = true;
            collector.collections += 1;
            collector.full_collections += u64::from(generation >= 2);
            collector.running.push((self.thread, false));
        });
        self.around.collection_begins(self.thread);
        self.check(false);
        let freed = self.collect_main(usize::from(generation.min(2)));
        self.collector(|collector| {
            if let Some(running) = collector.running.last_mut() {
                running.1 = true;
            }
        });
        self.around.collection_ended(self.thread, generation, freed);
        self.check(true);
        self.collector(|collector| {
            collector.running.pop();
            collector.collecting = false;
        });
        freed
    }

    /// CPython's view of its own state while a collection runs.
    fn check(&self, ends: bool) {
        self.collector(|collector| {
            assert!(collector.collecting, "the flag was lowered behind CPython's back");
            assert_eq!(collector.running.last(), Some(&(self.thread, ends)), "{:?}", collector.running);
            assert!(collector.counts.iter().all(|count| *count >= 0), "{:?}", collector.counts);
        });
    }

    fn collect_main(&self, generation: usize) -> u64 {
        let (older, unreachable) = self.collector(|collector| {
            if generation < 2 {
                collector.counts[generation + 1] += 1;
            }
            let mut objects = FakeObjects::default();
            for younger in 0..=generation {
                collector.counts[younger] = 0;
                objects.add(std::mem::take(&mut collector.generations[younger]));
            }
            let older = (generation + 1).min(2);
            collector.generations[older].live += objects.live;
            match generation {
                1 => collector.pending += objects.live,
                2 => (collector.total, collector.pending) = (objects.live, 0),
                _ => {}
            }
            collector.now += 1_000 + COST * objects.all();
            (older, objects.garbage)
        });
        let alive = if unreachable > 0 { self.around.finalizers(self.thread, unreachable).min(unreachable) } else { 0 };
        self.check(false);
        self.collector(|collector| collector.generations[older].live += alive);
        unreachable - alive
    }
}

impl Vm for Fake<'_> {
    fn now(&self) -> u64 {
        self.call(|collector| collector.now)
    }

    fn processor_time(&self) -> u64 {
        self.call(|collector| collector.now - collector.waited)
    }

    fn thread(&self) -> usize {
        self.thread
    }

    fn is_enabled(&self) -> bool {
        self.call(|collector| collector.enabled)
    }

    fn is_collecting(&self) -> bool {
        self.call(|collector| collector.collecting)
    }

    fn set_collecting(&self, collecting: bool) {
        self.call(|collector| {
            let in_own_callback = collector.running.last() == Some(&(self.thread, true));
            // In a forked child the collection is that of a thread that does not exist.
            let is_lost = collector.running.is_empty() && !collecting;
            assert!(in_own_callback || is_lost, "the flag is not ours to change: {:?}", collector.running);
            assert_ne!(collector.collecting, collecting);
            collector.collecting = collecting;
        });
    }

    fn counts(&self) -> [u32; 3] {
        self.call(|collector| collector.counts.map(|count| count as u32))
    }

    fn tenured(&self) -> u64 {
        self.call(|collector| collector.total)
    }

    fn pending(&self) -> u64 {
        self.call(|collector| collector.pending)
    }

    fn tracked_estimate(&self) -> u64 {
        self.call(|collector| collector.total + collector.pending + collector.counts[0] as u64)
    }

    fn collect(&self, generation: u8) -> Result<u64, String> {
        self.call(|_| ());
        if self.around.interrupts() { Err("interrupted".to_owned()) } else { Ok(self.gc_collect(generation)) }
    }

    fn freeze(&self) -> Result<(), String> {
        self.call(|collector| {
            for generation in 0..3 {
                let objects = std::mem::take(&mut collector.generations[generation]);
                collector.frozen.add(objects);
            }
            collector.counts = [0; 3];
            collector.frozen_changes += 1;
        });
        Ok(())
    }

    fn unfreeze(&self) -> Result<(), String> {
        self.call(|collector| {
            let objects = std::mem::take(&mut collector.frozen);
            collector.generations[2].add(objects);
            collector.frozen_changes += 1;
        });
        Ok(())
    }

    fn frozen(&self) -> u64 {
        self.call(|collector| collector.frozen.all())
    }

    fn thresholds(&self) -> Result<Thresholds, String> {
        Ok(self.call(|collector| collector.thresholds))
    }

    fn set_thresholds(&self, thresholds: Thresholds) -> Result<(), String> {
        self.call(|collector| collector.thresholds = thresholds);
        Ok(())
    }

    fn launch(&self, sortie: Sortie) -> Result<Launched, SnapshotFailure> {
        self.snapshots().ok_or(SnapshotFailure::UnderWay)?;
        self.call(|collector| self.snapshots.launch(collector, sortie))
    }

    fn launch_heap(&self, _: HeapErrand) -> Result<u64, SnapshotFailure> {
        self.snapshots().ok_or(SnapshotFailure::UnderWay)?;
        self.call(|collector| self.snapshots.launch_heap(collector))
    }

    fn make_all_old(&self) -> u32 {
        self.call(|collector| collector.young_objects_all_become_old())
    }

    fn heap_told(&self, number: u64) -> Option<Result<HeapReport, SnapshotFailure>> {
        self.snapshots()?;
        self.call(|_| self.snapshots.heap_told(number))
    }

    fn gather(&self) -> u64 {
        self.call(|collector| collector.gathered_at = collector.now + collector.gather_ns);
        1
    }

    fn gathered(&self, number: u64) -> Option<GatheredArenas> {
        let pages = self.call(|collector| (collector.now >= collector.gathered_at).then_some(number))?;
        Some(GatheredArenas { pages, ..GatheredArenas::default() })
    }

    fn look(&self) -> SnapshotProgress {
        if self.snapshots().is_none() {
            return SnapshotProgress::Busy;
        }
        self.call(|collector| self.snapshots.look(collector.now))
    }

    fn latest(&self) -> Option<Latest> {
        self.snapshots()?;
        Some(self.call(|_| self.snapshots.latest()))
    }

    fn forget_failure(&self) {
        self.call(|_| self.snapshots.forget_failure());
    }

    fn refuse(&self, failure: &SnapshotFailure) {
        if self.snapshots().is_some() {
            self.call(|_| self.snapshots.refuse(failure));
        }
    }

    fn reap(&self, budget: Duration, whole: bool) -> Option<Reaped> {
        self.snapshots()?;
        self.call(|_| ());
        self.snapshots.reap(self, budget, whole)
    }

    fn let_others_run(&self, pause: Duration) {
        self.call(|_| ());
        self.around.others_run(self.interpreter, self.thread, pause);
        self.has_let_go();
    }

    fn resident(&self) -> Option<u64> {
        Some(self.call(|collector| collector.resident()))
    }

    fn explain_gpu(&self) -> Result<GpuReport, String> {
        Err("there is no GPU".to_owned())
    }

    fn has_room(&self, _resident: u64, _share: f64) -> bool {
        self.call(|collector| collector.has_room)
    }
}
