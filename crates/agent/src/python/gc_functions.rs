//! Stand-ins for functions of `gc` while a policy acts: the program sees its own thresholds, and setting them, or collecting
//! explicitly, means what it always meant.

use std::sync::atomic::{AtomicBool, Ordering};

use neurogc_policy::Name;
use neurogc_settings::ExplicitCollect;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::module::current;
use crate::act::vm::Vm;
use crate::cpython::arenas;
use crate::cpython::modules::loaded;
use crate::cpython::originals::original_function;
use crate::cpython::pending::call_soon;
use crate::cpython::stand_ins::Replaced;
use crate::lifecycle::agent::Agent;

/// The generation that is everything.
const FULL: i32 = 2;

/// Puts the stand-ins in place, where the policy acts.
pub(crate) fn take_over(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    if !conducts(agent) {
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
    agent.actor.loans.note_frozen(&vm);
    if let Err(reason) = agent.actor.loans.take_thresholds(&vm) {
        let _ = agent.actor.troubles.push(format!("the collector's thresholds could not be read: {reason}"));
    }
    arenas::use_huge_pages(agent.host.settings.snapshots && agent.host.settings.huge_arenas);
    Ok(())
}

/// Whether the policy in force acts in this process.
fn conducts(agent: &Agent) -> bool {
    agent.policy().acts() && agent.host.interpreter.can_be_conducted() && !agent.actor.has_stood_down()
}

/// Has the status report tell where the collector could not be given back.
fn book(agent: &Agent, repaid: Result<(), String>) {
    if let Err(reason) = repaid {
        let _ = agent.actor.troubles.push(format!("the collector could not be given back: {reason}"));
    }
}

/// Puts another policy in force. The caller needs no GIL: what has to be changed in Python is changed by the next thread
/// of the program that comes by.
pub(crate) fn switch(agent: &Agent, name: Name) -> Result<(), &'static str> {
    if agent.actor.has_stood_down() && name.acts() {
        return Err("the program has set the collector's thresholds itself, so no policy acts in it");
    }
    let acts = name.acts();
    agent.actor.direct(None);
    agent.set_policy(name);
    SWITCHED.store(true, Ordering::Release);
    if !acts {
        // No policy would look after it any more.
        agent.snapshots.shut_down();
    }
    agent.hooks.wake();
    call_soon(follow_switch);
    Ok(())
}

/// Whether another policy has been put in force, and the program still has the stand-ins and thresholds of the one before.
static SWITCHED: AtomicBool = AtomicBool::new(false);

/// Gives back what the policy before had displaced, and puts the stand-ins in place that this one needs. The caller holds
/// the GIL.
pub(crate) fn follow_switch(py: Python<'_>) {
    if SWITCHED.load(Ordering::Relaxed)
        && SWITCHED.swap(false, Ordering::Acquire)
        && let Some(agent) = current()
    {
        let followed = if conducts(&agent) {
            // Stand-ins that are in place stay there.
            book(&agent, agent.actor.loans.hand_over(&agent.vm(py)));
            take_over(py, &agent)
        } else {
            restore(py, &agent)
        };
        if let Err(error) = followed {
            let _ = agent.actor.troubles.push(format!("the policy could not be changed: {error}"));
        }
    }
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
pub(crate) fn restore_if_left(py: Python<'_>) {
    if LEAVE.load(Ordering::Relaxed)
        && LEAVE.swap(false, Ordering::Relaxed)
        && let Some(agent) = current()
        && let Err(reason) = agent.actor.loans.repay(&agent.vm(py))
    {
        let _ = agent.actor.troubles.push(format!("the program's thresholds could not be restored: {reason}"));
    }
}

/// Repays the loans of an agent that is no longer the installed one, before any other thread runs: thresholds that the
/// program sets from now on are its own. A thread that is in an order of this agent takes no more loans.
pub(crate) fn repay(py: Python<'_>, agent: &Agent) {
    agent.actor.stand_down();
    book(agent, agent.actor.loans.repay(&agent.vm(py)));
}

/// Takes everything back.
pub(crate) fn give_back(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    py.detach(|| agent.actor.direct(None));
    restore(py, agent)
}

/// The program has its collector back as it knows it.
fn restore(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    arenas::use_huge_pages(false);
    book(agent, agent.actor.loans.repay(&agent.vm(py)));
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
    match current().and_then(|agent| agent.actor.loans.thresholds()) {
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
    let Some(agent) = current().filter(|agent| !agent.actor.has_stood_down()) else {
        return original.call(positional, keywords);
    };
    let vm = agent.vm(py);
    let ours = agent.actor.loans.thresholds().and_then(|_| vm.thresholds().ok());
    let repaid = agent.actor.loans.repay(&vm);
    let answer = match original.call(positional, keywords) {
        Ok(answer) => answer,
        Err(wrong) => {
            if let Some(ours) = ours {
                let _ = agent.actor.loans.set_thresholds(&vm, ours);
            }
            return Err(wrong);
        }
    };
    agent.actor.stand_down();
    py.detach(|| {
        // No policy would look after it any more.
        agent.snapshots.shut_down();
        let mut ledger = agent.ledger();
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
    let agent = current().filter(|agent| full && !agent.actor.has_stood_down() && agent.vm(py).is_enabled());
    let Some(agent) = agent.filter(|_| positional.len() <= 1) else {
        return original(py, "collect")?.call(positional, keywords);
    };
    agent.actor.defer();
    agent.hooks.wake();
    Ok(0_u8.into_pyobject(py)?.into_any())
}

/// A function of `gc` as it was before a stand-in took its place.
fn original<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    match books(py)?.0.get_item(name)? {
        Some(original) => Ok(original),
        None => original_function(py, name),
    }
}
