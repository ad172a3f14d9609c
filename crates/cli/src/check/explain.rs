//! Bugs of native code in words: what happened, where, to which block, and from which line of Python.

use super::{BugKind, BugReport, CheckReport, NativeFrame, origin};
use crate::figures::{bytes, count, plain};

/// Frames of native code that are shown of a stack.
const MOST_FRAMES: usize = 4;
/// Lines of Python that are shown.
const MOST_LINES: usize = 3;

/// The whole report.
pub(crate) fn text(report: &CheckReport) -> String {
    let mut text = match report.bugs.len() {
        0 => format!("{}: no bugs found\n", report.tool),
        1 => format!("{}: 1 bug\n", report.tool),
        many => format!("{}: {many} bugs\n", report.tool),
    };
    for (number, bug) in report.bugs.iter().enumerate() {
        text.push('\n');
        text.push_str(&one(number + 1, bug));
    }
    if report.leaks_of_python > 0 {
        let leaks = report.leaks_of_python;
        text.push_str(&format!("\nleft out: {} of the interpreter itself\n", several(leaks, "leak")));
    }
    for remark in &report.remarks {
        text.push_str(&format!("\nnote: {remark}\n"));
    }
    plain_lines(&text)
}

/// Names come from programs: no control character of theirs reaches the terminal.
fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

fn one(number: usize, bug: &BugReport) -> String {
    let times = if bug.count > 1 && bug.kind != BugKind::Leak {
        format!(" ({} times)", count(bug.count))
    } else {
        String::new()
    };
    let mut lines = vec![format!("{number}. {}{times}", what(bug)), format!("   {}", meaning(bug))];
    let title = if bug.kind == BugKind::Leak { "allocated" } else { "at" };
    add(&mut lines, title, &bug.stack);
    let python: Vec<_> = bug
        .python
        .iter()
        .take(MOST_LINES)
        .map(|frame| format!("{}:{} in {}", frame.file, frame.line, frame.function))
        .collect();
    add_texts(&mut lines, "Python", &python);
    if let Some(block) = &bug.block {
        add(&mut lines, "freed", &block.freed);
        add(&mut lines, "allocated", &block.allocated);
    }
    lines.join("\n") + "\n"
}

fn add(lines: &mut Vec<String>, title: &str, stack: &[NativeFrame]) {
    let own: Vec<_> = origin::native_part(stack)
        .iter()
        .filter(|frame| !origin::is_system(frame))
        .take(MOST_FRAMES)
        .map(place)
        .collect();
    let shown = if own.is_empty() { stack.iter().take(MOST_FRAMES).map(place).collect() } else { own };
    add_texts(lines, title, &shown);
}

fn add_texts(lines: &mut Vec<String>, title: &str, texts: &[String]) {
    for (index, text) in texts.iter().enumerate() {
        lines.push(format!("   {:10} {text}", if index == 0 { title } else { "" }));
    }
}

fn place(frame: &NativeFrame) -> String {
    let function = if frame.function.is_empty() { "(unknown function)" } else { &frame.function };
    if !frame.file.is_empty() {
        format!("{function} ({}:{})", frame.file, frame.line)
    } else if !frame.object.is_empty() {
        format!("{function} (in {})", frame.object)
    } else {
        function.to_owned()
    }
}

/// The function of the program that did it.
fn actor(stack: &[NativeFrame]) -> &str {
    let is_named = |frame: &&NativeFrame| !origin::is_system(frame) && !frame.function.is_empty();
    let near = origin::native_part(stack);
    let own =
        near.iter().filter(is_named).find(|frame| !origin::is_python(frame)).or_else(|| stack.iter().find(is_named));
    own.or(stack.first())
        .map_or("native code", |frame| if frame.function.is_empty() { "native code" } else { &frame.function })
}

fn several(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{} {thing}s", count(number)) }
}

