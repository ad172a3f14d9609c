//! What a policy that acts puts into the program: stand-ins for two functions of `gc`, and the calls that the adapters
//! make when an event loop comes to a gap.

use neurogc_policy::{Observation, Thresholds, Tuning, policy};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::agent::Agent;
use crate::module::current;
use crate::stage::real_thresholds;

/// Functions of `gc` whose answers a policy would change.
const REPLACED: [&str; 2] = ["get_threshold", "set_threshold"];

/// Puts the stand-ins in place and sets the policy's thresholds.
pub(crate) fn take_over(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    let name = agent.settings.policy.resolve();
    if !name.acts() || agent.interpreter.collector.is_none() {
        return Ok(());
    }
    let (gc, module) = (py.import("gc")?, py.import("neurogc._agent")?);
    let originals = module.getattr("originals")?.cast_into::<PyDict>()?;
    for function in REPLACED {
        if !originals.contains(function)? {
            originals.set_item(function, gc.getattr(function)?)?;
            gc.setattr(function, module.getattr(function)?)?;
        }
    }
    match policy(name, Tuning::default()).thresholds(&Observation::default()) {
        Some(thresholds) => agent.stage.set_thresholds(py, thresholds),
        None => Ok(()),
    }
}

/// Takes everything back.
pub(crate) fn give_back(py: Python<'_>, agent: &Agent) -> PyResult<()> {
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
        agent.stage.restore_thresholds(py)?;
        original.call1(thresholds)?;
        agent.stage.stand_down();
        agent.ledger().trouble("the program has set the collector's thresholds: the policy stands down".to_owned());
        return Ok(());
    }
    original.call1(thresholds).map(drop)
}

/// Carries out what is due; called by an event loop that has nothing to do.
#[pyfunction]
pub(crate) fn collect_posted(py: Python<'_>) -> PyResult<()> {
    match current() {
        Some(agent) => agent.stage.collect_posted(py),
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
