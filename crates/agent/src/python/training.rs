//! What adapters report of training loops.

use neurogc_policy::{Moment, is_shared_step};
use pyo3::prelude::*;

use super::current::current_now;
use super::moments::{at, gap, progress};
use crate::python::gpu;

/// A loader has delivered a batch.
#[pyfunction]
pub(crate) fn batch() {
    if let Some(agent) = current_now() {
        agent.sensors.hooks.training.batch();
    }
}

/// A step has ended in a job of so many ranks: what is planned for it is done here.
#[pyfunction]
pub(crate) fn rank_step(py: Python<'_>, ranks: u32) {
    let Some(agent) = current_now() else { return };
    let step = agent.sensors.hooks.training.step(ranks);
    let due = progress(py);
    if ranks > 1 && agent.acting.actor.may_align() {
        // Before its first step, a rank collects as a process of its own does.
        if is_shared_step(agent.host.settings.tuning.align_steps, step) || !agent.acting.actor.is_aligned() {
            at(py, Moment::StepEnd);
        }
    } else if due {
        gap(py);
    }
}

/// The ranks of the job have parted.
#[pyfunction]
pub(crate) fn ranks_parted(py: Python<'_>) {
    if let Some(agent) = current_now() {
        agent.sensors.hooks.training.part();
        if agent.acting.actor.is_aligned() {
            // The policy takes over again.
            gap(py);
        }
    }
}

/// An epoch or an evaluation has ended.
#[pyfunction]
pub(crate) fn boundary(py: Python<'_>) {
    if let Some(agent) = current_now() {
        agent.sensors.hooks.training.boundary();
        gpu::boundary(&agent);
        at(py, Moment::Boundary);
    }
}
