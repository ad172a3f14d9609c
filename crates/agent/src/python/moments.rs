//! The moments at which threads of the program let the agent act: at the end of collections, in gaps, and when they come
//! by. All of them hold the GIL.

use std::sync::{Arc, Mutex};

use neurogc_policy::{Moment, RankStep, is_wide_step};
use neurogc_wire::stop::StopKind;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::current::{current_now, resume};
use super::gc_functions::{follow_switch, restore_if_left};
use crate::act::actor::{EndedCollection, Lowered};
use crate::act::loans::repay_collecting;
use crate::act::main_thread::MainThreadCalls;
use crate::act::vm::Vm;
use crate::alloc;
use crate::cpython::modules::loaded;
use crate::lifecycle::agent::Agent;
use crate::sys::locks::lock;
use crate::sys::native::monotonic_ns;
use crate::sys::wake::UPLINK;

/// What stands in `gc.callbacks`.
#[pyfunction]
pub(crate) fn gc_event(phase: &Bound<'_, PyString>, info: &Bound<'_, PyDict>) {
    resume();
    let py = phase.py();
    restore_if_left(py);
    follow_switch(py);
    let Some(agent) = current_now() else { return };
    if agent.host.is_foreign() {
        // CPython has begun this collection in this process.
        return leave_in_native_child(py, &agent, None);
    }
    let vm = agent.vm(py);
    if agent.host.interpreter.collector.is_some() && !vm.is_collecting() {
        // The program has called this itself, and CPython collects nothing.
        return;
    }
    if phase.len().is_ok_and(|length| length == "start".len()) {
        let gathered = agent.host.interpreter.collector.map_or(0, |collector| collector.gathered(py));
        agent.sensors.hooks.collection_starts(gathered, vm.thread());
        agent.acting.actor.collection_begins(&vm);
    } else {
        collection_ended(&agent, info);
    }
}

fn collection_ended(agent: &Agent, info: &Bound<'_, PyDict>) {
    let py = info.py();
    let (acting, hooks) = (&agent.acting, &agent.sensors.hooks);
    let number = |name: &Bound<'_, PyString>| -> u32 {
        info.get_item(name).ok().flatten().and_then(|value| value.extract().ok()).unwrap_or(0)
    };
    let generation = number(pyo3::intern!(py, "generation")).min(2) as u8;
    let collected = number(pyo3::intern!(py, "collected"));
    let uncollectable = number(pyo3::intern!(py, "uncollectable"));
    let (vm, kind) = (agent.vm(py), StopKind::of_generation(generation));
    let (by, order) = acting.actor.ordered(&vm);
    if generation == 2 {
        let collector = agent.host.interpreter.collector.filter(|_| acting.actor.is_directed());
        acting.snapshots.full_collection_ended(collector.map(|collector| collector.generations(py)));
    }
    alloc::collection_ended();
    let Some(began) = hooks.collection_stops(kind, by, order, collected, uncollectable) else { return };
    let gathered = hooks.gathered();
    acting.actor.collection_ended(&vm, hooks, EndedCollection { generation, began, gathered, freed: collected });
    let waits = acting.remote.is_waiting() || acting.census.is_overdue(monotonic_ns());
    if waits && vm.is_collecting() && !acting.actor.is_running() {
        let _lowered = Lowered::new(&vm);
        serve(py, agent, Moment::CollectionEnd);
    }
}

/// A child that native code has forked without telling Python: there is no agent here. CPython collects by the program's
/// own thresholds again. `collecting` is the thread of the parent that was in a collection, if one was.
fn leave_in_native_child(py: Python<'_>, agent: &Agent, collecting: Option<usize>) {
    if agent.is_left() {
        return;
    }
    let vm = agent.vm(py);
    repay_collecting(&vm, collecting);
    agent.acting.snapshots.leave_to_parent(py, agent.host.interpreter.collector);
    agent.acting.actor.stand_down();
    let _ = agent.acting.actor.loans.repay(&vm);
}

/// The agent, unless this is a child that native code has forked, which is left then.
fn agent_here(py: Python<'_>) -> Option<Arc<Agent>> {
    let agent = current_now()?;
    if agent.host.is_foreign() {
        leave_in_native_child(py, &agent, agent.collecting_thread());
        return None;
    }
    Some(agent)
}

