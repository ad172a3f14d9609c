//! Plays a workload under a policy: the very policy and guards that run in the agent.
//!
//! One interpreter serves one request at a time, in the order in which they come. A request that has waited for others
//! comes again, behind all that are there by then. Everything that stops the interpreter (CPython's own collections
//! in the middle of a request, and what the policy orders) delays the requests that come meanwhile. The policy is asked as
//! in the agent: at the end of each collection that CPython starts by itself, in gaps, and, where it wants that, by looks
//! every few milliseconds.

use std::time::Duration;

use neurogc_load::Latencies;
use neurogc_policy::{
    Bytes, Decision, Guarded, Limits, Moment, Name, Observation, Order, Policy, Snapshot, Tuning, policy,
};
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{Place, Trace};

use crate::lessons::{Lesson, Notes};
use crate::looks::SamplerLooks;
use crate::machine::{SECOND, SimulatedProgram, SimulatedStop, Task};
use crate::model::HeapModel;
use crate::outcome::SimulationOutcome;
use crate::record::Recorder;
use crate::visits::{IncomingRequests, Visit};
use crate::workload::{Request, Workload};

/// What is played, and under which conditions.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'s> {
    /// What the heap is like.
    pub model: &'s HeapModel,
    /// What is asked.
    pub workload: &'s Workload,
    /// What policies are told.
    pub tuning: Tuning,
    /// What guards hold to.
    pub limits: Limits,
    /// Whether snapshots can be taken.
    pub snapshots: bool,
}

impl<'s> Scene<'s> {
    /// A scene with the usual settings.
    #[must_use]
    pub fn new(model: &'s HeapModel, workload: &'s Workload) -> Self {
        Self { model, workload, tuning: Tuning::default(), limits: Limits::default(), snapshots: true }
    }
}

/// A policy under the pacer, as the scene wants it.
fn guarded(scene: &Scene<'_>, policy: Box<dyn Policy>) -> Guarded {
    Guarded::new(policy, scene.limits, scene.tuning, scene.workload.thresholds)
}

/// Plays a scene under a policy.
#[must_use]
pub fn simulate(scene: &Scene<'_>, name: Name) -> SimulationOutcome {
    // CPython alone needs no looks.
    let acts = name.acts();
    simulate_policy(scene, policy(name, scene.tuning), acts)
}

/// The same under a policy that has no name. One that does not act is only asked for thresholds.
#[must_use]
pub fn simulate_policy(scene: &Scene<'_>, policy: Box<dyn Policy>, acts: bool) -> SimulationOutcome {
    let mut run = Run::new(scene, guarded(scene, policy), acts);
    run.play();
    run.finish()
}

/// The same without any collection: what no policy's latency can be better than.
#[must_use]
pub fn never(scene: &Scene<'_>) -> SimulationOutcome {
    let mut run = Run::new(scene, guarded(scene, policy(Name::Observe, scene.tuning)), false);
    run.thresholds = [0; 3];
    run.play();
    run.report()
}

/// Plays a scene, and gives the trace that an agent would have recorded that is not told when requests come.
#[must_use]
pub fn record(scene: &Scene<'_>, name: Name) -> Trace {
    recorded(scene, name, false)
}

/// The same where the kernel says when requests come.
#[must_use]
pub fn record_arrivals(scene: &Scene<'_>, name: Name) -> Trace {
    recorded(scene, name, true)
}

fn recorded(scene: &Scene<'_>, name: Name, arrivals: bool) -> Trace {
    let mut run = Run::new(scene, guarded(scene, policy(name.clone(), scene.tuning)), name.acts());
    run.recorder = Some(Recorder::new(arrivals));
    run.play();
    run.recorder.unwrap_or_default().trace(scene.workload, &name.to_string())
}

/// Plays a scene under a policy, and gives what it teaches: one look in so many becomes a lesson.
#[must_use]
pub fn lessons(scene: &Scene<'_>, policy: Box<dyn Policy>, every: usize) -> Vec<Lesson> {
    let mut run = Run::new(scene, guarded(scene, policy), true);
    run.notes = Some(Notes::new(every));
    run.play();
    run.notes.map(Notes::lessons).unwrap_or_default()
}

/// How often the program is looked at, in nanoseconds.
const STEP: u64 = 2_000_000;
const RARE_STEP: u64 = 5_000_000;
const LONGEST_STEP: u64 = 50_000_000;

/// A pause that long is seen by the looks: the gap begins anew.
const SEEN: u64 = STEP;

