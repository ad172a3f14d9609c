//! Bugs of native code, as Valgrind and AddressSanitizer report them: one form for both, whose code it is, and what it means.

pub(crate) mod asan;
pub(crate) mod explain;
mod origin;
pub(crate) mod suppressions;
pub(crate) mod valgrind;

use serde::Serialize;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BugKind {
    /// Memory was read behind or before a block.
    ReadOutside,
    /// Memory was written behind or before a block.
    WriteOutside,
    /// A block was used after it was freed.
    UseAfterFree,
    /// A block was freed twice.
    DoubleFree,
    /// Something was freed that is no block, or by the wrong function.
    InvalidFree,
    /// A decision depends on a value that was never written.
    Uninitialised,
    /// Source and target of a copy overlap.
    Overlap,
    /// Memory that nothing refers to any more was never freed.
    Leak,
    /// A signal ended the program.
    Crash,
    /// Something else.
    Other,
}

/// A function that was being executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct NativeFrame {
    /// Empty where it is not known.
    pub(crate) function: String,
    /// The source file; empty without debug information.
    pub(crate) file: String,
    pub(crate) line: u32,
    /// The library or executable; empty where it is not known.
    pub(crate) object: String,
}

/// A line of Python that was being executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct PythonFrame {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) function: String,
}

/// The block of memory that a report is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct BugBlock {
    pub(crate) size: u64,
    /// Bytes from its end where that is positive, from its beginning where it is negative; none where it is inside.
    pub(crate) beyond: Option<i64>,
    /// Bytes from its beginning, where it is inside.
    pub(crate) inside: Option<u64>,
    pub(crate) allocated: Vec<NativeFrame>,
    pub(crate) freed: Vec<NativeFrame>,
}

/// One bug.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BugReport {
    pub(crate) kind: BugKind,
    /// Bytes that were read or written, or that are lost.
    pub(crate) bytes: u64,
    /// What the tool said.
    pub(crate) said: String,
    /// Where it happened, the innermost function first; for a leak, where the memory was allocated.
    pub(crate) stack: Vec<NativeFrame>,
    pub(crate) block: Option<BugBlock>,
    /// The Python code that was running, the innermost call first; empty where that is not known.
    pub(crate) python: Vec<PythonFrame>,
    /// How often it happened.
    pub(crate) count: u64,
    pub(crate) pid: u32,
}

/// All that came of a check.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct CheckReport {
    pub(crate) tool: String,
    /// What the command ended with; above 128 it is a signal.
    pub(crate) exit_code: i32,
    pub(crate) bugs: Vec<BugReport>,
    /// Leaks of the interpreter itself, which are left out.
    pub(crate) leaks_of_python: u64,
    /// What could not be checked.
    pub(crate) remarks: Vec<String>,
}

/// Folds bugs of the same kind at the same place.
pub(crate) fn fold(bugs: Vec<BugReport>) -> Vec<BugReport> {
    let mut folded: Vec<BugReport> = Vec::new();
    for bug in bugs {
        match folded.iter_mut().find(|known| known.kind == bug.kind && same_place(&known.stack, &bug.stack)) {
            Some(known) => {
                known.count += bug.count;
                if bug.kind == BugKind::Leak {
                    known.bytes += bug.bytes;
                }
            }
            None => folded.push(bug),
        }
    }
    folded
}

/// Whether two stacks are the same as far as the native code of a program goes: what Python had called it does not matter.
fn same_place(one: &[NativeFrame], other: &[NativeFrame]) -> bool {
    origin::native_part(one) == origin::native_part(other)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A frame of a function in an object.
    pub(crate) fn frame(function: &str, object: &str) -> NativeFrame {
        NativeFrame { function: function.to_owned(), object: object.to_owned(), ..NativeFrame::default() }
    }

    /// A leak with a stack.
    pub(crate) fn leak(stack: Vec<NativeFrame>) -> BugReport {
        BugReport {
            kind: BugKind::Leak,
            bytes: 10,
            said: String::new(),
            stack,
            block: None,
            python: Vec::new(),
            count: 1,
            pid: 1,
        }
    }

    #[test]
    fn the_same_place_is_told_once_whatever_python_did() {
        let at = |function: &str, caller: &str| {
            leak(vec![frame("malloc", "vgpreload.so"), frame(function, "ext.so"), frame(caller, "python3.12")])
        };
        let folded = fold(vec![at("f", "cfunction_call"), at("f", "vectorcall"), at("g", "cfunction_call")]);
        let figures: Vec<_> = folded.iter().map(|bug| (bug.count, bug.bytes)).collect();
        assert_eq!(figures, [(2, 20), (1, 10)]);
    }
}
