//! Programs whose gaps repeat, and programs of which that is only said.

#![cfg(test)]

use std::time::Duration;

use proptest::prelude::*;

use super::{Nature, Rehearsal, RehearsalHeap, RehearsalTick};
use crate::guards::Limits;
use crate::name::Name;
use crate::observation::Decision;
use crate::phase::GapRhythm;

/// Ticks of a gap of 15 ms, and of one of 60 ms, after a tick of work; and of ten steps, the last with the long gap.
const SHORT: usize = 8;
const LONG: usize = 30;
const PERIOD: usize = 9 * (1 + SHORT) + 1 + LONG;

/// Steps that keep so many objects which die soon after they have become old, and after each a gap.
fn steps(periods: usize, kept: f64) -> impl Iterator<Item = RehearsalTick> {
    (0..periods * PERIOD).map(move |index| {
        let at = index % PERIOD;
        let busy = if at < 9 * (1 + SHORT) { at.is_multiple_of(1 + SHORT) } else { at == 9 * (1 + SHORT) };
        RehearsalTick { busy, kept, dies_soon: 1.0, ..RehearsalTick::default() }
    })
}

fn rehearsal(live: u64, snapshots: bool) -> Rehearsal {
    let nature = Nature { snapshots, ..Nature::default() };
    Rehearsal::new(RehearsalHeap::new(live, nature), Name::Neural(None), Limits::default(), None)
}

/// Full collections in long gaps, and all of them, after fifty periods.
fn full_collections(rehearsal: &Rehearsal) -> (usize, usize) {
    let full = rehearsal.stops.iter().filter(|stop| stop.order.decision == Decision::Full && stop.tick >= 50 * PERIOD);
    let in_long = full.clone().filter(|stop| stop.tick % PERIOD > 9 * (1 + SHORT));
    (in_long.count(), full.count())
}

#[test]
fn a_heap_that_can_be_collected_in_a_long_gap_is_collected_in_the_long_gap_of_each_period() {
    for (kept, snapshots) in [(1_000.0, false), (3_500.0, false), (1_000.0, true), (3_500.0, true)] {
        let rehearsal = rehearsal(60_000, snapshots).play(steps(400, kept));
        let (in_long, all) = full_collections(&rehearsal);
        assert!(all >= 10 && in_long as f64 >= 0.95 * all as f64, "{kept} {snapshots}: {in_long} of {all}");
        assert!(rehearsal.rooms <= 1.0 + rehearsal.slack(), "{}", rehearsal.rooms);
        let flights = rehearsal.stops.iter().filter(|stop| matches!(stop.order.decision, Decision::Snapshot { .. }));
        assert_eq!(flights.filter(|stop| stop.tick >= 50 * PERIOD).count(), 0, "{kept}");
    }
}

#[test]
fn a_collection_that_does_not_fit_waits_for_no_gap() {
    // It takes longer than the long gap.
    let rehearsal = rehearsal(1_500_000, false).play(steps(200, 6_000.0));
    let (_, all) = full_collections(&rehearsal);
    assert!(all > 0 && rehearsal.rooms <= 1.0 + rehearsal.slack(), "{all} {}", rehearsal.rooms);
}

/// A program that has little to do, and every two seconds a rush of 0.2 s, in which it keeps much that dies when it has become old.
fn rushes(periods: usize, kept: f64) -> impl Iterator<Item = RehearsalTick> {
    (0..periods * 1_000).map(move |index| {
        let in_rush = index % 1_000 >= 900;
        let (busy, kept) = (in_rush || index.is_multiple_of(10), if in_rush { kept } else { 20.0 });
        RehearsalTick { busy, kept, dies_soon: 0.9, ..RehearsalTick::default() }
    })
}

#[test]
fn a_rush_that_nearly_fills_the_room_does_not_break_the_bound() {
    for live in [120_000, 293_253, 400_000] {
        for kept in [500.0, 850.0, 998.82] {
            let rehearsal = rehearsal(live, true).play(rushes(12, kept));
            assert!(rehearsal.rooms <= 1.0 + rehearsal.slack(), "{live} {kept}: {}", rehearsal.rooms);
        }
    }
}

fn any_rhythm() -> impl Strategy<Value = Option<GapRhythm>> {
    let ms = |most: u64| (0..most).prop_map(Duration::from_millis);
    prop::option::of((0..20_u64, 0..20_u64, ms(2_000), ms(20_000)))
        .prop_map(|said| said.map(|(gaps, period, length, every)| GapRhythm { gaps, period, length, every }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_wrong_rhythm_never_breaks_the_bound(
        rhythms in prop::collection::vec(any_rhythm(), 1..40), live in 10_000..400_000_u64, kept in 100.0..4_000.0_f64, snapshots: bool,
    ) {
        let mut rehearsal = rehearsal(live, snapshots);
        rehearsal.rhythms = rhythms;
        let rehearsal = rehearsal.play(steps(60, kept));
        prop_assert!(rehearsal.rooms <= 1.0 + rehearsal.slack(), "{} {}", rehearsal.rooms, rehearsal.slack());
        let share = rehearsal.spent(|it| *it == Decision::Full).as_secs_f64() / rehearsal.heap.now.as_secs_f64();
        prop_assert!(share <= 0.52, "{share}");
    }
}
