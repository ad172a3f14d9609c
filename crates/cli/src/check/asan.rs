//! Running a command with AddressSanitizer preloaded, and reading its reports.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{BugBlock, BugKind, BugReport, NativeFrame, PythonFrame, origin};

/// How to get it.
pub(crate) const MISSING: &str = "AddressSanitizer's library was not found. It comes with a compiler: install one with \
    `sudo apt install gcc` (Debian, Ubuntu) or `sudo dnf install gcc libasan` (Fedora), or name the one that the extension was built \
    with in CC";

/// What CPython needs: an allocation that fails returns NULL, `dlopen`ed libraries may have the same names, and stacks are read by
/// tables, because it is built without frame pointers. On an error the program aborts, so that the Python lines can be told.
/// Leaks do not: many are the interpreter's own.
const OPTIONS: &str = "abort_on_error=1:handle_abort=0:exitcode=0:detect_leaks=1:allocator_may_return_null=1:detect_odr_violation=0:\
    fast_unwind_on_malloc=0:malloc_context_size=30:symbolize=1:log_path=";

/// The library of a compiler, with the one of C++ that it has to know of.
#[derive(Debug)]
pub(crate) struct Library {
    asan: PathBuf,
    cxx: Option<PathBuf>,
}

/// Asks compilers for their library: the one in `CC`, then the usual ones.
pub(crate) fn library() -> Option<Library> {
    let named = std::env::var("CC").ok();
    let compilers = named.iter().filter_map(|words| words.split_whitespace().next()).chain(["cc", "gcc", "clang"]);
    for compiler in compilers {
        let runtime = format!("libclang_rt.asan-{}.so", std::env::consts::ARCH);
        for name in ["libasan.so", runtime.as_str(), "libclang_rt.asan.so"] {
            if let Some(asan) = file_of(compiler, name) {
                return Some(Library { asan, cxx: file_of(compiler, "libstdc++.so.6") });
            }
        }
    }
    None
}

/// A file that a compiler knows. It answers with the name alone where there is none.
fn file_of(compiler: &str, name: &str) -> Option<PathBuf> {
    let done = Command::new(compiler).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(done.stdout).ok()?.trim());
    path.is_absolute().then(|| fs::canonicalize(path).ok()).flatten()
}

/// The command that runs `words` with the library. Reports go to the folder.
pub(crate) fn command(words: &[OsString], folder: &Path, library: &Library) -> Option<Command> {
    let (name, rest) = words.split_first()?;
    let mut command = Command::new(name);
    command.args(rest);
    let before = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let mut preload = library.asan.clone().into_os_string();
    for other in
        library.cxx.iter().map(|path| path.as_os_str()).chain([before.as_os_str()]).filter(|path| !path.is_empty())
    {
        preload.push(":");
        preload.push(other);
    }
    command.env("LD_PRELOAD", preload);
    command.env("ASAN_OPTIONS", options("ASAN_OPTIONS", OPTIONS, &folder.join("asan")));
    command.env("LSAN_OPTIONS", options("LSAN_OPTIONS", "exitcode=0:log_path=", &folder.join("asan")));
    Some(command)
}

/// Ours, then the user's own, which count for more.
fn options(variable: &str, ours: &str, log: &Path) -> OsString {
    let mut value = OsString::from(ours);
    value.push(log);
    if let Some(own) = std::env::var_os(variable).filter(|own| !own.is_empty()) {
        value.push(":");
        value.push(own);
    }
    value
}

/// What a folder of reports says.
#[derive(Debug, Default)]
pub(crate) struct AsanFindings {
    pub(crate) bugs: Vec<BugReport>,
    pub(crate) leaks_of_python: u64,
    pub(crate) remarks: Vec<String>,
}

/// Reads all reports of a folder, with the Python lines that were written beside them.
pub(crate) fn read_all(folder: &Path) -> AsanFindings {
    let mut findings = AsanFindings::default();
    let Ok(entries) = fs::read_dir(folder) else { return findings };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some(pid) = name.strip_prefix("asan.") else { continue };
        let text =
            |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let python = python_frames(&text(&folder.join(format!("python.{pid}"))));
        read(&text(&path), pid.parse().unwrap_or(0), &python, &mut findings);
    }
    findings
}

/// What a stack that follows is.
enum Part {
    Where,
    Freed,
    Allocated,
    Nothing,
}

