//! A simulated program with its clock: it works, stands still for collections, and holds memory meanwhile.
//!
//! The simulator and the oracle use the same machine, so that what one plans the other can play.

use std::time::Duration;

use neurogc_policy::{Bytes, Collected, Decision, Flown, Generation, Scope, Snapshot};
use neurogc_wire::stop::StopKind;

use crate::heap::SimulatedHeap;
use crate::model::HeapModel;
use crate::workload::Workload;

/// What people and the kernel call a second.
pub(crate) const SECOND: f64 = 1e9;

/// The bytes of a page.
pub(crate) const PAGE: f64 = 4096.0;

/// A snapshot that is out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Flight {
    scope: Scope,
    began: u64,
    lands: u64,
    clone: u64,
    objects: f64,
    /// Objects that it finds unreachable.
    found: f64,
    /// Objects that are no longer new after it.
    older: f64,
    /// Objects that had become old before it.
    promoted: f64,
    /// What copies have cost the program so far, in nanoseconds.
    lost: f64,
    landed: bool,
}

/// The program at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SimulatedProgram<'m> {
    model: &'m HeapModel,
    pub(crate) heap: SimulatedHeap,
    pub(crate) now: u64,
    counted_from: u64,
    flight: Option<Flight>,
    /// The most objects that there have been at a time, and in the part that counts the most bytes.
    most: f64,
    pub(crate) peak_rss: f64,
    pub(crate) peak: f64,
    /// Bytes times seconds: of everything, and of what is dead or copied.
    pub(crate) resident_seconds: f64,
    pub(crate) held_seconds: f64,
    /// Nanoseconds of a processor, in the part that counts: of walks, and of pages that the program copied meanwhile.
    pub(crate) walked: f64,
    pub(crate) lost: f64,
}

/// Something to do: how long it takes, in nanoseconds, and how much it allocates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Task {
    pub(crate) time: f64,
    pub(crate) objects: f64,
}

/// A stop of the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SimulatedStop {
    pub(crate) lasted: u64,
    /// Resident memory when it began.
    pub(crate) before: Bytes,
    /// Objects that it freed.
    pub(crate) freed: f64,
    /// What a policy learns from it, where a generation was collected.
    pub(crate) collected: Option<Collected>,
}

impl SimulatedStop {
    const NONE: Self = Self { lasted: 0, before: Bytes::ZERO, freed: 0.0, collected: None };
}

impl<'m> SimulatedProgram<'m> {
    pub(crate) fn new(model: &'m HeapModel, workload: &Workload) -> Self {
        let start = workload.start;
        let heap = SimulatedHeap::new(model.lifetimes, start.tenured, start.pending);
        Self {
            model,
            heap,
            now: start.at,
            counted_from: workload.counted_from,
            flight: None,
            most: heap.total(),
            peak_rss: 0.0,
            peak: 0.0,
            resident_seconds: 0.0,
            held_seconds: 0.0,
            walked: 0.0,
            lost: 0.0,
        }
    }

    /// Resident memory.
    pub(crate) fn rss(&self) -> f64 {
        self.model.memory.resident(self.heap.total(), self.most)
    }

    /// Time goes by.
    pub(crate) fn wait_until(&mut self, until: u64) {
        let from = self.now.max(self.counted_from);
        if until > from {
            let seconds = (until - from) as f64 / SECOND;
            let (rss, copies) = (self.rss(), self.copies(f64::midpoint(from as f64, until as f64)));
            self.resident_seconds += (rss + copies) * seconds;
            self.held_seconds += (self.heap.dead() * self.model.memory.object + copies) * seconds;
            self.peak_rss = self.peak_rss.max(rss);
            self.peak = self.peak.max(rss + self.copies(until as f64));
            if let Some(lands) = self.lands() {
                self.walked += lands.min(until).saturating_sub(from) as f64;
            }
        }
        self.now = self.now.max(until);
    }

    /// Bytes that have been copied for a snapshot that is out.
    fn copies(&self, at: f64) -> f64 {
        self.flight.filter(|flight| !flight.landed).map_or(0.0, |flight| {
            let share = (at - flight.began as f64) / (flight.lands - flight.began).max(1) as f64;
            flight.objects * self.model.costs.copied * share.clamp(0.0, 1.0)
        })
    }

