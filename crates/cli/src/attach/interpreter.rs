//! CPython in another process: where its functions are.

use super::elf::{ElfClass, LoadedModule, SymbolPlace, class_at};
use super::memory::{MappedRange, TargetMemory, map_of};

/// Instructions that the C library contains: `syscall; ret`, and the end of every signal handler, `rt_sigreturn`.
const SYSTEM_CALL: &[u8] = &[0x0f, 0x05, 0xc3];
const SIGNAL_RETURN: &[u8] = &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Functions that hold the lock on pending calls, or call others that do.
const LOCKING: [&str; 5] = [
    "Py_AddPendingCall",
    "_PyEval_AddPendingCall",
    "Py_MakePendingCalls",
    "_PyEval_MakePendingCalls",
    "_Py_HandlePending",
];

/// The functions of an interpreter that are called, and what must not be disturbed.
#[derive(Clone, Debug)]
pub(super) struct RemotePython {
    /// As in `PY_VERSION_HEX`; zero before 3.11, which does not export it.
    pub(super) version: u32,
    pub(super) runtime: SymbolPlace,
    pub(super) functions: PythonFunctions,
    pub(super) locking: Vec<SymbolPlace>,
    /// `syscall; ret` and `rt_sigreturn`, somewhere in code that is loaded anyway.
    pub(super) system_call: u64,
    pub(super) signal_return: u64,
    pub(super) c_library: (u64, u64),
}

/// What the code in the target calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct PythonFunctions {
    pub(super) add_pending: u64,
    pub(super) run_text: u64,
    pub(super) ensure: u64,
    pub(super) release: u64,
    pub(super) own_state: u64,
    pub(super) current_state: u64,
    pub(super) is_initialized: u64,
    /// Zero where it is not exported.
    pub(super) is_finalizing: u64,
    pub(super) fetch: u64,
    pub(super) restore: u64,
    pub(super) errno_location: u64,
}

/// Why no interpreter was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unsuitable {
    /// The kernel does not let us look.
    Unreadable,
    Bits32,
    NoPython,
    /// It has Python, but lacks this.
    Lacks(String),
}

/// Looks for the interpreter in the target's memory.
pub(super) fn find(pid: u32) -> Result<RemotePython, Unsuitable> {
    let memory = TargetMemory::of(pid);
    let map = map_of(pid).map_err(|_| Unsuitable::Unreadable)?;
    let first = map.iter().find(|range| range.offset == 0 && range.name.starts_with('/'));
    let first = first.ok_or(Unsuitable::Unreadable)?;
    if class_at(memory, first.start) == Some(ElfClass::Bits32) {
        return Err(Unsuitable::Bits32);
    }
    if memory.bytes::<4>(first.start).is_err() {
        return Err(Unsuitable::Unreadable);
    }
    let modules = modules(memory, &map);
    let exporting = |name: &str| modules.iter().find(|module| module.symbol(name).is_some());
    let python = exporting("Py_AddPendingCall").ok_or(Unsuitable::NoPython)?;
    let library = exporting("__errno_location").ok_or_else(|| Unsuitable::Lacks("a C library".to_owned()))?;
    let place = |module: &LoadedModule, name: &str| {
        module.symbol(name).ok_or_else(|| Unsuitable::Lacks(format!("the function {name}")))
    };
    let function = |name: &str| place(python, name).map(|symbol| symbol.address);
    let functions = PythonFunctions {
        add_pending: function("Py_AddPendingCall")?,
        run_text: function("PyRun_SimpleString")?,
        ensure: function("PyGILState_Ensure")?,
        release: function("PyGILState_Release")?,
        own_state: function("PyGILState_GetThisThreadState")?,
        current_state: function("PyThreadState_GetUnchecked").or_else(|_| function("_PyThreadState_UncheckedGet"))?,
        is_initialized: function("Py_IsInitialized")?,
        is_finalizing: function("Py_IsFinalizing").or_else(|_| function("_Py_IsFinalizing")).unwrap_or(0),
        fetch: function("PyErr_Fetch")?,
        restore: function("PyErr_Restore")?,
        errno_location: place(library, "__errno_location")?.address,
    };
    let of_library = || map.iter().filter(|range| range.name == library.name);
    let code = || of_library().filter(|range| range.executable).chain(map.iter().filter(|range| range.executable));
    let instruction = |bytes: &[u8]| {
        code()
            .find_map(|range| position(memory, range, bytes))
            .ok_or_else(|| Unsuitable::Lacks("the instructions of a signal handler's end in its C library".to_owned()))
    };
    Ok(RemotePython {
        version: python.symbol("Py_Version").and_then(|symbol| memory.half(symbol.address).ok()).unwrap_or(0),
        runtime: place(python, "_PyRuntime")?,
        functions,
        locking: LOCKING.iter().filter_map(|name| python.symbol(name)).collect(),
        system_call: instruction(SYSTEM_CALL)?,
        signal_return: instruction(SIGNAL_RETURN)?,
        c_library: (
            of_library().map(|range| range.start).min().unwrap_or(0),
            of_library().map(|range| range.end).max().unwrap_or(0),
        ),
    })
}

fn modules(memory: TargetMemory, map: &[MappedRange]) -> Vec<LoadedModule> {
    let mut modules: Vec<LoadedModule> = Vec::new();
    for range in map.iter().filter(|range| range.offset == 0 && range.readable && range.name.starts_with('/')) {
        if modules.iter().all(|module| module.name != range.name)
            && let Ok(Some(module)) = LoadedModule::at(memory, range.start, &range.name)
        {
            modules.push(module);
        }
    }
    modules
}

/// Where these bytes are in a range.
fn position(memory: TargetMemory, range: &MappedRange, wanted: &[u8]) -> Option<u64> {
    const STEP: u64 = 1 << 16;
    let mut at = range.start;
    while at < range.end {
        // A little more than a step, so that what lies across its end is found.
        let length = (range.end - at).min(STEP + 16);
        let mut bytes = vec![0; length as usize];
        memory.read(at, &mut bytes).ok()?;
        if let Some(found) = bytes.windows(wanted.len()).position(|window| window == wanted) {
            return Some(at + found as u64);
        }
        at += STEP;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_python_is_told_apart() {
        assert_eq!(find(std::process::id()).map(|found| found.version), Err(Unsuitable::NoPython));
        assert_eq!(find(u32::MAX >> 1).map(|found| found.version), Err(Unsuitable::Unreadable));
    }
}
