//! Stand-ins for functions of `gc` while a policy acts: the program sees its own thresholds, and setting them, or collecting
//! explicitly, means what it always meant.

use neurogc_settings::ExplicitCollect;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::current::current;
use crate::act::main_thread::{has_switched, must_restore};
use crate::act::vm::Vm;
use crate::cpython::arenas;
use crate::cpython::modules::loaded;
use crate::cpython::originals::original_function;
use crate::cpython::stand_ins::Replaced;
use crate::lifecycle::agent::Agent;

/// The generation that is everything.
const FULL: i32 = 2;

/// Puts the stand-ins in place, where the policy acts.
pub(crate) fn take_over(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    if !agent.acting.conducts() {
        return Ok(());
    }
    let gc = loaded(py, "gc")?.cast_into::<PyModule>()?;
    let (originals, stand_ins) = books(py)?;
    for replaced in Replaced::ALL {
        let name = replaced.name();
        let wanted = replaced != Replaced::Collect || agent.host.settings.explicit_collect == ExplicitCollect::Defer;
        if !wanted || originals.contains(name)? {
            continue;
        }
        let original = gc.getattr(name)?;
        if !stand_ins.contains(name)? {
            let ours = loaded(py, "neurogc._agent")?.getattr(name)?;
            stand_ins.set_item(name, replaced.stand_in(&gc, &original, ours)?)?;
        }
        originals.set_item(name, &original)?;
        gc.setattr(name, stand_ins.get_item(name)?)?;
    }
    let vm = agent.vm(py);
    agent.acting.actor.loans.note_frozen(&vm);
    if let Err(reason) = agent.acting.actor.loans.take_thresholds(&vm) {
        let _ = agent.acting.actor.troubles.push(format!("the collector's thresholds could not be read: {reason}"));
    }
    arenas::use_huge_pages(agent.host.settings.snapshots && agent.host.settings.huge_arenas);
    Ok(())
}

/// Has the status report tell where the collector could not be given back.
fn book(agent: &Agent, repaid: Result<(), String>) {
    if let Err(reason) = repaid {
        let _ = agent.acting.actor.troubles.push(format!("the collector could not be given back: {reason}"));
    }
}

/// Gives back what the policy before had displaced, and puts the stand-ins in place that this one needs. The caller holds
/// the GIL.
pub(crate) fn follow_switch(py: Python<'_>) {
    if has_switched()
        && let Some(agent) = current()
    {
        let followed = if agent.acting.conducts() {
            // Stand-ins that are in place stay there.
            book(&agent, agent.acting.actor.loans.hand_over(&agent.vm(py)));
            take_over(py, &agent)
        } else {
            restore(py, &agent)
        };
        if let Err(error) = followed {
            let _ = agent.acting.actor.troubles.push(format!("the policy could not be changed: {error}"));
        }
    }
}

/// Restores the program's thresholds, if that was asked for. The caller holds the GIL.
pub(crate) fn restore_if_left(py: Python<'_>) {
    if must_restore()
        && let Some(agent) = current()
        && let Err(reason) = agent.acting.actor.loans.repay(&agent.vm(py))
    {
        let _ = agent.acting.actor.troubles.push(format!("the program's thresholds could not be restored: {reason}"));
    }
}

/// Repays the loans of an agent that is no longer the installed one, before any other thread runs: thresholds that the
/// program sets from now on are its own. A thread that is in an order of this agent takes no more loans.
pub(crate) fn repay(py: Python<'_>, agent: &Agent) {
    agent.acting.actor.stand_down();
    book(agent, agent.acting.actor.loans.repay(&agent.vm(py)));
}

/// Takes everything back.
pub(crate) fn give_back(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    py.detach(|| agent.acting.actor.direct(None));
    restore(py, agent)
}

