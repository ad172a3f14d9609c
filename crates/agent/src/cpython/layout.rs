//! Where things are inside CPython: one column of offsets per minor version, in bytes, for Linux on x86-64 and aarch64,
//! which differ only in `heap_layout`.
//!
//! The names are those of CPython's structs. `tests/test_layout.py` compiles `tests/layout/offsets.c` against the
//! real headers of every interpreter it finds and compares each number; `selfcheck` tests them again in every process
//! that loads the agent.

/// The offsets of one minor version.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) runtime_main_interpreter: usize,
    /// Until 3.11 the GIL is a part of the runtime.
    pub(crate) runtime_gil: Option<usize>,
    /// From 3.12 on every interpreter points to its GIL.
    pub(crate) interpreter_gil_pointer: Option<usize>,
    pub(crate) gil_interval: usize,
    pub(crate) gil_last_holder: usize,
    pub(crate) gil_locked: usize,
    pub(crate) gil_switch_number: usize,
    pub(crate) interpreter_gc: usize,
    pub(crate) gc_generations: usize,
    pub(crate) gc_permanent_generation: usize,
    pub(crate) gc_collecting: usize,
    pub(crate) gc_long_lived_total: usize,
    pub(crate) gc_long_lived_pending: usize,
    pub(crate) gc_generation_size: usize,
    pub(crate) gc_generation_threshold: usize,
    pub(crate) gc_generation_count: usize,
    pub(crate) thread_thread_id: usize,
    /// 3.10 does not keep the kernel's thread id.
    pub(crate) thread_native_thread_id: Option<usize>,
    /// The running frame; absent where a `_PyCFrame` stands between.
    pub(crate) thread_frame: Option<usize>,
    pub(crate) thread_cframe: Option<usize>,
    pub(crate) cframe_current_frame: Option<usize>,
    pub(crate) frame_code: usize,
    /// The running instruction: a pointer, or in 3.10 an index (`f_lasti`).
    pub(crate) frame_instruction: usize,
    pub(crate) frame_previous: usize,
    pub(crate) frame_localsplus: usize,
    pub(crate) code_filename: usize,
    pub(crate) code_name: usize,
    pub(crate) code_firstlineno: usize,
    pub(crate) code_linetable: usize,
    pub(crate) code_stacksize: usize,
    pub(crate) code_nlocalsplus: usize,
    /// Where the instructions begin inside the code object; 3.10 keeps them apart.
    pub(crate) code_instructions: Option<usize>,
    pub(crate) unicode_length: usize,
    pub(crate) unicode_state: usize,
    pub(crate) unicode_ascii_data: usize,
    pub(crate) unicode_compact_data: usize,
    pub(crate) bytes_size: usize,
    pub(crate) bytes_data: usize,
    /// How many low bits of the reference count are one; the highest of them marks an immortal object, which there are
    /// from 3.12 on.
    pub(crate) object_refcount_bits: usize,
    pub(crate) object_type: usize,
    pub(crate) var_object_size: usize,
    pub(crate) cfunction_method: usize,
    pub(crate) cfunction_module: usize,
    pub(crate) method_descriptor_type: usize,
    pub(crate) method_descriptor_method: usize,
    pub(crate) method_name: usize,
    pub(crate) method_function: usize,
    pub(crate) type_name: usize,
    pub(crate) type_basicsize: usize,
    pub(crate) type_itemsize: usize,
    pub(crate) type_flags: usize,
    pub(crate) type_traverse: usize,
    pub(crate) type_weaklistoffset: usize,
    pub(crate) weakref_next: usize,
}

const V3_10: Layout = Layout {
    runtime_main_interpreter: 40,
    runtime_gil: Some(352),
    interpreter_gil_pointer: None,
    gil_interval: 0,
    gil_last_holder: 8,
    gil_locked: 16,
    gil_switch_number: 24,
    interpreter_gc: 616,
    gc_generations: 24,
    gc_permanent_generation: 104,
    gc_collecting: 200,
    gc_long_lived_total: 224,
    gc_long_lived_pending: 232,
    gc_generation_size: 24,
    gc_generation_threshold: 16,
    gc_generation_count: 20,
    thread_thread_id: 176,
    thread_native_thread_id: None,
    thread_frame: Some(24),
    thread_cframe: None,
    cframe_current_frame: None,
    frame_code: 32,
    frame_instruction: 96,
    frame_previous: 24,
    frame_localsplus: 352,
    code_filename: 104,
    code_name: 112,
    code_firstlineno: 40,
    code_linetable: 120,
    code_stacksize: 32,
    code_nlocalsplus: 28,
    code_instructions: None,
    unicode_length: 16,
    unicode_state: 32,
    unicode_ascii_data: 48,
    unicode_compact_data: 72,
    bytes_size: 16,
    bytes_data: 32,
    object_refcount_bits: 64,
    object_type: 8,
    var_object_size: 16,
    cfunction_method: 16,
    cfunction_module: 32,
    method_descriptor_type: 16,
    method_descriptor_method: 40,
    method_name: 0,
    method_function: 8,
    type_name: 24,
    type_basicsize: 32,
    type_itemsize: 40,
    type_flags: 168,
    type_traverse: 184,
    type_weaklistoffset: 208,
    weakref_next: 48,
};

