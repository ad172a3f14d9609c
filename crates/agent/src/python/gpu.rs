//! What `neurogc._gpu` tells the agent. Threads of the program come here with the GIL held;
//! what finds the book in use is left out, and comes again.

use std::sync::MutexGuard;

use neurogc_wire::gpu::GpuReport;
use pyo3::prelude::*;

use super::current::{current, current_now};
use crate::act::gpu_calls::{self, is_watched};
use crate::lifecycle::agent::Agent;
use crate::sense::gpu::{DeviceFigures, GpuBook};
use crate::sys::locks::{lock, try_lock};
use crate::sys::native::monotonic_ns;

/// Sets the functions.
#[pyfunction]
pub(crate) fn gpu_watch(look: Py<PyAny>, explain: Py<PyAny>) {
    gpu_calls::watch(look, explain);
}

fn book(agent: &Agent) -> Option<MutexGuard<'_, GpuBook>> {
    try_lock(&agent.sensors.gpu)
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
        (book.step(monotonic_ns(), agent.host.installed), book.grows())
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
        let mut book = lock(&agent.sensors.gpu);
        let count = book.oom(monotonic_ns());
        (count, book.findings().into_iter().map(|it| format!("{} {}", it.text, it.advice)).collect())
    })
}

/// Where the report on it is.
#[pyfunction]
pub(crate) fn gpu_oom_reported(py: Python<'_>, path: String) {
    if let Some(agent) = current() {
        py.detach(|| lock(&agent.sensors.gpu).oom_reported(path));
    }
}

/// The folder for reports on errors: that of heap dumps.
#[pyfunction]
pub(crate) fn gpu_report_folder() -> Option<String> {
    current().map(|agent| agent.host.settings.heap_dump_folder.display().to_string())
}

/// An epoch or an evaluation has ended: the program goes on.
pub(crate) fn boundary(agent: &Agent) {
    if is_watched()
        && let Some(mut book) = book(agent)
    {
        book.went_on();
    }
}
