//! Modules that the program has loaded, without importing anything.

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// A module that is loaded. What runs inside a collection must not import: that would call the program's own `__import__`,
/// where there is one, and before CPython 3.12 it breaks an import of the same thread that the collection interrupted.
pub(crate) fn loaded<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: this thread holds the GIL; the dict of modules lives as long as the interpreter.
    let modules = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyImport_GetModuleDict()) };
    let missing = || PyImportError::new_err(format!("{name} is not loaded"));
    modules.and_then(|modules| modules.get_item(name).ok()).ok_or_else(missing)
}
