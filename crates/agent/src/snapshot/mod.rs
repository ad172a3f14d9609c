//! A full collection that does not stop the program: a clone of the process walks the heap as it was, and what it finds
//! unreachable is freed in slices, after CPython itself has proven it again.
//!
//! `flight` clones; `child`, `walk` and `candidates` run in the clone; `harvest` and `reap` free what it found. The only
//! pauses of the program are the clone and the slices.

mod apart;
mod candidates;
mod censuses;
mod child;
mod control;
mod counts;
mod failure;
mod faults;
mod figures;
mod flight;
mod harvest;
mod heap;
mod heap_flights;
pub(crate) mod left_behind;
mod locked;
mod look_plan;
mod mappings;
mod markers;
mod old_blocks;
mod order;
mod pools;
mod ranks;
pub(crate) mod reap;
#[cfg(test)]
mod rehearsal;
mod shadow;
mod slices;
mod state;
mod state_lock;
mod system;
mod walk;

use std::cell::UnsafeCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use apart::Apart;
use control::Shared;
use crossbeam_queue::ArrayQueue;
pub(crate) use failure::SnapshotFailure;
use faults::QuietFaults;
pub(crate) use figures::{Latest, SnapshotFigures};
use flight::{Flight, FlightErrand, FlightPlan, Standing};
use harvest::Harvest;
pub(crate) use heap::{CensusFound, Counted, CountedContainer, Destination};
pub(crate) use heap_flights::{HeapErrand, HeapReport, HeapTold};
use markers::{Markers, Places};
use neurogc_policy::Scope;
use old_blocks::OldBlocks;
use pyo3::prelude::*;
use slices::EndedSlice;
use walk::Lists;

use crate::cpython::collector::Collector;
use crate::cpython::generations::{GcHead, Generations};
use crate::cpython::tables::ObjectTables;
use crate::cpython::{Interpreter, arenas, is_main_interpreter};
use crate::sys::locks::lock;
use crate::sys::native::pthread_self;

/// The snapshots of one process: at most one at a time.
#[derive(Debug)]
pub(crate) struct SnapshotRunner {
    /// The process that this belongs to. A child that native code forks has the memory of it, but not the snapshot.
    pid: u32,
    /// Where its stack began, by which a clone sees whether it still runs this program.
    stack: Option<u64>,
    state: Mutex<State>,
    /// What a thread of the program leaves for the thread that has the state next: a slice that has ended, and that it has taken
    /// note of the failure that the state tells of.
    ended: ArrayQueue<EndedSlice>,
    forgotten: AtomicBool,
    /// Full collections of this process so far: after one of them a snapshot's garbage is gone.
    full: AtomicU64,
    /// Where young objects are put while candidates are judged; it never moves. Beside it, the thread that has put them
    /// there, or zero.
    aside: Box<Aside>,
    aside_by: AtomicUsize,
    /// Where new objects begin.
    markers: Mutex<Option<Markers>>,
    /// Whether flights that collect also count.
    counts: bool,
}

/// A list's head that is only touched with the GIL held.
#[derive(Debug)]
struct Aside(UnsafeCell<GcHead>);

// SAFETY: a thread that uses it holds the GIL, and `Phase::Reaping` keeps a second thread out.
unsafe impl Sync for Aside {}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The first and the last frozen object while a snapshot is out, and the objects that were pending at its launch.
    frozen_ends: (usize, usize),
    pending: isize,
    figures: SnapshotFigures,
    /// What freeing an object takes, from earlier slices.
    cost_ns: f64,
    quiet_faults: QuietFaults,
    apart: Apart,
    old_blocks: OldBlocks,
    /// It was called off while a slice was being freed.
    called_off: bool,
    /// What the last flight that did not collect has told, and how many of those there were.
    told: Option<HeapTold>,
    heap_flights: u64,
    /// The latest census, until it is taken.
    census: Option<Box<CensusFound>>,
    /// Memory of snapshots that are over. It is unmapped later, when no thread of the program waits for it.
    retired: Option<Shared>,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Flying(Flight),
    Landed(Harvest),
    /// A slice is being freed, which runs finalizers, so no thread may wait for its end while it holds the lock.
    Reaping,
    Failed(SnapshotFailure),
}

/// How a snapshot stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotProgress {
    /// There is none.
    Idle,
    /// Another thread works on it now.
    Busy,
    /// The walk runs.
    InFlight {
        /// The number of the flight; zero for one that does not collect.
        flight: u64,
        /// By the monotonic clock.
        since_ns: u64,
        /// Bytes of pages that the program has copied at most.
        copied: u64,
    },
    /// There is something to be freed.
    Ready {
        /// The number of the flight that has found it.
        flight: u64,
        candidates: usize,
        components: usize,
        largest: usize,
        /// How long a slice must be for the next piece, where only pieces are left that were too large for a slice.
        piece: Option<Duration>,
    },
    /// It came to nothing. This stays until the next launch.
    Failed(SnapshotFailure),
}

