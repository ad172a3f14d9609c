//! From a recorded trace to a workload and a model.
//!
//! | what | from which records | how |
//! |---|---|---|
//! | service, rest | request start and end, collection, process (processor time) | time in flight, shared by those in flight, without pauses; what the processor did not do is rest, what it did besides is overhead of each |
//! | arrivals | request start, and what ran before | `arrivals` |
//! | objects of a request | heap (gathered) | net allocations while requests were served, by service time |
//! | shares that die, lag | collection (freed), heap, flight (found) | what young collections free of what they look at; a line through what old ones have freed so far, by allocations so far |
//! | young, middle, full, reap | collection (pause), heap | least squares of pause by objects, without the longest twentieth, which others caused |
//! | clone, walk, copies | collection, flight, process | medians of the cost of a byte, or of an object |
//! | bytes of an object | process (resident), heap | least squares of resident memory by objects |

use std::collections::HashMap;

use neurogc_wire::trace::{Record, Trace};
use serde::Serialize;

use crate::arrivals::{Turn, arrivals};
use crate::line::{Line, median};
use crate::machine::PAGE;
use crate::model::{Costs, Lifetimes, Memory, Model};
use crate::workload::{Request, Start, Workload};

/// What a trace says about its program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// What its heap is like.
    pub model: Model,
    /// What was asked of it.
    #[serde(skip)]
    pub workload: Workload,
    /// What the trace does not show, so that it was taken from other programs.
    pub assumed: Vec<&'static str>,
}

/// Why a trace says too little.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum FitError {
    #[error(
        "the trace holds {found} finished requests, and a simulation needs {LEAST_REQUESTS}. Record for longer, and mark \
         requests where no adapter does: neurogc.request() or neurogc.step()"
    )]
    Requests { found: usize },
    #[error(
        "the trace holds no record of the heap at a collection: it was recorded by an older version, or under an \
         interpreter whose collector is not understood. Record it again; `neurogc doctor` tells what works here"
    )]
    Heap,
    #[error(
        "the trace holds {found} collections while requests were served, and a simulation needs {LEAST_COLLECTIONS} to \
         know what they cost. Record for longer"
    )]
    Collections { found: usize },
    #[error(
        "the trace holds {found} looks at the process, and a simulation needs 2 to know its memory. Record for longer"
    )]
    Process { found: usize },
}

const LEAST_REQUESTS: usize = 100;
const LEAST_COLLECTIONS: usize = 3;

/// What the kernel takes to copy a page.
const COPY_NS: f64 = 5_000.0;

/// Who begins so soon after another has waited for it.
const SLACK_NS: u64 = 300_000;

/// A stretch so long before the first request is a program that loads.
const LOADING_NS: u64 = 50_000_000;

/// A collection or another stop, with what is known about the heap.
#[derive(Clone, Copy, Debug)]
struct Stop {
    at: u64,
    pause: u64,
    kind: u8,
    freed: f64,
    heap: Option<HeapThen>,
}

#[derive(Clone, Copy, Debug)]
struct HeapThen {
    gathered: f64,
    tenured: f64,
    /// Objects that a collection of its generation looked at.
    looked: f64,
    /// Objects that were left altogether.
    left: f64,
}

/// A request that was served.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    began: u64,
    ended: u64,
    /// Its share of the time that it was in flight, without pauses.
    share: f64,
}

impl Served {
    /// What of its share falls between two moments.
    fn part(&self, from: u64, to: u64) -> f64 {
        let inside = self.ended.min(to).saturating_sub(self.began.max(from)) as f64;
        self.share * inside / (self.ended - self.began).max(1) as f64
    }
}

#[derive(Debug, Default)]
struct Seen {
    served: Vec<Served>,
    stops: Vec<Stop>,
    /// When, resident bytes, and processor time in nanoseconds.
    looks: Vec<(u64, f64, f64)>,
    /// When a walk was over, how long it took, faults, objects, found.
    flights: Vec<(u64, f64, f64, f64, f64)>,
    /// When stretches with the GIL held ended that are long enough for loading.
    loaded: Vec<u64>,
}

