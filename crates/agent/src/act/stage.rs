//! Where orders meet the program: what is due at the next gap, who may carry it out, and when the program wants quiet.
//!
//! The conductor writes here; the program's own threads read with a load or two. A collection runs finalizers, and some
//! of them must run in the thread of their event loop, so a program with an event loop is collected there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use neurogc_policy::{Decision, Order, Thresholds, Trust};
use neurogc_wire::stop::StopKind;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cpython::generations::HeldOff;
use crate::lifecycle::agent::{Agent, lock};
use crate::sense::hooks::Ordered;
use crate::sense::process::{has_room, resident};
use crate::snapshot::{COPIES, Failure, Reaped};
use crate::sys::native::monotonic_ns;

/// The stage of one process.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    /// The order that waits for the program's own thread.
    posted: AtomicU8,
    /// The order that is being carried out.
    running: AtomicU8,
    /// How long the slice may take that is posted or being freed.
    slice_ns: AtomicU64,
    /// How many times the program has asked for quiet.
    quiet: AtomicU32,
    /// The program has taken the collector into its own hands.
    stood_down: AtomicBool,
    /// How many full collections of the program were put off, and whether one is still due.
    deferrals: AtomicU64,
    deferred: AtomicBool,
    /// How many objects were frozen before the policy came; CPython 3.12 freezes some itself.
    frozen_before: AtomicU64,
    /// The policy has frozen the heap, which the program had not done.
    froze: AtomicBool,
    /// What the conductor waits for, for reports.
    waiting: Mutex<Waiting>,
    /// What the program set itself, which is what it sees.
    shown: Mutex<Option<Thresholds>>,
    /// The program's event loop, weakly.
    event_loop: Mutex<Option<Py<PyAny>>>,
}

/// What is due and not done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// What waits for the next gap.
    pub(crate) due: Order,
    /// Since when a full collection has been overdue, by the monotonic clock.
    pub(crate) overdue_since: Option<u64>,
    /// How far the policy's model can be relied on, where it has one.
    pub(crate) trust: Option<Trust>,
}

const NOTHING: u8 = 0;
const FORCED: u8 = 0x80;
const AT_ONCE: u8 = 0x40;
const DECISION: u8 = 0x0f;
const FREEZE: u8 = 4;
const LAUNCH: u8 = 5;
const SLICE: u8 = 6;

impl Stage {
    /// Leaves an order for the program's own thread.
    pub(crate) fn post(&self, order: Order) {
        self.posted.store(self.code(order), Ordering::Relaxed);
    }

    /// An order in one byte. The length of a slice is kept beside it.
    fn code(&self, order: Order) -> u8 {
        let decision = match order.decision {
            Decision::Wait => return NOTHING,
            Decision::Young => 1,
            Decision::Middle => 2,
            Decision::Full => 3,
            Decision::Freeze => FREEZE,
            Decision::Snapshot => LAUNCH,
            Decision::Reap { budget } => {
                self.slice_ns.store(budget.as_nanos() as u64, Ordering::Relaxed);
                SLICE
            }
        };
        decision | if order.forced { FORCED } else { 0 } | if order.at_once { AT_ONCE } else { 0 }
    }

    /// The conductor says what it waits for.
    pub(crate) fn waits_for(&self, waiting: Waiting) {
        *lock(&self.waiting) = waiting;
    }

    /// What is due and not done.
    pub(crate) fn waiting(&self) -> Waiting {
        *lock(&self.waiting)
    }

    /// Puts a full collection of the program off.
    pub(crate) fn defer(&self) {
        self.deferrals.fetch_add(1, Ordering::Relaxed);
        self.deferred.store(true, Ordering::Relaxed);
    }

    /// How many were put off so far.
    pub(crate) fn deferrals(&self) -> u64 {
        self.deferrals.load(Ordering::Relaxed)
    }

    /// Whether one is still due.
    pub(crate) fn is_deferred(&self) -> bool {
        self.deferred.load(Ordering::Relaxed)
    }

    /// A full collection has taken place.
    pub(crate) fn no_longer_deferred(&self) {
        self.deferred.store(false, Ordering::Relaxed);
    }

    /// Whether something is due at the next gap.
    pub(crate) fn is_due(&self) -> bool {
        self.posted.load(Ordering::Relaxed) != NOTHING
    }

    /// Whether an order is being carried out.
    pub(crate) fn is_collecting(&self) -> bool {
        self.running.load(Ordering::Relaxed) != NOTHING
    }

    /// Carries out what is due. The caller holds the GIL and has found a gap.
    pub(crate) fn collect_posted(&self, py: Python<'_>, agent: &Agent) -> PyResult<()> {
        let posted = self.posted.swap(NOTHING, Ordering::Relaxed);
        self.perform(py, agent, posted)
    }