const V3_11: Layout = Layout {
    runtime_main_interpreter: 48,
    runtime_gil: Some(360),
    interpreter_gc: 648,
    thread_thread_id: 152,
    thread_native_thread_id: Some(160),
    thread_frame: None,
    thread_cframe: Some(56),
    cframe_current_frame: Some(8),
    frame_instruction: 56,
    frame_previous: 48,
    frame_localsplus: 72,
    code_filename: 112,
    code_name: 120,
    code_firstlineno: 72,
    code_linetable: 136,
    code_stacksize: 68,
    code_nlocalsplus: 76,
    code_instructions: Some(184),
    ..V3_10
};

const V3_12: Layout = Layout {
    runtime_gil: None,
    interpreter_gil_pointer: Some(384),
    interpreter_gc: 112,
    thread_thread_id: 136,
    thread_native_thread_id: Some(144),
    cframe_current_frame: Some(0),
    frame_code: 0,
    frame_previous: 8,
    code_firstlineno: 68,
    code_stacksize: 64,
    code_nlocalsplus: 72,
    code_instructions: Some(192),
    unicode_ascii_data: 40,
    unicode_compact_data: 56,
    object_refcount_bits: 32,
    ..V3_11
};

const V3_13: Layout = Layout {
    runtime_main_interpreter: 640,
    interpreter_gil_pointer: Some(16),
    interpreter_gc: 7400,
    thread_thread_id: 152,
    thread_native_thread_id: Some(160),
    thread_frame: Some(72),
    thread_cframe: None,
    cframe_current_frame: None,
    code_instructions: Some(200),
    ..V3_12
};

const V3_14: Layout = Layout {
    runtime_main_interpreter: 816,
    interpreter_gc: 7408,
    gc_permanent_generation: 96,
    gc_collecting: 192,
    gc_long_lived_total: 240,
    gc_long_lived_pending: 248,
    frame_localsplus: 80,
    code_instructions: Some(208),
    ..V3_13
};

const V3_15: Layout = Layout {
    runtime_main_interpreter: 944,
    interpreter_gc: 7400,
    gc_generations: 8,
    gc_permanent_generation: 80,
    gc_collecting: 112,
    gc_long_lived_total: 152,
    gc_long_lived_pending: 160,
    thread_thread_id: 176,
    thread_native_thread_id: Some(184),
    ..V3_14
};

/// The version of the running interpreter, and what kind of build it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) implementation: String,
    pub(crate) minor: u8,
    pub(crate) micro: u8,
    pub(crate) free_threaded: bool,
}

impl Version {
    /// Whether `os.fork()` counts the threads, to warn about them, only after the parent's hooks have run: threads
    /// that were stopped for the fork must then not be back yet (gh-137109).
    pub(crate) fn counts_threads_after_fork_hooks(&self) -> bool {
        matches!((self.minor, self.micro), (13, 0..=9) | (14, 0))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let suffix = if self.free_threaded { " (free-threaded)" } else { "" };
        write!(to, "{} 3.{}.{}{suffix}", self.implementation, self.minor, self.micro)
    }
}