/// What happened, in a sentence.
fn what(bug: &BugReport) -> String {
    let actor = actor(&bug.stack);
    let amount = several(bug.bytes, "byte");
    let block = bug.block.as_ref();
    let beside = || match block.and_then(|block| block.beyond.map(|beyond| (beyond, block.size))) {
        Some((0, size)) => format!("directly behind a block of {}", several(size, "byte")),
        Some((beyond @ 1.., size)) => {
            format!("{} behind the end of a block of {}", several(beyond as u64, "byte"), several(size, "byte"))
        }
        Some((before, size)) => {
            format!("{} before a block of {}", several(before.unsigned_abs(), "byte"), several(size, "byte"))
        }
        None => match block.filter(|block| block.size > 0) {
            Some(block) => format!("at the edge of a block of {}", several(block.size, "byte")),
            None => "where no block is".to_owned(),
        },
    };
    let of_block = || match block.filter(|block| block.size > 0) {
        Some(block) => format!("a block of {}", several(block.size, "byte")),
        None => "a block".to_owned(),
    };
    match bug.kind {
        BugKind::WriteOutside => format!("{actor}() writes {amount} {}", beside()),
        BugKind::ReadOutside => format!("{actor}() reads {amount} {}", beside()),
        BugKind::UseAfterFree => format!("{actor}() uses {} that was freed before", of_block()),
        BugKind::DoubleFree => format!("{actor}() frees {} a second time", of_block()),
        BugKind::InvalidFree => format!("{actor}() frees what it may not: {}", bug.said),
        BugKind::Uninitialised => format!("{actor}() depends on a value that was never written"),
        BugKind::Overlap => format!("{actor}() copies between two places that overlap"),
        BugKind::Leak => {
            format!("{} in {} allocated by {actor}() were never freed", bytes(bug.bytes), several(bug.count, "block"))
        }
        BugKind::Crash => format!("{actor}() crashes: {}", bug.said),
        BugKind::Other => format!("{actor}(): {}", bug.said),
    }
}

/// What it means, and what to look for.
fn meaning(bug: &BugReport) -> &'static str {
    match bug.kind {
        BugKind::WriteOutside => {
            "It damages what lies there; the program may crash much later, elsewhere. Look for an index or a length that is too large."
        }
        BugKind::ReadOutside => {
            "What it reads is not its own. Look for an index or a length that is too large, or a missing end of a string."
        }
        BugKind::UseAfterFree => {
            "The memory may be something else's by now. A reference was given back too early (Py_DECREF), or a pointer was kept too long."
        }
        BugKind::DoubleFree => {
            "The allocator's own data are damaged. Two owners free it, or one on two ways out of a function."
        }
        BugKind::InvalidFree => {
            "It was not allocated, not by the matching function (PyMem_Malloc with PyMem_Free, malloc with free), or the pointer was moved."
        }
        BugKind::Uninitialised => {
            "What it does next depends on chance. Set the value when the memory is allocated, or use calloc."
        }
        BugKind::Overlap => "The result is undefined: use memmove.",
        BugKind::Leak if is_object(&bug.stack) => {
            "It is a Python object: a reference was taken and never given back (Py_DECREF is missing on some way out)."
        }
        BugKind::Leak => "Nothing refers to it any more. Free it on every way out, or in the type's dealloc.",
        BugKind::Crash => {
            "The address belongs to nothing: a NULL pointer, one that was never set, or one that was damaged."
        }
        BugKind::Other => "See the tool's documentation for this message.",
    }
}

/// Whether what was allocated is an object of Python, made by the interpreter for an extension.
fn is_object(stack: &[NativeFrame]) -> bool {
    stack.iter().find(|frame| !origin::is_system(frame)).is_some_and(origin::is_python)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{frame, leak};
    use super::super::{BugBlock, PythonFrame};
    use super::*;

    #[test]
    fn bugs_are_told_in_words() {
        let stack = |function: &str| {
            let mut own = frame(function, "/x/ext.so");
            (own.file, own.line) = ("/x/ext.c".to_owned(), 13);
            vec![frame("malloc", "/lib/libasan.so.8"), own, frame("cfunction_call", "/usr/bin/python3.12")]
        };
        let block = |beyond, freed| Some(BugBlock { size: 80, beyond, freed, ..BugBlock::default() });
        let python = vec![PythonFrame { file: "t.py".to_owned(), line: 5, function: "run".to_owned() }];
        let mut overflow = BugReport {
            kind: BugKind::WriteOutside,
            bytes: 1,
            block: block(Some(0), vec![]),
            python,
            ..leak(stack("overflow"))
        };
        overflow.count = 9;
        let after =
            BugReport { kind: BugKind::UseAfterFree, block: block(None, stack("close")), ..leak(stack("read_it")) };
        let object =
            leak(vec![frame("malloc", "vgpreload.so"), frame("PyList_New", "python3.12"), frame("make", "/x/ext.so")]);
        let report = CheckReport {
            tool: "Valgrind".to_owned(),
            bugs: vec![overflow, after, object],
            leaks_of_python: 274,
            ..CheckReport::default()
        };
        insta::assert_snapshot!(text(&report));
    }

    #[test]
    fn nothing_is_said_of_what_is_fine() {
        let report = CheckReport { tool: "Valgrind".to_owned(), ..CheckReport::default() };
        assert_eq!(text(&report), "Valgrind: no bugs found\n");
    }
}
