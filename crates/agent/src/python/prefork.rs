//! Workers of pre-fork servers: what such a child inherits is frozen in it, so that its collections do not write to the
//! pages that it shares with its parent.
//!
//! It is frozen in the child, first thing after the fork. That costs a handful of pages and leaves the parent as it was.

use std::cell::Cell;

use neurogc_policy::{CollectionControl, policy};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::lifecycle::agent::Agent;
use crate::python::module::current;

thread_local! {
    /// Whether what this thread forks now is a worker. The thread is the one that goes on in the child.
    static FORKS_WORKERS: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread forks workers of a pre-fork server from now on, or no longer. True when they would share the heap.
#[pyfunction]
pub(crate) fn forks_workers(py: Python<'_>, begins: bool) -> bool {
    FORKS_WORKERS.set(begins);
    begins && current().is_some_and(|agent| shares_heap(py, &agent).unwrap_or(false))
}

/// Whether the calling thread forks workers now, or was forked as one.
pub(crate) fn forks_workers_now() -> bool {
    FORKS_WORKERS.get()
}

/// In a forked child, before the program runs there: freezes what was inherited, if this is a worker.
pub(crate) fn share_heap(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    // Asked here and not before the fork, because the server's own hooks may have frozen the heap meanwhile.
    if FORKS_WORKERS.replace(false) && shares_heap(py, agent)? {
        agent.actor.loans.freeze(&agent.vm(py)).map_err(PyRuntimeError::new_err)?;
    }
    Ok(())
}

/// Only where a policy of ours decides when everything is collected, and the program has not frozen its heap itself.
fn shares_heap(py: Python<'_>, agent: &Agent) -> PyResult<bool> {
    let paced = policy(agent.policy(), agent.settings.tuning).control() == CollectionControl::Paced;
    let conducts = paced
        && !agent.actor.has_stood_down()
        && agent.interpreter.collector.is_some_and(|collector| !collector.has_frozen_heap());
    Ok(conducts && py.import("gc")?.call_method0("isenabled")?.extract()?)
}