    /// Carries an order out in the calling thread.
    pub(crate) fn carry_out(&self, py: Python<'_>, agent: &Agent, order: Order) -> PyResult<()> {
        self.perform(py, agent, self.code(order))
    }

    fn perform(&self, py: Python<'_>, agent: &Agent, order: u8) -> PyResult<()> {
        if order == NOTHING || self.has_stood_down() || self.is_collecting() {
            return Ok(());
        }
        let gc = py.import("gc")?;
        // A program that has switched automatic collection off wants none from us either.
        if !gc.call_method0("isenabled")?.extract::<bool>()? {
            return Ok(());
        }
        // A program may empty the list. Nobody would see that this has happened, and guards would order it again.
        let (callbacks, hook) = (gc.getattr("callbacks")?, py.import("neurogc._agent")?.getattr("gc_event")?);
        if !callbacks.contains(&hook)? {
            callbacks.call_method1("append", (hook,))?;
        }
        match order & DECISION {
            LAUNCH => {
                self.launch(py, agent, order);
                Ok(())
            }
            SLICE => {
                let budget = Duration::from_nanos(self.slice_ns.load(Ordering::Relaxed));
                let whole = budget > agent.settings.tuning.pause_budget;
                self.reap(py, agent, budget, whole, order);
                Ok(())
            }
            decision => {
                let collect = original(py, "collect")?;
                self.running.store(order, Ordering::Relaxed);
                let result = collect.call1((decision.min(3) - 1,));
                let frozen = if decision == FREEZE { self.freeze(&gc) } else { Ok(()) };
                self.running.store(NOTHING, Ordering::Relaxed);
                result.map(drop).and(frozen)
            }
        }
    }

    /// Clones the process. Where that is refused the conductor sees it by itself.
    fn launch(&self, py: Python<'_>, agent: &Agent, order: u8) {
        let began = monotonic_ns();
        if agent.snapshots.launch(py, &agent.interpreter).is_ok() {
            agent.hooks.stopped(StopKind::Clone, began, ordered(order), 0, 0, 0);
        }
    }

    /// Launches a snapshot that somebody has asked for.
    pub(crate) fn launch_now(&self, py: Python<'_>, agent: &Agent) -> Result<(), Failure> {
        if !resident().is_none_or(|resident| has_room(resident, COPIES)) {
            agent.snapshots.refuse(&Failure::ShortOfMemory);
            return Err(Failure::ShortOfMemory);
        }
        let began = monotonic_ns();
        agent.snapshots.launch(py, &agent.interpreter)?;
        agent.hooks.stopped(StopKind::Clone, began, Ordered::ByOthers, 0, 0, 0);
        Ok(())
    }

    /// Frees a slice for somebody who has asked for it.
    pub(crate) fn reap_now(&self, py: Python<'_>, agent: &Agent, budget: Duration, whole: bool) -> Reaped {
        self.reap(py, agent, budget, whole, SLICE | AT_ONCE)
    }

    fn reap(&self, py: Python<'_>, agent: &Agent, budget: Duration, whole: bool, order: u8) -> Reaped {
        let began = monotonic_ns();
        let outer = self.running.swap(order, Ordering::Relaxed);
        let reaped = agent.snapshots.reap(py, budget, whole);
        self.running.store(outer, Ordering::Relaxed);
        if reaped.moved + reaped.dropped > 0 {
            let freed = u32::try_from(reaped.freed).unwrap_or(u32::MAX);
            agent.hooks.stopped(StopKind::Reap, began, ordered(order), 0, freed, 0);
        }
        reaped
    }

