//! Addresses of CPython's own types, which the program looks up before it clones itself.

use std::ffi::CStr;

use neurogc_ngch::Kind;
use pyo3::prelude::*;

use crate::cpython::layout::Layout;
use crate::cpython::modules::loaded;
use crate::cpython::symbol;

/// The types by their exported names, and what their instances are.
const TYPES: [(&CStr, Kind); 26] = [
    (c"PyList_Type", Kind::List),
    (c"PyTuple_Type", Kind::Tuple),
    (c"PyDict_Type", Kind::Dict),
    (c"PySet_Type", Kind::Set),
    (c"PyFrozenSet_Type", Kind::Set),
    (c"PyUnicode_Type", Kind::Str),
    (c"PyBytes_Type", Kind::Bytes),
    (c"PyLong_Type", Kind::Int),
    (c"PyFloat_Type", Kind::Float),
    (c"PyFrozenDict_Type", Kind::Dict),
    // Those above have walkers of their own for exact instances.
    (c"PyODict_Type", Kind::OrderedDict),
    (c"PyByteArray_Type", Kind::ByteArray),
    (c"PyType_Type", Kind::Type),
    (c"PyCode_Type", Kind::Code),
    (c"PyFunction_Type", Kind::Function),
    (c"PyGen_Type", Kind::Generator),
    (c"PyCoro_Type", Kind::Generator),
    (c"PyAsyncGen_Type", Kind::Generator),
    (c"PyFrame_Type", Kind::Frame),
    (c"PyModule_Type", Kind::Module),
    (c"PyCell_Type", Kind::Cell),
    (c"_PyWeakref_RefType", Kind::Weakref),
    (c"_PyWeakref_ProxyType", Kind::Weakref),
    (c"_PyWeakref_CallableProxyType", Kind::Weakref),
    (c"PyMethod_Type", Kind::Method),
    (c"PyTraceBack_Type", Kind::Traceback),
];
const EXACT: usize = 10;

const DESCRIPTORS: [&CStr; 5] = [
    c"PyMethodDescr_Type",
    c"PyGetSetDescr_Type",
    c"PyMemberDescr_Type",
    c"PyWrapperDescr_Type",
    c"PyClassMethodDescr_Type",
];

/// What the program knows of its types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Builtins {
    types: [usize; TYPES.len()],
    descriptors: [usize; DESCRIPTORS.len()],
    /// What classes that are written in Python have for `tp_traverse`.
    pub(super) instance_traverse: usize,
    pub(super) code_type: usize,
    pub(super) str_type: usize,
    pub(super) type_type: usize,
}

impl Builtins {
    /// Looks them up.
    pub(crate) fn find(py: Python<'_>, layout: &Layout) -> PyResult<Self> {
        let address = |name: &CStr| symbol(name).map_or(0, |found| found as usize);
        // A class that is written in Python and that every interpreter has.
        let class = loaded(py, "_frozen_importlib")?.getattr("ModuleSpec")?.as_ptr() as usize;
        let type_word = |class: usize, offset: usize| {
            // SAFETY: it is a type, and this thread holds the GIL.
            unsafe { *((class + offset) as *const usize) }
        };
        Ok(Self {
            types: TYPES.map(|(name, _)| address(name)),
            descriptors: DESCRIPTORS.map(address),
            instance_traverse: type_word(class, layout.type_traverse),
            code_type: address(c"PyCode_Type"),
            str_type: address(c"PyUnicode_Type"),
            type_type: address(c"PyType_Type"),
        })
    }

    /// What instances of exactly this type are.
    pub(super) fn kind(&self, class: usize) -> Option<Kind> {
        let at = self.types.iter().position(|known| *known == class)?;
        TYPES.get(at).map(|(_, kind)| *kind)
    }

    /// Whether it is one of the types that have a walker of their own.
    pub(super) fn is_exact(&self, class: usize) -> bool {
        self.types[..EXACT].contains(&class)
    }

    pub(super) fn is_descriptor(&self, class: usize) -> bool {
        self.descriptors.contains(&class)
    }
}
