//! From a recorded trace to a workload and a model.
//!
//! | what | from which records | how |
//! |---|---|---|
//! | service, rest | request start and end, collection, process (processor time) | time in flight, shared by those in flight, without pauses; what the processor did not do is rest of those during whose time others began |
//! | arrivals | request start, and what ran before; gap | `arrivals` |
//! | objects of a request | heap (gathered) | net allocations from one collection to the next, shared out among those who ran |
//! | shares that die, lag | collection (freed), heap, flight (found) | what young collections free; a line through what old ones have freed so far, by allocations so far |
//! | young, middle, full | collection (pause, freed), heap | least squares of pause by objects looked at and freed, without the longest twentieth; what is left over is kept by time |
//! | reap, clone, walk, copies | collection, flight, process | least squares; medians of the cost of a byte, or of an object |
//! | bytes of an object | process (resident), heap | least squares of resident memory by objects, and by the most so far |

use std::collections::HashMap;

use neurogc_wire::trace::{Place, Record, Trace};
use serde::Serialize;

use crate::arrivals::{Turn, arrivals};
use crate::line::{Line, median};
use crate::machine::PAGE;
use crate::model::{Costs, Disturbed, Lifetimes, Memory, Model, Sweep};
use crate::workload::{Pace, Request, Start, Workload};

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

/// A request that waits for others comes to the interpreter about so often: to send something, for each part of the answer,
/// and to be over.
const VISITS: u32 = 5;

/// Who begins later after another has not waited for it. How long a program takes to go on to one that waits is seen where
/// one follows the other sooner than that: nine tenths of them had waited.
const SLACK_NS: u64 = 300_000;
const HAD_WAITED: f64 = 0.9;

/// A program that finds several waiting reads what each of them asks before it serves the first. Then they follow each
/// other so closely.
const CLOSE_NS: u64 = 100_000;

/// What it may do meanwhile for each of those in flight.
const PIECE_NS: u64 = 1_000_000;

/// A program that has held the GIL for so long, whenever it was looked at, serves a queue. Then it may take so long until it
/// serves the next.
const BUSY_NS: u64 = 20_000_000;
const BUSY_SLACK_NS: u64 = 3_000_000;

/// How often objects are shared out among requests, each time by what is known from the time before.
const SHARED_OUT: usize = 10;

/// What dies within the allocations of so many requests dies with its own.
const SOON: f64 = 20.0;

/// A heap that grows by less than this share says nothing about the bytes of an object.
const GROWTH: f64 = 0.02;

/// No object weighs less, in bytes.
const LIGHTEST: f64 = 16.0;

/// The share of a process's time that the agent takes, about.
const AGENT: f64 = 0.04;

/// A stretch so long before the first request is a program that loads.
const LOADING_NS: u64 = 50_000_000;

/// A collection or another stop, with what is known about the heap.
#[derive(Clone, Copy, Debug)]
struct Stop {
    at: u64,
    pause: u64,
    kind: u8,
    in_gap: bool,
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
    /// Objects that have become old by it, or by the next one: the counter is read a little later.
    promoted: f64,
}

/// A request that was served.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    began: u64,
    ended: u64,
    /// Its share of the time that it was in flight, without pauses.
    share: f64,
    /// Whether another one began meanwhile.
    shared: bool,
    /// How long after another it can have begun and still have waited for it.
    slack: u64,
}

impl Served {
    /// What of its share falls between two moments.
    fn part(&self, from: u64, to: u64) -> f64 {
        let inside = self.ended.min(to).saturating_sub(self.began.max(from)) as f64;
        self.share * inside / (self.ended - self.began).max(1) as f64
    }
}

