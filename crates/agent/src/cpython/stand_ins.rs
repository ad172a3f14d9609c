//! Built-in functions that look as those of `gc` do (name, module, signature, documentation) and call ours.

use std::ffi::{CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{Borrowed, ffi};

/// What a stand-in does: positional and keyword arguments to an answer.
pub(crate) type Body = for<'py> fn(&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>>;

/// How it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replaced {
    GetThreshold,
    SetThreshold,
    Collect,
}

impl Replaced {
    pub(crate) const ALL: [Self; 3] = [Self::GetThreshold, Self::SetThreshold, Self::Collect];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GetThreshold => "get_threshold",
            Self::SetThreshold => "set_threshold",
            Self::Collect => "collect",
        }
    }

    /// Makes the stand-in for `original`. There is one of each kind for each process, so what it is defined by may stay.
    pub(crate) fn stand_in<'py>(
        self,
        module: &Bound<'py, PyModule>,
        original: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let doc = original.getattr("__doc__").and_then(|doc| doc.extract::<String>()).unwrap_or_default();
        let signature = original.getattr("__text_signature__").and_then(|text| text.extract::<String>()).ok();
        let name = self.name();
        // As CPython writes the signature of its own functions into their documentation.
        let doc = signature.map_or(doc.clone(), |signature| format!("{name}{signature}\n--\n\n{doc}"));
        let (name, doc) = (CString::new(name)?, CString::new(doc)?);
        let (method, flags): (ffi::PyCFunctionWithKeywords, c_int) = match self {
            Self::GetThreshold => (get_threshold, ffi::METH_VARARGS | ffi::METH_KEYWORDS),
            Self::SetThreshold => (set_threshold, ffi::METH_VARARGS | ffi::METH_KEYWORDS),
            Self::Collect => (collect, ffi::METH_VARARGS | ffi::METH_KEYWORDS),
        };
        let definition = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: name.into_raw(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionWithKeywords: method },
            ml_flags: flags,
            ml_doc: doc.into_raw(),
        }));
        let named = module.name()?;
        // SAFETY: the definition and its texts stay for ever, the flags are those of the function, and both objects are
        // alive.
        unsafe {
            let function = ffi::PyCFunction_NewEx(definition, module.as_ptr(), named.as_ptr());
            Bound::from_owned_ptr_or_err(module.py(), function)
        }
    }
}

unsafe extern "C" fn get_threshold(
    _: *mut ffi::PyObject,
    positional: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls it as its flags say.
    unsafe { call(crate::python::gc_functions::get_threshold, positional, keywords) }
}

unsafe extern "C" fn set_threshold(
    _: *mut ffi::PyObject,
    positional: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { call(crate::python::gc_functions::set_threshold, positional, keywords) }
}

unsafe extern "C" fn collect(
    _: *mut ffi::PyObject,
    positional: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { call(crate::python::gc_functions::collect, positional, keywords) }
}

/// Calls a function of ours. Nothing may unwind into the interpreter.
///
/// # Safety
/// CPython must have called, with a tuple and a dictionary or null.
unsafe fn call(body: Body, positional: *mut ffi::PyObject, keywords: *mut ffi::PyObject) -> *mut ffi::PyObject {
    Python::attach(|py| {
        let called = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the caller's promise; both are borrowed for the time of the call.
            let (positional, keywords) = unsafe {
                let keywords = Borrowed::from_ptr_or_opt(py, keywords);
                (Borrowed::from_ptr(py, positional), keywords)
            };
            let positional = positional.cast::<PyTuple>()?;
            let keywords = keywords.as_ref().map(|keywords| keywords.cast::<PyDict>()).transpose()?;
            body(&positional, keywords.as_deref())
        }));
        let failed = || Err(PyRuntimeError::new_err("neurogc has failed here"));
        match called.unwrap_or_else(|_| failed()) {
            Ok(answer) => answer.into_ptr(),
            Err(error) => {
                error.restore(py);
                std::ptr::null_mut()
            }
        }
    })
}
