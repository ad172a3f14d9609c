//! The plan, and that ranks keep to it whatever each of them measures.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::bytes::Bytes;
use crate::guards::{Guarded, Limits};
use crate::name::Name;
use crate::observation::{Collected, Decision, Flown, Generation, Observation, Order, Scope, Snapshot};
use crate::policies::{Tuning, policy};

const STEPS: u64 = 1_200;

fn plan() -> RankPlan {
    RankPlan { every: 10, step: 0, boundary: 0 }
}

#[test]
fn the_plan_is_one_of_steps() {
    let mut plan = plan();
    let planned: Vec<_> =
        (0..=60).filter_map(|step| plan.planned(Moment::StepEnd, step).map(|planned| (step, planned))).collect();
    let young = |step| (step, PlannedStop::Young);
    assert_eq!(planned, [young(10), young(20), young(30), young(40), (50, PlannedStop::Middle), young(60)]);
    assert_eq!(plan.planned(Moment::StepEnd, 100), Some(PlannedStop::Everything("start-up is over")));
    assert_eq!(plan.planned(Moment::StepEnd, 200), Some(PlannedStop::Middle));
    assert_eq!(plan.planned(Moment::StepEnd, 10_000), Some(PlannedStop::Everything("many steps have ended")));
    assert!(RankPlan::new(0).is_none() && RankPlan::new(10).is_some());
}

#[test]
fn short_epochs_are_not_all_used() {
    let mut plan = plan();
    let used: Vec<_> =
        (0..50).map(|epoch| 300 * epoch).filter(|step| plan.planned(Moment::Boundary, *step).is_some()).collect();
    assert_eq!(used.len(), 14, "{used:?}");
    assert_eq!(used[..3], [1_200, 2_100, 3_000]);
    assert!(plan.planned(Moment::Boundary, 1_000).is_some(), "another job has begun");
}

#[test]
fn the_next_shared_step_is_told() {
    assert_eq!((next_shared_step(10, 0), next_shared_step(10, 9), next_shared_step(10, 10)), (10, 10, 20));
    assert!(is_shared_step(10, 1) && is_shared_step(10, 10) && !is_shared_step(10, 11) && !is_shared_step(0, 10));
    assert!(is_wide_step(10, 100) && !is_wide_step(10, 110) && !is_wide_step(10, 0));
}

/// What one rank measures at one moment: nothing of it is the same on another rank.
#[derive(Clone, Copy, Debug)]
struct Local {
    /// How long the step took, in milliseconds.
    took: u64,
    moment: Moment,
    young: u32,
    /// Resident memory beyond that of the start, in MiB.
    rss: u64,
    snapshot: Snapshot,
    deferred: bool,
    /// What happened on the way.
    event: u8,
}

fn any_local() -> impl Strategy<Value = Local> {
    let moment = prop_oneof![
        Just(Moment::Gap),
        Just(Moment::Passing),
        Just(Moment::CollectionEnd),
        Just(Moment::Look),
        Just(Moment::StepEnd)
    ];
    let snapshot = prop_oneof![
        3 => Just(Snapshot::Idle),
        1 => Just(Snapshot::Unavailable),
        1 => Just(Snapshot::InFlight),
        1 => (0..50_000_u64).prop_map(|objects| Snapshot::Ready { objects, piece: None }),
    ];
    (0..200_u64, moment, 0..3_000_u32, 0..600_u64, snapshot, 0..12_u8).prop_map(
        |(took, moment, young, rss, snapshot, event)| Local {
            took,
            moment,
            young,
            rss,
            snapshot,
            deferred: false,
            event,
        },
    )
}

/// One rank of a job, with a heap of its own size.
struct Rank {
    guarded: Guarded,
    now: Duration,
    /// Every order, with the step at which it was given.
    orders: Vec<(u64, Order)>,
}

