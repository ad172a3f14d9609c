//! A full collection that does not stop the program: a clone of the process walks the heap as it was, and what it finds
//! unreachable is freed in slices, after CPython itself has proven it again.
//!
//! `flight` clones; `child`, `walk` and `candidates` run in the clone; `harvest` and `reap` free what it found. The only
//! pauses of the program are the clone and the slices.

mod apart;
mod candidates;
mod child;
mod control;
mod counts;
mod failure;
mod figures;
mod flight;
mod harvest;
mod hold;
pub(crate) mod left_behind;
mod mappings;
mod order;
mod pools;
pub(crate) mod reap;
#[cfg(test)]
mod rehearsal;
mod shadow;
mod system;
mod walk;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use apart::Apart;
use control::Shared;
pub(crate) use failure::Failure;
pub(crate) use figures::{Figures, Latest};
use flight::{Flight, Plan, Standing};
use harvest::{Harvest, Portion};
use hold::Hold;
use pyo3::Python;

use crate::cpython::generations::{Generations, Head};
use crate::cpython::{Interpreter, arenas, is_main_interpreter};
use crate::lifecycle::agent::lock;

/// The snapshots of one process: at most one at a time.
#[derive(Debug)]
pub(crate) struct Snapshots {
    /// The process that this belongs to. A child that native code forks has the memory of it, but not the snapshot.
    pid: u32,
    /// Where its stack began, by which a clone sees whether it still runs this program.
    stack: Option<u64>,
    state: Mutex<State>,
    /// Full collections are still held off although no snapshot needs that any more: who has the GIL next ends it.
    owes: AtomicBool,
    /// Where young objects are put while candidates are judged; it never moves.
    aside: Box<Aside>,
}

/// A list's head that is only touched with the GIL held.
#[derive(Debug)]
struct Aside(UnsafeCell<Head>);

// SAFETY: whoever uses it holds the GIL, and `Phase::Reaping` keeps a second one out.
unsafe impl Sync for Aside {}

#[derive(Debug)]
struct State {
    phase: Phase,
    hold: Option<Hold>,
    figures: Figures,
    /// What freeing an object takes, from earlier slices.
    cost_ns: f64,
    apart: Apart,
    /// It was called off while a slice was being freed.
    called_off: bool,
    /// Memory of snapshots that are over, to be given back when nobody waits.
    retired: Option<Shared>,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Flying(Flight),
    Landed(Harvest),
    /// A slice is being freed, which runs finalizers, so nobody may wait for its end with the lock in hand.
    Reaping,
    Failed(Failure),
}

/// How a snapshot stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is none.
    Idle,
    /// Somebody is at it now.
    Busy,
    /// The walk runs.
    InFlight {
        /// By the monotonic clock.
        since_ns: u64,
    },
    /// There is something to be freed.
    Ready {
        candidates: usize,
        components: usize,
        largest: usize,
        /// How long a slice must be for the next piece, where only pieces are left that were too large for a slice.
        piece: Option<Duration>,
    },
    /// It came to nothing. This stays until the next launch.
    Failed(Failure),
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

/// The share of its memory that a program may copy while a snapshot is out.
pub(crate) const COPIES: f64 = 0.5;

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

impl Default for Snapshots {
    fn default() -> Self {
        let state = State {
            phase: Phase::Idle,
            hold: None,
            figures: Figures::default(),
            cost_ns: FIRST_COST_NS,
            apart: Apart::default(),
            called_off: false,
            retired: None,
        };
        let pid = std::process::id();
        Self {
            pid,
            stack: system::stack_of(pid.cast_signed()),
            state: Mutex::new(state),
            owes: AtomicBool::new(false),
            aside: Box::new(Aside(UnsafeCell::new(Head { next: 0, previous: 0 }))),
        }
    }
}

