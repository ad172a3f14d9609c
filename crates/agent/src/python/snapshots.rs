//! The Python face of snapshots: `neurogc.collect("snapshot")`, and single steps for tests and measurements.

use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::lifecycle::agent::Agent;
use crate::python::module::current;
use crate::snapshot::{Failure, Figures, Progress, Reaped};

/// How long a slice may take when somebody waits for all of it. Between slices others may have the GIL.
const SLICE: Duration = Duration::from_millis(5);

/// How often the end of a flight is looked for.
const LOOK: Duration = Duration::from_micros(500);

/// Collects everything by way of a snapshot and gives what was found, or nothing where there can be none.
#[pyfunction]
pub(crate) fn collect_snapshot(py: Python<'_>) -> PyResult<Option<usize>> {
    current().map_or(Ok(None), |agent| collect(py, &agent))
}

/// The same for an agent.
fn collect(py: Python<'_>, agent: &Agent) -> PyResult<Option<usize>> {
    if agent.is_collecting(py) {
        // A finalizer asks, or another thread's finalizer has let us in: as with `gc.collect()`, nothing happens.
        return Ok(Some(0));
    }
    // One that is out already may have been launched before the caller's garbage was any.
    finish(py, agent)?;
    loop {
        if agent.stage.launch_now(py, agent).is_err() {
            return Ok(None);
        }
        let found = finish(py, agent)?;
        // The next one leaves nothing out.
        if found.is_some() || agent.snapshots.look() != Progress::Failed(Failure::Missing) {
            return Ok(found);
        }
    }
}

/// Waits for a snapshot that is out, frees what it finds, and says how much that was; nothing where it failed.
fn finish(py: Python<'_>, agent: &Agent) -> PyResult<Option<usize>> {
    let snapshots = &agent.snapshots;
    let mut freed = 0;
    loop {
        match snapshots.look() {
            Progress::Busy if agent.is_collecting(py) => return Ok(Some(freed)),
            Progress::Idle => return Ok(Some(freed)),
            Progress::Failed(_) => {
                snapshots.lift(py);
                return Ok(None);
            }
            Progress::Ready { .. } => freed += agent.stage.reap_now(py, agent, SLICE, true).freed,
            Progress::Busy | Progress::InFlight { .. } => {
                py.detach(|| std::thread::sleep(LOOK));
                py.check_signals()?;
            }
        }
    }
}

impl Agent {
    /// Whether a collection is running.
    fn is_collecting(&self, py: Python<'_>) -> bool {
        self.interpreter.collector.is_some_and(|collector| collector.generations(py).is_collecting())
    }
}

fn agent() -> PyResult<std::sync::Arc<Agent>> {
    current().ok_or_else(|| PyRuntimeError::new_err("neurogc is not installed: call neurogc.install()"))
}

/// Launches a snapshot; raises where it is refused.
#[pyfunction]
pub(crate) fn snapshot_launch(py: Python<'_>) -> PyResult<()> {
    let agent = agent()?;
    agent.stage.launch_now(py, &agent).map_err(|failure| PyRuntimeError::new_err(failure.to_string()))
}

/// How it stands: a word, and what there is to be said about it.
#[pyfunction]
pub(crate) fn snapshot_look(py: Python<'_>) -> PyResult<(&'static str, Py<PyAny>)> {
    let progress = agent()?.snapshots.look();
    let (word, more) = match progress {
        Progress::Idle => ("idle", py.None()),
        Progress::Busy => ("busy", py.None()),
        Progress::InFlight { since_ns } => ("in flight", since_ns.into_pyobject(py)?.into_any().unbind()),
        Progress::Ready { candidates, components, largest, .. } => {
            ("ready", (candidates, components, largest).into_pyobject(py)?.into_any().unbind())
        }
        Progress::Failed(failure) => ("failed", failure.to_string().into_pyobject(py)?.into_any().unbind()),
    };
    Ok((word, more))
}

/// Frees a slice: freed, moved, dropped, left, nanoseconds.
#[pyfunction]
pub(crate) fn snapshot_reap(
    py: Python<'_>,
    budget_ms: f64,
    whole: bool,
) -> PyResult<(usize, usize, usize, usize, u64)> {
    let budget = Duration::try_from_secs_f64(budget_ms / 1e3).unwrap_or(Duration::MAX);
    let agent = agent()?;
    let Reaped { freed, moved, dropped, left, pause_ns } = agent.stage.reap_now(py, &agent, budget, whole);
    Ok((freed, moved, dropped, left, pause_ns))
}

/// Calls it off.
#[pyfunction]
pub(crate) fn snapshot_cancel() -> PyResult<()> {
    agent()?.snapshots.cancel();
    Ok(())
}

/// The sums so far, and the latest flight.
#[pyfunction]
pub(crate) fn snapshot_figures(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let Figures { launched, failed, clone, flight, reap, candidates, freed, copied, extra, latest } =
        agent()?.snapshots.figures();
    let figures = PyDict::new(py);
    figures.set_item("launched", launched)?;
    figures.set_item("failed", failed)?;
    for (name, spans) in [("clone", clone), ("flight", flight), ("reap", reap)] {
        figures.set_item(format!("{name}_p50_ms"), spans.quantile_ms(0.5))?;
        figures.set_item(format!("{name}_max_ms"), spans.quantile_ms(1.0))?;
    }
    figures.set_item("candidates", candidates)?;
    figures.set_item("freed", freed)?;
    figures.set_item("extra_max_mb", extra as f64 / 1e6)?;
    figures.set_item("copied_ms", copied.as_secs_f64() * 1e3)?;
    let numbers = [
        ("clone_ns", latest.clone_ns),
        ("flight_ns", latest.flight_ns),
        ("tracked", latest.tracked),
        ("frozen", latest.frozen),
        ("candidates", latest.candidates),
        ("components", latest.components),
        ("largest", latest.largest),
        ("left_out", latest.left_out),
        ("own_bytes", latest.own_bytes),
        ("apart_bytes", latest.apart_bytes),
        ("faults", latest.faults),
    ];
    let last = PyDict::new(py);
    for (name, number) in numbers {
        last.set_item(name, number)?;
    }
    last.set_item("steps_ns", latest.steps_ns.to_vec())?;
    figures.set_item("latest", last)?;
    Ok(figures)
}
