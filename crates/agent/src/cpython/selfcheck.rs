//! The look at the running interpreter when the agent is loaded: does memory look as the layout table says?
//!
//! Everything is read through `memory` and compared with what the public API answers. What does not match is left
//! out, with a reason; nothing here can fault.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::collector::{Collector, WalkEnd, walk};
use super::frames::{Frames, Types};
use super::gil::{GilView, ThreadState};
use super::layout::{Layout, Version, layout_for};
use super::threads::ThreadIds;
use super::{current_thread, runtime_address};
use crate::sys::memory;

/// A generation longer than this is only followed so far.
const LONGEST_WALK: usize = 20_000;

/// What can be read in this process, and why the rest cannot.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    pub(crate) version: Version,
    pub(crate) layout: Option<&'static Layout>,
    pub(crate) gil: Option<GilView>,
    pub(crate) collector: Option<Collector>,
    pub(crate) frames: Option<Frames>,
    pub(crate) thread_ids: Option<ThreadIds>,
    pub(crate) degraded: Vec<String>,
}

impl Interpreter {
    /// Whether enough is known of it for a policy to act.
    pub(crate) fn can_be_conducted(&self) -> bool {
        self.gil.is_some() && self.collector.is_some()
    }

    /// Looks at the interpreter that calls. Must be called from a Python function.
    pub(crate) fn examine(py: Python<'_>) -> PyResult<Self> {
        let version = version(py)?;
        let mut this = Self {
            version: version.clone(),
            layout: None,
            gil: None,
            collector: None,
            frames: None,
            thread_ids: None,
            degraded: Vec::new(),
        };
        let layout = match layout_for(&version) {
            Ok(layout) => layout,
            Err(reason) => {
                this.degraded.push(reason);
                return Ok(this);
            }
        };
        this.layout = Some(layout);
        if memory::word(&raw const layout as usize).is_none() {
            this.degraded.push(
                "the kernel denies process_vm_readv: GIL gaps, stall causes and code sites are not measured".to_owned(),
            );
            return Ok(this);
        }
        let runtime = runtime_address();
        let Some(interpreter) = memory::word(runtime + layout.runtime_main_interpreter) else {
            this.degraded.push(mismatch(&version, "the runtime"));
            return Ok(this);
        };
        match check_collector(py, layout, interpreter)? {
            Some(address) => this.collector = Some(Collector::at(address, layout)),
            None => this.degraded.push(mismatch(&version, "the collector")),
        }
        match check_gil(py, layout, runtime, interpreter)? {
            // SAFETY: `check_gil` has just found this thread holding it and the interval right.
            Some(address) => this.gil = Some(unsafe { GilView::at(address, layout) }),
            None => {
                this.degraded.push(mismatch(&version, "the GIL"));
                return Ok(this);
            }
        }
        this.thread_ids =
            ThreadIds::learn(layout).filter(|ids| ids.of(current_thread()) == Some(nix::unistd::gettid().as_raw()));
        this.frames = check_frames(py, layout)?;
        if this.thread_ids.is_none() || this.frames.is_none() {
            this.degraded.push(mismatch(&version, "threads and frames"));
        }
        Ok(this)
    }
}

fn mismatch(version: &Version, what: &str) -> String {
    format!("{what} of this {version} is not laid out as expected: what needs it is switched off")
}

fn version(py: Python<'_>) -> PyResult<Version> {
    let sys = py.import("sys")?;
    let info = sys.getattr("version_info")?;
    let name: String = sys.getattr("implementation")?.getattr("name")?.extract()?;
    let implementation = match name.as_str() {
        "cpython" => "CPython".to_owned(),
        "pypy" => "PyPy".to_owned(),
        _ => name,
    };
    let free_threaded =
        sys.getattr("abiflags").and_then(|flags| flags.extract::<String>()).is_ok_and(|flags| flags.contains('t'));
    Ok(Version {
        implementation,
        minor: info.getattr("minor")?.extract()?,
        micro: info.getattr("micro")?.extract()?,
        free_threaded,
    })
}