/// Reads a workload and a model out of a trace. Requests of the first `warm_up` nanoseconds are played, but not counted.
pub fn fit(trace: &Trace, warm_up: u64, seed: u64) -> Result<Fit, FitError> {
    let mut seen = Seen::of(trace);
    if seen.served.len() < LEAST_REQUESTS {
        return Err(FitError::Requests { found: seen.served.len() });
    }
    if seen.stops.iter().all(|stop| stop.heap.is_none()) {
        return Err(FitError::Heap);
    }
    let window = (seen.served[0].began, seen.served.iter().map(|each| each.ended).max().unwrap_or(0));
    let collections = seen.stops.iter().filter(|stop| stop.heap.is_some() && within(window, stop.at)).count();
    if collections < LEAST_COLLECTIONS {
        return Err(FitError::Collections { found: collections });
    }
    if seen.looks.len() < 2 {
        return Err(FitError::Process { found: seen.looks.len() });
    }
    seen.share_time();
    let mut assumed = Vec::new();
    let workload = seen.workload(window, trace.header.thresholds, warm_up, seed);
    let lifetimes = seen.lifetimes(window, &mut assumed);
    let busy = workload.requests.iter().map(|request| request.service as f64).sum::<f64>();
    let costs = seen.costs(window, busy / (window.1 - window.0) as f64, &mut assumed);
    let memory = seen.memory(&mut assumed);
    Ok(Fit { model: Model { costs, lifetimes, memory }, workload, assumed })
}

fn within((from, to): (u64, u64), at: u64) -> bool {
    (from..=to).contains(&at)
}

impl Seen {
    fn of(trace: &Trace) -> Self {
        let mut seen = Self::default();
        let mut open = HashMap::new();
        let mut heaps = HashMap::new();
        for record in &trace.records {
            match *record {
                Record::RequestStart { at, id } => drop(open.insert(id, at)),
                Record::RequestEnd { at, id } => {
                    let served = open.remove(&id).map(|began| Served { began, ended: at.max(began), share: 0.0 });
                    seen.served.extend(served);
                }
                Record::Collection { at, pause, generation, collected, .. } => {
                    seen.stops.push(Stop { at, pause, kind: generation, freed: collected as f64, heap: None });
                }
                Record::Heap { at, gathered, tenured, pending } => {
                    heaps.insert(at, (gathered as f64, tenured as f64, pending as f64));
                }
                Record::Process { at, rss, cpu_us } => seen.looks.push((at, rss as f64, cpu_us as f64 * 1e3)),
                Record::Flight { at, lasted, faults, objects, found } => {
                    seen.flights.push((at, lasted as f64, faults as f64, objects as f64, found as f64));
                }
                Record::Gap { at, busy, .. } if busy >= LOADING_NS => seen.loaded.push(at + busy),
                _ => {}
            }
        }
        seen.served.sort_unstable_by_key(|served| served.began);
        seen.stops.sort_unstable_by_key(|stop| stop.at);
        seen.looks.sort_unstable_by_key(|look| look.0);
        seen.follow_heap(&heaps);
        seen
    }

    /// Puts what is known about the heap beside each collection. The middle generation is what young ones have left.
    fn follow_heap(&mut self, heaps: &HashMap<u64, (f64, f64, f64)>) {
        let mut middle = 0.0;
        for stop in &mut self.stops {
            let Some(&(gathered, tenured, pending)) = heaps.get(&stop.at) else { continue };
            let looked = match stop.kind {
                0 => gathered,
                1 => gathered + middle,
                _ => tenured + stop.freed,
            };
            middle = if stop.kind == 0 { middle + (gathered - stop.freed).max(0.0) } else { 0.0 };
            stop.heap = Some(HeapThen { gathered, tenured, looked, left: tenured + pending + middle });
        }
    }

