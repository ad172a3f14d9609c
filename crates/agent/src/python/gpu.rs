//! What `neurogc._gpu` tells the agent, and how the agent has it called. Threads of the program come here with the GIL held;
//! what finds the book in use is left out, and comes again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use neurogc_wire::gpu::GpuReport;
use pyo3::prelude::*;

use super::module::{current, current_now};
use crate::cpython::pending::call_soon;
use crate::lifecycle::agent::{Agent, lock};
use crate::sense::gpu::{DeviceFigures, GpuBook};
use crate::sys::native::monotonic_ns;

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
#[pyfunction]
pub(crate) fn gpu_watch(look: Py<PyAny>, explain: Py<PyAny>) {
    *lock(&CALLED) = Some(Called { look, explain });
    IS_WATCHED.store(true, Ordering::Release);
}

fn book(agent: &Agent) -> Option<MutexGuard<'_, GpuBook>> {
    match agent.gpu.try_lock() {
        Ok(book) => Some(book),
        Err(TryLockError::Poisoned(book)) => Some(book.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// What the allocator says of a device: allocated, reserved, active and inactive bytes, blocks, peak, retries, errors.
#[pyfunction]
pub(crate) fn gpu_figures(device: u32, figures: [u64; 8]) {
    let Some(agent) = current_now() else { return };
    let [allocated, reserved, active, inactive, blocks, peak, retries, ooms] = figures;
    let figures = DeviceFigures { allocated, reserved, active, inactive, blocks, peak, retries, ooms };
    if let Some(mut book) = book(&agent) {
        book.figures(monotonic_ns(), device, figures);
    }
}

/// The end of an optimizer's step, and whether the figures were read before. Gives whether what holds the memory should be
/// looked at now, and whether memory grows.
#[pyfunction]
pub(crate) fn gpu_step(read: bool) -> (bool, bool) {
    let Some(agent) = current_now() else { return (false, false) };
    let Some(mut book) = book(&agent) else { return (false, false) };
    if read {
        (book.step(monotonic_ns(), agent.installed), book.grows())
    } else {
        book.pass();
        (false, book.grows())
    }
}

/// The whole card of a device: its memory, and what is free of it.
#[pyfunction]
pub(crate) fn gpu_card(device: u32, total: u64, free: u64) {
    if let Some(agent) = current_now()
        && let Some(mut book) = book(&agent)
    {
        book.card(device, total, free);
    }
}

/// Other processes on the card of a device and their bytes, where the driver tells.
#[pyfunction]
pub(crate) fn gpu_others(device: u32, told: Option<(u64, u64)>) {
    if let Some(agent) = current_now()
        && let Some(mut book) = book(&agent)
    {
        book.others(device, told);
    }
}

/// Pinned memory of the host, where that is known.
#[pyfunction]
pub(crate) fn gpu_pinned(bytes: Option<u64>) {
    if let Some(agent) = current_now()
        && let Some(mut book) = book(&agent)
    {
        book.pinned(bytes);
    }
}

/// What holds the memory, as JSON, which was looked at because it grows.
#[pyfunction]
pub(crate) fn gpu_holders(report: &str) -> bool {
    let Some(agent) = current_now() else { return false };
    let Ok(report) = serde_json::from_str::<GpuReport>(report) else { return false };
    let Some(mut book) = book(&agent) else { return false };
    book.look(monotonic_ns(), report);
    true
}

/// An allocation has failed: counts it, and gives how many have, and the growth so far in words.
#[pyfunction]
pub(crate) fn gpu_oom(py: Python<'_>) -> (u64, Vec<String>) {
    let Some(agent) = current() else { return (0, Vec::new()) };
    py.detach(|| {
        let mut book = lock(&agent.gpu);
        let count = book.oom(monotonic_ns());
        (count, book.findings().into_iter().map(|it| format!("{} {}", it.text, it.advice)).collect())
    })
}

/// Where the report on it is.
#[pyfunction]
pub(crate) fn gpu_oom_reported(py: Python<'_>, path: String) {
    if let Some(agent) = current() {
        py.detach(|| lock(&agent.gpu).oom_reported(path));
    }
}

/// The folder for reports on errors: that of heap dumps.
#[pyfunction]
pub(crate) fn gpu_report_folder() -> Option<String> {
    current().map(|agent| agent.settings.heap_dump_folder.display().to_string())
}

/// An epoch or an evaluation has ended: the program goes on.
pub(crate) fn boundary(agent: &Agent) {
    if IS_WATCHED.load(Ordering::Acquire)
        && let Some(mut book) = book(agent)
    {
        book.went_on();
    }
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
pub(crate) fn ask_if_old(agent: &Agent, now: u64) -> Option<u64> {
    if !IS_WATCHED.load(Ordering::Acquire) {
        return None;
    }
    let last = lock(&agent.gpu).last();
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