/// What a slice has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaped {
    /// Objects that the collection found unreachable.
    pub(crate) freed: usize,
    /// Candidates that were put before it.
    pub(crate) moved: usize,
    /// Candidates that are not what they were.
    pub(crate) dropped: usize,
    /// Candidates that are left for later slices.
    pub(crate) left: usize,
    /// How long it took.
    pub(crate) pause_ns: u64,
}

/// A snapshot that was sent out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Launched {
    /// Its number: flights that collect are counted from one.
    pub(crate) flight: u64,
    /// What it looks at.
    pub(crate) scope: Scope,
    /// Young objects that there were, which are old now.
    pub(crate) young: u32,
}

/// How a snapshot is sent out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sortie {
    /// What it looks at. Everything, where it is not known what is new.
    pub(crate) scope: Scope,
    /// Whether the walk gives way to the program where the processor is short.
    pub(crate) polite: bool,
}

/// What freeing an object is taken for before it is known.
const FIRST_COST_NS: f64 = 600.0;

/// The share of the budget that a slice is planned for, because slices differ.
const PLANNED_SHARE: f64 = 0.7;

/// How many objects a slice may take, at so many nanoseconds each.
fn objects_in(slice: Duration, cost_ns: f64) -> usize {
    (slice.as_nanos() as f64 * PLANNED_SHARE / cost_ns) as usize
}

/// How long a slice must be for so many objects.
fn slice_for(objects: usize, cost_ns: f64) -> Duration {
    Duration::from_nanos((objects as f64 * cost_ns / PLANNED_SHARE) as u64 + 2)
}

impl Default for SnapshotRunner {
    fn default() -> Self {
        let state = State {
            phase: Phase::Idle,
            frozen_ends: (0, 0),
            pending: 0,
            figures: SnapshotFigures::default(),
            cost_ns: FIRST_COST_NS,
            quiet_faults: QuietFaults::new(),
            apart: Apart::default(),
            old_blocks: OldBlocks::default(),
            called_off: false,
            told: None,
            heap_flights: 0,
            census: None,
            retired: None,
        };
        let pid = std::process::id();
        Self {
            pid,
            stack: system::stack_of(pid.cast_signed()),
            state: Mutex::new(state),
            ended: ArrayQueue::new(1),
            forgotten: AtomicBool::new(false),
            full: AtomicU64::new(0),
            aside: Box::new(Aside(UnsafeCell::new(GcHead { next: 0, previous: 0 }))),
            aside_by: AtomicUsize::new(0),
            markers: Mutex::new(None),
            counts: false,
        }
    }
}

impl SnapshotRunner {
    /// Clones the process. This is a pause of the program; everything else happens beside it.
    pub(crate) fn launch(
        &self,
        py: Python<'_>,
        interpreter: &Interpreter,
        sortie: Sortie,
    ) -> Result<Launched, SnapshotFailure> {
        let errand = FlightErrand::Collect(self.census_plan(py, interpreter, sortie));
        // This may begin a collection, whose finalizers let other threads in.
        self.make_markers(py);
        let Some(mut state) = self.try_state() else { return Err(SnapshotFailure::UnderWay) };
        let mut launched = self.try_launch(py, interpreter, &mut state, sortie, errand);
        match &mut launched {
            Ok(launched) => {
                state.figures.launched += 1;
                launched.flight = state.figures.launched;
            }
            Err(SnapshotFailure::UnderWay | SnapshotFailure::Collecting) => {}
            Err(failure) => {
                state.figures.failed(failure);
                state.phase = Phase::Failed(failure.clone());
                arenas::release();
            }
        }
        launched
    }

