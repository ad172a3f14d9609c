//! CPython's table of allocators: which ones are in force, and how they are replaced.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use super::symbol;

/// `PyMemAllocatorDomain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    Raw = 0,
    Mem = 1,
    Object = 2,
}

pub(crate) type Malloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
pub(crate) type Calloc = unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void;
pub(crate) type Realloc = unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void;
pub(crate) type Free = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// `PyMemAllocatorEx`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocator {
    pub(crate) context: *mut c_void,
    pub(crate) malloc: Malloc,
    pub(crate) calloc: Calloc,
    pub(crate) realloc: Realloc,
    pub(crate) free: Free,
}

type Exchange = unsafe extern "C" fn(std::ffi::c_int, *mut Allocator);
type Name = unsafe extern "C" fn() -> *const c_char;

/// The two functions that read and write the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocators {
    get: Exchange,
    set: Exchange,
}

/// Whether hooks of ours stand over `pymalloc`, which then is not seen by its name any more.
static OVER_PYMALLOC: AtomicBool = AtomicBool::new(false);

impl Allocators {
    /// None where the interpreter does not export them.
    pub(crate) fn find() -> Option<Self> {
        let (get, set) = (symbol(c"PyMem_GetAllocator")?, symbol(c"PyMem_SetAllocator")?);
        // SAFETY: the symbols are these functions of CPython's API, and the struct is laid out as theirs.
        unsafe {
            Some(Self {
                get: std::mem::transmute::<*mut c_void, Exchange>(get),
                set: std::mem::transmute::<*mut c_void, Exchange>(set),
            })
        }
    }

    /// The allocator in force. The caller holds the GIL.
    pub(crate) fn get(self, domain: Domain) -> Allocator {
        let mut found = std::mem::MaybeUninit::<Allocator>::uninit();
        // SAFETY: the function fills the whole struct for each of the three domains.
        unsafe {
            (self.get)(domain as std::ffi::c_int, found.as_mut_ptr());
            found.assume_init()
        }
    }

    /// Puts another allocator in force.
    ///
    /// # Safety
    /// The caller holds the GIL. Blocks of the allocator before must be known to the new one, as long as the process
    /// lives.
    pub(crate) unsafe fn set(self, domain: Domain, mut allocator: Allocator) {
        // SAFETY: the caller's promise; the function copies the struct.
        unsafe { (self.set)(domain as std::ffi::c_int, &raw mut allocator) };
    }
}

/// Hooks of ours are about to stand over `pymalloc`.
pub(crate) fn go_over_pymalloc() {
    OVER_PYMALLOC.store(true, Ordering::Release);
}

/// Whether small objects lie in arenas of CPython's own allocator, which `PYTHONMALLOC` and debug builds change.
pub(crate) fn is_pymalloc() -> bool {
    OVER_PYMALLOC.load(Ordering::Acquire) || name() == Some(c"pymalloc")
}

/// The name of the allocators in force, where all three are a known set without any hook.
pub(crate) fn name() -> Option<&'static CStr> {
    let function = symbol(c"_PyMem_GetCurrentAllocatorName")?;
    // SAFETY: the symbol is this function in every version that has it; it gives a static string or null.
    unsafe {
        let name = std::mem::transmute::<*mut c_void, Name>(function)();
        (!name.is_null()).then(|| CStr::from_ptr(name))
    }
}