/// A time from one collection to the next.
#[derive(Debug)]
struct Span {
    gathered: f64,
    /// How long each request ran in it, from this one on.
    first: usize,
    parts: Vec<f64>,
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
    /// When the GIL was held, for how long, and for how long it was free then.
    gaps: Vec<(u64, u64, u64)>,
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
    seen.compare();
    seen.share_time();
    let mut assumed = Vec::new();
    let (around, resting) = seen.outside(window);
    let objects = seen.objects(window, resting);
    let lifetimes = seen.lifetimes(window, &objects, &mut assumed);
    let mut workload = seen.workload(window, around, resting, &objects, seed);
    if trace.header.thresholds != [0; 3] {
        workload.thresholds = trace.header.thresholds;
    }
    workload.counted_from = window.0 + warm_up;
    let busy = workload.requests.iter().map(|request| request.service as f64).sum::<f64>();
    let costs = seen.costs(window, busy / (window.1 - window.0) as f64, &mut assumed);
    let memory = seen.memory(window, &mut assumed);
    let disturbed = seen.disturbed(window, &costs);
    Ok(Fit { model: Model { costs, lifetimes, memory, disturbed }, workload, assumed })
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
                    let served =
                        open.remove(&id).map(|began| Served { began, ended: at.max(began), ..Served::default() });
                    seen.served.extend(served);
                }
                Record::Collection { at, pause, generation, place, collected, .. } => {
                    let (in_gap, freed) = (place == Place::InGap, collected as f64);
                    seen.stops.push(Stop { at, pause, kind: generation, in_gap, freed, heap: None });
                }
                Record::Heap { at, gathered, tenured, pending } => {
                    heaps.insert(at, (gathered as f64, tenured as f64, pending as f64));
                }
                Record::Process { at, rss, cpu_us } => seen.looks.push((at, rss as f64, cpu_us as f64 * 1e3)),
                Record::Flight { at, lasted, faults, objects, found } => {
                    seen.flights.push((at, lasted as f64, faults as f64, objects as f64, found as f64));
                }
                Record::Gap { at, busy, idle } => {
                    seen.gaps.push((at, busy, idle));
                    if busy >= LOADING_NS {
                        seen.loaded.push(at + busy);
                    }
                }
                _ => {}
            }
        }
        seen.served.sort_unstable_by_key(|served| served.began);
        seen.stops.sort_unstable_by_key(|stop| stop.at);
        seen.looks.sort_unstable_by_key(|look| look.0);
        seen.gaps.sort_unstable();
        seen.follow_heap(&heaps);
        seen
    }

    /// Puts what is known about the heap beside each collection. The middle generation is what young ones have left.
    fn follow_heap(&mut self, heaps: &HashMap<u64, (f64, f64, f64)>) {
        let (mut middle, mut before, mut left) = (0.0, 0.0, 0.0);
        for stop in &mut self.stops {
            let Some(&(gathered, tenured, pending)) = heaps.get(&stop.at) else { continue };
            let looked = match stop.kind {
                0 => gathered,
                1 => gathered + middle,
                _ => tenured + stop.freed,
            };
            middle = if stop.kind == 0 { middle + (gathered - stop.freed).max(0.0) } else { 0.0 };
            let promoted = if stop.kind == 2 { 0.0 } else { (pending - before).max(0.0) };
            before = pending;
            // While a snapshot is out, the counters say nothing.
            left = if tenured + pending > 0.0 { tenured + pending + middle } else { left + (gathered - stop.freed).max(0.0) };
            stop.heap = Some(HeapThen { gathered, tenured, looked, left, promoted });
        }
    }

    /// Looks how closely requests follow each other.
    fn compare(&mut self) {
        let slack = self.slack();
        let mut queues = self.gaps.iter().rev().filter(|gap| gap.1 >= BUSY_NS).peekable();
        let mut next = Served { began: u64::MAX, ..Served::default() };
        for served in self.served.iter_mut().rev() {
            while queues.next_if(|queue| queue.0 > served.began).is_some() {}
            let in_queue = queues.peek().is_some_and(|queue| served.began < queue.0 + queue.1);
            let at_once = next.began <= served.ended + CLOSE_NS;
            served.shared = next.began < served.ended;
            served.slack = slack + if at_once { next.slack } else { 0 };
            next = *served;
            if in_queue {
                served.slack = served.slack.max(BUSY_SLACK_NS);
            }
        }
    }

    /// How long the program takes to go on to a request that waits already, at most.
    fn slack(&self) -> u64 {
        let between = |pair: &[Served]| pair[1].began.checked_sub(pair[0].ended).filter(|&between| between <= SLACK_NS);
        let mut between: Vec<u64> = self.served.windows(2).filter_map(between).collect();
        between.sort_unstable();
        between.get((between.len() as f64 * HAD_WAITED) as usize).copied().unwrap_or(SLACK_NS)
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
            let time = (at - before).saturating_sub(stopped) as f64;
            // Nobody else begins while this one is in flight, so it does not let go of the interpreter.
            match in_flight.iter().find(|&&each| !self.served[each].shared) {
                Some(&alone) => self.served[alone].share += time,
                None => in_flight.iter().for_each(|&each| self.served[each].share += time / in_flight.len() as f64),
            }
            before = at;
            if begins {
                in_flight.push(index);
            } else {
                in_flight.retain(|&each| each != index);
            }
        }
    }

    /// What is done around the marks of a request, and the share of its time in which a request waits for others that lets
    /// others begin. All of the others' time is work.
    fn outside(&self, window: (u64, u64)) -> (f64, f64) {
        let around = self.around();
        let marked = self.served.iter().map(|each| each.share).sum::<f64>();
        let shared = self.served.iter().filter(|each| each.shared).map(|each| each.share).sum::<f64>();
        let worked = self.processor(window).unwrap_or(marked) - around * self.served.len() as f64;
        (around, ((marked - worked) / shared.max(1.0)).clamp(0.0, 0.9))
    }

    /// The requests, and the heap that they begin with.
    fn workload(&self, window: (u64, u64), around: f64, resting: f64, objects: &[f64], seed: u64) -> Workload {
        let mut workload = Workload::new(self.start(window.0));
        let came = match self.thoughts(workload.start.at) {
            Some(thoughts) => {
                workload.pace = Pace::Closed(1);
                thoughts
            }
            None => arrivals(&self.turns(), seed),
        };
        // In a loop, what is done around a step is part of the time until the next.
        let around = if workload.pace == Pace::Open { around } else { 0.0 };
        let requests = self.served.iter().zip(came).zip(objects).map(|((served, at), &objects)| {
            let rest = if served.shared { served.share * resting } else { 0.0 };
            let service = (served.share - rest + around) as u64;
            Request { at, service, rest: rest as u64, objects, visits: if served.shared { VISITS } else { 1 } }
        });
        workload.requests = requests.collect();
        if workload.pace == Pace::Open {
            workload.requests.sort_by_key(|request| request.at);
        }
        workload
    }

    /// How long a program that steps in a loop waits before each step, for an accelerator or not at all; nothing where
    /// requests come from outside. In a loop nearly all waits are alike.
    fn thoughts(&self, start: u64) -> Option<Vec<u64>> {
        if self.served.iter().any(|served| served.shared) {
            return None;
        }
        let waits: Vec<u64> = self.served.windows(2).map(|pair| pair[1].began - pair[0].ended).collect();
        let mut sorted = waits.clone();
        sorted.sort_unstable();
        let (short, long) = (sorted[sorted.len() / 10], sorted[sorted.len() * 9 / 10]);
        let first = self.served[0].began - start;
        // A wait that is longer was a pause that outlasted it.
        let steps = || std::iter::once(first).chain(waits.iter().map(|wait| long.min(*wait))).collect();
        (long <= short + short / 2 + SLACK_NS).then(steps)
    }

    /// The objects that each request has allocated: what has gathered from one collection to the next, shared out among
    /// those who ran meanwhile. By how long they did at first; and then again and again by how much each allocates in a
    /// time, as far as is known: who ran at many collections allocates more (expectation maximization).
    fn objects(&self, window: (u64, u64), resting: f64) -> Vec<f64> {
        let (spans, from) = self.spans(window, resting);
        let mut density = vec![1.0; self.served.len()];
        let mut objects = density.clone();
        for _ in 0..SHARED_OUT {
            objects.fill(0.0);
            for Span { gathered, first, parts } in &spans {
                let all: f64 = parts.iter().zip(&density[*first..]).map(|(part, density)| part * density).sum();
                for (index, part) in (*first..).zip(parts) {
                    objects[index] += gathered * part * density[index] / all.max(f64::MIN_POSITIVE);
                }
            }
            for ((density, objects), served) in density.iter_mut().zip(&objects).zip(&self.served) {
                *density = objects / served.share.max(1.0);
            }
        }
        // After the last collection nothing is known, so it is as before.
        let known = self.served.partition_point(|served| served.began < from);
        let usual = objects.iter().sum::<f64>() / self.served[..known].iter().map(|served| served.share).sum::<f64>();
        for (served, objects) in self.served.iter().zip(&mut objects).skip(known) {
            *objects = usual * served.share;
        }
        objects
    }

    /// The times from one collection to the next, and when the last one was over.
    fn spans(&self, window: (u64, u64), resting: f64) -> (Vec<Span>, u64) {
        let (mut first, mut from, mut gathered) = (0, window.0, 0.0);
        let mut spans = Vec::new();
        for stop in self.in_window(window) {
            let Some(heap) = stop.heap else { continue };
            gathered += heap.gathered;
            while self.served.get(first).is_some_and(|served| served.ended <= from) {
                first += 1;
            }
            let within = self.served[first..].iter().take_while(|served| served.began < stop.at);
            let work = |served: &Served| if served.shared { 1.0 - resting } else { 1.0 };
            let parts: Vec<f64> = within.map(|served| served.part(from, stop.at) * work(served)).collect();
            from = stop.at + stop.pause;
            // Where nobody ran, somebody before or after has done it.
            if parts.iter().any(|part| *part > 0.0) {
                spans.push(Span { gathered, first, parts });
                gathered = 0.0;
            }
        }
        (spans, from)
    }

    fn in_window(&self, window: (u64, u64)) -> impl Iterator<Item = &Stop> {
        self.stops.iter().filter(move |stop| within(window, stop.at))
    }

    fn paused(&self, from: u64, to: u64) -> u64 {
        let first = self.stops.partition_point(|stop| stop.at + stop.pause <= from);
        let overlap = |stop: &Stop| (stop.at + stop.pause).min(to).saturating_sub(stop.at.max(from));
        self.stops[first..].iter().take_while(|stop| stop.at < to).map(overlap).sum()
    }

    /// What a program does around each request: from the end of one to the beginning of the next that waits already.
    fn around(&self) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0_f64);
        for pair in self.served.windows(2) {
            let between = pair[1].began.saturating_sub(pair[0].ended);
            if pair[1].began >= pair[0].ended && between <= pair[1].slack {
                sum += between.saturating_sub(self.paused(pair[0].ended, pair[1].began)) as f64;
                count += 1.0;
            }
        }
        sum / count.max(1.0)
    }

    /// Processor time that requests took, pauses and the agent's own threads left out.
    fn processor(&self, window: (u64, u64)) -> Option<f64> {
        let inside = || self.looks.iter().filter(|look| within(window, look.0));
        let (first, last) = (inside().next()?, inside().next_back()?);
        let used = (last.2 - first.2 - self.paused(first.0, last.0) as f64).max(0.0) * (1.0 - AGENT);
        let seen = self.served.iter().filter(|each| within((first.0, last.0), each.began)).count() as f64;
        // The looks may have begun late, or ended early.
        let all = self.served.len() as f64;
        (seen > 0.5 * all).then(|| used * all / seen)
    }

    /// When each request can have come, and when its turn was.
    fn turns(&self) -> Vec<Turn> {
        // Until when the program was seen to do something, how many are in flight, and the last moment at which nobody can
        // have waited.
        let (mut seen, mut in_flight, mut idle) = (0, 0, 0);
        let mut stops = self.stops.iter().peekable();
        let mut ends: Vec<u64> = self.served.iter().map(|served| served.ended).collect();
        ends.sort_unstable();
        let mut ends = ends.into_iter().peekable();
        let turn = |served: &Served| {
            while let Some(end) = ends.next_if(|end| *end <= served.began) {
                seen = seen.max(end);
                in_flight -= 1;
            }
            let slack = served.slack + in_flight * PIECE_NS;
            while let Some(stop) = stops.next_if(|stop| stop.at < served.began) {
                if stop.at > seen + slack {
                    idle = idle.max(stop.at);
                }
                seen = seen.max((stop.at + stop.pause).min(served.began));
            }
            if served.began > seen + slack {
                idle = served.began;
            }
            seen = served.began;
            in_flight += 1;
            Turn { earliest: idle.min(served.began), began: served.began }
        };
        self.served.iter().map(turn).collect()
    }

    /// The moment at which the program had loaded, and its heap then.
    fn start(&self, first: u64) -> Start {
        let at = self.loaded.iter().copied().filter(|at| *at <= first).max().unwrap_or(first);
        let known = |stop: &Stop| stop.heap.filter(|_| stop.at <= first);
        let before = self.stops.iter().rev().find_map(known).or_else(|| self.stops.iter().find_map(|stop| stop.heap));
        // What is young or middle-aged then will be old soon, and is counted as old.
        let (tenured, pending) = before.map_or((0.0, 0.0), |heap| (heap.tenured, heap.left - heap.tenured));
        Start { at: at.min(first), tenured, pending }
    }

    fn lifetimes(&self, window: (u64, u64), objects: &[f64], assumed: &mut Vec<&'static str>) -> Lifetimes {
        // Where collections are as small as a few requests, the middle ones find the rest of what has died young: young
        // ones in the middle of a request leave what that still holds.
        let small = SOON * objects.iter().sum::<f64>() / self.served.len() as f64;
        let soon = |stop: &Stop, heap: &HeapThen| stop.kind == 0 || (stop.kind == 1 && heap.looked <= small);
        let (mut gathered, mut freed, mut promoted, mut in_hand, mut middles) = (0.0, 0.0, 0.0, 0.0, 0.0_f64);
        for (stop, heap) in self.in_window(window).filter_map(|stop| Some((stop, stop.heap?))) {
            if soon(stop, &heap) {
                gathered += heap.gathered;
                freed += stop.freed;
            }
            promoted += heap.promoted;
            if soon(stop, &heap) && stop.kind == 1 {
                in_hand += self.in_hand(stop.at, objects);
                middles += 1.0;
            }
        }
        let by_reference = self.by_reference(window);
        // What is in the hands of a request when it becomes old dies old, and says nothing about what dies young.
        let done = (gathered - in_hand).max(freed);
        let die_young = if done > 0.0 { freed / done } else { 0.0 };
        // What has been freed of the old so far, by what has been allocated so far.
        let (mut clock, mut old, mut was_in_hand) = (0.0, 0.0, 0.0);
        let mut points = Vec::new();
        let mut flights = self.flights.iter().peekable();
        for stop in self.in_window(window) {
            while let Some(flight) = flights.next_if(|flight| flight.0 <= stop.at) {
                if clock > 0.0 {
                    old += (flight.4 - die_young * std::mem::take(&mut was_in_hand)).max(0.0);
                    points.push((clock, old));
                }
            }
            let Some(heap) = stop.heap else { continue };
            clock += heap.gathered;
            if stop.kind == 1 {
                was_in_hand += self.in_hand(stop.at, objects);
            }
            if !soon(stop, &heap) {
                let young = heap.gathered + if stop.kind == 2 { std::mem::take(&mut was_in_hand) } else { 0.0 };
                old += (stop.freed - die_young * young).max(0.0);
            }
            if stop.kind == 2 {
                points.push((clock, old));
            }
        }
        let most = (1.0 - die_young - by_reference).max(0.0);
        points.retain(|(_, old)| *old > 0.0);
        let Some(&(last_clock, last_old)) = points.last() else {
            assumed.push("what dies old: no collection of the old heap has freed anything");
            return Lifetimes { die_young, by_reference, held: 0.0, die_old: 0.0, lag: 0.0 };
        };
        // With one point only, everything that survives is taken to die some time.
        let (first_clock, first_old) = points[0];
        let slope = if points.len() > 1 { (last_old - first_old) / (last_clock - first_clock) } else { most };
        let die_old = slope.clamp(0.0, most);
        let lag = median(points.iter().map(|(clock, old)| clock - old / die_old.max(1e-9))).max(0.0);
        if lag >= small || middles == 0.0 {
            return Lifetimes { die_young, by_reference, held: 0.0, die_old, lag };
        }
        // They died with their requests, and were only found late. What has become old besides those who stay, and
        // besides what the request at work has in hand, is held by those that wait for others.
        let die_young = die_young + die_old;
        let stay = (1.0 - die_young - by_reference).max(0.0) * gathered;
        let held = (promoted - stay - in_hand).max(0.0) / middles;
        Lifetimes { die_young, by_reference, held, die_old: 0.0, lag: 0.0 }
    }

    /// The share of objects that went without any collection: what gathered between full collections, which know how many
    /// objects there are, and was neither freed by collections nor is there.
    fn by_reference(&self, window: (u64, u64)) -> f64 {
        let (mut first, mut last, mut gathered, mut freed) = (None, None, 0.0, 0.0);
        let (mut since, mut freed_since) = (0.0, 0.0);
        for (stop, heap) in self.in_window(window).filter_map(|stop| Some((stop, stop.heap?))) {
            since += heap.gathered;
            freed_since += stop.freed;
            if stop.kind == 2 {
                if first.is_some() {
                    gathered += since;
                    freed += freed_since;
                }
                first = first.or(Some(heap.tenured));
                last = Some(heap.tenured);
                (since, freed_since) = (0.0, 0.0);
            }
        }
        let (Some(first), Some(last)) = (first, last) else { return 0.0 };
        if gathered > 0.0 { ((gathered - freed - (last - first)) / gathered).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Objects that the request at work has allocated so far: half of its own, at a collection that they brought about.
    fn in_hand(&self, at: u64, objects: &[f64]) -> f64 {
        let last = self.served.partition_point(|served| served.began <= at).checked_sub(1);
        last.filter(|&last| self.served[last].ended > at && !self.served[last].shared).map_or(0.0, |last| objects[last] / 2.0)
    }

    fn costs(&self, window: (u64, u64), busy: f64, assumed: &mut Vec<&'static str>) -> Costs {
        let usual = Costs::default();
        let mut sweep = |kind: u8, usual: Sweep, what: &'static str| {
            let of = |stop: &Stop| stop.heap.map(|heap| (heap.looked, stop.freed, stop.pause as f64));
            let points = |from: u64| -> Vec<_> {
                let later = self.stops.iter().filter(|stop| stop.kind == kind && stop.at >= from);
                undisturbed(later.filter_map(of).collect())
            };
            // Before the window is better than nothing.
            Sweep::through(&points(window.0)).or_else(|| Sweep::through(&points(0))).unwrap_or_else(|| {
                assumed.push(what);
                usual
            })
        };
        let young = sweep(0, usual.young, "the cost of a young collection");
        let middle = sweep(1, young, "the cost of a middle collection");
        let full = sweep(2, usual.full, "the cost of a full collection");
        // What it costs to free an object is seen where most were freed.
        let totals = [0, 1, 2].map(|kind| {
            let all = self.in_window(window).filter(|stop| stop.kind == kind);
            all.fold((0.0, 0.0), |(looked, freed), stop| {
                (looked + stop.heap.map_or(0.0, |heap| heap.looked), freed + stop.freed)
            })
        });
        let sweeps = [young, middle, full];
        let most = (0..3).max_by(|&a, &b| totals[a].1.total_cmp(&totals[b].1)).unwrap_or(0);
        let [young, middle, full] = [0, 1, 2].map(|kind| {
            let (looked, freed): (f64, f64) = totals[kind];
            if freed < 0.01 * looked { Sweep { freed: sweeps[most].freed, ..sweeps[kind] } } else { sweeps[kind] }
        });
        let reaped = self.stops.iter().filter(|stop| stop.kind == 3).map(|stop| (stop.freed, stop.pause as f64));
        let reaped: Vec<_> = reaped.collect();
        let reap = Line::through(&reaped).unwrap_or(usual.reap);
        if reaped.is_empty() {
            assumed.push("the cost of freeing what a snapshot found");
        }
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

    /// Resident memory follows the objects that there are, and those that there have been.
    fn memory(&self, window: (u64, u64), assumed: &mut Vec<&'static str>) -> Memory {
        let usual = Memory::default();
        let mut stops = self.stops.iter().filter_map(|stop| Some((stop.at, stop.heap?.left))).peekable();
        let (mut objects, mut most) = (0.0, 0.0_f64);
        let mut points = Vec::new();
        for &(at, resident, _) in &self.looks {
            while let Some((_, left)) = stops.next_if(|stop| stop.0 <= at) {
                objects = left;
                most = most.max(left);
            }
            if at >= window.0 {
                points.push((objects, most, resident));
            }
        }
        // Least squares of resident memory by the most objects so far, and by how many fewer there are now.
        let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len().max(1) as f64;
        let (most_mean, fewer_mean, resident_mean) = (mean(|it| it.1), mean(|it| it.1 - it.0), mean(|it| it.2));
        let [mut mm, mut ff, mut mf, mut mr, mut fr] = [0.0; 5];
        for (objects, most, resident) in &points {
            let (m, f, r) = (most - most_mean, most - objects - fewer_mean, resident - resident_mean);
            mm += m * m;
            ff += f * f;
            mf += m * f;
            mr += m * r;
            fr += f * r;
        }
        let spread = mm * ff - mf * mf;
        let told_apart = spread > 0.01 * mm * ff;
        let object = if told_apart { (mr * ff - fr * mf) / spread } else { mr / mm };
        let drop = if told_apart { (mr * mf - fr * mm) / spread } else { 0.0 };
        if most - points.first().map_or(0.0, |first| first.1) < GROWTH * most || object.is_nan() || object < LIGHTEST {
            assumed.push("the bytes of an object");
            return Memory { base: resident_mean - usual.object * most_mean, ..usual };
        }
        let base = resident_mean - object * most_mean + drop * fewer_mean;
        Memory { base, object, returned: (drop / object).clamp(0.0, 1.0) }
    }

    /// How far each pause was from what its cost says.
    fn disturbed(&self, window: (u64, u64), costs: &Costs) -> Disturbed {
        let mut disturbed = Disturbed::over(window);
        for (stop, heap) in self.in_window(window).filter_map(|stop| Some((stop, stop.heap?))) {
            let sweep = [costs.young, costs.middle, costs.full][usize::from(stop.kind.min(2))];
            let expected = sweep.at(heap.looked, stop.freed);
            if expected > 0.0 {
                disturbed.add(stop.kind.into(), stop.at, (stop.pause as f64 / expected).clamp(0.2, 5.0));
            }
        }
        disturbed
    }
}

/// The points without the highest twentieth for their place: pauses that something else made longer.
fn undisturbed(mut points: Vec<(f64, f64, f64)>) -> Vec<(f64, f64, f64)> {
    let each = |point: &(f64, f64, f64)| point.2 / point.0.max(1.0);
    points.sort_unstable_by(|a, b| each(a).total_cmp(&each(b)));
    points.truncate(points.len() - points.len() / 20);
    points
}