    /// Shares out the time in which requests were in flight among them, pauses left out.
    fn share_time(&mut self) {
        let mut edges: Vec<(u64, usize, bool)> = Vec::with_capacity(2 * self.served.len());
        for (index, served) in self.served.iter().enumerate() {
            edges.extend([(served.began, index, true), (served.ended, index, false)]);
        }
        // Ends before beginnings at the same moment.
        edges.sort_unstable_by_key(|(at, _, begins)| (*at, *begins));
        let mut stops = self.stops.iter().peekable();
        let mut stopped_to = 0;
        let mut in_flight: Vec<usize> = Vec::new();
        let mut before = 0;
        for (at, index, begins) in edges {
            let mut stopped = 0;
            // Pauses within the stretch, and what is left of one that began before it.
            let mut from = before;
            loop {
                if stopped_to > from {
                    let to = stopped_to.min(at);
                    stopped += to - from.min(to);
                    from = to;
                }
                let Some(stop) = stops.next_if(|stop| stop.at < at) else { break };
                from = from.max(stop.at);
                stopped_to = stopped_to.max(stop.at + stop.pause);
            }
            let share = (at - before).saturating_sub(stopped) as f64 / in_flight.len().max(1) as f64;
            in_flight.iter().for_each(|&each| self.served[each].share += share);
            before = at;
            if begins {
                in_flight.push(index);
            } else {
                in_flight.retain(|&each| each != index);
            }
        }
    }

    /// The requests, and the heap that they begin with.
    fn workload(&self, window: (u64, u64), thresholds: [u32; 3], warm_up: u64, seed: u64) -> Workload {
        let count = self.served.len() as f64;
        let marked = self.served.iter().map(|each| each.share).sum::<f64>();
        let processor = self.processor(window).unwrap_or(marked);
        // More than the marks show is done around them for each request; less means that requests waited for others.
        let around = ((processor - marked) / count).clamp(0.0, marked / count);
        let worked = (processor / marked).clamp(0.05, 1.0);
        let service = |served: &Served| served.share * worked + around;
        let objects = self.objects(window);
        let came = arrivals(&self.turns(), SLACK_NS + around as u64, seed);
        let requests = self.served.iter().zip(came).zip(objects).map(|((served, at), objects)| {
            let paused: u64 = self.paused(served.began, served.ended);
            let alone = (served.ended - served.began).saturating_sub(paused) as f64;
            Request {
                at,
                service: service(served) as u64,
                rest: if worked < 0.95 { (alone - served.share * worked).max(0.0) as u64 } else { 0 },
                objects,
            }
        });
        let start = self.start(window.0);
        let mut workload = Workload::new(start);
        workload.requests = requests.collect();
        workload.requests.sort_by_key(|request| request.at);
        workload.thresholds = if thresholds == [0; 3] { workload.thresholds } else { thresholds };
        workload.counted_from = window.0 + warm_up;
        workload
    }

    /// The objects that each request has allocated: what has gathered from one collection to the next, shared out among
    /// those who ran meanwhile by how long they did.
    fn objects(&self, window: (u64, u64)) -> Vec<f64> {
        let mut objects = vec![0.0; self.served.len()];
        let (mut first, mut from, mut gathered) = (0, window.0, 0.0);
        for stop in self.in_window(window) {
            let Some(heap) = stop.heap else { continue };
            gathered += heap.gathered;
            while self.served.get(first).is_some_and(|served| served.ended <= from) {
                first += 1;
            }
            let within = self.served[first..].iter().take_while(|served| served.began < stop.at);
            let parts: Vec<f64> = within.map(|served| served.part(from, stop.at)).collect();
            let all: f64 = parts.iter().sum();
            from = stop.at + stop.pause;
            // Where nobody ran, somebody before or after has done it.
            if all > 0.0 {
                parts.iter().enumerate().for_each(|(index, part)| objects[first + index] += gathered * part / all);
                gathered = 0.0;
            }
        }
        // After the last collection nothing is known, so it is as before.
        let known = self.served.partition_point(|served| served.began < from);
        let density = objects.iter().sum::<f64>() / self.served[..known].iter().map(|served| served.share).sum::<f64>();
        for (served, objects) in self.served.iter().zip(&mut objects).skip(known) {
            *objects = density * served.share;
        }
        objects
    }