/// The program has its collector back as it knows it.
fn restore(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    arenas::use_huge_pages(false);
    book(agent, agent.acting.actor.loans.repay(&agent.vm(py)));
    let gc = loaded(py, "gc")?;
    let (originals, stand_ins) = books(py)?;
    for replaced in Replaced::ALL {
        let name = replaced.name();
        if let Some(original) = originals.get_item(name)? {
            if stand_ins.get_item(name)?.is_some_and(|stand_in| gc.getattr(name).is_ok_and(|now| now.is(&stand_in))) {
                gc.setattr(name, original)?;
            }
            originals.del_item(name)?;
        }
    }
    Ok(())
}

/// The functions as they were, by name, while stand-ins are in their place; and the stand-ins.
fn books(py: Python<'_>) -> PyResult<(Bound<'_, PyDict>, Bound<'_, PyDict>)> {
    let module = loaded(py, "neurogc._agent")?;
    Ok((module.getattr("originals")?.cast_into()?, module.getattr("stand_ins")?.cast_into()?))
}

/// The thresholds that the program has set.
#[pyfunction]
#[pyo3(signature = (*positional, **keywords))]
pub(crate) fn get_threshold<'py>(
    positional: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = positional.py();
    let real = original(py, "get_threshold")?.call(positional, keywords)?;
    // Asked afterwards: a collection on the way may have put others in force.
    match current().and_then(|agent| agent.acting.actor.loans.thresholds()) {
        Some([young, middle, full]) => Ok((young, middle, full).into_pyobject(py)?.into_any()),
        None => Ok(real),
    }
}

/// Sets the thresholds. A program that does so is left alone from then on.
#[pyfunction]
#[pyo3(signature = (*positional, **keywords))]
pub(crate) fn set_threshold<'py>(
    positional: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = positional.py();
    // What is to be restored would come after what the program sets now.
    restore_if_left(py);
    let original = original(py, "set_threshold")?;
    let Some(agent) = current().filter(|agent| !agent.acting.actor.has_stood_down()) else {
        return original.call(positional, keywords);
    };
    let vm = agent.vm(py);
    let ours = agent.acting.actor.loans.thresholds().and_then(|_| vm.thresholds().ok());
    let repaid = agent.acting.actor.loans.repay(&vm);
    let answer = match original.call(positional, keywords) {
        Ok(answer) => answer,
        Err(wrong) => {
            if let Some(ours) = ours {
                let _ = agent.acting.actor.loans.set_thresholds(&vm, ours);
            }
            return Err(wrong);
        }
    };
    agent.acting.actor.stand_down();
    py.detach(|| {
        // No policy would look after it any more.
        agent.acting.snapshots.shut_down();
        let mut ledger = agent.books.ledger();
        ledger.trouble("the program has set the collector's thresholds: the policy stands down".to_owned());
        if let Err(reason) = repaid {
            ledger.trouble(reason);
        }
    });
    Ok(answer)
}

/// Collects. A full collection becomes due instead, and happens in a gap.
#[pyfunction]
#[pyo3(signature = (*positional, **keywords))]
pub(crate) fn collect<'py>(
    positional: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = positional.py();
    let full = match keywords {
        None if positional.is_empty() => true,
        None => positional.get_item(0)?.extract::<i32>().is_ok_and(|generation| generation == FULL),
        Some(keywords) => {
            let generation = keywords.get_item("generation")?.and_then(|generation| generation.extract::<i32>().ok());
            keywords.len() == 1 && positional.is_empty() && generation == Some(FULL)
        }
    };
    // Where automatic collection is off, no moment would come for it.
    let agent = current().filter(|agent| full && !agent.acting.actor.has_stood_down() && agent.vm(py).is_enabled());
    let Some(agent) = agent.filter(|_| positional.len() <= 1) else {
        return original(py, "collect")?.call(positional, keywords);
    };
    agent.acting.actor.defer();
    agent.sensors.hooks.wake();
    Ok(0_u8.into_pyobject(py)?.into_any())
}

/// A function of `gc` as it was before a stand-in took its place.
fn original<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    match books(py)?.0.get_item(name)? {
        Some(original) => Ok(original),
        None => original_function(py, name),
    }
}
