//! Stand-ins for functions of `gc` while a policy acts: the program sees its own thresholds, and setting them, or collecting
//! explicitly, means what it always meant.

use std::sync::atomic::{AtomicBool, Ordering};

use neurogc_policy::{Name, Thresholds};
use neurogc_settings::ExplicitCollect;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::module::current;
use crate::act::vm::Vm;
use crate::cpython::arenas;
use crate::cpython::pending::call_soon;
use crate::cpython::vm::{collect as original_collect, original_set_threshold};
use crate::lifecycle::agent::Agent;

/// Functions of `gc` whose answers a policy would change, and the one that a setting puts off.
const REPLACED: [&str; 3] = ["get_threshold", "set_threshold", COLLECT];
const COLLECT: &str = "collect";

/// The generation that is everything.
const FULL: i32 = 2;

/// Puts the stand-ins in place, where the policy acts.
pub(crate) fn take_over(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    if !agent.policy().acts() || !agent.interpreter.can_be_conducted() {
        return Ok(());
    }
    let (gc, module) = (py.import("gc")?, py.import("neurogc._agent")?);
    let originals = module.getattr("originals")?.cast_into::<PyDict>()?;
    for function in REPLACED {
        let wanted = function != COLLECT || agent.settings.explicit_collect == ExplicitCollect::Defer;
        if wanted && !originals.contains(function)? {
            let stand_in = module.getattr(function)?;
            stand_in.setattr("__module__", "gc")?;
            originals.set_item(function, gc.getattr(function)?)?;
            gc.setattr(function, stand_in)?;
        }
    }
    agent.actor.loans.note_frozen(&agent.vm(py));
    arenas::use_huge_pages(agent.settings.snapshots && agent.settings.huge_arenas);
    Ok(())
}

/// Puts another policy in force.
pub(crate) fn switch(py: Python<'_>, agent: &Agent, name: Name) -> PyResult<()> {
    give_back(py, agent)?;
    let acts = name.acts();
    agent.set_policy(name);
    if !acts {
        // No policy would look after it any more.
        py.detach(|| agent.snapshots.shut_down());
    }
    take_over(py, agent)
}

/// Whether the program's thresholds are to be restored.
static LEAVE: AtomicBool = AtomicBool::new(false);

/// Has CPython collect by the program's own thresholds again. The caller needs no GIL: it is done by the program's main
/// thread as soon as that is back in Python code, or by the next collection.
pub(crate) fn leave_to_cpython(agent: &Agent) {
    if !agent.actor.has_stood_down() {
        agent.actor.stand_down();
        LEAVE.store(true, Ordering::Relaxed);
        call_soon(restore_if_left);
    }
}

/// Restores them, if that was asked for. The caller holds the GIL.
pub(crate) fn restore_if_left() {
    if LEAVE.load(Ordering::Relaxed)
        && LEAVE.swap(false, Ordering::Relaxed)
        && let Some(agent) = current()
        && let Err(reason) = Python::attach(|py| agent.actor.loans.repay(&agent.vm(py)))
    {
        let _ = agent.actor.troubles.push(format!("the program's thresholds could not be restored: {reason}"));
    }
}

/// Takes everything back.
pub(crate) fn give_back(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    py.detach(|| agent.actor.direct(None));
    arenas::use_huge_pages(false);
    if let Err(reason) = agent.actor.loans.repay(&agent.vm(py)) {
        let _ = agent.actor.troubles.push(format!("the collector could not be given back: {reason}"));
    }
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
    let shown = current().and_then(|agent| {
        let own = agent.actor.loans.thresholds();
        own.or_else(|| agent.vm(py).thresholds().ok())
    });
    let [young, middle, full]: Thresholds = match shown {
        Some(shown) => shown,
        None => py.import("gc")?.call_method0("get_threshold")?.extract()?,
    };
    Ok((young, middle, full))
}

/// Sets the collection thresholds (the collection frequency). A program that does so is left alone from then on.
#[pyfunction]
#[pyo3(signature = (*thresholds), text_signature = None)]
pub(crate) fn set_threshold(py: Python<'_>, thresholds: &Bound<'_, PyTuple>) -> PyResult<()> {
    let original = original_set_threshold(py)?;
    if let Some(agent) = current().filter(|agent| !agent.actor.has_stood_down()) {
        let vm = agent.vm(py);
        let ours = vm.thresholds().unwrap_or_default();
        let owns = agent.actor.loans.thresholds().is_some();
        let repaid = agent.actor.loans.repay(&vm);
        if let Err(wrong) = original.call1(thresholds) {
            if owns {
                let _ = agent.actor.loans.set_thresholds(&vm, ours);
            }
            return Err(wrong);
        }
        agent.actor.stand_down();
        if let Err(reason) = repaid {
            let _ = agent.actor.troubles.push(reason);
        }
        // No policy would look after it any more.
        py.detach(|| agent.snapshots.shut_down());
        let reason = "the program has set the collector's thresholds: the policy stands down";
        py.detach(|| agent.ledger().trouble(reason.to_owned()));
        return Ok(());
    }
    original.call1(thresholds).map(drop)
}

/// Run the garbage collector. A full collection becomes due instead, and happens in a gap.
#[pyfunction]
#[pyo3(signature = (generation = FULL))]
pub(crate) fn collect<'py>(py: Python<'py>, generation: i32) -> PyResult<Bound<'py, PyAny>> {
    match current() {
        // Where automatic collection is off, no moment would come for it.
        Some(agent) if generation == FULL && !agent.actor.has_stood_down() && agent.vm(py).is_enabled() => {
            agent.actor.defer();
            agent.hooks.wake();
            Ok(0_u8.into_pyobject(py)?.into_any())
        }
        _ => original_collect(py, generation),
    }
}