    fn freeze(&self, gc: &Bound<'_, PyModule>) -> PyResult<()> {
        let frozen: u64 = gc.call_method0("get_freeze_count")?.extract()?;
        gc.call_method0("freeze")?;
        self.froze.store(frozen <= self.frozen_before.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(())
    }

    /// Freezes what a forked worker has inherited.
    pub(crate) fn freeze_inherited(&self, py: Python<'_>) -> PyResult<()> {
        self.freeze(&py.import("gc")?)
    }

    /// Takes note of what is frozen before the policy acts.
    pub(crate) fn note_frozen(&self, py: Python<'_>) -> PyResult<()> {
        let frozen = py.import("gc")?.call_method0("get_freeze_count")?.extract()?;
        self.frozen_before.store(frozen, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the heap back to the collector, if it was us who froze it.
    pub(crate) fn thaw(&self, py: Python<'_>) -> PyResult<()> {
        if self.froze.swap(false, Ordering::Relaxed) {
            py.import("gc")?.call_method0("unfreeze")?;
        }
        Ok(())
    }

    /// Who ordered the collection that is running now.
    pub(crate) fn ordered(&self) -> Ordered {
        match self.running.load(Ordering::Relaxed) {
            order if order & DECISION == SLICE => Ordered::InSlice,
            order => ordered(order),
        }
    }

    /// The program wants quiet, once more or once less.
    pub(crate) fn quiet(&self, more: bool) {
        if more {
            self.quiet.fetch_add(1, Ordering::Relaxed);
        } else {
            let _ = self.quiet.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        }
    }

    /// Whether the program wants quiet.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed) > 0
    }

    /// Whether the program has taken the collector into its own hands.
    pub(crate) fn has_stood_down(&self) -> bool {
        self.stood_down.load(Ordering::Relaxed)
    }

    /// The program has set thresholds by itself: from now on it is left alone.
    pub(crate) fn stand_down(&self) {
        self.stood_down.store(true, Ordering::Relaxed);
        self.posted.store(NOTHING, Ordering::Relaxed);
    }

    /// Sets CPython's real thresholds, remembering those of the program.
    pub(crate) fn set_thresholds(&self, py: Python<'_>, real: Thresholds) -> PyResult<()> {
        if self.has_stood_down() {
            return Ok(());
        }
        // Python may let another thread in, which must not find the lock taken.
        let now = real_thresholds(py)?;
        lock(&self.shown).get_or_insert(now);
        original(py, "set_threshold")?.call1((real[0], real[1], real[2]))?;
        Ok(())
    }

    /// Gives CPython back the thresholds of the program.
    pub(crate) fn restore_thresholds(&self, py: Python<'_>) -> PyResult<()> {
        let shown = lock(&self.shown).take();
        if let Some(shown) = shown {
            original(py, "set_threshold")?.call1((shown[0], shown[1], shown[2]))?;
        }
        Ok(())
    }

    /// The stage of a forked child, where the program has set what it had set here.
    pub(crate) fn in_child(&self) -> Self {
        let stage = Self::default();
        *lock(&stage.shown) = *lock(&self.shown);
        stage.stood_down.store(self.has_stood_down(), Ordering::Relaxed);
        stage.frozen_before.store(self.frozen_before.load(Ordering::Relaxed), Ordering::Relaxed);
        stage.froze.store(self.froze.load(Ordering::Relaxed), Ordering::Relaxed);
        stage
    }

    /// What the program sees when it asks for the thresholds.
    pub(crate) fn shown_thresholds(&self, py: Python<'_>) -> PyResult<Thresholds> {
        let shown = *lock(&self.shown);
        shown.map_or_else(|| real_thresholds(py), Ok)
    }

    /// The program runs this event loop. The reference is weak.
    pub(crate) fn set_event_loop(&self, event_loop: Py<PyAny>) {
        *lock(&self.event_loop) = Some(event_loop);
    }

    /// Has the program's event loop call a function of ours, which finds the order there, if one is given. False where no
    /// loop runs.
    pub(crate) fn call_in_loop(
        &self,
        py: Python<'_>,
        agent: &Agent,
        name: &str,
        order: Option<Order>,
    ) -> PyResult<bool> {
        let _held = hold_off(py, agent);
        let Some(event_loop) = self.event_loop(py) else { return Ok(false) };
        if let Some(order) = order {
            self.post(order);
        }
        let function = py.import("neurogc._agent")?.getattr(name)?;
        event_loop.call_method1("call_soon_threadsafe", (function,))?;
        Ok(true)
    }

    /// The program's event loop, if it runs now.
    fn event_loop<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let weak = lock(&self.event_loop).as_ref()?.clone_ref(py);
        let event_loop = weak.bind(py).call0().ok().filter(|event_loop| !event_loop.is_none())?;
        let running = event_loop.call_method0("is_running").and_then(|answer| answer.extract::<bool>());
        running.is_ok_and(|running| running).then_some(event_loop)
    }
}

/// CPython collects in the thread that allocates; until the answer is dropped it does not do so by itself.
pub(crate) fn hold_off<'py>(py: Python<'py>, agent: &Agent) -> Option<HeldOff<'py>> {
    agent.interpreter.collector.map(|collector| collector.generations(py).hold_off())
}

/// Who gave an order.
fn ordered(order: u8) -> Ordered {
    match order {
        NOTHING => Ordered::ByOthers,
        order if order & FORCED != 0 => Ordered::ByGuard,
        order if order & AT_ONCE != 0 => Ordered::Anywhere,
        _ => Ordered::InGap,
    }
}

/// A function of the `gc` module as CPython made it; the module itself may hold our stand-in.
pub(crate) fn original<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import("neurogc._agent")?;
    let originals = module.getattr("originals")?;
    let originals = originals.cast::<PyDict>()?;
    match originals.get_item(name)? {
        Some(function) => Ok(function),
        None => py.import("gc")?.getattr(name),
    }
}

/// The thresholds that CPython runs with.
pub(crate) fn real_thresholds(py: Python<'_>) -> PyResult<Thresholds> {
    original(py, "get_threshold")?.call0()?.extract()
}
