//! What a policy that acts puts into the program: stand-ins for functions of `gc`, and the calls that the adapters
//! make when an event loop comes to a gap.

use std::sync::atomic::{AtomicBool, Ordering};

use neurogc_policy::{Name, Observation, Order, Thresholds, policy};
use neurogc_settings::ExplicitCollect;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::act::remote;
use crate::act::stage::{original, real_thresholds};
use crate::cpython::arenas;
use crate::cpython::pending::call_soon;
use crate::lifecycle::agent::Agent;
use crate::python::module::current;

/// Functions of `gc` whose answers a policy would change, and the one that a setting puts off.
const REPLACED: [&str; 3] = ["get_threshold", "set_threshold", COLLECT];
const COLLECT: &str = "collect";

/// The generation that is everything.
const FULL: i32 = 2;

/// Puts the stand-ins in place and sets the policy's thresholds.
pub(crate) fn take_over(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    let name = agent.policy();
    if !name.acts() || !agent.interpreter.can_be_conducted() {
        return Ok(());
    }
    let (gc, module) = (py.import("gc")?, py.import("neurogc._agent")?);
    let originals = module.getattr("originals")?.cast_into::<PyDict>()?;
    for function in REPLACED {
        let wanted = function != COLLECT || agent.settings.explicit_collect == ExplicitCollect::Defer;
        if wanted && !originals.contains(function)? {
            originals.set_item(function, gc.getattr(function)?)?;
            gc.setattr(function, module.getattr(function)?)?;
        }
    }
    agent.stage.note_frozen(py)?;
    arenas::use_huge_pages(agent.settings.snapshots && agent.settings.huge_arenas);
    match policy(name, agent.settings.tuning).thresholds(&Observation::default()) {
        Some(thresholds) => agent.stage.set_thresholds(py, thresholds),
        None => Ok(()),
    }
}

/// Puts another policy in force.
pub(crate) fn switch(py: Python<'_>, agent: &Agent, name: Name) -> PyResult<()> {
    give_back(py, agent)?;
    agent.hand.begin_anew();
    let acts = name.acts();
    agent.set_policy(name);
    if !acts {
        // Nobody would look after it any more.
        agent.snapshots.call_off(py);
    }
    take_over(py, agent)
}

/// Whether the program's thresholds are to be restored.
static LEAVE: AtomicBool = AtomicBool::new(false);

/// Has CPython collect by the program's own thresholds again, because nobody is left to do better. The caller needs no
/// GIL: it is done by the program's main thread as soon as that is back in Python code, or by the next collection.
pub(crate) fn leave_to_cpython(agent: &Agent) {
    if !agent.stage.has_stood_down() {
        agent.stage.stand_down();
        LEAVE.store(true, Ordering::Relaxed);
        call_soon(restore_if_left);
    }
}

/// Restores them, if somebody has said so. The caller holds the GIL.
pub(crate) fn restore_if_left() {
    if LEAVE.load(Ordering::Relaxed)
        && LEAVE.swap(false, Ordering::Relaxed)
        && let Some(agent) = current()
        && let Err(error) = Python::attach(|py| agent.stage.restore_thresholds(py))
    {
        agent.ledger().trouble(format!("the program's thresholds could not be restored: {error}"));
    }
}

/// Takes everything back.
pub(crate) fn give_back(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    agent.stage.post(Order::WAIT);
    arenas::use_huge_pages(false);
    agent.stage.thaw(py)?;
    agent.stage.restore_thresholds(py)?;
    let (gc, module) = (py.import("gc")?, py.import("neurogc._agent")?);
    let originals = module.getattr("originals")?.cast_into::<PyDict>()?;
    for function in REPLACED {
        if let Some(original) = originals.get_item(function)? {
            if gc.getattr(function)?.is(&module.getattr(function)?) {
                gc.setattr(function, original)?;
            }
            originals.del_item(function)?;
        }
    }
    Ok(())
}

/// Return the current collection thresholds.
#[pyfunction]
pub(crate) fn get_threshold(py: Python<'_>) -> PyResult<(u32, u32, u32)> {
    let [young, middle, full]: Thresholds = match current() {
        Some(agent) => agent.stage.shown_thresholds(py)?,
        None => real_thresholds(py)?,
    };
    Ok((young, middle, full))
}

/// Set the collection thresholds. A program that does so is left alone from then on.
#[pyfunction]
#[pyo3(signature = (*thresholds))]
pub(crate) fn set_threshold(py: Python<'_>, thresholds: &Bound<'_, PyTuple>) -> PyResult<()> {
    let module = py.import("neurogc._agent")?;
    let originals = module.getattr("originals")?.cast_into::<PyDict>()?;
    let Some(original) = originals.get_item("set_threshold")? else { return Ok(()) };
    if let Some(agent) = current().filter(|agent| !agent.stage.has_stood_down()) {
        let ours = real_thresholds(py)?;
        agent.stage.restore_thresholds(py)?;
        if let Err(wrong) = original.call1(thresholds) {
            agent.stage.set_thresholds(py, ours)?;
            return Err(wrong);
        }
        agent.stage.stand_down();
        // Nobody would look after it any more.
        agent.snapshots.call_off(py);
        agent.ledger().trouble("the program has set the collector's thresholds: the policy stands down".to_owned());
        return Ok(());
    }
    original.call1(thresholds).map(drop)
}

/// Run the garbage collector. A full collection becomes due instead, and happens in a gap.
#[pyfunction]
#[pyo3(signature = (generation = FULL))]
pub(crate) fn collect<'py>(py: Python<'py>, generation: i32) -> PyResult<Bound<'py, PyAny>> {
    let enabled = || py.import("gc")?.call_method0("isenabled")?.extract::<bool>();
    match current() {
        // Where automatic collection is off, nobody would come to it later.
        Some(agent) if generation == FULL && !agent.stage.has_stood_down() && enabled()? => {
            agent.stage.defer();
            Ok(0_u8.into_pyobject(py)?.into_any())
        }
        _ => original(py, COLLECT)?.call1((generation,)),
    }
}

/// Does what somebody outside has asked for; called by an event loop.
#[pyfunction]
pub(crate) fn run_errand(py: Python<'_>) {
    if let Some(agent) = current() {
        remote::proceed(py, &agent);
    }
}

/// Carries out what is due; called by an event loop that has nothing to do.
#[pyfunction]
pub(crate) fn collect_posted(py: Python<'_>) -> PyResult<()> {
    match current() {
        Some(agent) => agent.stage.collect_posted(py, &agent),
        None => Ok(()),
    }
}

/// An event loop begins to run; the reference is weak.
#[pyfunction]
pub(crate) fn event_loop_runs(weak: Py<PyAny>) {
    if let Some(agent) = current() {
        agent.stage.set_event_loop(weak);
    }
}

/// The program wants quiet, once more or once less.
#[pyfunction]
pub(crate) fn quiet(more: bool) {
    if let Some(agent) = current() {
        agent.stage.quiet(more);
    }
}