impl Rank {
    fn new(objects: u64) -> Self {
        let policy = policy(Name::Gap, Tuning::default());
        let mut guarded = Guarded::new(policy, Limits::default(), Tuning::default(), [700, 10, 10]);
        guarded.begin(Bytes::mebibytes(400), objects);
        Self { guarded, now: Duration::from_secs(3), orders: Vec::new() }
    }

    fn ask(&mut self, moment: Moment, step: u64, local: Local) {
        let observation = Observation {
            now: self.now,
            moment,
            idle: (moment == Moment::Gap).then_some(Duration::ZERO),
            counts: [local.young, 3, 1],
            rss: Bytes::mebibytes(400 + local.rss),
            snapshot: local.snapshot,
            deferred: local.deferred,
            ranks: Some(RankStep { ranks: 4, step }),
            ..Observation::default()
        };
        let order = self.guarded.decide(&observation);
        if order.decision != Decision::Wait {
            self.orders.push((step, order));
        }
        let [young, ..] = self.guarded.thresholds(&observation).unwrap_or_default();
        assert!((700..=1_000_000).contains(&young), "CPython's own trigger is armed: {young}");
    }

    /// A step with moments in between.
    fn step(&mut self, step: u64, local: Local) {
        self.now += Duration::from_millis(local.took);
        let (at, rss) = (self.now, Bytes::mebibytes(400 + local.rss));
        let generation = [Generation::Young, Generation::Middle, Generation::Full][usize::from(local.event % 3)];
        if local.event < 6 {
            let pause = Duration::from_micros(u64::from(local.young));
            let freed = u64::from(local.young / 2);
            self.guarded
                .learn(&Collected { at, generation, pause, gathered: local.young, freed, rss, objects: None }, rss);
        } else if local.event == 6 {
            self.guarded.launched(at, Scope::All, local.young);
        } else if local.event == 7 {
            self.guarded.landed(&Flown { at, objects: 150_000, found: 1_000, ..Flown::default() });
        } else if local.event == 8 {
            self.guarded.failed(at);
        }
        // In between, the number of the step is that of the last one that has ended.
        if local.moment != Moment::StepEnd {
            self.ask(local.moment, step - 1, local);
        }
        self.ask(Moment::StepEnd, step, local);
    }

