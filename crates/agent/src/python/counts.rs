//! Exact counts of a section of a program, and the peak of what is sampled: what tests and profiles are judged by.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::alloc::{self, exact};

/// Counts every allocation from now on, by stack or only their sums. Raises `RuntimeError` where that is not possible, with
/// the reason.
#[pyfunction]
#[pyo3(signature = (by_stack = true))]
pub(crate) fn count_begin(by_stack: bool) -> PyResult<()> {
    exact::begin(by_stack).map_err(PyRuntimeError::new_err)
}

/// Counts no more.
#[pyfunction]
pub(crate) fn count_end() {
    exact::end();
}

/// Bytes that live of those that were counted, and the most that lived since the last call or since the beginning.
#[pyfunction]
pub(crate) fn count_mark() -> (i64, i64) {
    exact::mark()
}

/// All figures of the last section as JSON, with so many stacks.
#[pyfunction]
pub(crate) fn count_figures(py: Python<'_>, stacks: usize) -> String {
    py.detach(|| exact::figures(stacks).to_string())
}

/// Live bytes by sampling, and the most since the last call; None where nothing is sampled.
#[pyfunction]
pub(crate) fn sampled_weights() -> Option<(i64, i64)> {
    alloc::weights()
}