/// Adds what one report says.
fn read(text: &str, pid: u32, python: &[PythonFrame], findings: &mut AsanFindings) {
    let mut bug: Option<BugReport> = None;
    let mut part = Part::Nothing;
    for line in text.lines() {
        if let Some((_, said)) = line.split_once("ERROR: AddressSanitizer: ") {
            finish(bug.take(), findings);
            bug = Some(new(kind(said), said, pid, python));
            part = Part::Where;
        } else if line.starts_with("Direct leak of ") {
            finish(bug.take(), findings);
            let mut leak = new(BugKind::Leak, line.trim_end_matches(" allocated from:"), pid, &[]);
            let numbers = numbers(line);
            leak.bytes = numbers.first().copied().unwrap_or(0);
            leak.count = numbers.get(1).copied().unwrap_or(1);
            bug = Some(leak);
            part = Part::Where;
        } else if line.starts_with("Indirect leak of ") || line.starts_with("SUMMARY: ") {
            finish(bug.take(), findings);
            part = Part::Nothing;
        } else if line.contains("LeakSanitizer has encountered a fatal error") {
            let remark = "leaks were not looked for: LeakSanitizer may not trace its own process here (ptrace)";
            findings.remarks.push(remark.to_owned());
        } else if let Some(bug) = &mut bug {
            let line = line.trim();
            let block = |bug: &mut BugReport| std::mem::take(bug.block.get_or_insert_default());
            if line.starts_with("READ of size") || line.starts_with("WRITE of size") {
                bug.bytes = numbers(line).first().copied().unwrap_or(0);
                if bug.kind == BugKind::WriteOutside && line.starts_with("READ") {
                    bug.kind = BugKind::ReadOutside;
                }
            } else if line.starts_with("freed by thread") {
                part = Part::Freed;
            } else if line.starts_with("previously allocated by") || line.starts_with("allocated by thread") {
                part = Part::Allocated;
            } else if let Some((_, place)) = line.split_once(" is located ") {
                let was = block(bug);
                bug.block = Some(BugBlock { allocated: was.allocated, freed: was.freed, ..described(place) });
            } else if let Some(frame) = frame(line) {
                match part {
                    Part::Where => bug.stack.push(frame),
                    Part::Freed => bug.block.get_or_insert_default().freed.push(frame),
                    Part::Allocated => bug.block.get_or_insert_default().allocated.push(frame),
                    Part::Nothing => {}
                }
            }
        }
    }
    finish(bug, findings);
}

fn new(kind: BugKind, said: &str, pid: u32, python: &[PythonFrame]) -> BugReport {
    let said = said.split(" on address ").next().unwrap_or(said).trim().to_owned();
    BugReport { kind, bytes: 0, said, stack: Vec::new(), block: None, python: python.to_vec(), count: 1, pid }
}

fn finish(bug: Option<BugReport>, findings: &mut AsanFindings) {
    let Some(bug) = bug else { return };
    if bug.kind == BugKind::Leak && !origin::is_extension(&bug.stack) {
        findings.leaks_of_python += 1;
    } else {
        findings.bugs.push(bug);
    }
}

fn kind(said: &str) -> BugKind {
    let begins = |name: &str| said.starts_with(name);
    let word = said.split([' ', ':']).next().unwrap_or_default();
    if begins("heap-use-after-free") || begins("use-after-poison") {
        BugKind::UseAfterFree
    } else if begins("attempting double-free") {
        BugKind::DoubleFree
    } else if begins("attempting free") || begins("bad-free") || begins("alloc-dealloc-mismatch") {
        BugKind::InvalidFree
    } else if word.ends_with("-param-overlap") {
        BugKind::Overlap
    } else if ["SEGV", "BUS", "FPE", "ILL", "stack-overflow"].contains(&word) {
        BugKind::Crash
    } else if word.ends_with("-overflow") || word.ends_with("-underflow") {
        BugKind::WriteOutside
    } else {
        BugKind::Other
    }
}

/// "0 bytes after 80-byte region", or "3 bytes inside of 48-byte region"; older versions say "to the right of".
fn described(place: &str) -> BugBlock {
    let found = numbers(place);
    let (offset, size) = (found.first().copied().unwrap_or(0), found.get(1).copied().unwrap_or(0));
    let block = BugBlock { size, ..BugBlock::default() };
    if place.contains(" after ") || place.contains("to the right of") {
        BugBlock { beyond: Some(offset as i64), ..block }
    } else if place.contains(" before ") || place.contains("to the left of") {
        BugBlock { beyond: Some(-(offset as i64)), ..block }
    } else {
        BugBlock { inside: Some(offset), ..block }
    }
}

/// The decimal numbers of a line.
fn numbers(line: &str) -> Vec<u64> {
    line.split(|character: char| !character.is_ascii_alphanumeric()).filter_map(|word| word.parse().ok()).collect()
}

/// "#1 0x7f in overflow /x/ext.c:13", or "#1 0x7f in main (/usr/bin/python3.12+0x1) (BuildId: 5)".
fn frame(line: &str) -> Option<NativeFrame> {
    let rest = line.strip_prefix('#')?;
    let rest = rest.split_once(" 0x")?.1;
    let (_, rest) = rest.split_once(' ')?;
    let rest = rest.split(" (BuildId:").next()?.trim();
    let mut frame = NativeFrame::default();
    let named = rest.strip_prefix("in ").unwrap_or(rest);
    let (function, place) = match named.rfind(" (") {
        Some(at) if named.ends_with(')') => (&named[..at], &named[at + 2..named.len() - 1]),
        None if named.starts_with('(') => ("", named.trim_matches(['(', ')'])),
        // A name of C++ may hold spaces; the place is the last word.
        _ => named.rsplit_once(' ').unwrap_or((named, "")),
    };
    function.trim().clone_into(&mut frame.function);
    if let Some((object, _)) = place.rsplit_once("+0x") {
        object.clone_into(&mut frame.object);
    } else {
        let mut parts = place.splitn(3, ':');
        parts.next().unwrap_or_default().clone_into(&mut frame.file);
        frame.line = parts.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    }
    Some(frame)
}

