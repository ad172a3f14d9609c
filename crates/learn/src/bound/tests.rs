//! No schedule is below the bound: random programs, machines and policies.

use std::time::Duration;

use neurogc_load::Chance;
use neurogc_policy::{
    CollectionControl, Decision, Generation, Name, Observation, Order, Policy, Scope, Snapshot, Tuning,
};
use proptest::prelude::*;

use super::*;
use crate::generate::{TrafficShape, imagined};
use crate::line::Line;
use crate::machine::{SimulatedProgram, Task};
use crate::model::{Costs, Disturbed, HeapModel, Lifetimes, ObjectSizes};
use crate::oracle::{Resolution, oracle};
use crate::simulate::{never, simulate, simulate_policy};
use crate::workload::{Request, Start};

/// Does anything at any time.
#[derive(Debug)]
struct Whims {
    chance: Chance,
    often: f64,
    control: CollectionControl,
}

impl Policy for Whims {
    fn control(&self) -> CollectionControl {
        self.control
    }

    fn wants_looks(&self) -> bool {
        true
    }

    fn decide(&mut self, observation: &Observation) -> Order {
        if self.chance.share() > self.often {
            return Order::WAIT;
        }
        let scope = if self.chance.share() < 0.5 { Scope::All } else { Scope::New };
        let budget = Duration::from_nanos((self.chance.share() * 3e6) as u64);
        let decision = match (self.chance.number() % 12, observation.snapshot) {
            (0..3, _) => Decision::Young,
            (3..5, _) => Decision::Middle,
            (5, _) => Decision::Full,
            (6, _) if self.chance.share() < 0.2 => Decision::Freeze,
            (7, _) => Decision::Throttle { pause: budget / 10 },
            (8.., Snapshot::Idle) => Decision::Snapshot { scope },
            (8.., Snapshot::Ready { .. }) => Decision::Reap { budget },
            _ => Decision::Wait,
        };
        Order::at_once(decision, "a whim")
    }
}

fn whims(seed: u64, often: f64) -> Box<dyn Policy> {
    let control = [
        CollectionControl::Cpython,
        CollectionControl::Fixed([5_000, 3, 0]),
        CollectionControl::Fixed([0; 3]),
        CollectionControl::Bounded([20_000, 10, 10]),
        CollectionControl::Paced,
    ][seed as usize % 5];
    Box::new(Whims { chance: Chance::new(seed), often, control })
}

fn any_line(base: f64, each: f64) -> impl Strategy<Value = Line> {
    (0.0..base, 0.1 * each..each).prop_map(|(base, each)| Line { base, each })
}

fn any_sweep() -> impl Strategy<Value = Sweep> {
    (0.0..150.0_f64, 0.0..200.0_f64).prop_map(|(looked, freed)| Sweep { looked, freed })
}

fn any_model() -> impl Strategy<Value = HeapModel> {
    let lifetimes = (0.0..1.0_f64, 0.0..1.0_f64, 0.0..1.0_f64, 0.0..2_000.0_f64, 0.0..40_000.0_f64).prop_map(
        |(first, second, third, held, lag)| {
            let (by_reference, left) = (first * 0.5, 1.0 - first * 0.5);
            let (die_young, left) = (left * second, left * (1.0 - second));
            Lifetimes { die_young, by_reference, held, die_old: left * third, lag }
        },
    );
    let sweeps = (any_sweep(), any_sweep(), any_sweep());
    let lines = (any_line(1e6, 0.02), any_line(3e6, 200.0), any_line(50_000.0, 400.0));
    let rest = (0.0..1.0_f64, 0.0..60.0_f64, 20.0..2_000.0_f64, 0.0..1.0_f64);
    let factors = prop::collection::vec((0..3_usize, 0.2..5.0_f64), 0..6);
    (lifetimes, sweeps, lines, rest, factors).prop_map(|(lifetimes, sweeps, lines, rest, factors)| {
        let (young, middle, full) = sweeps;
        let (clone, walk, reap) = lines;
        let (slowdown, copied, object, returned) = rest;
        let mut disturbed = Disturbed::over((0, 4_000_000_000));
        for (index, (kind, factor)) in factors.into_iter().enumerate() {
            disturbed.add(StopKind::GENERATIONS[kind], index as u64 * 700_000_000, factor);
        }
        HeapModel {
            costs: Costs { young, middle, full, clone, walk, slowdown, copied, reap },
            lifetimes,
            memory: ObjectSizes { base: 20e6, object, returned },
            disturbed,
        }
    })
}