/// The program could have done something else here. True when there is something to be done in a gap.
#[pyfunction]
pub(crate) fn progress(py: Python<'_>) -> bool {
    agent_here(py).is_some_and(|agent| {
        agent.sensors.hooks.progress();
        is_due_in(py, &agent)
    })
}

/// Whether there is something to be done in a gap.
#[pyfunction]
pub(crate) fn is_due(py: Python<'_>) -> bool {
    current_now().is_some_and(|agent| is_due_in(py, &agent))
}

/// A thread of the program has nothing to do: what is due is done here. True where that was something, and there is more.
#[pyfunction]
pub(crate) fn gap(py: Python<'_>) -> bool {
    at(py, Moment::Gap)
}

/// A thread of the program comes by.
#[pyfunction]
pub(crate) fn passing(py: Python<'_>) -> bool {
    at(py, Moment::Passing)
}

pub(crate) fn at(py: Python<'_>, moment: Moment) -> bool {
    let Some(agent) = agent_here(py) else { return false };
    follow_switch(py);
    if !agent.vm(py).is_collecting() {
        stand_last(py);
    }
    let acted = agent.acting.actor.moment(&agent.vm(py), &agent.sensors.hooks, moment);
    serve(py, &agent, moment);
    acted && is_due_in(py, &agent)
}

/// Puts our callback to the end of `gc.callbacks`: what it does at the end of a collection may be another collection, of
/// which the others are told after the end of the first. A program may also have emptied the list.
fn stand_last(py: Python<'_>) {
    let stand = || -> PyResult<()> {
        let callbacks = loaded(py, "gc")?.getattr("callbacks")?.cast_into::<PyList>()?;
        let ours = loaded(py, "neurogc._agent")?.getattr("gc_event")?;
        if callbacks.len().checked_sub(1).is_some_and(|last| callbacks.get_item(last).is_ok_and(|it| it.is(&ours))) {
            return Ok(());
        }
        while callbacks.contains(&ours)? {
            callbacks.call_method1("remove", (&ours,))?;
        }
        callbacks.append(ours)
    };
    // A list that the program has put something odd in stays as it is.
    let _ = stand();
}

/// Does the next step of what was asked for from outside, or sends a census out that is due. Where ranks collect together,
/// a census waits for a step that they share.
fn serve(py: Python<'_>, agent: &Agent, moment: Moment) {
    let (acting, hooks, vm) = (&agent.acting, &agent.sensors.hooks, agent.vm(py));
    acting.remote.step(&acting.actor, &vm, hooks);
    let is_wide = |at: RankStep| is_wide_step(agent.host.settings.tuning.align_steps, at.step);
    let waits = acting.actor.is_aligned() && !(moment == Moment::StepEnd && hooks.training.ranks().is_none_or(is_wide));
    if !waits && acting.census.step(&acting.actor, &vm, hooks) {
        // It looks for the end of the flight.
        UPLINK.wake();
    }
}

/// What the main thread calls for the agent.
pub(crate) const MAIN_THREAD: MainThreadCalls = MainThreadCalls {
    gap: |py| {
        gap(py);
    },
    passing: |py| {
        passing(py);
    },
    follow_switch,
    restore: restore_if_left,
};

/// Whether a thread that has come to a gap should use it.
fn is_due_in(py: Python<'_>, agent: &Agent) -> bool {
    agent.acting.is_due(|| agent.host.interpreter.collector.map_or(0, |collector| collector.gathered(py)))
}

/// What tells whether the calling thread may act at the end of a request: it runs no event loop. Where it does run one,
/// this asks the loop to come by.
static MAY_ACT: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

/// Sets the function that tells.
#[pyfunction]
pub(crate) fn on_request_end(may_act: Py<PyAny>) {
    *lock(&MAY_ACT) = Some(may_act);
}

/// A request has ended in the calling thread.
pub(crate) fn request_ended(py: Python<'_>, agent: &Agent) {
    if agent.sensors.hooks.in_flight() > 0 || !is_due_in(py, agent) {
        return;
    }
    let may_act = lock(&MAY_ACT).as_ref().map(|function| function.clone_ref(py));
    let here =
        may_act.is_none_or(|function| function.bind(py).call0().and_then(|here| here.is_truthy()).unwrap_or(false));
    if here {
        at(py, Moment::Gap);
    }
}
