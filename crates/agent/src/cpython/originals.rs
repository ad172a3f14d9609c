//! Functions of `gc` as CPython made them: the module itself may hold stand-ins, ours or the program's.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The functions of `gc` that the agent calls.
#[derive(Debug)]
pub(crate) struct GcFunctions {
    pub(crate) collect: Py<PyAny>,
    pub(crate) get_threshold: Py<PyAny>,
    pub(crate) set_threshold: Py<PyAny>,
    pub(crate) is_enabled: Py<PyAny>,
    pub(crate) freeze: Py<PyAny>,
    pub(crate) unfreeze: Py<PyAny>,
    pub(crate) freeze_count: Py<PyAny>,
}

static FUNCTIONS: PyOnceLock<GcFunctions> = PyOnceLock::new();

/// Takes the functions as they are now; called when the extension is loaded.
pub(crate) fn remember_functions(py: Python<'_>) -> PyResult<()> {
    functions(py).map(drop)
}

/// The functions.
pub(crate) fn functions(py: Python<'_>) -> PyResult<&'static GcFunctions> {
    FUNCTIONS.get_or_try_init(py, || {
        let gc = py.import("gc")?;
        let function = |name: &str| gc.getattr(name).map(Bound::unbind);
        Ok(GcFunctions {
            collect: function("collect")?,
            get_threshold: function("get_threshold")?,
            set_threshold: function("set_threshold")?,
            is_enabled: function("isenabled")?,
            freeze: function("freeze")?,
            unfreeze: function("unfreeze")?,
            freeze_count: function("get_freeze_count")?,
        })
    })
}

/// `gc.collect` as CPython made it.
pub(crate) fn collect(py: Python<'_>, generation: i32) -> PyResult<Bound<'_, PyAny>> {
    functions(py)?.collect.bind(py).call1((generation,))
}

/// A function of `gc` as CPython made it.
pub(crate) fn original_function<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let functions = functions(py)?;
    let function = match name {
        "get_threshold" => &functions.get_threshold,
        "set_threshold" => &functions.set_threshold,
        _ => &functions.collect,
    };
    Ok(function.bind(py).clone())
}
