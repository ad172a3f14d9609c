//! The Python face of snapshots: `neurogc.collect("snapshot")`, and single steps for tests and measurements.

use std::time::Duration;

use neurogc_policy::{Decision, Order, Scope};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::current::{current, current_or_error, is_current};
use crate::act::actor::ASKED;
use crate::act::drive::{ASKED_FOR, Next, RequestedSnapshot};
use crate::act::vm::Vm;
use crate::lifecycle::agent::Agent;
use crate::sense::hooks::Ordered;
use crate::snapshot::{Reaped, SnapshotFailure, SnapshotFigures, SnapshotProgress, Sortie};

/// Collects everything by way of a snapshot and gives what was found, or nothing where there can be none.
#[pyfunction]
pub(crate) fn collect_snapshot(py: Python<'_>) -> PyResult<Option<u64>> {
    let Some(agent) = current() else { return Ok(None) };
    let vm = agent.vm(py);
    if vm.is_collecting() {
        // A finalizer asks, or another thread's finalizer has let us in: as with `gc.collect()`, nothing happens.
        return Ok(Some(0));
    }
    let mut drive = RequestedSnapshot::new(&vm);
    loop {
        match drive.step(&agent.acting.actor, &vm, &agent.sensors.hooks) {
            Next::Again(pause) => {
                py.detach(|| std::thread::sleep(pause));
                py.check_signals()?;
                if !is_current(&agent) {
                    // It was uninstalled or replaced meanwhile, or this is a forked child: its snapshot is called off.
                    return Ok(None);
                }
            }
            Next::Done { freed, .. } => return Ok(Some(freed)),
            Next::Told(_) | Next::Failed(_) => return Ok(None),
        }
    }
}

/// Whether the heap is so large that a snapshot is the better way to collect it.
#[pyfunction]
pub(crate) fn prefers_snapshot(py: Python<'_>) -> bool {
    current().is_some_and(|agent| {
        agent.host.settings.snapshots
            && agent.host.interpreter.can_be_conducted()
            && agent.vm(py).tracked_estimate() >= neurogc_policy::SMALL_HEAP
    })
}

/// Does something to the snapshot, again and again for a short while where another thread has it.
fn when_free<T>(py: Python<'_>, agent: &Agent, mut body: impl FnMut() -> Option<T>) -> Option<T> {
    const TRIES: (u32, u32) = (100, 3);
    let mut free = 0;
    for _ in 0..TRIES.0 {
        let done = body();
        free += u32::from(agent.acting.snapshots.look() != SnapshotProgress::Busy);
        if done.is_some() || free == TRIES.1 {
            return done;
        }
        py.detach(|| std::thread::sleep(Duration::from_micros(100)));
    }
    None
}

/// Launches a snapshot, of new objects only where that is asked for and possible; raises where it is refused.
#[pyfunction]
#[pyo3(signature = (new = false))]
pub(crate) fn snapshot_launch(py: Python<'_>, new: bool) -> PyResult<()> {
    let agent = current_or_error()?;
    let sortie = if new { Sortie { scope: Scope::New, ..ASKED } } else { ASKED };
    let launched =
        when_free(py, &agent, || match agent.acting.actor.launch(&agent.vm(py), &agent.sensors.hooks, sortie) {
            Err(SnapshotFailure::UnderWay) => None,
            launched => Some(launched),
        });
    launched
        .unwrap_or(Err(SnapshotFailure::UnderWay))
        .map(drop)
        .map_err(|failure| PyRuntimeError::new_err(failure.to_string()))
}

/// How it stands: a word, and what there is to be said about it.
#[pyfunction]
pub(crate) fn snapshot_look(py: Python<'_>) -> PyResult<(&'static str, Py<PyAny>)> {
    let progress = current_or_error()?.acting.snapshots.look();
    let (word, more) = match progress {
        SnapshotProgress::Idle => ("idle", py.None()),
        SnapshotProgress::Busy => ("busy", py.None()),
        SnapshotProgress::InFlight { since_ns, .. } => ("in flight", since_ns.into_pyobject(py)?.into_any().unbind()),
        SnapshotProgress::Ready { candidates, components, largest, .. } => {
            ("ready", (candidates, components, largest).into_pyobject(py)?.into_any().unbind())
        }
        SnapshotProgress::Failed(failure) => ("failed", failure.to_string().into_pyobject(py)?.into_any().unbind()),
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
    let agent = current_or_error()?;
    let vm = agent.vm(py);
    let running = agent.acting.actor.begin(&vm, Order::at_once(Decision::Reap { budget }, ASKED_FOR));
    let reaped =
        when_free(py, &agent, || agent.acting.actor.reap(&vm, &agent.sensors.hooks, budget, whole, Ordered::Anywhere));
    drop(running);
    let left = || match agent.acting.snapshots.look() {
        SnapshotProgress::Ready { candidates, .. } => candidates,
        // Another thread frees a slice or has the state: the caller is to ask again.
        SnapshotProgress::Busy => 1,
        _ => 0,
    };
    // Another thread may collect, and its finalizers have let this one in.
    let reaped = reaped.unwrap_or_else(|| Reaped { left: left(), ..Reaped::default() });
    let Reaped { freed, moved, dropped, left, pause_ns } = reaped;
    Ok((freed, moved, dropped, left, pause_ns))
}

/// Calls it off.
#[pyfunction]
pub(crate) fn snapshot_cancel(py: Python<'_>) -> PyResult<()> {
    let agent = current_or_error()?;
    py.detach(|| agent.acting.snapshots.cancel(SnapshotFailure::Cancelled));
    Ok(())
}

/// The sums so far, and the latest flight.
#[pyfunction]
pub(crate) fn snapshot_figures(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let agent = current_or_error()?;
    let SnapshotFigures { launched, failed, clone, flight, reap, candidates, freed, copied, extra, latest, .. } =
        py.detach(|| agent.acting.snapshots.figures());
    let figures = PyDict::new(py);
    figures.set_item("launched", launched)?;
    let failed: std::collections::BTreeMap<_, _> = failed.iter().map(|(kind, failed)| (*kind, failed.count)).collect();
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
        ("without_bytes", latest.without_bytes),
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
