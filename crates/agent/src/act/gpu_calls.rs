//! How the agent has `neurogc._gpu` called: in the main thread where figures are old, and by a thread that is asked what holds
//! the memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use neurogc_wire::gpu::GpuReport;
use pyo3::prelude::*;

use crate::cpython::pending::call_soon;
use crate::sense::gpu::GpuBook;
use crate::sys::locks::lock;

/// How old figures may be before the main thread is asked for new ones, and how long an answer is waited for.
const EVERY_NS: u64 = 1_000_000_000;
const FORGOTTEN_NS: u64 = 60_000_000_000;

/// The functions of `neurogc._gpu` that the agent has called: one reads figures, one looks at what holds the memory. They are
/// there where a program has loaded PyTorch.
struct Called {
    look: Py<PyAny>,
    explain: Py<PyAny>,
}

static CALLED: Mutex<Option<Called>> = Mutex::new(None);

/// Whether they are there, so that no lock is needed to know; and when the main thread was asked, 0 once it came.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Sets the functions.
pub(crate) fn watch(look: Py<PyAny>, explain: Py<PyAny>) {
    *lock(&CALLED) = Some(Called { look, explain });
    IS_WATCHED.store(true, Ordering::Release);
}

/// Whether they are there.
pub(crate) fn is_watched() -> bool {
    IS_WATCHED.load(Ordering::Acquire)
}

/// Looks at what holds the memory of GPUs, in the calling thread.
pub(crate) fn explain(py: Python<'_>) -> Result<GpuReport, String> {
    let function = lock(&CALLED).as_ref().map(|called| called.explain.clone_ref(py));
    let Some(function) = function else {
        return Err("the process uses no GPU by PyTorch, or adapters are off".to_owned());
    };
    let text: String =
        function.bind(py).call0().and_then(|text| text.extract()).map_err(|error| error.value(py).to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// Asks the main thread for figures where the latest are old. The uplink does this; it needs no GIL. Gives when to ask again.
pub(crate) fn ask_if_old(book: &Mutex<GpuBook>, now: u64) -> Option<u64> {
    if !is_watched() {
        return None;
    }
    let last = lock(book).last();
    let asked = ASKED.load(Ordering::Relaxed);
    let is_waiting = asked != 0 && now < asked + FORGOTTEN_NS;
    if now >= last + EVERY_NS && !is_waiting {
        ASKED.store(now, Ordering::Relaxed);
        call_soon(look);
    }
    Some(now + EVERY_NS)
}

fn look(py: Python<'_>) {
    ASKED.store(0, Ordering::Relaxed);
    let function = lock(&CALLED).as_ref().map(|called| called.look.clone_ref(py));
    if let Some(function) = function {
        // It tells of its own troubles.
        let _ = function.bind(py).call0();
    }
}
