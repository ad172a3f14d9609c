//! What is in a trace: requests, stops, and looks at the process.

use std::collections::HashMap;

use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{Record, Trace, WaitSource};

use super::{FitError, LEAST_COLLECTIONS, LEAST_REQUESTS};

/// A collection or another stop, with what is known about the heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedStop {
    pub(super) at: u64,
    pub(super) pause: u64,
    pub(super) kind: StopKind,
    pub(super) freed: f64,
    pub(super) heap: Option<HeapThen>,
}

/// The heap at a collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeapThen {
    pub(super) gathered: f64,
    pub(super) tenured: f64,
    /// Objects that a collection of its generation looked at.
    pub(super) looked: f64,
    /// Objects that were left altogether.
    pub(super) left: f64,
    /// Objects that have become old by it, or by the next one: the counter is read a little later.
    pub(super) promoted: f64,
}

/// A request that was served.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServedRequest {
    pub(super) began: u64,
    pub(super) ended: u64,
    /// When it came, where the kernel or a proxy has said so.
    pub(super) came: Option<u64>,
    /// Its share of the time that it was in flight, without pauses.
    pub(super) share: f64,
    /// Whether another one began meanwhile.
    pub(super) shared: bool,
    /// How long after another it can have begun and still have waited for it.
    pub(super) slack: u64,
}

impl ServedRequest {
    /// What of its share falls between two moments.
    pub(super) fn part(&self, from: u64, to: u64) -> f64 {
        let inside = self.ended.min(to).saturating_sub(self.began.max(from)) as f64;
        self.share * inside / (self.ended - self.began).max(1) as f64
    }
}

/// What a trace shows.
#[derive(Debug, Default)]
pub(super) struct TraceContents {
    pub(super) served: Vec<ServedRequest>,
    pub(super) stops: Vec<RecordedStop>,
    /// When, resident bytes, and processor time in nanoseconds.
    pub(super) looks: Vec<(u64, f64, f64)>,
    /// When a walk was over, how long it took, faults, objects, found.
    pub(super) flights: Vec<(u64, f64, f64, f64, f64)>,
    /// From when to when the GIL was held.
    pub(super) held: Vec<(u64, u64)>,
    /// From the first request to the end of the last.
    pub(super) window: (u64, u64),
    /// What is done around the marks of a request, in nanoseconds, and the share of its time in which one waits for others
    /// that lets others begin.
    pub(super) around: f64,
    pub(super) resting: f64,
    /// The objects that each request has allocated.
    pub(super) objects: Vec<f64>,
}

impl TraceContents {
    /// Reads a trace, if it says enough.
    pub(super) fn read(trace: &Trace) -> Result<Self, FitError> {
        let mut seen = Self::of(trace);
        if seen.served.len() < LEAST_REQUESTS {
            return Err(FitError::Requests { found: seen.served.len() });
        }
        if seen.stops.iter().all(|stop| stop.heap.is_none()) {
            return Err(FitError::Heap);
        }
        seen.window = (seen.served[0].began, seen.served.iter().map(|each| each.ended).max().unwrap_or(0));
        let collections = seen.collections();
        if collections < LEAST_COLLECTIONS {
            return Err(FitError::Collections { found: collections });
        }
        if seen.looks.len() < 2 {
            return Err(FitError::Process { found: seen.looks.len() });
        }
        seen.share_time();
        seen.objects = seen.share_objects();
        Ok(seen)
    }

    fn collections(&self) -> usize {
        self.in_window().filter(|stop| stop.heap.is_some()).count()
    }

    /// Collections for each request: how closely the trace has looked at what objects live.
    pub(super) fn closeness(&self) -> f64 {
        self.collections() as f64 / self.served.len() as f64
    }

    fn of(trace: &Trace) -> Self {
        let mut seen = Self::default();
        let mut open = HashMap::new();
        let mut heaps = HashMap::new();
        for record in &trace.records {
            match *record {
                Record::RequestStart { at, id } => drop(open.insert(id, (at, None))),
                Record::RequestWait { id, wait, source, .. } => {
                    // What was estimated from a stop is estimated better here, from all that there is.
                    if let (Some((at, came)), true) = (open.get_mut(&id), source != WaitSource::Estimated) {
                        *came = Some(at.saturating_sub(wait));
                    }
                }
                Record::RequestEnd { at, id } => {
                    let served = open.remove(&id).map(|(began, came)| ServedRequest {
                        began,
                        ended: at.max(began),
                        came,
                        ..ServedRequest::default()
                    });
                    seen.served.extend(served);
                }
                Record::Collection { at, pause, kind, collected, .. } => {
                    seen.stops.push(RecordedStop { at, pause, kind, freed: collected as f64, heap: None });
                }
                Record::Heap { at, gathered, tenured, pending } => {
                    heaps.insert(at, (gathered as f64, tenured as f64, pending as f64));
                }
                Record::Process { at, rss, cpu_us } => seen.looks.push((at, rss as f64, cpu_us as f64 * 1e3)),
                Record::Flight { at, lasted, faults, objects, found } => {
                    seen.flights.push((at, lasted as f64, faults as f64, objects as f64, found as f64));
                }
                Record::Gap { at, busy, .. } => seen.held.push((at, at + busy)),
                _ => {}
            }
        }
        seen.served.sort_unstable_by_key(|served| served.began);
        seen.stops.sort_unstable_by_key(|stop| stop.at);
        seen.looks.sort_unstable_by_key(|look| look.0);
        seen.held.sort_unstable();
        seen.follow_heap(&heaps);
        seen
    }

    /// Puts what is known about the heap beside each collection. The middle generation is what young ones have left.
    fn follow_heap(&mut self, heaps: &HashMap<u64, (f64, f64, f64)>) {
        let (mut middle, mut before, mut left) = (0.0, 0.0, 0.0);
        for stop in &mut self.stops {
            let Some(&(gathered, tenured, pending)) = heaps.get(&stop.at) else { continue };
            let looked = match stop.kind {
                StopKind::Young => gathered,
                StopKind::Middle => gathered + middle,
                StopKind::Full | StopKind::Reap | StopKind::Clone => tenured + stop.freed,
            };
            middle = if stop.kind == StopKind::Young { middle + (gathered - stop.freed).max(0.0) } else { 0.0 };
            let promoted = if stop.kind == StopKind::Full { 0.0 } else { (pending - before).max(0.0) };
            before = pending;
            // While a snapshot is out, the counters say nothing.
            left = if tenured + pending > 0.0 {
                tenured + pending + middle
            } else {
                left + (gathered - stop.freed).max(0.0)
            };
            stop.heap = Some(HeapThen { gathered, tenured, looked, left, promoted });
        }
    }

    pub(super) fn in_window(&self) -> impl Iterator<Item = &RecordedStop> {
        self.stops.iter().filter(|stop| within(self.window, stop.at))
    }

    /// How long the program stood still between two moments.
    pub(super) fn paused(&self, from: u64, to: u64) -> u64 {
        let first = self.stops.partition_point(|stop| stop.at + stop.pause <= from);
        let overlap = |stop: &RecordedStop| (stop.at + stop.pause).min(to).saturating_sub(stop.at.max(from));
        self.stops[first..].iter().take_while(|stop| stop.at < to).map(overlap).sum()
    }
}

pub(super) fn within((from, to): (u64, u64), at: u64) -> bool {
    (from..=to).contains(&at)
}