    /// The program works on what is left of a task, until that is done or the clock says `until`. While a snapshot is
    /// being walked it works more slowly.
    pub(crate) fn work(&mut self, task: &mut Task, until: u64) {
        while task.time > 0.0 || task.objects > 0.0 {
            let slowed = self.lands().filter(|lands| *lands > self.now);
            let slowness = if slowed.is_some() { 1.0 + self.model.costs.slowdown } else { 1.0 };
            let until = slowed.map_or(until, |lands| lands.min(until));
            let room = until.saturating_sub(self.now) as f64 / slowness;
            let done = if room < task.time { room / task.time } else { 1.0 };
            self.wait_until(if done < 1.0 { until } else { self.now + (task.time * slowness).ceil() as u64 });
            if let Some(flight) = self.flight.as_mut().filter(|_| slowed.is_some()) {
                let lost = task.time * done * (slowness - 1.0);
                flight.lost += lost;
                self.lost += if self.now >= self.counted_from { lost } else { 0.0 };
            }
            self.heap.allocate(task.objects * done);
            self.most = self.most.max(self.heap.total());
            *task = Task { time: task.time * (1.0 - done), objects: task.objects * (1.0 - done) };
            if done < 1.0 && slowed != Some(until) {
                return;
            }
        }
    }

    /// Stands still. Here and in work, no part of a nanosecond is lost, so that nothing is quicker for being cut up.
    fn stop(&mut self, nanoseconds: f64) -> u64 {
        let lasted = nanoseconds.ceil() as u64;
        self.wait_until(self.now + lasted);
        lasted
    }

    pub(crate) fn collect(&mut self, generation: Generation) -> SimulatedStop {
        let costs = &self.model.costs;
        let before = Bytes::new(self.rss() as u64);
        let sweep = match generation {
            Generation::Young => costs.young,
            Generation::Middle => costs.middle,
            Generation::Full => costs.full,
        };
        let mut after = self.heap;
        let swept = after.collect(generation);
        let factor = self.model.disturbed.factor(StopKind::of_generation(generation.number()), self.now);
        let lasted = self.stop(sweep.at(swept.looked, swept.freed) * factor);
        self.heap = after;
        if generation == Generation::Full {
            // What a snapshot has found can no longer be relied on.
            self.flight = None;
        }
        let collected = Collected {
            at: Duration::from_nanos(self.now),
            generation,
            pause: Duration::from_nanos(lasted),
            gathered: swept.gathered as u32,
            freed: swept.freed as u64,
            rss: Bytes::new(self.rss() as u64),
            objects: (generation == Generation::Full).then(|| self.heap.tracked() as u64),
        };
        SimulatedStop { lasted, before, freed: swept.freed, collected: Some(collected) }
    }

    pub(crate) fn launch(&mut self, scope: Scope) -> SimulatedStop {
        let costs = &self.model.costs;
        let lasted = self.stop(costs.clone.at(self.rss()));
        let (objects, found) = self.heap.launch(scope);
        let older = (objects - found - self.heap.new_objects()).max(0.0);
        self.flight = Some(Flight {
            scope,
            began: self.now,
            lands: self.now + (costs.walk.at(objects) as u64).max(1),
            clone: lasted,
            objects,
            found,
            older,
            promoted: self.heap.pending(),
            lost: 0.0,
            landed: false,
        });
        SimulatedStop { lasted, ..SimulatedStop::NONE }
    }

    /// When a snapshot that is being walked will be over.
    pub(crate) fn lands(&self) -> Option<u64> {
        self.flight.filter(|flight| !flight.landed).map(|flight| flight.lands)
    }

    /// Pages that are copied by the end of a walk that sees so many objects.
    pub(crate) fn pages_copied(&self, objects: u64) -> u64 {
        (objects as f64 * self.model.costs.copied / PAGE) as u64
    }

    /// Looks whether a walk is over.
    pub(crate) fn land(&mut self) -> Option<Flown> {
        let flight = self.flight.as_mut().filter(|flight| !flight.landed && flight.lands <= self.now)?;
        flight.landed = true;
        let walked = flight.lands - flight.began;
        let flown = Flown {
            at: Duration::from_nanos(self.now),
            scope: flight.scope,
            clone: Duration::from_nanos(flight.clone),
            flight: Duration::from_nanos(walked),
            // It does not tell a walk that waits for a processor from one that works.
            worked: Duration::from_nanos(walked),
            copied: Duration::from_nanos(flight.lost as u64),
            objects: flight.objects as u64,
            found: flight.found as u64,
            older: flight.older as u64,
        };
        if flight.found < 1.0 {
            self.end_flight();
        }
        Some(flown)
    }

    /// Frees what a snapshot found, for so long at most.
    pub(crate) fn reap(&mut self, budget: Duration) -> SimulatedStop {
        let line = self.model.costs.reap;
        let Some(flight) = self.flight.filter(|flight| flight.landed) else { return SimulatedStop::NONE };
        let affordable = ((budget.as_nanos() as f64 - line.base) / line.each).floor().max(1.0);
        let wanted = flight.found.min(affordable);
        let lasted = self.stop(line.at(wanted));
        let freed = self.heap.free_known(wanted);
        let found = flight.found - wanted;
        self.flight = Some(Flight { found, ..flight });
        if found < 1.0 {
            self.end_flight();
        }
        SimulatedStop { lasted, freed, ..SimulatedStop::NONE }
    }

