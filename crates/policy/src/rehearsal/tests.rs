//! Every policy on the pretended program.

#![cfg(test)]

use std::time::Duration;

use proptest::prelude::*;

use super::{Nature, Rehearsal, RehearsalHeap, RehearsalTick};
use crate::bytes::Bytes;
use crate::guards::Limits;
use crate::name::Name;
use crate::observation::{Decision, Generation, Scope};
use crate::policies::Tuning;

const MB: Bytes = Bytes::mebibytes(1);

fn plain() -> Nature {
    Nature { snapshots: false, ..Nature::default() }
}

/// Plays a program under a policy.
fn play(
    name: Name,
    live: u64,
    nature: Nature,
    ceiling: Option<Bytes>,
    ticks: impl IntoIterator<Item = RehearsalTick>,
) -> Rehearsal {
    Rehearsal::new(RehearsalHeap::new(live, nature), name, Limits::default(), ceiling).play(ticks)
}

/// A program that works in two ticks of five.
fn often(ticks: usize, kept: f64, garbage: f64) -> impl Iterator<Item = RehearsalTick> {
    (0..ticks).map(move |index| RehearsalTick { busy: index % 5 < 2, kept, garbage, ..RehearsalTick::default() })
}

/// A server at about half load that makes garbage in cycles.
fn server(ticks: usize) -> impl Iterator<Item = RehearsalTick> {
    often(ticks, 2.0, 1500.0)
}

fn is_full(decision: &Decision) -> bool {
    matches!(decision, Decision::Full | Decision::Freeze)
}

fn is_launch(decision: &Decision) -> bool {
    matches!(decision, Decision::Snapshot { .. })
}

/// The longest pause of a generation, ordered or CPython's own, after the first few.
fn longest(rehearsal: &Rehearsal, generation: Generation, decision: Decision) -> Option<Duration> {
    let own = rehearsal.own.iter().filter(|(it, _)| *it == generation).map(|(_, pause)| *pause);
    let ordered = rehearsal.stops.iter().filter(|stop| stop.order.decision == decision).map(|stop| stop.pause);
    own.skip(20).chain(ordered.skip(20)).max()
}

#[test]
fn watching_policies_never_act() {
    for name in [Name::Observe, Name::Cpython, Name::Threshold([10_000, 10, 10])] {
        assert!(play(name.clone(), 1_000_000, plain(), Some(MB * 60), server(5_000)).stops.is_empty(), "{name}");
    }
}

#[test]
fn gap_collects_young_objects_between_requests() {
    let rehearsal = play(Name::Gap, 300_000, plain(), None, server(20_000));
    let (young, automatic) = (rehearsal.count(|it| *it == Decision::Young), rehearsal.own.len());
    assert!(young > 1_000 && automatic < young / 20, "{young} in gaps, {automatic} by CPython");
    assert!(rehearsal.stops.iter().all(|stop| stop.observation.is_gap()));
}

#[test]
fn gap_settles_once_and_then_leaves_the_old_heap_alone() {
    let calm = (0..2_000).map(|index| RehearsalTick {
        busy: index % 500 < 2,
        kept: 1.0,
        garbage: 10.0,
        ..RehearsalTick::default()
    });
    let rehearsal = play(Name::Gap, 2_000_000, Nature::default(), None, calm.chain(server(20_000)));
    assert_eq!((rehearsal.count(is_launch), rehearsal.count(is_full)), (1, 0));
}

#[test]
fn where_there_is_a_forecast_the_first_snapshot_waits_until_it_is_worth_it() {
    // The room is a quarter of what there was at the start. Nothing dies.
    let launches = |rooms: f64| {
        let ticks = often(10_000, rooms * 250_000.0 / 4_000.0, 0.0);
        let rehearsal = play(Name::Neural(None), 1_000_000, Nature::default(), None, ticks);
        assert_eq!(rehearsal.count(is_full), 0);
        rehearsal.count(is_launch)
    };
    assert_eq!((launches(0.5), launches(1.1)), (0, 1));
}

#[test]
fn gap_keeps_young_pauses_within_the_budget() {
    let rehearsal = play(Name::Gap, 300_000, plain(), None, server(20_000));
    let longest = longest(&rehearsal, Generation::Young, Decision::Young);
    assert!(longest.is_some_and(|pause| pause <= Tuning::default().pause_budget * 3 / 2), "{longest:?}");
}

