//! A pretended program with a pretended collector, on which every policy is rehearsed.

use std::time::Duration;

use proptest::prelude::*;

use crate::guards::{Guarded, Limits};
use crate::name::Name;
use crate::observation::{Bytes, Collected, Decision, Flown, Generation, Observation, Order, Snapshot};
use crate::policies::{Tuning, policy};

const OBJECT: Bytes = 100;
const TICK: Duration = Duration::from_millis(2);
const MB: Bytes = 1 << 20;

/// A heap with three generations of objects, some of which are garbage in cycles.
#[derive(Debug)]
struct FakeCollector {
    now: Duration,
    live: [u64; 3],
    garbage: [u64; 3],
    counts: [u32; 3],
    tenured: u64,
    pending: u64,
    base: Bytes,
    collections: Vec<(Generation, bool, Duration)>,
    snapshot: Snapshot,
    lands_at: Duration,
    /// Old objects that die in each busy tick.
    dying: u64,
    /// The longest stop by a clone or a slice.
    longest_stop: Duration,
}

impl FakeCollector {
    fn new(live: u64) -> Self {
        Self {
            now: Duration::ZERO,
            live: [0, 0, live],
            garbage: [0; 3],
            counts: [0; 3],
            tenured: live,
            pending: 0,
            base: 50 * MB,
            collections: Vec::new(),
            snapshot: Snapshot::Unavailable,
            lands_at: Duration::ZERO,
            dying: 0,
            longest_stop: Duration::ZERO,
        }
    }

    fn rss(&self) -> Bytes {
        self.base + OBJECT * (self.live.iter().sum::<u64>() + self.garbage.iter().sum::<u64>())
    }

    fn allocate(&mut self, kept: u64, garbage: u64) {
        self.live[0] += kept;
        self.garbage[0] += garbage;
        let dying = self.dying.min(self.live[2]);
        self.live[2] -= dying;
        self.garbage[2] += dying;
        self.counts[0] = self.counts[0].saturating_add((kept + garbage) as u32);
    }

    fn collect(&mut self, generation: Generation) -> Collected {
        let oldest = usize::from(generation.number());
        let gathered = self.counts[0];
        let looked: u64 = (0..=oldest).map(|index| self.live[index] + self.garbage[index]).sum();
        let freed: u64 = (0..=oldest).map(|index| std::mem::take(&mut self.garbage[index])).sum();
        let survivors: u64 = (0..=oldest).map(|index| std::mem::take(&mut self.live[index])).sum();
        let into = (oldest + 1).min(2);
        self.live[into] += survivors;
        (0..=oldest).for_each(|index| self.counts[index] = 0);
        if oldest < 2 {
            self.counts[oldest + 1] += 1;
        }
        match generation {
            Generation::Full => {
                self.tenured = self.live[2];
                self.pending = 0;
            }
            Generation::Middle => self.pending += survivors,
            Generation::Young => {}
        }
        let pause = Duration::from_nanos(100 * looked);
        self.now += pause;
        self.collections.push((generation, false, pause));
        Collected { at: self.now, generation, pause, gathered, freed, rss: self.rss() }
    }

    /// Clones; the walk takes 150 ns an object.
    fn launch(&mut self) {
        let objects = self.live[2] + self.garbage[2];
        self.lands_at = self.now + Duration::from_nanos(150 * objects);
        self.snapshot = Snapshot::InFlight;
        self.stop(Duration::from_millis(3));
    }

    /// The walk is over, if it is.
    fn land(&mut self) -> Option<Flown> {
        if self.snapshot != Snapshot::InFlight || self.now < self.lands_at {
            return None;
        }
        self.snapshot = Snapshot::Ready { objects: self.garbage[2], piece: None };
        Some(Flown {
            at: self.now,
            clone: Duration::from_millis(3),
            flight: Duration::from_nanos(150 * self.tenured),
            copied: Duration::from_millis(10),
            objects: self.live[2],
            found: self.garbage[2],
        })
    }