/// Compares thresholds, the permanent generation and the length of every list with what `gc` says.
fn check_collector(py: Python<'_>, layout: &Layout, interpreter: usize) -> PyResult<Option<usize>> {
    let gc = py.import("gc")?;
    let address = interpreter + layout.interpreter_gc;
    let was_enabled: bool = gc.call_method0("isenabled")?.extract()?;
    // Nothing may move between the generations while they are counted twice.
    gc.call_method0("disable")?;
    let equal = compare_generations(py, &gc, layout, address);
    if was_enabled {
        gc.call_method0("enable")?;
    }
    Ok(equal?.then_some(address))
}

fn compare_generations(py: Python<'_>, gc: &Bound<'_, PyModule>, layout: &Layout, address: usize) -> PyResult<bool> {
    let thresholds: [i32; 3] = gc.call_method0("get_threshold")?.extract()?;
    if memory::int(address + layout.gc_collecting) != Some(0) {
        return Ok(false);
    }
    for (generation, threshold) in thresholds.into_iter().enumerate() {
        let head = address + layout.gc_generations + generation * layout.gc_generation_size;
        if memory::int(head + layout.gc_generation_threshold) != Some(threshold) {
            return Ok(false);
        }
        let Some(walked) = walk(head, LONGEST_WALK) else { return Ok(false) };
        if let WalkEnd::Whole(length) = walked {
            let keywords = PyDict::new(py);
            keywords.set_item("generation", generation)?;
            let listed = gc.call_method("get_objects", (), Some(&keywords))?.len()?;
            // The call itself makes a few young objects.
            if listed.abs_diff(length) > if generation == 0 { 16 } else { 0 } {
                return Ok(false);
            }
        }
    }
    let frozen: usize = gc.call_method0("get_freeze_count")?.extract()?;
    Ok(match walk(address + layout.gc_permanent_generation, LONGEST_WALK) {
        Some(WalkEnd::Whole(length)) => length == frozen,
        Some(WalkEnd::Partly) => frozen >= LONGEST_WALK,
        None => false,
    })
}

fn check_gil(py: Python<'_>, layout: &Layout, runtime: usize, interpreter: usize) -> PyResult<Option<usize>> {
    let address = match (layout.runtime_gil, layout.interpreter_gil_pointer) {
        (Some(offset), _) => Some(runtime + offset),
        (None, Some(offset)) => memory::word(interpreter + offset),
        (None, None) => None,
    };
    let seconds: f64 = py.import("sys")?.call_method0("getswitchinterval")?.extract()?;
    let interval = (seconds * 1e6).round() as usize;
    Ok(address.filter(|address| {
        memory::word(address + layout.gil_interval).is_some_and(|read| read.abs_diff(interval) <= 1)
            && memory::int(address + layout.gil_locked) == Some(1)
            && memory::word(address + layout.gil_last_holder).map(ThreadState) == Some(current_thread())
    }))
}

/// Compares the running frame and its line with what the public API says.
fn check_frames(py: Python<'_>, layout: &'static Layout) -> PyResult<Option<Frames>> {
    let builtins = py.import("builtins")?;
    let frame = py.import("sys")?.call_method0("_getframe")?;
    let code = frame.getattr("f_code")?;
    let address = |object: &Bound<'_, PyAny>| object.get_type().as_ptr() as usize;
    let types = Types {
        code: address(&code),
        builtin_function: address(&builtins.getattr("len")?),
        method_descriptor: address(&builtins.getattr("str")?.getattr("join")?),
    };
    let frames = Frames::new(layout, types);
    let Some(sample) = frames.sample(current_thread()) else { return Ok(None) };
    let line: i32 = frame.getattr("f_lineno")?.extract()?;
    let name: String = code.getattr("co_name")?.extract()?;
    // A path that is no valid text cannot be compared; the rest of the line can.
    let file: String = code.getattr("co_filename")?.extract().unwrap_or_default();
    let seen = frames.site(&sample);
    Ok(seen
        .is_some_and(|seen| seen.starts_with(&file) && seen.ends_with(&format!(":{line} in {name}")))
        .then_some(frames))
}
