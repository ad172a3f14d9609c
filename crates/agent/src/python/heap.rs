//! The Python face of heap dumps and counts by type: `neurogc.heap`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::current::{current, current_or_error, is_current};
use crate::act::drive::{Next, RequestedSnapshot};
use crate::act::vm::Vm;
use crate::sense::process::headroom;
use crate::snapshot::{Destination, HeapErrand, HeapReport, SnapshotFailure};
use crate::uplink::leave_dump;

/// Writes a dump to a descriptor, from `limit` bytes on to another one, and gives figures about it.
#[pyfunction]
pub(crate) fn heap_dump(
    py: Python<'_>,
    first: i32,
    limit: u64,
    rest: Option<i32>,
    texts: bool,
    urgent: bool,
) -> PyResult<Bound<'_, PyDict>> {
    let report = fly(py, HeapErrand::Dump { to: Destination { first, limit, rest }, texts, urgent })?;
    let figures = PyDict::new(py);
    figures.set_item("objects", report.objects)?;
    figures.set_item("bytes", report.written)?;
    figures.set_item("pause_ms", report.pause.as_secs_f64() * 1e3)?;
    figures.set_item("flight_ms", report.flight.as_secs_f64() * 1e3)?;
    let gathered = report.gathered;
    figures.set_item("huge_pages", gathered.pages)?;
    figures.set_item("huge_pages_ms", gathered.took.as_secs_f64() * 1e3)?;
    figures.set_item("huge_pages_why_not", gathered.end.words())?;
    Ok(figures)
}

/// Counts all objects by type: name, objects, bytes.
#[pyfunction]
pub(crate) fn heap_count(py: Python<'_>) -> PyResult<Vec<(String, u64, u64)>> {
    let report = fly(py, HeapErrand::Count)?;
    Ok(report.counted.into_iter().map(|row| (row.name, row.objects, row.bytes)).collect())
}

/// Sends out a flight and waits for it without the GIL.
fn fly(py: Python<'_>, errand: HeapErrand) -> PyResult<HeapReport> {
    let failed = |reason: String| PyRuntimeError::new_err(reason);
    let agent = current_or_error()?;
    let vm = agent.vm(py);
    if vm.is_collecting() {
        return Err(failed("a collection is running: a finalizer cannot ask for this".to_owned()));
    }
    let mut drive = RequestedSnapshot::for_heap(&vm, errand);
    loop {
        match drive.step(&agent.acting.actor, &vm, &agent.sensors.hooks) {
            Next::Again(pause) => {
                py.detach(|| std::thread::sleep(pause));
                if let Err(error) = py.check_signals() {
                    if drive.is_out() {
                        py.detach(|| agent.acting.snapshots.cancel(SnapshotFailure::Cancelled));
                    }
                    return Err(error);
                }
                if !is_current(&agent) {
                    return Err(failed("neurogc was uninstalled, or the process has forked".to_owned()));
                }
            }
            Next::Told(report) => return Ok(*report),
            Next::Done { .. } => return Err(failed("nothing was found out".to_owned())),
            Next::Failed(failure) => return Err(failed(failure.to_string())),
        }
    }
}

/// What causes dumps: whether a `MemoryError` does, and which signal; and whether texts are in them.
#[pyfunction]
pub(crate) fn dump_triggers() -> (bool, i32, bool) {
    current().map_or((false, 0, true), |agent| {
        let on = agent.host.settings.heap_dump_on;
        (on.oom, on.signal.map_or(0, |signal| signal.number), agent.host.settings.heap_dump_text)
    })
}

/// Where the next dump that was not asked for goes, or nothing if there are enough.
#[pyfunction]
pub(crate) fn next_dump(py: Python<'_>) -> Option<std::path::PathBuf> {
    let agent = current()?;
    py.detach(|| agent.acting.dumps.next(&agent.host.settings))
}

/// Has the program write one soon, at a moment of its own.
#[pyfunction]
pub(crate) fn dump_soon() {
    if let Some(agent) = current() {
        leave_dump(agent.sources(), false);
    }
}

/// Memory that the process could still get, in bytes, as far as that is known.
#[pyfunction]
pub(crate) fn memory_room() -> u64 {
    headroom().unwrap_or(0)
}
