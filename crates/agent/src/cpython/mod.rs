//! Everything that depends on CPython's version or needs `unsafe`; the rest of the agent sees only what is exported
//! here.

pub(crate) mod allocators;
pub(crate) mod arenas;
pub(crate) mod collector;
pub(crate) mod frames;
pub(crate) mod gather;
pub(crate) mod generations;
pub(crate) mod gil;
pub(crate) mod heap_layout;
pub(crate) mod layout;
pub(crate) mod lines;
pub(crate) mod modules;
pub(crate) mod originals;
pub(crate) mod own_stack;
pub(crate) mod pending;
pub(crate) mod selfcheck;
pub(crate) mod stand_ins;
pub(crate) mod tables;
pub(crate) mod threads;

use std::ffi::{CStr, c_void};

use pyo3::ffi;

pub(crate) use gil::ThreadState;
pub(crate) use selfcheck::Interpreter;

unsafe extern "C" {
    /// CPython exports its runtime; only its address is taken.
    static _PyRuntime: u8;
}

/// Where the runtime is.
fn runtime_address() -> usize {
    &raw const _PyRuntime as usize
}

/// What this process exports under a name, or nothing.
pub(crate) fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string; nothing is called.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The thread state of the calling thread, which must hold the GIL.
fn current_thread() -> ThreadState {
    // SAFETY: the callers have a `Python` token, so a thread state exists.
    ThreadState(unsafe { ffi::PyThreadState_Get() } as usize)
}

/// Whether the calling thread runs in the main interpreter.
pub(crate) fn is_main_interpreter() -> bool {
    // SAFETY: the callers hold the GIL, so there is a current interpreter.
    unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) == 0 }
}
