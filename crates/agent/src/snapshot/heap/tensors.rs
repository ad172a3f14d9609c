//! The memory of torch's tensors. A tensor's object points to a C++ object, which points to a storage, which several tensors
//! may share. Where those pointers are differs by version, so a tensor is made to find out.

use std::sync::OnceLock;

use neurogc_ngch::Kind;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::HeapWalk;
use super::classes::Class;
use super::raw::{byte, word};
use crate::cpython::modules::loaded;
use crate::snapshot::control::WalkTrouble;
use crate::sys::memory;

/// How many words of each object are searched.
const WORDS: usize = 32;

/// Behind the address of the data there are a context, its deleter, and the kind of device.
const DEVICE: usize = 24;

/// Offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TensorLayout {
    /// Of the C++ object's address in the Python object.
    tensor: usize,
    /// Of the storage's address in the C++ object.
    storage: usize,
    /// Of the number of bytes in the storage, and of the kind of device: 0 is the processor.
    bytes: usize,
    device: usize,
}

static LAYOUT: OnceLock<Option<TensorLayout>> = OnceLock::new();

impl TensorLayout {
    /// Finds it out, once, in a program that has loaded torch.
    pub(crate) fn learn(py: Python<'_>) -> Option<Self> {
        if let Some(known) = LAYOUT.get() {
            return *known;
        }
        let torch = loaded(py, "torch").ok()?;
        // A function of the program would see the tensor being made; another time, then. So with a torch whose
        // import has not ended.
        for stack in ["_len_torch_dispatch_stack", "_len_torch_function_stack"] {
            let depth: usize = torch.getattr("_C").ok()?.call_method0(stack).ok()?.extract().ok()?;
            if depth != 0 {
                return None;
            }
        }
        let one = Self::of(&torch, 4099);
        let other = Self::of(&torch, 8209);
        *LAYOUT.get_or_init(|| if one == other { one } else { None })
    }

    /// The layout as a tensor of so many bytes shows it.
    fn of(torch: &Bound<'_, PyAny>, length: usize) -> Option<Self> {
        let find = || -> PyResult<Option<Self>> {
            let settings = PyDict::new(torch.py());
            settings.set_item("dtype", torch.getattr("uint8")?)?;
            settings.set_item("device", "cpu")?;
            let tensor = torch.call_method("empty", (length,), Some(&settings))?;
            let data: usize = tensor.call_method0("data_ptr")?.extract()?;
            let storage: usize = tensor.call_method0("untyped_storage")?.getattr("_cdata")?.extract()?;
            Ok(Self::search(tensor.as_ptr() as usize, storage, data, length))
        };
        find().ok().flatten()
    }

    /// Looks for the pointers from a tensor to its storage, and in that for its data and length.
    fn search(object: usize, storage: usize, data: usize, length: usize) -> Option<Self> {
        let find = |at: usize, what: usize| {
            let words = (0..WORDS).map(|number| 8 * number);
            words
                .take_while(|offset| memory::word(at + offset).is_some())
                .find(|offset| memory::word(at + offset) == Some(what))
        };
        let (tensor, in_tensor) = (2..8).map(|number| 8 * number).find_map(|offset| {
            let at = memory::word(object + offset).filter(|at| at.is_multiple_of(8) && *at > 4096)?;
            Some((offset, find(at, storage)?))
        })?;
        let device = find(storage, data)? + DEVICE;
        let bytes = find(storage, length)?;
        let is_processor = memory::array::<1>(storage + device)? == [0];
        is_processor.then_some(Self { tensor, storage: in_tensor, bytes, device })
    }
}

impl HeapWalk<'_> {
    /// The bytes that an object owns and shares with others, if it is the first one of those that is met.
    ///
    /// # Safety
    /// It must be an object of this class.
    #[inline(always)]
    pub(super) unsafe fn shared_size(&mut self, object: usize, class: &Class) -> Result<usize, WalkTrouble> {
        let facts = self.facts;
        match (class.kind, facts.tensors, &facts.arrow) {
            // SAFETY: the caller's promise.
            (Kind::Tensor, Some(layout), _) => unsafe { self.storage_size(object, layout) },
            // SAFETY: the caller's promise.
            (Kind::Arrow, _, Some(layout)) => unsafe { self.buffers_size(object, class.address, layout) },
            _ => Ok(0),
        }
    }

    /// Whether the size of such an object includes the memory that it owns.
    pub(super) fn knows_memory(&self, kind: Kind) -> bool {
        match kind {
            Kind::Other => false,
            Kind::Tensor => self.facts.tensors.is_some(),
            Kind::Arrow => self.facts.arrow.is_some(),
            _ => true,
        }
    }

    #[cold]
    unsafe fn storage_size(&mut self, object: usize, layout: TensorLayout) -> Result<usize, WalkTrouble> {
        let is_address = |word: usize| word > 4096 && word >> 47 == 0 && word.is_multiple_of(16);
        // SAFETY: the caller's promise: it is a tensor; `learn` has seen that this is where its parts are.
        unsafe {
            let tensor = word(object + layout.tensor);
            if !is_address(tensor) {
                return Ok(0);
            }
            let storage = word(tensor + layout.storage);
            if !is_address(storage) || byte(storage + layout.device) != 0 || !self.storages.add(storage)? {
                return Ok(0);
            }
            // A length that is only known by a symbol is negative.
            Ok(usize::try_from(word(storage + layout.bytes).cast_signed()).unwrap_or(0))
        }
    }
}
