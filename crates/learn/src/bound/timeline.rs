//! The program without any collection: when it works and idles, and what dies when.

use super::has_one_order;
use crate::machine::SECOND;
use crate::model::Lifetimes;
use crate::simulate::Scene;
use crate::workload::{Pace, Request};

/// A turn at the interpreter: a request, or one visit of a step that waits in between.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Turn {
    /// When it ends, in nanoseconds since the start.
    pub(super) ends: f64,
    /// How long the program idles before it, and works on it.
    pub(super) idle: f64,
    pub(super) service: f64,
    /// Whether its request counts.
    pub(super) counts: bool,
    /// Objects that are garbage when it ends: those that die with a request, and those that die late.
    pub(super) young: f64,
    pub(super) old: f64,
    /// Objects that were allocated up to its end, and those that are alive then.
    pub(super) clock: f64,
    pub(super) alive: f64,
}

/// All turns, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Timeline {
    pub(super) turns: Vec<Turn>,
    /// Requests that count, and the seconds that they come in.
    pub(super) requests: f64,
    pub(super) seconds: f64,
    /// Whether those that come later wait for one that is delayed. In a loop they do not: they come later.
    pub(super) queues: bool,
}

impl Timeline {
    /// The turns of a scene, where their order does not depend on what is collected.
    pub(super) fn of(scene: &Scene<'_>) -> Option<Self> {
        let workload = scene.workload;
        if !has_one_order(workload) {
            return None;
        }
        let queues = workload.pace == Pace::Open;
        let since_start = |at: u64| at as f64 - workload.start.at as f64;
        let mut now = 0.0;
        let mut births = Births::new(scene.model.lifetimes, workload.start.tenured + workload.start.pending);
        let mut turns = Vec::with_capacity(workload.requests.len());
        let (mut requests, mut rested) = (0.0_f64, 0.0);
        for request in &workload.requests {
            let visits = request.visits.max(1);
            let service = (request.service as f64 / f64::from(visits)).ceil();
            let counts = !queues || workload.counts(request.at);
            requests += f64::from(u8::from(counts));
            for visit in 0..visits {
                let comes = match visit {
                    0 if queues => since_start(request.at),
                    0 => now + rested + request.at as f64,
                    _ => now + between(request),
                };
                let idle = (comes - now).max(0.0);
                now += idle + service;
                let [young, old] = births.turn(request.objects / f64::from(visits));
                let (clock, alive) = (births.clock, births.alive);
                turns.push(Turn { ends: now, idle, service, counts, young, old, clock, alive });
            }
            // A step that comes once rests afterwards, and the next is thought about then.
            rested = if visits > 1 { 0.0 } else { request.rest as f64 };
        }
        let last = if queues { workload.requests.last().map_or(0.0, |last| since_start(last.at)) } else { now };
        let seconds = ((last - since_start(workload.counted_from)) / SECOND).max(1e-9);
        Some(Self { turns, requests: requests.max(1.0), seconds, queues })
    }
}

/// How long a request waits for others between two visits.
fn between(request: &Request) -> f64 {
    (request.rest / u64::from(request.visits - 1)) as f64
}

/// What is born and dies, by what has been allocated: the same whatever is collected.
struct Births {
    lifetimes: Lifetimes,
    clock: f64,
    settled: f64,
    dead_to: f64,
    alive: f64,
}

impl Births {
    fn new(lifetimes: Lifetimes, alive: f64) -> Self {
        Self { lifetimes, clock: 0.0, settled: 0.0, dead_to: 0.0, alive }
    }

    /// The program allocates so much, and a turn ends. Gives what dies with it, and what dies late.
    fn turn(&mut self, objects: f64) -> [f64; 2] {
        self.clock += objects;
        let settled = (self.clock - self.lifetimes.held).max(self.settled);
        let dead_to = (self.clock - self.lifetimes.lag).max(self.dead_to);
        let (ended, late) = (settled - self.settled, dead_to - self.dead_to);
        (self.settled, self.dead_to) = (settled, dead_to);
        let (young, old) = (ended * self.lifetimes.die_young, late * self.lifetimes.die_old);
        self.alive += objects - young - old - ended * self.lifetimes.by_reference;
        [young, old]
    }
}
