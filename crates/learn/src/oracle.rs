//! The best schedule in hindsight: what a policy would do that knew every request before it came.
//!
//! A search over all moments at which a collection can be worth it. A pause in the middle of a request delays every
//! request that it would delay right before that one, and frees no more; so only the moments between requests matter.
//! At each of them every schedule so far is continued in every way. Schedules that have led to the same state are one from
//! there on, and only the cheapest is kept. That is dynamic programming, and exact, as long as states are told apart
//! exactly. Where there are thousands of requests, states that are nearly alike count as the same, and collections
//! begin only in gaps, or every so often where none comes: then the schedule is one that can be played and that nothing
//! we know of beats, but not proven to be the best.

use std::collections::HashMap;
use std::time::Duration;

use neurogc_load::Latencies;
use neurogc_policy::{Decision, Scope, Snapshot};
use neurogc_wire::trace::Place;

use crate::cost::cost;
use crate::machine::{SECOND, SimulatedProgram, Task};
use crate::outcome::SimulationOutcome;
use crate::simulate::{Scene, never};
use crate::workload::{Pace, Request, Workload};

/// How states are told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolution {
    /// Exactly: for a few requests.
    Exact,
    /// By so many steps for each doubling of a number.
    Steps(f64),
}

impl Default for Resolution {
    fn default() -> Self {
        Self::Steps(1.0)
    }
}

/// A decision of the best schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// It is carried out before this request, by its place in the workload.
    pub before: usize,
    /// What is done.
    pub decision: Decision,
    /// Whether a snapshot is waited for first.
    pub after_landing: bool,
}

/// The best schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct BestSchedule {
    /// What is done, in order.
    pub decisions: Vec<Planned>,
    /// What comes of it.
    pub outcome: SimulationOutcome,
    /// The most states that there were at a time.
    pub states: usize,
}

/// Slices in which the oracle frees what a snapshot found: a short one, and everything.
const SLICES: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(3600)];

/// How many slices it may put into one gap.
const MOST_SLICES: u32 = 4;

/// Where no gap comes, a collection may begin at each so many requests.
const BUSY_EVERY: u32 = 8;

/// Finds the best schedule. There is none for users who wait for their answers, nor for requests that queue again: who comes
/// next depends on it.
#[must_use]
pub fn oracle(scene: &Scene<'_>, lambda: f64, resolution: Resolution) -> Option<BestSchedule> {
    if scene.workload.pace != Pace::Open || scene.workload.requests.iter().any(|request| request.visits > 1) {
        return None;
    }
    let mut search = Search::new(scene, lambda, resolution);
    for index in 0..scene.workload.requests.len() {
        search.request(index);
    }
    let best = search.states.iter().min_by(|a, b| search.cost(a).total_cmp(&search.cost(b)))?;
    let decisions = search.decisions_of(best.trail);
    let outcome = play(scene, &decisions);
    Some(BestSchedule { decisions, outcome, states: search.most })
}

/// A schedule so far, by where it has led.
#[derive(Clone, Copy, Debug)]
struct State<'s> {
    machine: SimulatedProgram<'s>,
    latency: f64,
    /// Its last decision.
    trail: Option<u32>,
}

struct Search<'s> {
    scene: &'s Scene<'s>,
    lambda: f64,
    resolution: Resolution,
    /// What sums are divided by: the requests that count, and the seconds.
    requests: f64,
    seconds: f64,
    states: Vec<State<'s>>,
    /// Decisions, each with the one before it.
    trails: Vec<(Option<u32>, Planned)>,
    most: usize,
    /// How many requests have come since the last gap, had nothing ever been collected.
    busy: u32,
    free_at: u64,
}