    /// Steps with collections that no guard has forced.
    fn unforced(&self) -> Vec<u64> {
        let mut steps: Vec<_> = self.orders.iter().filter(|(_, order)| !order.forced).map(|(step, _)| *step).collect();
        steps.dedup();
        steps
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_ranks_measure_they_collect_at_the_same_steps(
        heaps in vec(1_000..400_000_u64, 2..4),
        locals in vec(any_local(), 64..200),
        epoch in 50..700_u64,
    ) {
        let mut ranks: Vec<Rank> = heaps.iter().map(|objects| Rank::new(*objects)).collect();
        for (number, rank) in ranks.iter_mut().enumerate() {
            for step in 1..=STEPS {
                let local = locals[(step as usize * (number + 7) + 31 * number) % locals.len()];
                rank.step(step, local);
                if step % epoch == 0 {
                    rank.ask(Moment::Boundary, step, local);
                }
            }
        }
        for rank in &ranks {
            for (step, order) in rank.orders.iter().filter(|(_, order)| !order.forced) {
                // Ends of epochs are shared, too; where a snapshot is out, a slice of what it found is freed there.
                let boundary = order.reason == "an epoch or an evaluation has ended"
                    || matches!(order.decision, Decision::Reap { .. });
                prop_assert!(step % 10 == 0 || (boundary && step % epoch == 0), "{step}: {order:?}");
            }
            // A rank whose guard has forced something at a shared step has collected there, too.
            let mut all: Vec<u64> = rank.orders.iter().filter(|(step, _)| step % 10 == 0).map(|(step, _)| *step).collect();
            all.dedup();
            prop_assert_eq!(all.iter().filter(|step| **step > 0).count() as u64, STEPS / 10);
        }
        let calm: Vec<&Rank> = ranks.iter().filter(|rank| rank.orders.iter().all(|(_, order)| !order.forced)).collect();
        for pair in calm.windows(2) {
            prop_assert_eq!(pair[0].unforced(), pair[1].unforced());
        }
    }
}

fn local() -> Local {
    Local { took: 5, moment: Moment::StepEnd, young: 300, rss: 10, snapshot: Snapshot::Idle, deferred: false, event: 9 }
}

#[test]
fn what_the_program_has_asked_for_comes_at_the_next_shared_step() {
    let mut rank = Rank::new(10_000);
    for step in 1..=30 {
        rank.step(step, Local { deferred: step >= 13, ..local() });
    }
    let asked: Vec<_> =
        rank.orders.iter().filter(|(_, order)| order.reason.contains("asked")).map(|(step, _)| *step).collect();
    assert_eq!(asked, [20, 30]);
}

#[test]
fn memory_near_its_ceiling_waits_for_no_step() {
    let mut rank = Rank::new(100_000);
    for step in 1..=12 {
        rank.step(step, local());
    }
    let observation = Observation {
        now: Duration::from_secs(60),
        moment: Moment::CollectionEnd,
        rss: Bytes::mebibytes(950),
        ceiling: Some(Bytes::mebibytes(1_000)),
        snapshot: Snapshot::Idle,
        ranks: Some(RankStep { ranks: 4, step: 13 }),
        ..Observation::default()
    };
    let order = rank.guarded.decide(&observation);
    assert!(order.forced && order.decision == Decision::Full, "{order:?}");
    let [young, ..] = rank.guarded.thresholds(&observation).unwrap_or_default();
    assert_eq!(young, 700);
}

#[test]
fn what_a_snapshot_found_is_freed_from_a_wide_step_on() {
    assert_eq!(reaped_with_a_snapshot_from(120), [200, 210, 220]);
}

#[test]
fn what_a_rank_found_before_it_knew_of_the_others_is_freed_while_it_starts_up() {
    assert_eq!(reaped_with_a_snapshot_from(20)[..4], [30, 40, 50, 60]);
}

fn reaped_with_a_snapshot_from(first: u64) -> Vec<u64> {
    let mut rank = Rank::new(100_000);
    for step in 1..=220 {
        let snapshot = if step > first { Snapshot::Ready { objects: 5_000, piece: None } } else { Snapshot::Idle };
        rank.step(step, Local { snapshot, ..local() });
    }
    let is_slice = |order: &Order| matches!(order.decision, Decision::Reap { .. });
    rank.orders.iter().filter(|(_, order)| is_slice(order)).map(|(step, _)| *step).collect()
}

#[test]
fn a_heap_that_has_grown_is_collected_at_a_wide_step() {
    let mut rank = Rank::new(100_000);
    for step in 1..=200 {
        rank.step(step, local());
        if step == 115 {
            // As much as there is room for, and a little more.
            let collected = Collected {
                at: rank.now,
                generation: Generation::Young,
                pause: Duration::from_millis(3),
                gathered: 75_000,
                freed: 0,
                rss: Bytes::mebibytes(410),
                objects: None,
            };
            rank.guarded.learn(&collected, Bytes::mebibytes(410));
        }
    }
    let cycles: Vec<_> = rank.orders.iter().filter(|(_, order)| order.forced).map(|(step, _)| *step).collect();
    assert_eq!(cycles, [200], "{:?}", rank.orders);
}

#[test]
fn one_process_alone_is_not_bound_to_steps() {
    let policy = policy(Name::Gap, Tuning::default());
    let mut guarded = Guarded::new(policy, Limits::default(), Tuning::default(), [700, 10, 10]);
    guarded.begin(Bytes::mebibytes(400), 1_000);
    let observation = Observation {
        now: Duration::from_secs(60),
        moment: Moment::Gap,
        counts: [2_000, 0, 0],
        snapshot: Snapshot::Idle,
        ..Observation::default()
    };
    assert_ne!(guarded.decide(&observation).decision, Decision::Wait);
}