    fn in_window(&self, window: (u64, u64)) -> impl Iterator<Item = &Stop> {
        self.stops.iter().filter(move |stop| within(window, stop.at))
    }

    fn paused(&self, from: u64, to: u64) -> u64 {
        let first = self.stops.partition_point(|stop| stop.at + stop.pause <= from);
        let overlap = |stop: &Stop| (stop.at + stop.pause).min(to).saturating_sub(stop.at.max(from));
        self.stops[first..].iter().take_while(|stop| stop.at < to).map(overlap).sum()
    }

    /// Processor time that requests took, pauses left out.
    fn processor(&self, window: (u64, u64)) -> Option<f64> {
        let inside: Vec<_> = self.looks.iter().filter(|look| within(window, look.0)).collect();
        let (first, last) = (inside.first()?, inside.last()?);
        let span = (last.0 - first.0) as f64;
        if span < 0.5 * (window.1 - window.0) as f64 {
            return None;
        }
        let paused = self.paused(first.0, last.0) as f64;
        let used = (last.2 - first.2 - paused).max(0.0);
        let share = self.served.iter().filter(|each| within((first.0, last.0), each.began)).count() as f64;
        Some(used / share.max(1.0) * self.served.len() as f64)
    }

    /// When each request could have begun, and when it did.
    fn turns(&self) -> Vec<Turn> {
        let mut free = 0;
        let mut stops = self.stops.iter().peekable();
        let turn = |served: &Served| {
            while let Some(stop) = stops.next_if(|stop| stop.at < served.began) {
                free = free.max((stop.at + stop.pause).min(served.began));
            }
            let turn = Turn { free, began: served.began };
            free = free.max(served.ended);
            turn
        };
        self.served.iter().map(turn).collect()
    }

    /// The moment at which the program had loaded, and its heap then.
    fn start(&self, first: u64) -> Start {
        let at = self.loaded.iter().copied().filter(|at| *at <= first).max().unwrap_or(first);
        let before = self.stops.iter().rev().find_map(|stop| stop.heap.filter(|_| stop.at <= first));
        // What is young or middle-aged then will be old soon, and is counted as old.
        let (tenured, pending) = before.map_or((0.0, 0.0), |heap| (heap.tenured, heap.left - heap.tenured));
        Start { at: at.min(first), tenured, pending }
    }

    fn lifetimes(&self, window: (u64, u64), assumed: &mut Vec<&'static str>) -> Lifetimes {
        let (mut looked, mut freed) = (0.0, 0.0);
        for (stop, heap) in self.in_window(window).filter_map(|stop| Some((stop, stop.heap?))) {
            if stop.kind == 0 {
                looked += heap.gathered;
                freed += stop.freed;
            }
        }
        let die_young = if looked > 0.0 { (freed / looked).min(1.0) } else { 0.0 };
        // What has been freed of the old so far, by what has been allocated so far.
        let (mut clock, mut old) = (0.0, 0.0);
        let mut points = Vec::new();
        let mut flights = self.flights.iter().peekable();
        for stop in self.in_window(window) {
            while let Some(flight) = flights.next_if(|flight| flight.0 <= stop.at) {
                if clock > 0.0 {
                    old += flight.4;
                    points.push((clock, old));
                }
            }
            let Some(heap) = stop.heap else { continue };
            clock += heap.gathered;
            if stop.kind > 0 {
                old += (stop.freed - die_young * heap.gathered).max(0.0);
            }
            if stop.kind == 2 {
                points.push((clock, old));
            }
        }
        let most = 1.0 - die_young;
        points.retain(|(_, old)| *old > 0.0);
        let Some(&(last_clock, last_old)) = points.last() else {
            assumed.push("what dies old: no collection of the old heap has freed anything");
            return Lifetimes { die_young, die_old: 0.0, lag: 0.0 };
        };
        // With one point only, everything that survives is taken to die some time.
        let (first_clock, first_old) = points[0];
        let slope = if points.len() > 1 { (last_old - first_old) / (last_clock - first_clock) } else { most };
        let die_old = slope.clamp(0.0, most);
        let lag = median(points.iter().map(|(clock, old)| clock - old / die_old.max(1e-9))).max(0.0);
        Lifetimes { die_young, die_old, lag }
    }