#[test]
fn gap_keeps_pauses_short_where_everything_survives() {
    let rehearsal = play(Name::Gap, 600_000, Nature::default(), None, often(20_000, 1_000.0, 0.0));
    let longest = longest(&rehearsal, Generation::Middle, Decision::Middle);
    assert!(longest.is_some_and(|pause| pause <= Tuning::default().pause_budget * 5), "{longest:?}");
}

#[test]
fn a_program_without_garbage_is_collected_ever_more_rarely() {
    let rehearsal = play(Name::Gap, 0, plain(), None, often(10_000, 100.0, 0.0));
    let allocated = 100 * 10_000 * 2 / 5;
    let collections = rehearsal.stops.len() + rehearsal.own.len();
    assert!(collections < allocated / 3_000, "{collections} collections");
}

#[test]
fn a_large_heap_is_collected_from_snapshots_and_never_stopped_for_long() {
    // Sessions die old.
    let sessions = often(60_000, 60.0, 200.0).map(|tick| RehearsalTick { dies_late: 60.0, ..tick });
    let rehearsal = play(Name::Gap, 1_000_000, Nature::default(), None, sessions);
    let (launches, full) = (rehearsal.count(is_launch), rehearsal.count(is_full));
    assert!(launches >= 5 && full == 0, "{launches} snapshots, {full} full");
    let longest = rehearsal.stops.iter().map(|stop| stop.pause).max();
    assert!(longest <= Some(Duration::from_millis(6)), "{longest:?}");
}

#[test]
fn without_gaps_garbage_goes_as_fast_as_it_comes() {
    let rush = (0..60_000).map(|_| RehearsalTick { kept: 600.0, dies_late: 600.0, ..RehearsalTick::default() });
    let rehearsal = play(Name::Gap, 1_000_000, Nature::default(), None, rush);
    assert!(rehearsal.rooms < 1.2, "{}", rehearsal.rooms);
    assert_eq!(rehearsal.count(is_full), 0);
    // Snapshots are launched early enough: the program hardly ever outruns them.
    let held_up = rehearsal.spent(|it| matches!(it, Decision::Throttle { .. }));
    assert!(held_up < rehearsal.heap.now / 20, "{held_up:?} of {:?}", rehearsal.heap.now);
}

#[test]
fn a_small_heap_that_has_gaps_is_collected_plainly() {
    let calm = (0..30_000).map(|index| RehearsalTick {
        busy: index % 500 < 100,
        kept: 20.0,
        garbage: 200.0,
        ..RehearsalTick::default()
    });
    let calm = calm.map(|tick| RehearsalTick { dies_soon: 1.0, ..tick });
    let rehearsal = play(Name::Gap, 5_000, Nature::default(), None, calm);
    assert!(rehearsal.count(is_full) > 0 && rehearsal.count(is_launch) == 0);
}

#[test]
fn a_failed_snapshot_is_not_tried_again_at_once() {
    let ticks =
        (0..10_000).map(|_| RehearsalTick { kept: 200.0, dies_soon: 1.0, fails: true, ..RehearsalTick::default() });
    let rehearsal = play(Name::Gap, 1_000_000, Nature::default(), None, ticks);
    let tried: Vec<_> = rehearsal.stops.iter().filter(|stop| is_launch(&stop.order.decision)).collect();
    let apart = tried.windows(2).map(|pair| pair[1].observation.now.saturating_sub(pair[0].observation.now));
    assert!(tried.len() >= 2 && apart.min() >= Some(Duration::from_secs(2)));
    assert!(rehearsal.count(is_full) > 0, "a plain one in the meantime");
}

#[test]
fn while_snapshots_only_rest_after_a_failure_the_next_one_is_waited_for() {
    // The room is filled in a second and a half; the first clone fails.
    let ticks = (0..1_400).map(|index| RehearsalTick {
        kept: 250.0,
        dies_soon: 1.0,
        fails: index < 700,
        ..RehearsalTick::default()
    });
    let rehearsal = play(Name::Gap, 1_000_000, Nature::default(), None, ticks);
    assert_eq!(rehearsal.count(is_full), 0);
    assert!(rehearsal.count(is_launch) >= 2 && rehearsal.rooms < 1.6, "{}", rehearsal.rooms);
}