/// The offsets for a version, or the reason why there are none.
pub(crate) fn layout_for(version: &Version) -> Result<&'static Layout, String> {
    if version.implementation != "CPython" {
        return Err(format!("{version} is not CPython: only public APIs are used"));
    }
    if version.free_threaded {
        return Err(format!("{version} has no GIL and other collector structures: only public APIs are used"));
    }
    if !cfg!(all(target_pointer_width = "64", target_os = "linux")) {
        return Err("this platform's layout is not known: only public APIs are used".to_owned());
    }
    match (version.minor, version.micro) {
        (10, _) => Ok(&V3_10),
        (11, _) => Ok(&V3_11),
        (12, _) => Ok(&V3_12),
        (13, _) => Ok(&V3_13),
        (14, 0..=4) => Err(format!(
            "{version} has the incremental collector that 3.14.5 took back: only public APIs are used; upgrade to 3.14.5 or later"
        )),
        (14, _) => Ok(&V3_14),
        (15, _) => Ok(&V3_15),
        _ => Err(format!("{version} is newer than this NeuroGC knows: only public APIs are used")),
    }
}

/// Some layout, for tests that read nothing.
#[cfg(test)]
pub(crate) fn any() -> &'static Layout {
    &V3_12
}

impl Layout {
    /// Every offset by name, for the comparison with the real headers.
    pub(crate) fn named(&self) -> Vec<(&'static str, usize)> {
        macro_rules! named {
            ($($name:literal = $field:ident),* ; $($maybe:literal = $option:ident),*) => {{
                let mut all = vec![$(($name, self.$field)),*];
                $(if let Some(offset) = self.$option { all.push(($maybe, offset)); })*
                all
            }};
        }
        named!(
            "runtime.main_interpreter" = runtime_main_interpreter,
            "gil.interval" = gil_interval,
            "gil.last_holder" = gil_last_holder,
            "gil.locked" = gil_locked,
            "gil.switch_number" = gil_switch_number,
            "interpreter.gc" = interpreter_gc,
            "gc.generations" = gc_generations,
            "gc.permanent_generation" = gc_permanent_generation,
            "gc.collecting" = gc_collecting,
            "gc.long_lived_total" = gc_long_lived_total,
            "gc.long_lived_pending" = gc_long_lived_pending,
            "gc_generation.size" = gc_generation_size,
            "gc_generation.threshold" = gc_generation_threshold,
            "gc_generation.count" = gc_generation_count,
            "thread.thread_id" = thread_thread_id,
            "frame.code" = frame_code,
            "frame.instruction" = frame_instruction,
            "frame.previous" = frame_previous,
            "frame.localsplus" = frame_localsplus,
            "code.filename" = code_filename,
            "code.name" = code_name,
            "code.firstlineno" = code_firstlineno,
            "code.linetable" = code_linetable,
            "code.stacksize" = code_stacksize,
            "code.nlocalsplus" = code_nlocalsplus,
            "unicode.length" = unicode_length,
            "unicode.state" = unicode_state,
            "unicode.ascii_data" = unicode_ascii_data,
            "unicode.compact_data" = unicode_compact_data,
            "bytes.size" = bytes_size,
            "bytes.data" = bytes_data,
            "object.refcount_bits" = object_refcount_bits,
            "object.type" = object_type,
            "var_object.size" = var_object_size,
            "cfunction.method" = cfunction_method,
            "cfunction.module" = cfunction_module,
            "method_descriptor.type" = method_descriptor_type,
            "method_descriptor.method" = method_descriptor_method,
            "method.name" = method_name,
            "method.function" = method_function,
            "type.name" = type_name,
            "type.basicsize" = type_basicsize,
            "type.itemsize" = type_itemsize,
            "type.flags" = type_flags,
            "type.traverse" = type_traverse,
            "type.weaklistoffset" = type_weaklistoffset,
            "weakref.next" = weakref_next;
            "runtime.gil" = runtime_gil,
            "interpreter.gil_pointer" = interpreter_gil_pointer,
            "thread.native_thread_id" = thread_native_thread_id,
            "thread.frame" = thread_frame,
            "thread.cframe" = thread_cframe,
            "cframe.current_frame" = cframe_current_frame,
            "code.instructions" = code_instructions
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(minor: u8, micro: u8) -> Version {
        Version { implementation: "CPython".to_owned(), minor, micro, free_threaded: false }
    }

    #[test]
    fn the_incremental_collector_is_refused_with_a_reason() {
        let reason = layout_for(&version(14, 2)).map(|_| ()).map_err(|reason| reason.contains("3.14.5"));
        assert_eq!(reason, Err(true));
        assert!(layout_for(&version(14, 5)).is_ok());
    }

    #[test]
    fn unknown_and_free_threaded_versions_are_refused() {
        assert!(layout_for(&version(9, 1)).is_err());
        assert!(layout_for(&version(16, 0)).is_err());
        assert!(layout_for(&Version { free_threaded: true, ..version(13, 0) }).is_err());
    }
}