    /// Frees a slice; says whether that was all.
    fn reap(&mut self, budget: Duration) -> bool {
        let Snapshot::Ready { objects, .. } = self.snapshot else { panic!("nothing to free: {:?}", self.snapshot) };
        let freed = objects.min(budget.as_nanos() as u64 / 500).min(self.garbage[2]);
        self.garbage[2] -= freed;
        self.stop(Duration::from_nanos(500 * freed));
        let left = objects - freed;
        self.snapshot = Snapshot::Ready { objects: left, piece: None };
        if left == 0 {
            self.snapshot = Snapshot::Idle;
            self.tenured = self.live[2];
            self.pending = 0;
        }
        left == 0
    }

    fn stop(&mut self, pause: Duration) {
        self.now += pause;
        self.longest_stop = self.longest_stop.max(pause);
    }

    fn observe(&self, idle: Option<Duration>, in_flight: u64, ceiling: Option<Bytes>, paused: bool) -> Observation {
        Observation {
            now: self.now,
            idle,
            in_flight,
            requests: 0,
            counts: self.counts,
            tenured: self.tenured,
            pending: self.pending,
            rss: self.rss(),
            ceiling,
            paused,
            deferred: false,
            snapshot: self.snapshot,
        }
    }
}

/// One tick of the pretended program.
#[derive(Clone, Copy, Debug)]
struct Tick {
    busy: bool,
    kept: u64,
    garbage: u64,
    paused: bool,
}

#[derive(Debug)]
struct Rehearsal {
    heap: FakeCollector,
    orders: Vec<(Order, Observation)>,
    peak: Bytes,
}

/// Plays a program under a policy, CPython's own trigger included.
fn play(name: Name, live: u64, ceiling: Option<Bytes>, ticks: impl IntoIterator<Item = Tick>) -> Rehearsal {
    play_on(FakeCollector::new(live), name, ceiling, ticks)
}

/// The same, with snapshots.
fn play_with_snapshots(live: u64, ceiling: Option<Bytes>, ticks: impl IntoIterator<Item = Tick>) -> Rehearsal {
    play_on(with_snapshots(live), Name::Gap, ceiling, ticks)
}

fn with_snapshots(live: u64) -> FakeCollector {
    FakeCollector { snapshot: Snapshot::Idle, ..FakeCollector::new(live) }
}

fn play_on(
    mut heap: FakeCollector,
    name: Name,
    ceiling: Option<Bytes>,
    ticks: impl IntoIterator<Item = Tick>,
) -> Rehearsal {
    let mut guarded = Guarded::new(policy(name, Tuning::default()), Limits::default());
    let mut rehearsal_orders = Vec::new();
    let mut idle_since = None;
    let mut peak = 0;
    for tick in ticks {
        heap.now += TICK;
        if let Some(flown) = heap.land() {
            guarded.landed(&flown);
        }
        if tick.busy {
            idle_since = None;
            heap.allocate(tick.kept, tick.garbage);
        } else {
            idle_since.get_or_insert(heap.now);
        }
        let idle = idle_since.map(|since| heap.now.saturating_sub(since));
        let observation = heap.observe(idle, u64::from(tick.busy), ceiling, tick.paused);
        let thresholds = guarded.thresholds(&observation).unwrap_or([2000, 10, 10]);
        if tick.busy && thresholds[0] > 0 && heap.counts[0] > thresholds[0] {
            let generation = if heap.counts[1] > thresholds[1] { Generation::Middle } else { Generation::Young };
            guarded.learn(&heap.collect(generation));
        }
        let observation = heap.observe(idle, u64::from(tick.busy), ceiling, tick.paused);
        let order = guarded.decide(&observation);
        let generation = match order.decision {
            Decision::Wait => None,
            Decision::Young => Some(Generation::Young),
            Decision::Middle => Some(Generation::Middle),
            Decision::Full | Decision::Freeze => Some(Generation::Full),
            Decision::Snapshot => {
                heap.launch();
                rehearsal_orders.push((order, observation));
                None
            }
            Decision::Reap { budget } => {
                if heap.reap(budget) {
                    guarded.drained(heap.rss());
                }
                rehearsal_orders.push((order, observation));
                None
            }
        };
        if let Some(generation) = generation {
            guarded.learn(&heap.collect(generation));
            if let Some(last) = heap.collections.last_mut() {
                last.1 = true;
            }
            rehearsal_orders.push((order, observation));
        }
        peak = peak.max(heap.rss());
    }
    Rehearsal { heap, orders: rehearsal_orders, peak }
}

