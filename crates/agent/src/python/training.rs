//! What adapters report of training loops.

use pyo3::prelude::*;

use super::module::current_now;

/// A loader has delivered a batch.
#[pyfunction]
pub(crate) fn batch() {
    if let Some(agent) = current_now() {
        agent.training.batch();
    }
}