    fn try_launch(
        &self,
        py: Python<'_>,
        interpreter: &Interpreter,
        state: &mut State,
        sortie: Sortie,
        errand: FlightErrand,
    ) -> Result<Launched, SnapshotFailure> {
        if !matches!(state.phase, Phase::Idle | Phase::Failed(_)) {
            return Err(SnapshotFailure::UnderWay);
        }
        if !is_main_interpreter() {
            return Err(SnapshotFailure::OtherInterpreter);
        }
        let (Some(layout), Some(collector)) = (interpreter.layout, interpreter.collector) else {
            let reason = interpreter.degraded.first().cloned();
            return Err(SnapshotFailure::Unsupported(
                reason.unwrap_or_else(|| "the collector is not understood".to_owned()),
            ));
        };
        let generations = collector.generations(py);
        if generations.is_collecting() {
            return Err(SnapshotFailure::Collecting);
        }
        arenas::keep();
        let estimate = generations.total() + generations.pending().max(0) + generations.young_count().max(0) as isize;
        let full = self.full.load(Ordering::Relaxed);
        let places =
            lock(&self.markers).as_ref().map_or(Places::default(), |markers| markers.places(generations, full));
        let since = places.first.filter(|_| sortie.scope == Scope::New);
        let newer = places.second.filter(|_| since.is_none());
        let plan = FlightPlan {
            collector,
            layout,
            tables: ObjectTables::find(&interpreter.version, layout),
            lists: Lists { heads: generations.heads(), since, newer },
            scope: if since.is_some() { Scope::New } else { Scope::All },
            full,
            polite: sortie.polite,
            stack: self.stack,
            objects: estimate.max(0) as usize,
            faults: state.quiet_faults.end(),
        };
        let flight = Flight::launch(&plan, errand, &mut state.apart, &state.old_blocks)?;
        if !flight.errand.collects() {
            state.phase = Phase::Flying(flight);
            return Ok(Launched { scope: plan.scope, ..Launched::default() });
        }
        // Only now, so that a refusal leaves everything as it was. The clone has seen the lists as they were before.
        let young = generations.young_count().max(0) as u32;
        if let Some(markers) = &mut *lock(&self.markers) {
            markers.launched(generations, full, plan.scope);
        }
        generations.make_all_old();
        (state.frozen_ends, state.pending) = (generations.frozen_ends(), generations.pending());
        state.figures.clone.add(flight.clone_ns);
        state.phase = Phase::Flying(flight);
        Ok(Launched { flight: 0, scope: plan.scope, young })
    }

    /// Makes the markers, which may begin a collection, before anything else is done.
    pub(crate) fn make_markers(&self, py: Python<'_>) {
        if lock(&self.markers).is_none() {
            let markers = Markers::make(py);
            *lock(&self.markers) = Some(markers);
        }
    }

    /// A full collection has ended. Where a policy acts, it counts as a walk of everything: new is what comes from now on.
    pub(crate) fn full_collection_ended(&self, generations: Option<Generations<'_>>) {
        let full = self.full.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(generations) = generations
            && let Ok(mut markers) = self.markers.try_lock()
            && let Some(markers) = &mut *markers
        {
            markers.all_are_old(generations, full);
        }
    }

    /// How it stands. It waits for no thread and needs no GIL.
    pub(crate) fn look(&self) -> SnapshotProgress {
        if self.is_foreign() {
            return SnapshotProgress::Idle;
        }
        let Some(mut state) = self.try_state() else { return SnapshotProgress::Busy };
        let retired = state.retired.take();
        if let Phase::Flying(flight) = &mut state.phase {
            let standing = flight.look(self.full.load(Ordering::Relaxed));
            let collects = flight.errand.collects();
            if !matches!(standing, Standing::Flying) {
                state.quiet_faults.begin();
            }
            match standing {
                Standing::Flying => {}
                Standing::Landed if !collects => state.heap_landed(),
                Standing::Landed => self.land(&mut state),
                Standing::Failed(failure) => self.fail(&mut state, failure),
            }
        }
        let progress = match &state.phase {
            Phase::Idle => SnapshotProgress::Idle,
            Phase::Reaping => SnapshotProgress::Busy,
            Phase::Flying(flight) => SnapshotProgress::InFlight {
                flight: if flight.errand.collects() { state.figures.launched } else { 0 },
                since_ns: flight.began,
                copied: flight.faults.copied(),
            },
            Phase::Landed(harvest) => SnapshotProgress::Ready {
                flight: state.figures.launched,
                candidates: harvest.left(),
                components: harvest.components(),
                largest: harvest.largest(),
                piece: harvest.only_large().then(|| slice_for(harvest.largest(), state.cost_ns)),
            },
            Phase::Failed(failure) => SnapshotProgress::Failed(failure.clone()),
        };
        drop(state);
        drop(retired);
        progress
    }

    /// The flight has ended well: what it found is there.
    fn land(&self, state: &mut State) {
        let Phase::Flying(flight) = std::mem::replace(&mut state.phase, Phase::Idle) else { return };
        state.figures.landed(Latest::of(&flight, state.apart.bytes()));
        state.note_needless(&flight);
        state.census_landed(&flight);
        // Also with nothing found: the slice that frees nothing notes how large the heap is.
        let (scope, full) = (flight.scope, flight.full);
        state.phase = Phase::Landed(Harvest::new(flight.shared, flight.collector, scope, full));
    }