struct Run<'s> {
    scene: &'s Scene<'s>,
    machine: SimulatedProgram<'s>,
    guarded: Guarded,
    acts: bool,
    thresholds: [u32; 3],
    next_look: u64,
    /// Since when the interpreter has been free.
    idle_since: Option<u64>,
    /// What waits for the end of the request.
    urgent: Option<Order>,
    served: u64,
    /// Until when a request that waits for others is open.
    resting_until: u64,
    snapshot: Snapshot,
    latencies: Latencies,
    latency_sum: f64,
    outcome: SimulationOutcome,
    recorder: Option<Recorder>,
    notes: Option<Notes>,
    /// How long the program has run or stood still, and not waited.
    worked: u64,
    looks: SamplerLooks,
}

impl<'s> Run<'s> {
    fn new(scene: &'s Scene<'s>, mut guarded: Guarded, acts: bool) -> Self {
        let machine = SimulatedProgram::new(scene.model, scene.workload);
        guarded.begin(Bytes::new(machine.rss() as u64), machine.heap.tracked() as u64);
        let snapshot = if scene.snapshots { Snapshot::Idle } else { Snapshot::Unavailable };
        let first = Observation { snapshot, ..Observation::default() };
        Self {
            scene,
            machine,
            thresholds: guarded.thresholds(&first).unwrap_or(scene.workload.thresholds),
            guarded,
            acts,
            next_look: scene.workload.start.at,
            idle_since: None,
            urgent: None,
            served: 0,
            resting_until: 0,
            snapshot,
            latencies: Latencies::new(),
            latency_sum: 0.0,
            outcome: SimulationOutcome::default(),
            recorder: None,
            notes: None,
            worked: 0,
            looks: SamplerLooks::default(),
        }
    }

    fn play(&mut self) {
        let mut arrivals = IncomingRequests::new(self.scene.workload);
        while let Some(visit) = arrivals.next() {
            let request = &self.scene.workload.requests[visit.index];
            if self.machine.now < visit.ready {
                self.gap(visit.ready);
            }
            let began = self.machine.now;
            self.serve(request);
            self.worked += self.machine.now - began;
            self.count_looks(began, false);
            let first_began = if visit.number == 0 { began } else { visit.began };
            if visit.number + 1 < request.visits {
                let ready = self.machine.now + request.rest / u64::from(request.visits - 1);
                self.resting_until = self.resting_until.max(ready);
                arrivals.returns(Visit { ready, began: first_began, number: visit.number + 1, ..visit });
            } else {
                let rest = if request.visits > 1 { 0 } else { request.rest };
                let ends = self.machine.now + rest;
                self.resting_until = self.resting_until.max(ends);
                self.answer(visit.came, first_began, ends);
                arrivals.answered(ends);
            }
            if let Some(order) = self.urgent.take() {
                self.carry_out(order);
            }
        }
    }