/// A server at about half load that makes garbage in cycles.
fn server(ticks: usize) -> impl Iterator<Item = Tick> {
    (0..ticks).map(|index| Tick { busy: index % 5 < 2, kept: 2, garbage: 1500, paused: false })
}

#[test]
fn watching_policies_never_act() {
    for name in [Name::Observe, Name::Cpython, Name::Threshold([10_000, 10, 10])] {
        assert!(play(name.clone(), 1_000_000, Some(60 * MB), server(5_000)).orders.is_empty(), "{name}");
    }
}

#[test]
fn gap_collects_young_objects_between_requests() {
    let rehearsal = play(Name::Gap, 300_000, None, server(20_000));
    let young = rehearsal.orders.iter().filter(|(order, _)| order.decision == Decision::Young).count();
    let automatic = rehearsal.heap.collections.iter().filter(|(_, ours, _)| !ours).count();
    assert!(young > 1_000 && automatic < young / 20, "{young} in gaps, {automatic} by CPython");
    assert!(rehearsal.orders.iter().all(|(_, observation)| observation.is_gap()));
}

#[test]
fn gap_settles_once_and_then_leaves_the_old_heap_alone() {
    let calm = (0..2_000).map(|index| Tick { busy: index % 500 < 2, kept: 1, garbage: 10, paused: false });
    let rehearsal = play(Name::Gap, 2_000_000, None, calm.chain(server(20_000)));
    let full = rehearsal.orders.iter().filter(|(order, _)| order.decision == Decision::Full).count();
    assert_eq!(full, 1, "{:?}", rehearsal.orders.last());
}

#[test]
fn gap_keeps_young_pauses_within_the_budget() {
    let rehearsal = play(Name::Gap, 300_000, None, server(20_000));
    let longest =
        rehearsal.heap.collections.iter().skip(50).filter(|(generation, ..)| *generation == Generation::Young);
    let longest = longest.map(|(_, _, pause)| *pause).max();
    assert!(longest.is_some_and(|pause| pause <= Tuning::default().pause_budget * 3 / 2), "{longest:?}");
}

#[test]
fn gap_keeps_pauses_short_where_everything_survives() {
    let keeps = (0..20_000).map(|index| Tick { busy: index % 5 < 2, kept: 1_000, garbage: 0, paused: false });
    let rehearsal = play_with_snapshots(600_000, None, keeps);
    let of = |wanted| rehearsal.heap.collections.iter().skip(50).filter(move |(generation, ..)| *generation == wanted);
    assert!(of(Generation::Middle).count() > 10);
    let longest = of(Generation::Middle).map(|(_, _, pause)| *pause).max();
    assert!(longest.is_some_and(|pause| pause <= Tuning::default().pause_budget * 3), "{longest:?}");
}

#[test]
fn a_program_without_garbage_is_collected_ever_more_rarely() {
    let ticks =
        |ticks: usize| (0..ticks).map(|index| Tick { busy: index % 5 < 2, kept: 100, garbage: 0, paused: false });
    let rehearsal = play(Name::Gap, 0, None, ticks(10_000));
    let allocated = 100 * 10_000 * 2 / 5;
    let looked: usize = rehearsal.orders.iter().map(|(_, observation)| observation.counts[0] as usize).sum();
    assert!(rehearsal.orders.len() < allocated / 4_000, "{} collections, {looked} objects", rehearsal.orders.len());
}