    fn costs(&self, window: (u64, u64), busy: f64, assumed: &mut Vec<&'static str>) -> Costs {
        let usual = Costs::default();
        let points = |kind: u8| -> Vec<(f64, f64)> {
            let all = |stop: &Stop| stop.heap.map(|heap| (heap.looked, stop.pause as f64));
            let inside: Vec<_> = self.in_window(window).filter(|stop| stop.kind == kind).filter_map(all).collect();
            // Before the window is better than nothing.
            let outside = || self.stops.iter().filter(|stop| stop.kind == kind).filter_map(all).collect();
            if inside.is_empty() { outside() } else { inside }
        };
        let mut line = |points: Vec<(f64, f64)>, usual: Line, what: &'static str| {
            Line::through(&undisturbed(points)).unwrap_or_else(|| {
                assumed.push(what);
                usual
            })
        };
        let young = line(points(0), usual.young, "the cost of a young collection");
        let middle = line(points(1), Line { base: young.base, each: young.each }, "the cost of a middle collection");
        let full = line(points(2), usual.full, "the cost of a full collection");
        let reaped = self.stops.iter().filter(|stop| stop.kind == 3).map(|stop| (stop.freed, stop.pause as f64));
        let reap = line(reaped.collect(), usual.reap, "the cost of freeing what a snapshot found");
        let resident = |at: u64| self.looks.iter().rev().find(|look| look.0 <= at).map_or(0.0, |look| look.1);
        let clones = self.stops.iter().filter(|stop| stop.kind == 4);
        let clones: Vec<f64> = clones.map(|stop| stop.pause as f64 / resident(stop.at).max(1.0)).collect();
        let clone = if clones.is_empty() {
            assumed.push("the cost of a clone");
            usual.clone
        } else {
            Line { base: 0.0, each: median(clones) }
        };
        let flights: Vec<_> = self.flights.iter().filter(|flight| flight.3 > 0.0 && flight.1 > 0.0).collect();
        if flights.is_empty() {
            assumed.push("how long a snapshot is walked, and what is copied meanwhile");
            return Costs { young, middle, full, clone, reap, ..usual };
        }
        let walk = Line { base: 0.0, each: median(flights.iter().map(|flight| flight.1 / flight.3)) };
        let slow = flights.iter().map(|flight| flight.2 * COPY_NS / (flight.1 * busy.max(0.05)));
        let copied = median(flights.iter().map(|flight| flight.2 * PAGE / flight.3));
        Costs { young, middle, full, clone, walk, slowdown: median(slow).min(1.0), copied, reap }
    }

    fn memory(&self, assumed: &mut Vec<&'static str>) -> Memory {
        let usual = Memory::default();
        let heaps: Vec<(u64, f64)> = self.stops.iter().filter_map(|stop| Some((stop.at, stop.heap?.left))).collect();
        let objects = |at: u64| {
            let next = heaps.partition_point(|heap| heap.0 <= at);
            next.checked_sub(1).map(|index| heaps[index].1)
        };
        let points: Vec<_> = self.looks.iter().filter_map(|look| Some((objects(look.0)?, look.1))).collect();
        let Some(line) = Line::through(&points).filter(|line| line.base > 0.0) else {
            assumed.push("the bytes of an object");
            let base =
                self.looks.last().map_or(0.0, |look| look.1) - usual.object * points.last().map_or(0.0, |it| it.0);
            return Memory { base: base.max(0.0), ..usual };
        };
        Memory { base: line.base, object: line.each, ..usual }
    }
}

/// The points without the highest twentieth for their place: pauses that something else made longer.
fn undisturbed(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let each = |point: &(f64, f64)| point.1 / point.0.max(1.0);
    points.sort_unstable_by(|a, b| each(a).total_cmp(&each(b)));
    points.truncate(points.len() - points.len() / 20);
    points
}
