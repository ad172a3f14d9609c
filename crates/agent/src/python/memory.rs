//! Questions of the program about its own memory. The uplink does the work: it has descriptors of its own, and no signal handler
//! of the program runs in it, so it may hold a lock of `malloc`.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::current::{current_or_error, resume};
use crate::alloc;
use crate::lifecycle::agent::Agent;
use crate::sys::locks::lock;

/// How long the program waits for an answer. A reading of many gigabytes takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the resident memory is, read now, as JSON.
#[pyfunction]
pub(crate) fn memory_json(py: Python<'_>) -> PyResult<String> {
    let agent = installed()?;
    let read = || {
        lock(&agent.sensors.breakdown).want();
        agent.await_uplink(PATIENCE);
        let report = lock(&agent.sensors.breakdown).wanted().ok_or_else(unanswered)?;
        serde_json::to_string(&report).map_err(|error| error.to_string())
    };
    py.detach(read).map_err(PyRuntimeError::new_err)
}

/// Gives free memory of `malloc` back to the system now. Gives what that saved, in bytes, how long it took in all, and the
/// longest time that one arena was locked, both in milliseconds.
#[pyfunction]
pub(crate) fn memory_trim(py: Python<'_>) -> PyResult<(u64, f64, f64)> {
    let agent = installed()?;
    let trim = || {
        lock(&agent.acting.trimming).want();
        agent.await_uplink(PATIENCE);
        let outcome = lock(&agent.acting.trimming).wanted().ok_or_else(unanswered)?;
        outcome.map_err(|reason| format!("free memory of malloc cannot be given back: {reason}"))
    };
    let outcome = py.detach(trim).map_err(PyRuntimeError::new_err)?;
    Ok((outcome.saved, outcome.took.as_secs_f64() * 1e3, outcome.locked.as_secs_f64() * 1e3))
}

/// Where the live block at an address was allocated, and the bytes that it stands for, if it is a sampled one.
#[pyfunction]
pub(crate) fn memory_site(address: usize) -> Option<(String, u64)> {
    alloc::site_at(address).zip(alloc::weight_at(address))
}

fn installed() -> PyResult<Arc<Agent>> {
    resume();
    current_or_error()
}

fn unanswered() -> String {
    "the agent cannot read the memory of this process: `degraded` in neurogc.status() says why".to_owned()
}
