//! Built-in functions that look as those of `gc` do (name, module, signature, documentation) and call ours.

use std::ffi::{CString, c_int};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

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

    /// Makes the stand-in for `original`, which calls `ours`. There is one of each kind for each process, so what it is
    /// defined by may stay.
    pub(crate) fn stand_in<'py>(
        self,
        module: &Bound<'py, PyModule>,
        original: &Bound<'py, PyAny>,
        ours: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        OURS[self as usize].store(ours.into_ptr(), Ordering::Release);
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

/// What the stand-ins call. Each keeps its function alive for ever.
static OURS: [AtomicPtr<ffi::PyObject>; 3] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 3];

unsafe extern "C" fn get_threshold(
    _: *mut ffi::PyObject,
    positional: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls it as its flags say.
    unsafe { call(Replaced::GetThreshold, positional, keywords) }
}

unsafe extern "C" fn set_threshold(
    _: *mut ffi::PyObject,
    positional: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { call(Replaced::SetThreshold, positional, keywords) }
}

unsafe extern "C" fn collect(
    _: *mut ffi::PyObject,
    positional: *mut ffi::PyObject,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { call(Replaced::Collect, positional, keywords) }
}

/// Calls our function, whose panics go no further: it is one of an extension module as any other.
///
/// # Safety
/// CPython must have called, with a tuple and a dictionary or null.
unsafe fn call(replaced: Replaced, positional: *mut ffi::PyObject, keywords: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let ours = OURS[replaced as usize].load(Ordering::Acquire);
    // SAFETY: the caller's promise; the function was stored before there was a stand-in.
    unsafe { ffi::PyObject_Call(ours, positional, keywords) }
}
