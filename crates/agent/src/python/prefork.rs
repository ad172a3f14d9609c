//! Workers of pre-fork servers, of loaders and of pools: what such a child inherits is frozen in it, so that its collections
//! do not write to the pages that it shares with its parent.
//!
//! It is frozen in the child, first thing after the fork. That costs a handful of pages and leaves the parent as it was.

use std::cell::Cell;

use neurogc_policy::{CollectionControl, policy};
use neurogc_wire::workers::WorkerKind;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::current::current;
use crate::lifecycle::agent::Agent;

/// What a thread forks while it forks workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkedWorker {
    pub(crate) kind: WorkerKind,
    /// Whether it keeps what it inherits.
    shares: bool,
}

thread_local! {
    /// What this thread forks now. The thread is the one that goes on in the child.
    static FORKS: Cell<Option<ForkedWorker>> = const { Cell::new(None) };
}

/// The calling thread forks workers from now on, or no longer: of a kind, and with or without much to be shared. True when
/// they would share the heap.
#[pyfunction]
#[pyo3(signature = (begins, kind="server", shares=true))]
pub(crate) fn forks_workers(py: Python<'_>, begins: bool, kind: &str, shares: bool) -> bool {
    let kind = WorkerKind::ALL.into_iter().find(|known| known.name() == kind).unwrap_or_default();
    FORKS.set(begins.then_some(ForkedWorker { kind, shares }));
    begins && shares && current().is_some_and(|agent| shares_heap(py, &agent).unwrap_or(false))
}

/// What the calling thread forks now, or was forked as; nothing where that is no worker.
pub(crate) fn forked_worker() -> Option<ForkedWorker> {
    FORKS.get()
}

/// In a forked child, before the program runs there: freezes what was inherited, if this is a worker.
pub(crate) fn share_heap(py: Python<'_>, agent: &Agent) -> PyResult<()> {
    // Asked here and not before the fork, because the server's own hooks may have frozen the heap meanwhile.
    if FORKS.take().is_some_and(|worker| worker.shares) && shares_heap(py, agent)? {
        agent.acting.actor.loans.freeze(&agent.vm(py)).map_err(PyRuntimeError::new_err)?;
    }
    Ok(())
}

/// Only where a policy of ours decides when everything is collected, and the program has not frozen its heap itself.
fn shares_heap(py: Python<'_>, agent: &Agent) -> PyResult<bool> {
    let paced =
        policy(agent.acting.policy.in_force(), agent.host.settings.tuning).control() == CollectionControl::Paced;
    let conducts = paced
        && !agent.acting.actor.has_stood_down()
        && agent.host.interpreter.collector.is_some_and(|collector| !collector.has_frozen_heap());
    Ok(conducts && py.import("gc")?.call_method0("isenabled")?.extract()?)
}