impl<'s> Search<'s> {
    fn new(scene: &'s Scene<'s>, lambda: f64, resolution: Resolution) -> Self {
        let (requests, seconds) = counted(scene.workload);
        let start = State { machine: SimulatedProgram::new(scene.model, scene.workload), latency: 0.0, trail: None };
        Self {
            scene,
            lambda,
            resolution,
            requests,
            seconds,
            states: vec![start],
            trails: Vec::new(),
            most: 0,
            busy: 0,
            free_at: 0,
        }
    }

    fn cost(&self, state: &State<'_>) -> f64 {
        let delay = state.latency / self.requests / 1e6;
        cost(delay, state.machine.held_seconds / self.seconds / 1e6, self.lambda)
    }

    /// Continues every schedule in every way up to the end of a request.
    fn request(&mut self, index: usize) {
        let request = self.scene.workload.requests[index];
        self.busy = if self.free_at < request.at { 0 } else { self.busy + 1 };
        self.free_at = self.free_at.max(request.at) + request.service;
        let anywhere = self.resolution == Resolution::Exact || self.busy % BUSY_EVERY == BUSY_EVERY - 1;
        let mut best: HashMap<Key, State<'s>> = HashMap::with_capacity(self.states.len());
        let mut ways = Vec::new();
        for state in std::mem::take(&mut self.states) {
            ways.push(state);
            if anywhere || state.machine.now < request.at {
                self.branch(state, index, request.at, 0, &mut ways);
            }
            for mut way in ways.drain(..) {
                way.latency += serve(&mut way.machine, &request, self.scene.workload);
                let key = self.key(&way.machine);
                match best.get_mut(&key) {
                    Some(kept) if self.cost(kept) <= self.cost(&way) => {}
                    Some(kept) => *kept = way,
                    None => drop(best.insert(key, way)),
                }
            }
        }
        self.states.extend(best.into_values());
        self.prune();
        self.most = self.most.max(self.states.len());
    }

    /// All that can be done at a moment between requests.
    fn branch(&mut self, mut state: State<'s>, before: usize, until: u64, slices: u32, ways: &mut Vec<State<'s>>) {
        state.machine.land();
        if slices == 0 {
            for decision in self.worthwhile(&state.machine).into_iter().flatten() {
                self.add(state, Planned { before, decision, after_landing: false }, ways);
            }
        }
        let landing = state.machine.lands().filter(|lands| *lands < until);
        if let Some(lands) = landing {
            state.machine.wait_until(lands);
            state.machine.land();
        }
        if matches!(state.machine.snapshot(), Snapshot::Ready { .. }) && slices < MOST_SLICES {
            for budget in SLICES {
                let planned = Planned { before, decision: Decision::Reap { budget }, after_landing: landing.is_some() };
                let freed = self.add(state, planned, ways);
                if freed.machine.now < until {
                    self.branch(freed, before, until, slices + 1, ways);
                }
            }
        }
    }

    /// The collections that may bring something. A young one that frees nothing makes later ones shorter, which only an
    /// exact search looks into.
    fn worthwhile(&self, machine: &SimulatedProgram<'_>) -> [Option<Decision>; 5] {
        let [young, middle, _, young_garbage, middle_garbage, _] = machine.heap.shape();
        let some = machine.heap.findable() >= 1.0;
        let (young, middle) = match self.resolution {
            Resolution::Exact => (young >= 1.0, young + middle >= 1.0),
            Resolution::Steps(_) => (young_garbage >= 1.0, middle_garbage >= 1.0),
        };
        let snapshot = some && self.scene.snapshots && machine.snapshot() == Snapshot::Idle;
        [
            young.then_some(Decision::Young),
            middle.then_some(Decision::Middle),
            some.then_some(Decision::Full),
            snapshot.then_some(Decision::Snapshot { scope: Scope::All }),
            snapshot.then_some(Decision::Snapshot { scope: Scope::New }),
        ]
    }