impl Snapshots {
    /// Clones the process. This is a pause of the program; everything else happens beside it.
    pub(crate) fn launch(&self, py: Python<'_>, interpreter: &Interpreter) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Idle | Phase::Failed(_)) {
            self.pay(py, &mut state);
        }
        let launched = self.try_launch(py, interpreter, &mut state);
        match &launched {
            Ok(()) => state.figures.launched += 1,
            Err(Failure::UnderWay | Failure::Collecting) => {}
            Err(failure) => {
                state.figures.failed(failure);
                state.phase = Phase::Failed(failure.clone());
                arenas::release();
            }
        }
        launched
    }

    fn try_launch(&self, py: Python<'_>, interpreter: &Interpreter, state: &mut State) -> Result<(), Failure> {
        if !matches!(state.phase, Phase::Idle | Phase::Failed(_)) || self.is_foreign() {
            return Err(Failure::UnderWay);
        }
        if !is_main_interpreter() {
            return Err(Failure::OtherInterpreter);
        }
        let (Some(layout), Some(collector)) = (interpreter.layout, interpreter.collector) else {
            let reason = interpreter.degraded.first().cloned();
            return Err(Failure::Unsupported(reason.unwrap_or_else(|| "the collector is not understood".to_owned())));
        };
        let generations = collector.generations(py);
        if generations.is_collecting() {
            return Err(Failure::Collecting);
        }
        arenas::keep();
        let estimate = generations.total() + generations.pending().max(0) + generations.young_count().max(0) as isize;
        let plan = Plan {
            collector,
            layout,
            heads: generations.heads(),
            stack: self.stack,
            objects: estimate.max(0) as usize,
        };
        let flight = Flight::launch(&plan, &mut state.apart)?;
        // Only now, so that a refusal leaves everything as it was. The clone has seen the lists as they were before.
        generations.make_all_old();
        state.hold = Some(Hold::begin(generations));
        state.figures.clone.add(flight.clone_ns);
        state.phase = Phase::Flying(flight);
        Ok(())
    }

    /// How it stands. Nobody is waited for, and the GIL is not needed.
    pub(crate) fn look(&self) -> Progress {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return Progress::Busy,
        };
        if self.is_foreign() {
            return Progress::Idle;
        }
        let retired = state.retired.take();
        if let Phase::Flying(flight) = &mut state.phase {
            match flight.look() {
                Standing::Flying => {}
                Standing::Landed => self.land(&mut state),
                Standing::Failed(failure) => self.fail(&mut state, failure),
            }
        }
        let progress = match &state.phase {
            Phase::Idle => Progress::Idle,
            Phase::Reaping => Progress::Busy,
            Phase::Flying(flight) => Progress::InFlight { since_ns: flight.began },
            Phase::Landed(harvest) => Progress::Ready {
                candidates: harvest.left(),
                components: harvest.components(),
                largest: harvest.largest(),
                piece: harvest.only_large().then(|| slice_for(harvest.largest(), state.cost_ns)),
            },
            Phase::Failed(failure) => Progress::Failed(failure.clone()),
        };
        drop(state);
        drop(retired);
        progress
    }

    /// The flight has ended well: what it found is there.
    fn land(&self, state: &mut State) {
        let Phase::Flying(flight) = std::mem::replace(&mut state.phase, Phase::Idle) else { return };
        state.figures.landed(Latest::of(&flight, state.apart.bytes()));
        state.apart.landed(flight.looks, &flight.shared.untouched());
        // Also with nothing found: the slice that frees nothing notes how large the heap is.
        state.phase = Phase::Landed(Harvest::new(flight.shared, flight.collector));
    }

    /// It has come to nothing. What needs the GIL for its end is owed.
    fn fail(&self, state: &mut State, mut failure: Failure) {
        if matches!(failure, Failure::Killed(libc::SIGSEGV | libc::SIGBUS)) && state.apart.crashed() {
            failure = Failure::Missing;
        }
        state.figures.failed(&failure);
        state.retired = match std::mem::replace(&mut state.phase, Phase::Failed(failure)) {
            Phase::Flying(flight) => Some(flight.shared),
            Phase::Landed(harvest) => Some(harvest.shared),
            Phase::Idle | Phase::Reaping | Phase::Failed(_) => None,
        };
        arenas::release();
        self.owes.store(state.hold.is_some(), Ordering::Release);
    }

    /// Frees whole components for about as long as `budget`. With `whole`, one that is too large for that goes by
    /// itself when nothing smaller is left.
    pub(crate) fn reap(&self, py: Python<'_>, budget: Duration, whole: bool) -> Reaped {
        let began = system::now();
        let mut state = lock(&self.state);
        if self.is_foreign() || !matches!(state.phase, Phase::Landed(_)) {
            return Reaped::default();
        }
        let Phase::Landed(mut harvest) = std::mem::replace(&mut state.phase, Phase::Reaping) else {
            return Reaped::default();
        };
        let generations = harvest.collector.generations(py);
        if generations.is_collecting() {
            let left = harvest.left();
            state.phase = Phase::Landed(harvest);
            return Reaped { left, ..Reaped::default() };
        }
        if let Some(failure) = state.hold.as_ref().and_then(|hold| hold.broken(generations)) {
            let dropped = harvest.left();
            state.phase = Phase::Landed(harvest);
            self.fail(&mut state, failure);
            drop(state);
            self.lift(py);
            return Reaped { dropped, ..Reaped::default() };
        }
        let most = objects_in(budget, state.cost_ns);
        drop(state);

        let ranges = harvest.take(Portion { most: most.max(1), whole });
        let taken: usize = ranges.iter().map(|range| range.len()).sum();
        let objects = reap::verified(&mut harvest, &ranges);
        let freed = if objects.is_empty() {
            0
        } else {
            // SAFETY: they have just been verified, and the head is in a box that outlives the call.
            unsafe { reap::collect(py, generations, &objects, self.aside.0.get()) }.unwrap_or(0)
        };
        harvest.freed += freed;

        let pause_ns = system::now() - began;
        let reaped =
            Reaped { freed, moved: objects.len(), dropped: taken - objects.len(), left: harvest.left(), pause_ns };
        let mut state = lock(&self.state);
        state.note(&reaped);
        if let Some(hold) = &mut state.hold {
            hold.look_again(generations);
        }
        let called_off = std::mem::take(&mut state.called_off);
        if harvest.left() == 0 {
            state.finish(harvest, generations);
        } else {
            state.phase = Phase::Landed(harvest);
            if called_off {
                self.fail(&mut state, Failure::Cancelled);
                self.pay(py, &mut state);
            }
        }
        reaped
    }

    /// Counts one that was not even tried.
    pub(crate) fn refuse(&self, failure: &Failure) {
        let mut state = lock(&self.state);
        state.figures.failed(failure);
        if matches!(state.phase, Phase::Idle | Phase::Failed(_)) {
            state.phase = Phase::Failed(failure.clone());
        }
    }

    /// Somebody has taken note of a failure.
    pub(crate) fn forget_failure(&self) {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Failed(_)) {
            state.phase = Phase::Idle;
        }
    }

    /// Calls it off. The process is killed and seen to be gone by a later look.
    pub(crate) fn cancel(&self) {
        let mut state = lock(&self.state);
        if self.is_foreign() {
            return;
        }
        match &mut state.phase {
            Phase::Flying(flight) => flight.give_up(Failure::Cancelled),
            Phase::Landed(_) => self.fail(&mut state, Failure::Cancelled),
            Phase::Reaping => state.called_off = true,
            Phase::Idle | Phase::Failed(_) => {}
        }
    }

    /// Calls it off and waits a short while until nothing is left of it. A slice that is being freed is left to end.
    pub(crate) fn shut_down(&self) {
        self.cancel();
        let mut state = lock(&self.state);
        if self.is_foreign() {
            return;
        }
        if matches!(state.phase, Phase::Flying(_))
            && let Phase::Flying(flight) = std::mem::replace(&mut state.phase, Phase::Failed(Failure::Cancelled))
        {
            state.figures.failed(&Failure::Cancelled);
            drop(flight.end());
            arenas::release();
            self.owes.store(state.hold.is_some(), Ordering::Release);
        }
        state.retired = None;
    }

    /// The same for somebody who has the GIL, which is let go of meanwhile.
    pub(crate) fn call_off(&self, py: Python<'_>) {
        py.detach(|| self.shut_down());
        self.lift(py);
    }

    /// Whether a process is the one that walks for this snapshot.
    pub(crate) fn is_walked_by(&self, pid: i32) -> bool {
        matches!(&lock(&self.state).phase, Phase::Flying(flight) if flight.pid == pid)
    }

    /// Lets CPython's own full collections come again, if a snapshot that came to nothing has held them off.
    pub(crate) fn lift(&self, py: Python<'_>) {
        if !self.owes.load(Ordering::Acquire) || self.is_foreign() {
            return;
        }
        match self.state.try_lock() {
            Ok(mut state) => self.pay(py, &mut state),
            Err(TryLockError::Poisoned(state)) => self.pay(py, &mut state.into_inner()),
            // The next collection comes by here again.
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Ends a hold that is owed.
    fn pay(&self, py: Python<'_>, state: &mut State) {
        if self.owes.swap(false, Ordering::AcqRel)
            && let Some(hold) = state.hold.take()
        {
            hold.lift(py);
        }
    }

    /// In a forked child: forgets the parent's snapshot without touching it. The child has a copy of the lists, and its
    /// own full collections.
    pub(crate) fn leave_to_parent(&self, py: Python<'_>) {
        if let Ok(mut state) = self.state.try_lock() {
            if let Some(hold) = state.hold.take() {
                hold.lift(py);
            }
            // The mappings are this process's copies; the clone is not its child.
            state.phase = Phase::Idle;
            state.retired = None;
        }
        arenas::release();
    }

    /// The sums so far.
    pub(crate) fn figures(&self) -> Figures {
        lock(&self.state).figures.clone()
    }

    /// Whether this is the memory of another process, from which this one was forked.
    fn is_foreign(&self) -> bool {
        self.pid != std::process::id()
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl State {
    /// Learns from a slice what the next one will take.
    fn note(&mut self, reaped: &Reaped) {
        self.figures.freed += reaped.freed as u64;
        let count = reaped.moved + reaped.dropped;
        if count == 0 {
            // Nothing was small enough. If that is because a slice was held up once, others must have their chance.
            self.cost_ns = (self.cost_ns * 0.8).max(FIRST_COST_NS.min(self.cost_ns));
            return;
        }
        self.figures.reap.add(reaped.pause_ns);
        let cost = reaped.pause_ns as f64 / count as f64;
        // Up quickly and down slowly: a slice that is too long is worse than one that is too short. But one that was
        // only held up, by whoever had the processor, must not count for all. Small ones tell little.
        let cost = cost.min(2.0 * self.cost_ns);
        let weight = if cost > self.cost_ns { 1.0 } else { 0.25 } * (count as f64 / 500.0).min(1.0);
        self.cost_ns += (cost - self.cost_ns) * weight;
    }

    /// Everything that was found has been dealt with.
    fn finish(&mut self, harvest: Harvest, generations: Generations<'_>) {
        if let Some(hold) = self.hold.take() {
            let control = harvest.shared.control();
            let tracked = control.tracked.load(Ordering::Relaxed) as usize;
            hold.end(generations, tracked.saturating_sub(harvest.freed));
        }
        self.retired = Some(harvest.shared);
        self.phase = Phase::Idle;
        arenas::release();
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