    /// A request is over.
    fn answer(&mut self, came: u64, began: u64, ended: u64) {
        self.served += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.request(came, began, ended);
            recorder.look(&self.machine, self.worked);
        }
        if self.scene.workload.counts(came) {
            let latency = ended - came;
            self.latencies.record(Duration::from_nanos(latency));
            self.latency_sum += latency as f64;
        }
    }

    /// Nothing is asked until then.
    fn gap(&mut self, until: u64) {
        let from = self.machine.now;
        self.idle_since = Some(from);
        if self.acts {
            self.ask_in_gap(until);
            loop {
                let look = self.next_look.max(self.machine.now);
                if look >= until {
                    break;
                }
                self.machine.wait_until(look);
                if self.looks() {
                    self.look();
                } else {
                    self.next_look = self.machine.now + step(self.idle());
                    self.ask_in_gap(until);
                }
            }
        }
        self.machine.wait_until(until);
        self.idle_since = None;
        self.count_looks(from, true);
        if let Some(notes) = &mut self.notes {
            notes.gap(from as f64 / SECOND, until as f64 / SECOND);
        }
    }

    /// How often the agent looks at the program from then on until now.
    fn count_looks(&mut self, from: u64, idle: bool) {
        let counts = self.machine.now >= self.scene.workload.counted_from;
        self.looks.span(idle, self.machine.now.saturating_sub(from), counts, !self.guarded.insists_on_looks());
    }

    /// One visit of a request.
    fn serve(&mut self, request: &Request) {
        let visits = f64::from(request.visits.max(1));
        let mut whole = Task { time: request.service as f64 / visits, objects: request.objects / visits };
        loop {
            let young = self.thresholds[0];
            // CPython collects at the allocation after the threshold.
            let room = if young == 0 { f64::INFINITY } else { f64::from(young) + 1.0 - self.machine.heap.young() };
            let share = if whole.objects > room { room.max(0.0) / whole.objects } else { 1.0 };
            self.work(Task { time: whole.time * share, objects: whole.objects * share });
            if share == 1.0 {
                break;
            }
            whole = Task { time: whole.time * (1.0 - share), objects: whole.objects * (1.0 - share) };
            let held_off = self.scene.snapshots && self.snapshot != Snapshot::Idle;
            let generation = self.machine.heap.due(self.thresholds, held_off);
            let stop = self.machine.collect(generation);
            self.note(stop, StopKind::of_generation(generation.number()), Place::InRequest);
            self.collection_end();
        }
        self.machine.heap.settle();
    }

    /// The program runs, and is looked at meanwhile.
    fn work(&mut self, mut task: Task) {
        while task.time > 0.0 || task.objects > 0.0 {
            let until = if self.looks() { self.next_look.max(self.machine.now) } else { u64::MAX };
            self.machine.work(&mut task, until);
            if self.looks() && self.machine.now >= self.next_look {
                self.look();
            }
        }
    }

    /// Whether the program is looked at beside the moments at which the policy is asked.
    fn looks(&self) -> bool {
        let anyway = || !self.looks.is_light(self.idle().unwrap_or(0));
        let asked = self.guarded.wants_looks() && (self.guarded.insists_on_looks() || anyway());
        self.acts && (asked || self.notes.is_some())
    }

    fn idle(&self) -> Option<u64> {
        self.idle_since.map(|since| self.machine.now - since)
    }

    /// A collection that CPython has started by itself is over.
    fn collection_end(&mut self) {
        if self.acts {
            self.look_at_snapshot();
            let order = self.guarded.decide(&self.observe(Moment::CollectionEnd));
            self.carry_out(order);
        }
        if let Some(wanted) = self.guarded.thresholds(&self.observe(Moment::CollectionEnd)) {
            self.thresholds = wanted;
        }
    }

    /// The program has nothing to do: the policy is asked as long as it wants something.
    fn ask_in_gap(&mut self, until: u64) {
        while self.machine.now < until {
            self.look_at_snapshot();
            let order = self.guarded.decide(&self.observe(Moment::Gap));
            if order.decision == Decision::Wait || self.carry_out(order) == 0 {
                return;
            }
        }
    }

    /// A look at the program.
    fn look(&mut self) {
        let idle = self.idle();
        self.next_look = self.machine.now + step(idle);
        self.look_at_snapshot();
        let observation = self.observe(Moment::Look);
        if let Some(notes) = &mut self.notes {
            notes.look(&self.guarded.seen_by_policy(&observation));
        }
        if idle.is_some() {
            self.guarded.looked(observation.now);
            // What a look would order in a gap is carried out by the thread that has it.
            let order = self.guarded.decide(&Observation { moment: Moment::Gap, ..observation });
            self.carry_out(order);
            return;
        }
        if self.guarded.wants_looks() {
            let order = self.guarded.decide(&observation);
            self.urgent = order.at_once.then_some(order);
        }
    }

    fn observe(&self, moment: Moment) -> Observation {
        let (now, heap, idle) = (self.machine.now, &self.machine.heap, self.idle());
        Observation {
            now: Duration::from_nanos(now),
            moment,
            idle: idle.map(Duration::from_nanos),
            in_flight: u64::from(idle.is_none() || now < self.resting_until),
            requests: self.served,
            counts: heap.counts(),
            rss: Bytes::new(self.machine.rss() as u64),
            snapshot: self.snapshot,
            ..Observation::default()
        }
    }

    fn look_at_snapshot(&mut self) {
        if !self.scene.snapshots {
            return;
        }
        if let Some(flown) = self.machine.land() {
            self.guarded.landed(&flown);
            if let Some(notes) = &mut self.notes {
                notes.landed(&flown);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.flight(&flown, self.machine.pages_copied(flown.objects));
            }
        }
        let before = std::mem::replace(&mut self.snapshot, self.machine.snapshot());
        if before != Snapshot::Idle && self.snapshot == Snapshot::Idle {
            self.guarded.drained(Bytes::new(self.machine.rss() as u64));
        }
    }

    /// Does what was ordered, and says for how long that stopped the program.
    fn carry_out(&mut self, order: Order) -> u64 {
        let kind = match order.decision {
            Decision::Wait | Decision::Trim => return 0,
            Decision::Young => StopKind::Young,
            Decision::Middle => StopKind::Middle,
            Decision::Full | Decision::Freeze => StopKind::Full,
            Decision::Reap { .. } => StopKind::Reap,
            Decision::Snapshot { .. } => StopKind::Clone,
            Decision::Throttle { .. } => return self.hold_up(order),
        };
        let place = match order {
            Order { forced: true, .. } => Place::Forced,
            _ if self.idle_since.is_none() => Place::InRequest,
            _ => Place::InGap,
        };
        let young = self.machine.heap.counts()[0];
        let stop = self.machine.perform(order.decision);
        let (now, pause) = (Duration::from_nanos(self.machine.now), Duration::from_nanos(stop.lasted));
        match order.decision {
            Decision::Snapshot { scope } => self.guarded.launched(now, scope, young),
            Decision::Reap { .. } => self.guarded.reaped(now, stop.freed as u64, pause),
            _ => {}
        }
        self.note(stop, kind, place);
        self.guarded.stopped_for(order.decision, pause);
        self.look_at_snapshot();
        if self.idle_since.is_some() {
            self.worked += stop.lasted;
        }
        if stop.lasted >= SEEN && self.idle_since.is_some() {
            self.idle_since = Some(self.machine.now);
        }
        stop.lasted
    }

    /// The program is held up, which is no stop of a kind that traces have.
    fn hold_up(&mut self, order: Order) -> u64 {
        let stop = self.machine.perform(order.decision);
        self.guarded.stopped_for(order.decision, Duration::from_nanos(stop.lasted));
        if self.machine.now >= self.scene.workload.counted_from {
            self.outcome.held_up(stop.lasted, Place::InRequest);
        }
        stop.lasted
    }

    /// Takes note of a stop.
    fn note(&mut self, stop: SimulatedStop, kind: StopKind, place: Place) {
        if let Some(collected) = stop.collected {
            self.guarded.learn(&collected, stop.before);
            if let Some(notes) = &mut self.notes {
                notes.learn(&collected);
            }
        }
        if stop.lasted == 0 {
            return;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.stop(&self.machine, stop, kind, place);
        }
        if self.machine.now >= self.scene.workload.counted_from {
            self.outcome.pause(stop.lasted, place);
            self.outcome.full += u64::from(kind == StopKind::Full);
            self.outcome.snapshots += u64::from(kind == StopKind::Clone);
        }
    }

    fn report(mut self) -> SimulationOutcome {
        self.outcome.count_latencies(&self.latencies, self.latency_sum);
        self.outcome.count_memory(&self.machine, self.scene.workload);
        if self.acts {
            self.outcome.count_looks(self.looks.looks());
        }
        self.outcome
    }

    fn finish(self) -> SimulationOutcome {
        let scene = self.scene;
        let mut outcome = self.report();
        outcome.count_delay(never(scene).mean_ms);
        outcome
    }
}

