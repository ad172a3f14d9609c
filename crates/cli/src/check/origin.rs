//! Whose code a frame belongs to: an allocator, the interpreter, or the extension that is being checked.

use std::path::Path;

use super::NativeFrame;

/// Functions that allocate or free for their caller.
const ALLOCATORS: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "strdup",
    "strndup",
    "operator new",
    "operator delete",
    "_PyMem_",
    "_PyObject_Malloc",
    "_PyObject_Calloc",
    "PyMem_",
    "PyObject_Malloc",
    "PyObject_Calloc",
    "PyObject_Realloc",
    "PyObject_Free",
];

/// Objects of the tools and of the system, whose functions work for their callers.
const SYSTEM: &[&str] =
    &["vgpreload", "libasan", "libclang_rt", "libc.so", "libc-", "ld-linux", "libpthread", "libdl", "libstdc++"];

fn object_name(frame: &NativeFrame) -> &str {
    Path::new(&frame.object).file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Whether a frame only allocates, frees or loads for its caller.
pub(super) fn is_system(frame: &NativeFrame) -> bool {
    ALLOCATORS.iter().any(|name| frame.function.starts_with(name))
        || SYSTEM.iter().any(|name| object_name(frame).starts_with(name))
        || ["__interceptor_", "__libc_start", "_start"].iter().any(|name| frame.function.starts_with(name))
        || frame.file.starts_with("../sysdeps/")
        || frame.file.contains("/libsanitizer/")
}

/// Whether a frame is the interpreter's: the executable, its library, or a module of the standard library.
pub(super) fn is_python(frame: &NativeFrame) -> bool {
    let object = object_name(frame);
    crate::program::is_python(object)
        || object.starts_with("libpython")
        || frame.object.contains("/lib-dynload/")
        // With debug information, AddressSanitizer says the file and not the object.
        || frame.object.is_empty() && (is_source(&frame.file) || is_api(&frame.function))
}

fn is_api(function: &str) -> bool {
    !function.starts_with("PyInit_") && (function.starts_with("Py") || function.starts_with("_Py"))
}

/// Whether a file is one of CPython's own, as it is named where it was built.
fn is_source(file: &str) -> bool {
    let folders = ["Objects/", "Python/", "Modules/", "Include/", "Parser/", "Programs/"];
    folders.iter().any(|folder| file.starts_with(folder)) || file.contains("/Include/internal/")
}

/// Whether it is the loop that executes Python code: what lies beyond is not what the innermost call did.
fn is_loop(frame: &NativeFrame) -> bool {
    frame.function.starts_with("_PyEval_Eval")
        || frame.function.starts_with("PyEval_Eval")
        || frame.function == "_PyEval_Vector"
}

/// Whether memory was allocated by code of an extension, and not by the interpreter for itself.
pub(super) fn is_extension(stack: &[NativeFrame]) -> bool {
    let mut by_python = false;
    for frame in stack {
        // Interned texts live as long as the interpreter.
        if is_loop(frame) || frame.function.contains("PyUnicode_Intern") {
            return false;
        }
        if is_python(frame) {
            by_python = true;
        } else if !is_system(frame) {
            // What the interpreter allocates while a module begins is the module's, once. A frame without any name may be
            // anything: a library that was unloaded, or code made at run time.
            let is_start = by_python && frame.function.starts_with("PyInit_");
            let is_unknown = frame.function.is_empty() && frame.object.is_empty();
            return !is_start && !is_unknown;
        }
    }
    false
}

/// The frames down to the interpreter; where there are none, the innermost ones.
pub(super) fn native_part(stack: &[NativeFrame]) -> &[NativeFrame] {
    let last = stack.iter().rposition(|frame| !is_system(frame) && !is_python(frame));
    let within = stack.iter().position(is_loop).unwrap_or(stack.len());
    let end = match last {
        Some(last) if last < within => last + 1,
        _ => within.min(6),
    };
    &stack[..end]
}

#[cfg(test)]
mod tests {
    use super::super::tests::frame;
    use super::*;

    fn check(stack: &[(&str, &str)], is_the_extensions: bool) {
        let stack: Vec<_> = stack.iter().map(|(function, object)| frame(function, object)).collect();
        assert_eq!(is_extension(&stack), is_the_extensions, "{stack:?}");
    }

    #[test]
    fn what_an_extension_allocates_is_its_own() {
        let python = "/usr/bin/python3.12";
        let loops = ("_PyEval_EvalFrameDefault", python);
        check(&[("malloc", "vgpreload_memcheck.so"), ("leak", "/x/ext.so"), loops], true);
        check(&[("malloc", "vgpreload_memcheck.so"), ("PyList_New", python), ("leak", "/x/ext.so"), loops], true);
        check(&[("__interceptor_malloc", "libasan.so.8"), ("leak", ""), ("cfunction_call", python)], true);
    }

    #[test]
    fn what_the_interpreter_allocates_is_left_out() {
        let python = "/usr/lib/libpython3.13.so.1.0";
        check(
            &[("malloc", "vgpreload_memcheck.so"), ("PyUnicode_New", python), ("_PyEval_EvalFrameDefault", python)],
            false,
        );
        check(
            &[
                ("malloc", "libasan.so"),
                ("PyList_New", ""),
                ("_PyEval_EvalFrameDefault", ""),
                ("call_back", "/x/ext.so"),
            ],
            false,
        );
        check(&[("malloc", "vgpreload.so"), ("_dl_open", "/lib/ld-linux-x86-64.so.2"), ("main", "python3")], false);
        check(
            &[("calloc", "vgpreload.so"), ("f", "/usr/lib/python3.12/lib-dynload/_ssl.so"), ("main", "python3.12")],
            false,
        );
        check(&[("malloc", "libasan.so"), ("", "")], false);
        check(&[("malloc", "libasan.so"), ("Py_BytesMain", ""), ("__libc_start_call_main", ""), ("_start", "")], false);
        check(&[("malloc", "vgpreload.so"), ("PyModule_AddFunctions", "python3"), ("PyInit_x", "/x/ext.so")], false);
        check(&[("malloc", "vgpreload.so"), ("PyInit_x", "/x/ext.so")], true);
        check(&[("malloc", "vgpreload.so"), ("PyUnicode_InternInPlace", "python3"), ("f", "/x/ext.so")], false);
    }
}