    fn end_flight(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.heap.note_snapshot((self.heap.pending() - flight.promoted).max(0.0));
        }
    }

    /// How a snapshot stands.
    pub(crate) fn snapshot(&self) -> Snapshot {
        match self.flight {
            None => Snapshot::Idle,
            Some(flight) if flight.landed => Snapshot::Ready { objects: flight.found as u64, piece: None },
            Some(_) => Snapshot::InFlight,
        }
    }

    /// Does what a policy says.
    pub(crate) fn perform(&mut self, decision: Decision) -> SimulatedStop {
        match decision {
            Decision::Wait | Decision::Trim => SimulatedStop::NONE,
            Decision::Young => self.collect(Generation::Young),
            Decision::Middle => self.collect(Generation::Middle),
            Decision::Full => self.collect(Generation::Full),
            Decision::Freeze => {
                let stop = self.collect(Generation::Full);
                self.heap.freeze();
                stop
            }
            Decision::Snapshot { scope } => self.launch(scope),
            Decision::Reap { budget } => self.reap(budget),
            Decision::Throttle { pause } => {
                SimulatedStop { lasted: self.stop(pause.as_nanos() as f64), ..SimulatedStop::NONE }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Lifetimes;
    use crate::workload::Start;

    fn model() -> HeapModel {
        HeapModel {
            lifetimes: Lifetimes { die_young: 0.0, by_reference: 0.0, held: 0.0, die_old: 1.0, lag: 100.0 },
            ..HeapModel::default()
        }
    }

    fn start() -> Workload {
        Workload::new(Start { at: 0, tenured: 1_000_000.0, pending: 0.0 })
    }

    fn work(machine: &mut SimulatedProgram<'_>, time: f64, objects: f64) {
        machine.work(&mut Task { time, objects }, u64::MAX);
    }

    #[test]
    fn work_is_slower_while_a_snapshot_is_walked() {
        let (model, workload) = (model(), start());
        let mut machine = SimulatedProgram::new(&model, &workload);
        machine.launch(Scope::All);
        let (began, lands) = (machine.now, machine.lands().unwrap_or(0));
        work(&mut machine, 1e9, 10.0);
        let walked = (lands - began) as f64;
        let lost = walked * (1.0 - 1.0 / (1.0 + model.costs.slowdown));
        assert!(((machine.now - began) as f64 - 1e9 - lost).abs() < 10.0, "{} {lost}", machine.now - began);
    }

    #[test]
    fn a_snapshot_stops_for_the_clone_and_frees_in_slices() {
        let (model, workload) = (model(), start());
        let mut machine = SimulatedProgram::new(&model, &workload);
        work(&mut machine, 1_000.0, 50_100.0);
        machine.heap.settle();
        let clone = machine.launch(Scope::All).lasted;
        assert!(clone < 5_000_000, "{clone}");
        assert_eq!(machine.snapshot(), Snapshot::InFlight);
        assert_eq!(machine.land(), None);
        machine.wait_until(machine.now + 1_000_000_000);
        assert_eq!(machine.land().map(|flown| flown.found), Some(50_000));
        let mut slices = 0;
        while machine.snapshot() != Snapshot::Idle {
            let lasted = machine.reap(Duration::from_millis(1)).lasted;
            assert!(lasted <= 1_000_000, "{lasted}");
            slices += 1;
        }
        assert!((10..20).contains(&slices), "{slices}");
        assert_eq!(machine.heap.dead(), 0.0);
    }

    #[test]
    fn copies_count_while_a_snapshot_is_out() {
        let (model, workload) = (model(), start());
        let mut machine = SimulatedProgram::new(&model, &workload);
        machine.launch(Scope::All);
        let rss = machine.rss();
        machine.wait_until(machine.now + 10_000_000_000);
        assert!(machine.peak > rss && machine.peak_rss == rss);
    }

    #[test]
    fn memory_that_is_held_is_counted_from_its_moment_on() {
        let (model, mut workload) = (model(), start());
        workload.counted_from = 2_000_000_000;
        let mut machine = SimulatedProgram::new(&model, &workload);
        work(&mut machine, 0.0, 200.0);
        machine.heap.settle();
        machine.wait_until(3_000_000_000);
        assert!((machine.held_seconds - 100.0 * model.memory.object).abs() < 1.0, "{}", machine.held_seconds);
    }
}