/// Requests close together and far apart; a loop, users, and requests that come back among them.
fn any_workload() -> impl Strategy<Value = Workload> {
    let request = (0..30_000_000_u64, 0..4_000_000_u64, 0.0..6_000.0_f64, 0..5_000_000_u64);
    let requests = prop::collection::vec(request, 2..60);
    (requests, 0.0..300_000.0_f64, 0..5_u32, 0..200_000_000_u64, prop::sample::select(vec![3_u64, 30, 300])).prop_map(
        |(steps, tenured, kind, warm_up, crowded)| {
            let mut workload = Workload::new(Start { at: 2_000_000_000, tenured, pending: 0.0 });
            if kind > 2 {
                workload.pace = Pace::Closed(if kind == 3 { 1 } else { 4 });
            }
            let mut at = workload.start.at;
            for (step, service, objects, rest) in steps {
                let step = if step % 3 == 0 { step } else { step / crowded };
                at += step;
                let at = if workload.pace == Pace::Open { at } else { step };
                let visits = if kind == 2 || kind == 3 { 1 + (step % 3) as u32 } else { 1 };
                workload.requests.push(Request { at, service, rest, objects, visits });
            }
            if kind == 1 {
                workload.counted_from += warm_up;
            }
            workload
        },
    )
}

/// Plays a schedule that the policies' code has no part in: whatever chance says, also in the middle of requests.
fn by_chance(scene: &Scene<'_>, lambda: f64, seed: u64) -> f64 {
    let mut chance = Chance::new(seed);
    let mut machine = SimulatedProgram::new(scene.model, scene.workload);
    let often = chance.share();
    let mut whim = |machine: &mut SimulatedProgram<'_>| {
        machine.land();
        if chance.share() < often {
            let budget = Duration::from_nanos((chance.share() * 5e6) as u64);
            let decision = match (chance.number() % 8, machine.snapshot()) {
                (0, _) => Decision::Young,
                (1, _) => Decision::Middle,
                (2, _) => Decision::Full,
                (3, _) => Decision::Freeze,
                (4.., Snapshot::Idle) if scene.snapshots => Decision::Snapshot { scope: Scope::New },
                (4.., Snapshot::Ready { .. }) => Decision::Reap { budget },
                _ => Decision::Wait,
            };
            machine.perform(decision);
        }
        chance.share()
    };
    let (mut latency, mut requests) = (0.0, 0.0_f64);
    for request in &scene.workload.requests {
        whim(&mut machine);
        let share = whim(&mut machine);
        let pause = request.at.saturating_sub(machine.now) as f64 * share;
        machine.wait_until(machine.now + pause as u64);
        let share = whim(&mut machine);
        machine.wait_until(request.at);
        let mut first = Task { time: request.service as f64 * share, objects: request.objects * share };
        machine.work(&mut first, u64::MAX);
        whim(&mut machine);
        let mut second =
            Task { time: request.service as f64 * (1.0 - share), objects: request.objects * (1.0 - share) };
        machine.work(&mut second, u64::MAX);
        machine.heap.settle();
        if scene.workload.counts(request.at) {
            latency += (machine.now + request.rest - request.at) as f64;
            requests += 1.0;
        }
    }
    let seconds = Timeline::of(scene).map_or(1.0, |timeline| timeline.seconds);
    let delay = latency / requests.max(1.0) / 1e6 - never(scene).mean_ms;
    crate::cost::cost(delay, machine.held_seconds / seconds / 1e6, lambda)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 5_000 }))]

    #[test]
    fn no_schedule_costs_less(
        model in any_model(), workload in any_workload(), exponent in -4.0..2.0_f64, snapshots: bool, seed: u64,
    ) {
        let lambda = 10_f64.powf(exponent);
        let tuning = Tuning { memory_price: lambda, ..Tuning::default() };
        let scene = Scene { snapshots, tuning, ..Scene::new(&model, &workload) };
        let bound = lower_bound(&scene, lambda);
        prop_assert!(bound >= 0.0 && bound.is_finite());
        let check = |name: &str, cost: f64| {
            prop_assert!(cost >= bound, "{name}: {cost} < {bound}");
            Ok(())
        };
        check("never", never(&scene).cost(lambda))?;
        for name in ["cpython", "gap", "freeze", "every:2", "threshold:2000,2,0", "neural", "observe"] {
            let parsed: Name = name.parse().map_err(|_| TestCaseError::fail("no policy"))?;
            check(name, simulate(&scene, parsed).cost(lambda))?;
        }
        for (often, seed) in [(0.02, seed), (0.3, seed ^ 1), (0.9, seed ^ 2)] {
            check("whims", simulate_policy(&scene, whims(seed, often), true).cost(lambda))?;
        }
        if has_one_order(&workload) {
            if workload.pace == Pace::Open {
                for seed in seed..=seed.saturating_add(4) {
                    check("chance", by_chance(&scene, lambda, seed))?;
                }
            }
            let plan = oracle(&scene, lambda, Resolution::default());
            plan.map_or(Ok(()), |plan| check("plan", plan.outcome.cost(lambda)))?;
        }
    }

    #[test]
    fn the_timeline_is_the_program_without_collections(model in any_model(), workload in any_workload()) {
        let scene = Scene::new(&model, &workload);
        let Some(timeline) = Timeline::of(&scene) else { return Ok(()) };
        let mut heap = crate::heap::SimulatedHeap::new(model.lifetimes, workload.start.tenured, workload.start.pending);
        let objects = workload.requests.iter().flat_map(|request| {
            let visits = request.visits.max(1);
            std::iter::repeat_n(request.objects / f64::from(visits), visits as usize)
        });
        let mut dead = 0.0;
        for (objects, turn) in objects.zip(&timeline.turns) {
            heap.allocate(objects);
            heap.settle();
            dead += turn.young + turn.old;
            prop_assert!((heap.dead() - dead).abs() < 1e-6);
            prop_assert!((heap.total() - heap.dead() - turn.alive).abs() < 1e-6);
        }
        prop_assert!(heap.collect(Generation::Full).freed >= dead - 1e-6);
        if workload.pace == Pace::Open {
            let latency = |(turn, request): (&timeline::Turn, &Request)| {
                let came = request.at as f64 - workload.start.at as f64;
                if turn.counts { turn.ends + request.rest as f64 - came } else { 0.0 }
            };
            let sum: f64 = timeline.turns.iter().zip(&workload.requests).map(latency).sum();
            prop_assert!((never(&scene).mean_ms - sum / 1e6 / timeline.requests).abs() < 1e-6);
        } else {
            prop_assert_eq!(never(&scene).seconds, timeline.seconds);
        }
    }
}

/// How far the best known schedule is from the bound.
fn gap(shape: &str, objects: f64) -> (f64, f64) {
    let model = HeapModel::default();
    let start = Start { at: 0, tenured: 500_000.0, pending: 0.0 };
    let shape: TrafficShape = shape.parse().unwrap_or(TrafficShape::Poisson { rate: 1.0 });
    let workload = shape.requests(3_000, &imagined(200, objects, 1), start, 5);
    let scene = Scene::new(&model, &workload);
    let plan = oracle(&scene, 0.01, Resolution::default()).map_or(f64::NAN, |plan| plan.outcome.cost(0.01));
    (lower_bound(&scene, 0.01), plan)
}

#[test]
fn the_bound_is_no_idle_number() {
    for shape in ["poisson:50", "poisson:250", "poisson:400", "bursty:150", "diurnal:200"] {
        let (bound, plan) = gap(shape, 700.0);
        eprintln!("{shape}: {bound} {plan} {}", plan / bound);
        assert!(bound > 0.0 && bound <= plan, "{shape}: {bound} {plan}");
    }
}