#[test]
fn memory_that_grows_forces_a_collection_even_without_a_gap() {
    // A program that never rests; what it keeps dies old, and no snapshot can be had.
    let ticks = (0..40_000).map(|_| RehearsalTick { kept: 400.0, dies_late: 400.0, ..RehearsalTick::default() });
    let rehearsal = play(Name::Gap, 300_000, plain(), None, ticks);
    let forced: Vec<_> = rehearsal.stops.iter().filter(|stop| stop.order.forced).collect();
    assert!(!forced.is_empty() && forced.iter().all(|stop| stop.order.decision == Decision::Full));
    assert!(rehearsal.rooms < 1.1, "{}", rehearsal.rooms);
}

#[test]
fn freeze_freezes_once() {
    let rehearsal = play(Name::Freeze, 100_000, plain(), None, server(5_000));
    let frozen: Vec<_> = rehearsal.stops.iter().map(|stop| stop.order.decision).collect();
    assert_eq!(frozen, [Decision::Freeze]);
}

#[test]
fn walks_of_new_objects_are_used_where_garbage_is_new_and_only_there() {
    let scopes = |dies_soon: f64, dies_late: f64| {
        let ticks =
            (0..240_000).map(move |_| RehearsalTick { kept: 400.0, dies_soon, dies_late, ..RehearsalTick::default() });
        let rehearsal = play(Name::Gap, 1_000_000, Nature::default(), None, ticks);
        let of = |wanted: Scope| {
            let launches =
                rehearsal.stops.iter().filter(|stop| stop.order.decision == Decision::Snapshot { scope: wanted });
            launches.count()
        };
        (of(Scope::New), of(Scope::All), rehearsal.beyond)
    };
    let (new, all, beyond) = scopes(1.0, 0.0);
    assert!(new > 5 * all && all > 2 && beyond < 0.05, "{new} {all} {beyond}");
    let (new, all, beyond) = scopes(0.0, 400.0);
    assert!(all > 3 * new && beyond < 0.05, "{new} {all} {beyond}");
    let (new, all, beyond) = scopes(0.5, 200.0);
    assert!(new > all / 4 && all > new / 4 && beyond < 0.1, "{new} {all} {beyond}");
}

fn any_tick() -> impl Strategy<Value = RehearsalTick> {
    (any::<bool>(), 0.0..200.0, 0.0..3_000.0, proptest::bool::weighted(0.05)).prop_map(
        |(busy, kept, garbage, paused)| RehearsalTick { busy, kept, garbage, paused, ..RehearsalTick::default() },
    )
}

/// Those that take full collections over.
fn any_name() -> impl Strategy<Value = Name> {
    prop_oneof![Just(Name::Gap), Just(Name::Neural(None))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn memory_stays_below_a_ceiling_that_can_be_met(
        name in any_name(), snapshots: bool, ticks in proptest::collection::vec(any_tick(), 2_000)
    ) {
        // What is alive fits well; only garbage could exceed the ceiling.
        let ceiling = MB * 120;
        let nature = Nature { snapshots, ..Nature::default() };
        let ticks = ticks.into_iter().map(|tick| RehearsalTick { kept: tick.kept / 4.0, dies_late: tick.kept / 4.0, ..tick });
        let rehearsal = play(name, 300_000, nature, Some(ceiling), ticks);
        prop_assert!(rehearsal.peak <= ceiling, "{:?} of {ceiling:?}", rehearsal.peak);
    }

    #[test]
    fn nothing_happens_while_paused_below_the_goal_unless_memory_is_near_its_ceiling(
        name in any_name(), ticks in proptest::collection::vec(any_tick(), 2_000)
    ) {
        let rehearsal = play(name, 300_000, Nature::default(), Some(MB * 90), ticks);
        for stop in &rehearsal.stops {
            prop_assert!(!stop.observation.paused || stop.order.forced || stop.filled > 0.99, "{stop:?}");
        }
    }

    #[test]
    fn full_collections_keep_to_half_of_the_time(name in any_name(), ticks in proptest::collection::vec(any_tick(), 2_000)) {
        // A ceiling that can never be met.
        let rehearsal = play(name, 1_000_000, Nature::default(), Some(MB), ticks);
        let share = rehearsal.spent(is_full).as_secs_f64() / rehearsal.heap.now.as_secs_f64();
        prop_assert!(share <= 0.52, "{share}");
    }
}