    /// It has come to nothing.
    fn fail(&self, state: &mut State, mut failure: SnapshotFailure) {
        if matches!(failure, SnapshotFailure::Killed(libc::SIGSEGV | libc::SIGBUS)) && state.may_have_missed() {
            failure = SnapshotFailure::Missing;
        }
        if state.is_heap_flight() {
            return state.heap_failed(failure);
        }
        state.figures.failed(&failure);
        state.retired = match std::mem::replace(&mut state.phase, Phase::Failed(failure)) {
            Phase::Flying(flight) => Some(flight.shared),
            Phase::Landed(harvest) => Some(harvest.shared),
            Phase::Idle | Phase::Reaping | Phase::Failed(_) => None,
        };
        arenas::release();
    }

    /// Counts one that was not even tried, unless another thread has the state: the next one is refused for the same reason.
    pub(crate) fn refuse(&self, failure: &SnapshotFailure) {
        let Some(mut state) = self.try_state() else { return };
        state.figures.failed(failure);
        if matches!(state.phase, Phase::Idle | Phase::Failed(_)) {
            state.phase = Phase::Failed(failure.clone());
        }
    }

    /// Called when a failure has been recorded: a new snapshot may start.
    pub(crate) fn forget_failure(&self) {
        self.forgotten.store(true, Ordering::Release);
    }

    /// Calls it off. The process is killed and seen to be gone by a later look. The caller does not hold the GIL.
    pub(crate) fn cancel(&self, reason: SnapshotFailure) {
        let Some(mut state) = self.state_in_time() else { return };
        match &mut state.phase {
            Phase::Flying(flight) => flight.give_up(reason),
            Phase::Landed(_) => self.fail(&mut state, reason),
            Phase::Reaping => state.called_off = true,
            Phase::Idle | Phase::Failed(_) => {}
        }
    }

    /// Calls it off and waits a short while until nothing is left of it. A slice that is being freed is left to end. The caller
    /// does not hold the GIL.
    pub(crate) fn shut_down(&self) {
        self.cancel(SnapshotFailure::Cancelled);
        let Some(mut state) = self.state_in_time() else { return };
        let flight = match std::mem::replace(&mut state.phase, Phase::Idle) {
            Phase::Flying(flight) => {
                if flight.errand.collects() {
                    state.phase = Phase::Failed(SnapshotFailure::Cancelled);
                    state.figures.failed(&SnapshotFailure::Cancelled);
                }
                arenas::release();
                Some(flight)
            }
            phase => {
                state.phase = phase;
                None
            }
        };
        let retired = state.retired.take();
        // A thread of the program must not wait for the lock while the process is waited for.
        drop(state);
        drop(retired);
        drop(flight.map(Flight::end));
    }

    /// Whether a process is the one that walks for this snapshot.
    pub(crate) fn is_walked_by(&self, pid: i32) -> bool {
        let is_it = |state: &State| matches!(&state.phase, Phase::Flying(flight) if flight.pid == pid);
        self.state_in_time().is_none_or(|state| is_it(&state))
    }

    /// In a forked child: forgets the parent's snapshot without touching it, and puts back the young objects that another
    /// thread of the parent had set aside. The child has a copy of the lists, and its own full collections.
    pub(crate) fn leave_to_parent(&self, py: Python<'_>, collector: Option<Collector>) {
        let by = self.aside_by.load(Ordering::Relaxed);
        if let Some(collector) = collector.filter(|_| by != 0 && by != pthread_self()) {
            // SAFETY: the thread that has filled the list is not in this process, and no other thread uses it.
            unsafe { collector.generations(py).bring_back_in_child(self.aside.0.get()) };
        }
        // A lock that another thread of the parent held is never let go of here; the mappings then stay.
        if let Ok(mut state) = self.state.try_lock() {
            state.phase = Phase::Idle;
            state.retired = None;
        }
        arenas::release();
    }

    /// The latest flight that landed; nothing where another thread has the state at this instant.
    pub(crate) fn latest(&self) -> Option<Latest> {
        Some(self.try_state()?.figures.latest)
    }

    /// The sums so far. The caller does not hold the GIL.
    pub(crate) fn figures(&self) -> SnapshotFigures {
        self.state_in_time().map_or_else(SnapshotFigures::default, |state| state.figures.clone())
    }
}

impl Drop for SnapshotRunner {
    fn drop(&mut self) {
        self.shut_down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_as_long_as_a_piece_is_said_to_take_takes_it() {
        for objects in (1..5_000).chain([1_000_000]) {
            for cost_ns in [33.3, 250.0, 600.0, 7_777.7] {
                assert!(objects_in(slice_for(objects, cost_ns), cost_ns) >= objects, "{objects} at {cost_ns}");
            }
        }
    }
}