    fn add(&mut self, from: State<'s>, planned: Planned, ways: &mut Vec<State<'s>>) -> State<'s> {
        let mut way = from;
        way.machine.perform(planned.decision);
        self.trails.push((from.trail, planned));
        way.trail = Some(self.trails.len() as u32 - 1);
        ways.push(way);
        way
    }

    /// What tells states apart.
    fn key(&self, machine: &SimulatedProgram<'_>) -> Key {
        let [young, middle, old, young_garbage, middle_garbage, old_garbage] = machine.heap.shape();
        let [first, second] = machine.heap.borders();
        let late = machine.now.saturating_sub(self.free_at) as f64;
        let (out, found) = match machine.snapshot() {
            Snapshot::Ready { objects, .. } => (1, objects as f64),
            _ => machine.lands().map_or((0, 0.0), |lands| (2, lands.saturating_sub(machine.now) as f64)),
        };
        match self.resolution {
            Resolution::Exact => {
                let [seen, new, new_garbage, launched, recent, recent_garbage] = machine.heap.newness();
                let all = [
                    young,
                    middle,
                    old,
                    young_garbage,
                    middle_garbage,
                    old_garbage,
                    first,
                    second,
                    late,
                    found,
                    seen,
                    new,
                    new_garbage,
                    launched,
                    recent,
                    recent_garbage,
                ];
                (out, all.map(f64::to_bits))
            }
            Resolution::Steps(steps) => {
                let step = |value: f64, unit: f64| ((1.0 + value / unit).log2() * steps) as u64;
                let (objects, time) = (500.0, 500_000.0);
                let found = step(found, if out == 1 { objects } else { 50.0 * time });
                let garbage = step(old_garbage, objects);
                let (young, middle) = (step(young, objects), step(middle, objects));
                // Garbage that walks of new objects leave out needs one of everything.
                let left_out = step((old_garbage - machine.heap.newness()[2]).max(0.0), objects);
                let mut key = [0; 16];
                key[..6].copy_from_slice(&[young, middle, garbage, step(late, time), found, left_out]);
                (out, key)
            }
        }
    }

    /// Drops states that others are better than in every way: cheaper, earlier, and with less in every generation.
    fn prune(&mut self) {
        if self.resolution == Resolution::Exact {
            return;
        }
        let mut priced: Vec<(f64, State<'s>)> =
            std::mem::take(&mut self.states).into_iter().map(|state| (self.cost(&state), state)).collect();
        priced.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.machine.now.cmp(&b.1.machine.now)));
        for (_, state) in priced {
            let beaten = self.states.iter().any(|kept| is_cleaner(&kept.machine, &state.machine));
            if !beaten {
                self.states.push(state);
            }
        }
    }

    fn decisions_of(&self, mut trail: Option<u32>) -> Vec<Planned> {
        let mut decisions = Vec::new();
        while let Some((before, planned)) = trail.and_then(|at| self.trails.get(at as usize)) {
            decisions.push(*planned);
            trail = *before;
        }
        decisions.reverse();
        decisions
    }
}

type Key = (u8, [u64; 16]);

/// Whether nothing speaks for the other state but what it has cost.
fn is_cleaner(one: &SimulatedProgram<'_>, other: &SimulatedProgram<'_>) -> bool {
    let busy = |machine: &SimulatedProgram<'_>| machine.snapshot() != Snapshot::Idle;
    let [young, middle, _, young_garbage, middle_garbage, garbage] = one.heap.shape();
    let [its_young, its_middle, _, its_young_garbage, its_middle_garbage, its_garbage] = other.heap.shape();
    one.now <= other.now
        && (!busy(one) || one.snapshot() == other.snapshot() && one.lands() == other.lands())
        && young <= its_young
        && young + middle <= its_young + its_middle
        && garbage <= its_garbage
        && garbage + middle_garbage <= its_garbage + its_middle_garbage
        && garbage + middle_garbage + young_garbage <= its_garbage + its_middle_garbage + its_young_garbage
}

