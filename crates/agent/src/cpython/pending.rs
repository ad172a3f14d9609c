//! Work that the main thread does as soon as it is back in Python code.

use std::ffi::{c_int, c_void};
use std::panic::catch_unwind;

use pyo3::{Python, ffi};

use super::is_main_interpreter;

/// Has `body` called by the main thread, with the GIL held. False where the interpreter's queue is full.
pub(crate) fn call_soon(body: fn(Python<'_>)) -> bool {
    // SAFETY: the function may be called from anywhere, and a function pointer fits the argument.
    unsafe { ffi::Py_AddPendingCall(Some(call), body as *mut c_void) == 0 }
}

extern "C" fn call(body: *mut c_void) -> c_int {
    // Up to CPython 3.11 the queue is that of the interpreter that happens to run when the call is added. What belongs to the
    // main interpreter must not run in another one: it would wait for the GIL that its own thread holds.
    if !is_main_interpreter() {
        return 0;
    }
    // SAFETY: only `call_soon` passes this function on, with such a function as its argument.
    let body = unsafe { std::mem::transmute::<*mut c_void, fn(Python<'_>)>(body) };
    // Nothing may unwind into the interpreter.
    // Before the interpreter has started up, and while it ends, there is nothing to do.
    let _ = catch_unwind(|| Python::try_attach(body));
    0
}