/// How long it is until the next look.
pub(crate) fn step(idle: Option<u64>) -> u64 {
    match idle {
        None => STEP,
        Some(idle) if idle > 1_000_000_000 => (idle / 100).clamp(RARE_STEP, LONGEST_STEP),
        Some(idle) => (idle / 32).clamp(STEP, RARE_STEP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neurogc_policy::{CollectionControl, Scope};

    use crate::model::Lifetimes;
    use crate::outcome::{COLLECTION_MS, LOOK_MS};
    use crate::workload::{Pace, Start};

    /// Latencies of two requests in milliseconds, without any collection: the mean, and the highest.
    fn check(first: Request, second: Request) -> (f64, f64) {
        let (model, mut workload) = (HeapModel::default(), Workload::new(Start::default()));
        workload.requests = vec![first, second];
        let outcome = never(&Scene::new(&model, &workload));
        assert_eq!(outcome.requests, 2);
        (outcome.mean_ms, outcome.max_ms)
    }

    fn near(found: (f64, f64), expect: (f64, f64)) {
        let off = (found.0 - expect.0).abs() + (found.1 - expect.1).abs();
        assert!(off < 0.01 * (expect.0 + expect.1), "{found:?} for {expect:?}");
    }

    #[test]
    fn who_comes_back_queues_again() {
        let three = Request { service: 30_000_000, visits: 3, ..Request::default() };
        let one = Request { at: 5_000_000, service: 40_000_000, ..Request::default() };
        // Ten, then the other one's forty, then twenty.
        near(check(three, one), (f64::midpoint(70.0, 45.0), 70.0));
        near(check(three, Request { visits: 4, ..one }), (f64::midpoint(50.0, 65.0), 65.0));
    }

    #[test]
    fn others_are_served_while_one_waits() {
        let waits = Request { service: 20_000_000, rest: 50_000_000, visits: 2, ..Request::default() };
        let one = Request { at: 1_000_000, service: 40_000_000, ..Request::default() };
        near(check(waits, one), (f64::midpoint(70.0, 49.0), 70.0));
        near(check(waits, Request { service: 70_000_000, ..one }), (f64::midpoint(90.0, 79.0), 90.0));
    }

    /// Does one thing in the first gap.
    #[derive(Debug)]
    struct Once(Option<Decision>);

    impl Policy for Once {
        fn control(&self) -> CollectionControl {
            CollectionControl::Cpython
        }

        fn decide(&mut self, observation: &Observation) -> Order {
            let decision = if observation.is_gap() { self.0.take() } else { None };
            decision.map_or(Order::WAIT, |decision| Order::because(decision, "once"))
        }
    }

    #[test]
    fn processor_time_is_that_of_stops_walks_copies_and_the_agent() {
        let (model, start) = (HeapModel::default(), Start { at: 1_000_000_000, tenured: 500_000.0, pending: 0.0 });
        let mut workload = Workload::new(start);
        let first = Request { at: 1_000_000_000, service: 8_000_000, ..Request::default() };
        workload.requests = vec![first, Request { at: 1_020_000_000, service: 16_000_000, ..first }];
        let scene = Scene::new(&model, &workload);
        let once = |decision| simulate_policy(&scene, Box::new(Once(Some(decision))), true);
        let none = simulate_policy(&scene, Box::new(Once(None)), true).processor;
        assert!((none.stops_ms, none.walks_ms, none.copies_ms) == (0.0, 0.0, 0.0) && none.agent_ms > 0.0, "{none:?}");
        let same = |found: f64, expect: f64| (found - expect).abs() < 1e-3;
        let full = once(Decision::Full);
        assert!(same(full.processor.stops_ms, 50.0) && full.processor.walks_ms == 0.0, "{full:?}");
        let agent = full.looks as f64 * LOOK_MS;
        assert!((full.processor.agent_ms - COLLECTION_MS - agent).abs() <= LOOK_MS, "{full:?}");
        // The walk of 62 ms goes on beyond the second request, whose work takes a quarter longer.
        let flight = once(Decision::Snapshot { scope: Scope::All });
        assert_eq!((flight.snapshots, flight.in_gap.count), (1, 1));
        assert!(same(flight.processor.stops_ms, flight.in_gap.total_ms), "{flight:?}");
        assert!(same(flight.processor.copies_ms, 0.25 * 16.0), "{flight:?}");
        let until = 12.0 - flight.in_gap.total_ms + 20.0;
        assert!(same(flight.processor.walks_ms, until), "{flight:?}");
        let parts = flight.processor;
        assert_eq!(parts.total_ms(), parts.stops_ms + parts.walks_ms + parts.copies_ms + parts.agent_ms);
    }

    #[test]
    fn a_program_without_gaps_holds_its_memory() {
        // Eight users who never think: sessions live for a while and die old.
        let lifetimes = Lifetimes { die_young: 0.6, by_reference: 0.0, held: 0.0, die_old: 0.38, lag: 150_000.0 };
        let model = HeapModel { lifetimes, ..HeapModel::default() };
        let start = Start { at: 2_000_000_000, tenured: 800_000.0, pending: 0.0 };
        let mut workload = Workload { pace: Pace::Closed(8), ..Workload::new(start) };
        workload.requests = vec![Request { service: 1_000_000, objects: 800.0, ..Request::default() }; 30_000];
        let scene = Scene::new(&model, &workload);
        let (cpython, gap) = (simulate(&scene, Name::Cpython), simulate(&scene, Name::Gap));
        assert!(cpython.full > 3 && gap.snapshots > 3 && gap.in_gap.count == 0, "{gap:?}");
        assert!(gap.peak_rss_mb <= 1.25 * cpython.peak_rss_mb, "{} {}", gap.peak_rss_mb, cpython.peak_rss_mb);
        assert!(gap.in_request.max_ms < 12.0 && gap.forced.count == 0, "{:?} {:?}", gap.in_request, gap.forced);
    }
}