/// A server whose sessions die old: what survives becomes garbage in the tenured heap.
fn sessions(ticks: usize) -> impl Iterator<Item = Tick> {
    (0..ticks).map(|index| Tick { busy: index % 5 < 2, kept: 60, garbage: 200, paused: false })
}

#[test]
fn a_large_heap_is_collected_from_snapshots_and_never_stopped_for_long() {
    let heap = FakeCollector { snapshot: Snapshot::Idle, dying: 60, ..FakeCollector::new(1_000_000) };
    let rehearsal = play_on(heap, Name::Gap, None, sessions(60_000));
    let count =
        |wanted: fn(&Decision) -> bool| rehearsal.orders.iter().filter(|(order, _)| wanted(&order.decision)).count();
    let (snapshots, full) =
        (count(|it| matches!(it, Decision::Snapshot)), count(|it| matches!(it, Decision::Full | Decision::Freeze)));
    assert!(snapshots >= 5 && full == 0, "{snapshots} snapshots, {full} full");
    assert!(rehearsal.heap.longest_stop <= Duration::from_millis(6), "{:?}", rehearsal.heap.longest_stop);
}

#[test]
fn without_gaps_garbage_goes_as_fast_as_it_comes() {
    let heap = FakeCollector { snapshot: Snapshot::Idle, dying: 200, ..FakeCollector::new(1_000_000) };
    let rush = (0..60_000).map(|_| Tick { busy: true, kept: 200, garbage: 0, paused: false });
    let rehearsal = play_on(heap, Name::Gap, None, rush);
    let start = 50 * MB + 1_000_000 * OBJECT;
    assert!(rehearsal.peak < start * 5 / 2, "{} MB of {} MB", rehearsal.peak / MB, start / MB);
}

#[test]
fn a_small_heap_that_has_gaps_is_collected_plainly() {
    let calm = (0..30_000).map(|index| Tick { busy: index % 500 < 100, kept: 60, garbage: 200, paused: false });
    let rehearsal = play_with_snapshots(50_000, None, calm);
    let whole: Vec<_> = rehearsal.orders.iter().map(|(order, _)| order.decision).collect();
    assert!(whole.contains(&Decision::Full) && !whole.contains(&Decision::Snapshot), "{whole:?}");
}

#[test]
fn a_failed_snapshot_is_not_tried_again_at_once() {
    let mut guarded = Guarded::new(policy(Name::Gap, Tuning::default()), Limits::default());
    let second = Duration::from_secs(1);
    let due = |now| Observation {
        now,
        idle: Some(10 * second),
        tenured: 1_000_000,
        pending: 900_000,
        rss: 1 << 30,
        snapshot: Snapshot::Idle,
        ..Observation::default()
    };
    assert_eq!(guarded.decide(&due(100 * second)).decision, Decision::Snapshot);
    guarded.failed(100 * second);
    assert_eq!(guarded.decide(&due(101 * second)).decision, Decision::Full, "a plain one in the meantime");
    assert_eq!(guarded.decide(&due(106 * second)).decision, Decision::Snapshot);
}

#[test]
fn that_start_up_left_nothing_to_free_says_nothing_about_later() {
    let second = Duration::from_secs(1);
    let due = |now| Observation {
        now,
        requests: 1,
        idle: Some(10 * second),
        tenured: 1_000_000,
        pending: 300_000,
        rss: 1 << 30,
        snapshot: Snapshot::Idle,
        ..Observation::default()
    };
    let nothing =
        |at| Flown { at, clone: second / 500, flight: second / 10, copied: second / 100, objects: 1_000_000, found: 0 };
    let mut guarded = Guarded::new(policy(Name::Gap, Tuning::default()), Limits::default());
    assert_eq!(guarded.decide(&due(2 * second)).decision, Decision::Snapshot);
    guarded.landed(&nothing(2 * second));
    assert_eq!(guarded.decide(&due(20 * second)).decision, Decision::Snapshot);
    guarded.landed(&nothing(20 * second));
    assert_eq!(guarded.decide(&due(40 * second)).decision, Decision::Wait, "the second one counts");
}