/// The requests that count, and the seconds in which they come.
fn counted(workload: &Workload) -> (f64, f64) {
    let requests = workload.requests.iter().filter(|request| workload.counts(request.at)).count();
    let ends = workload.requests.last().map_or(0, |last| last.at);
    let seconds = ends.saturating_sub(workload.counted_from) as f64 / SECOND;
    ((requests as f64).max(1.0), seconds.max(1e-9))
}

/// Serves a request, and gives its latency where it counts.
fn serve(machine: &mut SimulatedProgram<'_>, request: &Request, workload: &Workload) -> f64 {
    machine.wait_until(request.at);
    machine.work(&mut Task { time: request.service as f64, objects: request.objects }, u64::MAX);
    machine.heap.settle();
    let latency = (machine.now + request.rest - request.at) as f64;
    if workload.counts(request.at) { latency } else { 0.0 }
}

/// Plays a schedule.
fn play(scene: &Scene<'_>, decisions: &[Planned]) -> SimulationOutcome {
    let mut machine = SimulatedProgram::new(scene.model, scene.workload);
    let (mut outcome, mut latencies, mut sum) = (SimulationOutcome::default(), Latencies::new(), 0.0);
    let mut decisions = decisions.iter().peekable();
    for (index, request) in scene.workload.requests.iter().enumerate() {
        while let Some(planned) = decisions.next_if(|planned| planned.before == index) {
            if let Some(lands) = machine.lands().filter(|_| planned.after_landing) {
                machine.wait_until(lands);
            }
            machine.land();
            let place = if machine.now < request.at { Place::InGap } else { Place::InRequest };
            let stop = machine.perform(planned.decision);
            if machine.now >= scene.workload.counted_from {
                outcome.pause(stop.lasted, place);
                outcome.full += u64::from(planned.decision == Decision::Full);
                outcome.snapshots += u64::from(matches!(planned.decision, Decision::Snapshot { .. }));
            }
        }
        let latency = serve(&mut machine, request, scene.workload);
        if scene.workload.counts(request.at) {
            latencies.record(Duration::from_nanos(latency as u64));
            sum += latency;
        }
    }
    outcome.count_latencies(&latencies, sum);
    outcome.count_memory(&machine, scene.workload);
    outcome.count_delay(never(scene).mean_ms);
    outcome
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use neurogc_policy::Name;
    use proptest::prelude::*;

    use super::*;
    use crate::generate::{TrafficShape, imagined};
    use crate::model::{HeapModel, Lifetimes};
    use crate::simulate::simulate;
    use crate::workload::Start;

    fn any_model() -> impl Strategy<Value = HeapModel> {
        (0.0..1.0_f64, 0.0..1.0_f64, 0.0..5_000.0_f64).prop_map(|(die_young, old, lag)| HeapModel {
            lifetimes: Lifetimes { die_young, by_reference: 0.0, held: 0.0, die_old: (1.0 - die_young) * old, lag },
            ..HeapModel::default()
        })
    }

    /// A few requests, some close together and some far apart.
    fn any_workload(most: usize) -> impl Strategy<Value = Workload> {
        let request = (0..60_000_000_u64, 100_000..4_000_000_u64, 0.0..3_000.0_f64);
        (prop::collection::vec(request, 1..most), 0.0..300_000.0_f64).prop_map(|(steps, tenured)| {
            let mut workload = Workload::new(Start { at: 2_000_000_000, tenured, pending: 0.0 });
            let mut at = workload.start.at;
            for (step, service, objects) in steps {
                // Every third comes right after the one before it.
                at += if step % 3 == 0 { step / 30 } else { step };
                workload.requests.push(Request { at, service, objects, ..Request::default() });
            }
            workload
        })
    }

    /// Every schedule there is, one after the other.
    fn least_of_all(scene: &Scene<'_>, lambda: f64, index: usize, state: State<'_>) -> f64 {
        let (requests, seconds) = counted(scene.workload);
        let Some(request) = scene.workload.requests.get(index) else {
            return cost(state.latency / requests / 1e6, state.machine.held_seconds / seconds / 1e6, lambda);
        };
        let go_on = |mut state: State<'_>| {
            state.latency += serve(&mut state.machine, request, scene.workload);
            least_of_all(scene, lambda, index + 1, state)
        };
        let mut least = go_on(state);
        for decision in [Decision::Young, Decision::Middle, Decision::Full] {
            let mut way = state;
            way.machine.perform(decision);
            least = least.min(go_on(way));
        }
        least
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn no_schedule_is_cheaper_than_the_exact_one(
            model in any_model(), workload in any_workload(7), lambda in 0.0..1.0_f64
        ) {
            // A nanosecond of work says nothing about memory by the second.
            prop_assume!(counted(&workload).1 > 1e-6);
            let scene = Scene { snapshots: false, ..Scene::new(&model, &workload) };
            let plan = oracle(&scene, lambda, Resolution::Exact).unwrap();
            let start = State { machine: SimulatedProgram::new(&model, &workload), latency: 0.0, trail: None };
            let least = least_of_all(&scene, lambda, 0, start);
            let floor = never(&scene).mean_ms;
            prop_assert!((plan.outcome.cost(lambda) + floor - least).abs() < 1e-6, "{plan:?} {least}");
        }

        #[test]
        fn no_policy_beats_the_oracle(
            model in any_model(), workload in any_workload(10), lambda in 0.0..0.3_f64, snapshots: bool
        ) {
            let scene = Scene { snapshots, ..Scene::new(&model, &workload) };
            let plan = oracle(&scene, lambda, Resolution::Exact).unwrap();
            let least = plan.outcome.cost(lambda);
            let names = [Name::Cpython, Name::Gap, Name::Freeze, Name::Every(2), Name::Threshold([2000, 2, 0])];
            for name in names {
                let its = simulate(&scene, name.clone()).cost(lambda);
                // Nanoseconds are lost where work is cut into pieces.
                prop_assert!(its >= least - 1e-4, "{name}: {its} < {least} {plan:?}");
            }
        }

        #[test]
        fn telling_states_apart_by_steps_loses_little(
            model in any_model(), workload in any_workload(10), lambda in 0.0..0.3_f64
        ) {
            let scene = Scene::new(&model, &workload);
            let exact = oracle(&scene, lambda, Resolution::Exact).unwrap().outcome.cost(lambda);
            let steps = oracle(&scene, lambda, Resolution::default()).unwrap().outcome.cost(lambda);
            prop_assert!(steps >= exact - 1e-9);
            // Of a handful of requests one decision may be all the difference.
            prop_assert!(steps <= exact * 1.1 + 0.05, "{steps} for {exact}");
        }
    }

    #[test]
    fn thousands_of_requests_are_planned_and_no_policy_is_cheaper() {
        let model = HeapModel::default();
        let start = Start { at: 0, tenured: 500_000.0, pending: 0.0 };
        let workload = TrafficShape::Poisson { rate: 250.0 }.requests(3_000, &imagined(200, 700.0, 1), start, 5);
        let scene = Scene::new(&model, &workload);
        let plan = oracle(&scene, 0.01, Resolution::default()).unwrap();
        for name in [Name::Cpython, Name::Gap, Name::Every(100), Name::Threshold([10_000, 10, 10])] {
            let its = simulate(&scene, name.clone()).cost(0.01);
            assert!(its >= plan.outcome.cost(0.01), "{name}: {its} for {}", plan.outcome.cost(0.01));
        }
    }

    #[test]
    fn users_who_wait_for_answers_have_no_schedule() {
        let model = HeapModel::default();
        let workload = TrafficShape::Closed { users: 3 }.requests(10, &imagined(10, 700.0, 1), Start::default(), 5);
        assert_eq!(oracle(&Scene::new(&model, &workload), 0.01, Resolution::default()), None);
    }
}
