//! The installed agent, and its threads' start after a fork.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::cpython::pending::call_soon;
use crate::lifecycle::agent::Agent;

/// The installed agent. Only threads that hold the GIL write here, so no forked child finds it locked.
static CURRENT: RwLock<Option<Arc<Agent>>> = RwLock::new(None);

/// Whether the threads that a fork stopped are to be started again.
static RESUME: AtomicBool = AtomicBool::new(false);

/// Whether the interpreter is being torn down: nothing is started any more.
static OVER: AtomicBool = AtomicBool::new(false);

/// The installed agent.
pub(super) fn current() -> Option<Arc<Agent>> {
    CURRENT.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The same for a function that can do nothing without one.
pub(super) fn current_or_error() -> PyResult<Arc<Agent>> {
    current().ok_or_else(|| PyRuntimeError::new_err("neurogc is not installed: call neurogc.install()"))
}

/// The same without waiting, for hooks: nothing while the installed agent is being replaced.
pub(super) fn current_now() -> Option<Arc<Agent>> {
    CURRENT.try_read().ok().and_then(|current| current.clone())
}

/// Whether this agent is still the installed one.
pub(super) fn is_current(agent: &Arc<Agent>) -> bool {
    current().is_some_and(|current| Arc::ptr_eq(&current, agent))
}

/// Sets the installed agent and gives the one before it.
pub(super) fn set_current(agent: Option<Arc<Agent>>) -> Option<Arc<Agent>> {
    std::mem::replace(&mut *CURRENT.write().unwrap_or_else(PoisonError::into_inner), agent)
}

/// Starts an agent that is still the installed one, unless the interpreter ends.
pub(super) fn start(agent: &Arc<Agent>) {
    if !OVER.load(Ordering::Relaxed) && is_current(agent) {
        agent.start();
    }
}

/// The interpreter is being torn down.
pub(super) fn start_no_more() {
    OVER.store(true, Ordering::Relaxed);
}

/// Has the threads started again that a fork stopped, as soon as that may be.
pub(super) fn resume_later() {
    RESUME.store(true, Ordering::Relaxed);
    // Where it cannot be called, the next collection or status report resumes.
    call_soon(|_| resume());
}

/// Starts the threads again that a fork stopped, where that had to wait.
pub(super) fn resume() {
    if RESUME.load(Ordering::Relaxed)
        && RESUME.swap(false, Ordering::Relaxed)
        && let Some(agent) = current()
    {
        start(&agent);
    }
}

/// In a forked child, where what its parent had put off is not its own.
pub(super) fn forget_resume() {
    RESUME.store(false, Ordering::Relaxed);
}