/// The lines of the thread that failed, as faulthandler writes them.
fn python_frames(text: &str) -> Vec<PythonFrame> {
    let begins = |line: &&str| line.starts_with("Current thread") || line.starts_with("Stack (most recent call first)");
    let lines = text.lines().skip_while(|line| !begins(line)).skip(1);
    let frame = |line: &str| {
        let (file, rest) = line.trim().strip_prefix("File \"")?.split_once("\", line ")?;
        let (line, function) = rest.split_once(" in ")?;
        Some(PythonFrame { file: file.to_owned(), line: line.parse().ok()?, function: function.to_owned() })
    };
    lines.map_while(frame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "=================================================================
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x7f bp 0x7f sp 0x7f
WRITE of size 1 at 0x60 thread T0
    #0 0x7f2a in overflow /x/ext.c:13
    #1 0x55aa in cfunction_vectorcall_NOARGS (/usr/bin/python3.12+0x15) (BuildId: 77)
    #2 0x55aa in f(int, char) Objects/call.c:325:9

0x60 is located 0 bytes after 80-byte region [0x10,0x60)
allocated by thread T0 here:
    #0 0x7f2b in malloc (/lib/libasan.so.8+0xf) (BuildId: 88)
    #1 0x7f2a in overflow /x/ext.c:12

SUMMARY: AddressSanitizer: heap-buffer-overflow /x/ext.c:13 in overflow
Shadow bytes around the buggy address:
    #9 0x1 in nothing /x/y.c:1
";

    const LEAKS: &str = "==7==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 2468 byte(s) in 2 object(s) allocated from:
    #0 0x7f2b in malloc (/lib/libasan.so.8+0xf)
    #1 0x7f2a in leak /x/ext.c:40

Direct leak of 60 byte(s) in 1 object(s) allocated from:
    #0 0x7f2b in malloc (/lib/libasan.so.8+0xf)
    #1 0x55aa in PyUnicode_New (/usr/bin/python3.12+0x15)
    #2 0x55aa in _PyEval_EvalFrameDefault (/usr/bin/python3.12+0x15)

Indirect leak of 32 byte(s) in 1 object(s) allocated from:
    #0 0x7f2b in malloc (/lib/libasan.so.8+0xf)
    #1 0x7f2a in leak /x/ext.c:44

SUMMARY: AddressSanitizer: 2560 byte(s) leaked in 4 allocation(s).
";

    #[test]
    fn an_overflow_is_read_with_its_block() {
        let mut findings = AsanFindings::default();
        let python = python_frames(
            "Fatal Python error: Aborted\n\nCurrent thread 0x00007f (most recent call first):\n  File \"/x/t.py\", line 5 in run\n  File \"/x/t.py\", line 9 in <module>\n\nExtension modules: ext (total: 1)\n",
        );
        read(TEXT, 7, &python, &mut findings);
        let [bug] = &findings.bugs[..] else { panic!("{findings:?}") };
        assert_eq!((bug.kind, bug.bytes, bug.stack.len(), bug.python.len()), (BugKind::WriteOutside, 1, 3, 2));
        assert_eq!((bug.stack[0].file.as_str(), bug.stack[0].line), ("/x/ext.c", 13));
        assert_eq!(bug.stack[1].object, "/usr/bin/python3.12");
        let last = &bug.stack[2];
        assert_eq!((last.function.as_str(), last.file.as_str(), last.line), ("f(int, char)", "Objects/call.c", 325));
        let block = bug.block.clone().unwrap_or_default();
        assert_eq!((block.size, block.beyond, block.allocated.len(), block.freed.len()), (80, Some(0), 2, 0));
    }

    #[test]
    fn leaks_of_an_extension_are_told_and_those_of_the_interpreter_counted() {
        let mut findings = AsanFindings::default();
        read(LEAKS, 7, &[], &mut findings);
        let seen: Vec<_> = findings.bugs.iter().map(|bug| (bug.kind, bug.bytes, bug.count)).collect();
        assert_eq!((seen, findings.leaks_of_python), (vec![(BugKind::Leak, 2468, 2)], 1));
    }

    #[test]
    fn kinds_are_those_of_valgrind() {
        let check = |said, expect| assert_eq!(kind(said), expect, "{said}");
        check("heap-use-after-free on address 0x1", BugKind::UseAfterFree);
        check("attempting double-free on 0x1 in thread T0:", BugKind::DoubleFree);
        check("attempting free on address which was not malloc()-ed: 0x1", BugKind::InvalidFree);
        check("stack-buffer-overflow on address 0x1", BugKind::WriteOutside);
        check("memcpy-param-overlap: memory ranges", BugKind::Overlap);
        check("SEGV on unknown address 0x0", BugKind::Crash);
        check("stack-overflow on address 0x1", BugKind::Crash);
    }
}