#[test]
fn memory_that_grows_forces_a_collection_even_without_a_gap() {
    // A program that never rests; what it keeps dies old, and no snapshot can be had.
    let heap = FakeCollector { dying: 400, ..FakeCollector::new(300_000) };
    let ticks = (0..40_000).map(|_| Tick { busy: true, kept: 400, garbage: 0, paused: false });
    let rehearsal = play_on(heap, Name::Gap, None, ticks);
    let forced: Vec<_> = rehearsal.orders.iter().filter(|(order, _)| order.forced).collect();
    assert!(!forced.is_empty() && forced.iter().all(|(order, _)| order.decision == Decision::Full));
    // Start-up, ten seconds of it, and twice the growth that is allowed.
    assert!(rehearsal.peak < 450 * MB, "{} MB", rehearsal.peak / MB);
}

#[test]
fn freeze_freezes_once() {
    let rehearsal = play(Name::Freeze, 100_000, None, server(5_000));
    let frozen: Vec<_> = rehearsal.orders.iter().map(|(order, _)| order.decision).collect();
    assert_eq!(frozen, [Decision::Freeze]);
}

fn any_tick() -> impl Strategy<Value = Tick> {
    (any::<bool>(), 0..200_u64, 0..3_000_u64, proptest::bool::weighted(0.05))
        .prop_map(|(busy, kept, garbage, paused)| Tick { busy, kept, garbage, paused })
}

/// Those that take full collections over, and so must be held by guards.
fn any_name() -> impl Strategy<Value = Name> {
    prop_oneof![Just(Name::Gap), Just(Name::Neural(None))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn memory_stays_below_the_ceiling_by_one_collections_worth(name in any_name(), ticks in proptest::collection::vec(any_tick(), 2_000)) {
        // Live objects stay below the ceiling; only garbage could exceed it.
        let ceiling = 120 * MB;
        let ticks = ticks.into_iter().map(|tick| Tick { kept: 0, ..tick });
        let rehearsal = play(name, 300_000, Some(ceiling), ticks);
        let one = OBJECT * 3_000 * 100;
        prop_assert!(rehearsal.peak <= ceiling + one, "{} of {ceiling}", rehearsal.peak);
    }

    #[test]
    fn snapshots_keep_memory_below_the_ceiling_too(name in any_name(), ticks in proptest::collection::vec(any_tick(), 2_000)) {
        let ceiling = 400 * MB;
        let ticks = ticks.into_iter().map(|tick| Tick { kept: 0, ..tick });
        let rehearsal = play_on(with_snapshots(1_000_000), name, Some(ceiling), ticks);
        prop_assert!(rehearsal.peak <= ceiling + OBJECT * 3_000 * 100, "{} of {ceiling}", rehearsal.peak);
    }

    #[test]
    fn nothing_happens_while_paused_unless_a_guard_forces_it(name in any_name(), ticks in proptest::collection::vec(any_tick(), 2_000)) {
        let rehearsal = play(name, 300_000, Some(90 * MB), ticks);
        for (order, observation) in &rehearsal.orders {
            prop_assert!(!observation.paused || order.forced, "{order:?}");
        }
    }

    #[test]
    fn full_collections_keep_to_their_share_of_time(name in any_name(), ticks in proptest::collection::vec(any_tick(), 2_000)) {
        // A ceiling that can never be met: the worst case for a guard.
        let rehearsal = play(name, 1_000_000, Some(MB), ticks);
        let full = rehearsal.heap.collections.iter().filter(|(generation, ..)| *generation == Generation::Full);
        let spent: Duration = full.map(|(_, _, pause)| *pause).sum();
        let share = spent.as_secs_f64() / rehearsal.heap.now.as_secs_f64();
        prop_assert!(share <= Limits::default().gc_share * 1.3, "{share}");
    }
}
