//! Running a command under Valgrind's memcheck, and reading its XML.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::Command;

use roxmltree::{Document, Node, ParsingOptions};

use super::{BugBlock, BugKind, BugReport, NativeFrame, PythonFrame, origin};

/// Frames of a stack. Valgrind takes no more than 500.
const FRAMES: &str = "--num-callers=60";

/// What stands before the Python lines that `_check.py` writes into the XML.
const PYTHON: &str = "neurogc-python ";

/// How to get it.
pub(crate) const MISSING: &str = "Valgrind is not installed. Install it with `sudo apt install valgrind` (Debian, Ubuntu) or \
    `sudo dnf install valgrind` (Fedora), or use --asan";

/// The command that runs `words` under memcheck. Each process that is executed writes an XML file of its own to the folder.
pub(crate) fn command(words: &[OsString], folder: &Path, suppressions: &Path) -> Command {
    let mut command = Command::new("valgrind");
    let option = |name: &str, path: &Path| {
        let mut word = OsString::from(name);
        word.push(path);
        word
    };
    command.args(["--tool=memcheck", "--xml=yes", "--quiet", FRAMES]);
    // Children of a fork would write to the same file.
    command.args(["--trace-children=yes", "--child-silent-after-fork=yes"]);
    command.args(["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
    command.args(["--track-origins=yes", "--error-limit=no", "--keep-debuginfo=yes", "--gen-suppressions=all"]);
    command.arg(option("--xml-file=", &folder.join("%p.xml")));
    command.arg(option("--suppressions=", suppressions));
    command.args(words);
    command
}

/// Whether Valgrind can be started.
pub(crate) fn is_there() -> bool {
    crate::program::find(OsStr::new("valgrind"), std::env::var_os("PATH").as_deref()).is_some()
}

/// What one folder of XML files says.
#[derive(Debug, Default)]
pub(crate) struct ValgrindFindings {
    pub(crate) bugs: Vec<BugReport>,
    pub(crate) leaks_of_python: u64,
    /// Values that were never written, in code and memory of the interpreter alone.
    pub(crate) doubts_of_python: u64,
    pub(crate) suppressions: Vec<String>,
    pub(crate) unread: Vec<String>,
    /// Whether a program has begun to run.
    pub(crate) has_begun: bool,
}

/// Reads all files of a folder.
pub(crate) fn read_all(folder: &Path) -> ValgrindFindings {
    let mut findings = ValgrindFindings::default();
    let Ok(entries) = fs::read_dir(folder) else { return findings };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
    paths.sort();
    for path in paths {
        let text = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        if let Err(error) = read(&text, &mut findings) {
            findings.unread.push(format!("{}: {error}", path.display()));
        }
    }
    findings
}

/// Adds what one XML file says.
pub(crate) fn read(text: &str, findings: &mut ValgrindFindings) -> Result<(), roxmltree::Error> {
    let whole = mended(text);
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&whole, options)?;
    let root = document.root_element();
    let pid = number(root, "pid").unwrap_or(0) as u32;
    findings.has_begun |= root.children().any(|node| node.has_tag_name("status"));
    let mut counts = Vec::new();
    for pair in root.children().filter(|node| node.has_tag_name("errorcounts")).flat_map(|node| node.children()) {
        if let (Some(unique), Some(count)) = (text_of(pair, "unique"), number(pair, "count")) {
            counts.push((unique.to_owned(), count));
        }
    }
    for raw in root.descendants().filter(|node| node.has_tag_name("rawtext")) {
        let text: String = raw.children().filter_map(|part| part.text()).collect();
        if !text.contains("Memcheck:Leak") {
            findings.suppressions.push(text.trim().to_owned());
        }
    }
    // Errors since the last message, whose Python lines come with the next one.
    let mut waiting = findings.bugs.len();
    for node in root.children() {
        if node.has_tag_name("clientmsg") {
            let python = text_of(node, "text").and_then(|text| text.trim().strip_prefix(PYTHON)).map(python_frames);
            if let Some(python) = python {
                for bug in &mut findings.bugs[waiting..] {
                    bug.python.clone_from(&python);
                }
            }
            waiting = findings.bugs.len();
        } else if node.has_tag_name("error") {
            let Some(mut bug) = bug(node, pid) else { continue };
            let unique = text_of(node, "unique").unwrap_or_default();
            let count = counts.iter().find(|(known, _)| known == unique).map_or(1, |(_, count)| *count);
            if bug.kind == BugKind::Leak && !origin::is_extension(&bug.stack) {
                findings.leaks_of_python += 1;
                continue;
            }
            let made = bug.block.as_ref().map_or(&[][..], |block| &block.allocated);
            if bug.kind == BugKind::Uninitialised && !origin::is_extension(&bug.stack) && !origin::is_extension(made) {
                findings.doubts_of_python += 1;
                continue;
            }
            bug.count = bug.count.max(count);
            findings.bugs.push(bug);
        }
    }
    Ok(())
}

/// A file whose process was killed ends in the middle of an element.
fn mended(text: &str) -> std::borrow::Cow<'_, str> {
    const END: &str = "</valgrindoutput>";
    if text.trim_end().ends_with(END) {
        return text.into();
    }
    let end = ["</error>", "</clientmsg>", "</status>", "</preamble>"]
        .iter()
        .filter_map(|tag| text.rfind(tag).map(|at| at + tag.len()))
        .max()
        .unwrap_or(text.len());
    format!("{}\n{END}", &text[..end]).into()
}

fn text_of<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.children().find(|child| child.has_tag_name(name))?.text()
}

fn number(node: Node<'_, '_>, name: &str) -> Option<u64> {
    text_of(node, name)?.trim().parse().ok()
}

/// One error. None for kinds that were not asked for.
fn bug(node: Node<'_, '_>, pid: u32) -> Option<BugReport> {
    let kind = text_of(node, "kind")?;
    let extended = node.children().find(|child| child.has_tag_name("xwhat"));
    let said = text_of(node, "what").or_else(|| text_of(extended?, "text")).unwrap_or_default().to_owned();
    // Stacks come after the text that they belong to: the first is where it happened.
    let mut stacks: Vec<(String, Vec<NativeFrame>)> = vec![(String::new(), Vec::new())];
    let mut title = None;
    for child in node.children() {
        match child.tag_name().name() {
            "auxwhat" => title = Some(child.text().unwrap_or_default().to_owned()),
            "xauxwhat" => title = text_of(child, "text").map(str::to_owned),
            "stack" => match title.take() {
                Some(title) => stacks.push((title, frames(child))),
                None if stacks[0].1.is_empty() => stacks[0].1 = frames(child),
                None => {}
            },
            _ => {}
        }
    }
    let stack = std::mem::take(&mut stacks[0].1);
    let mut block = None;
    for (title, frames) in stacks.into_iter().skip(1) {
        if title.starts_with("Block was alloc'd") || title.starts_with("Uninitialised value was created") {
            block.get_or_insert_with(BugBlock::default).allocated = frames;
        } else if let Some(mut found) = described(&title) {
            if title.contains("free'd") {
                found.freed = frames
            } else {
                found.allocated = frames
            }
            block = Some(found);
        }
    }
    let bytes = extended.and_then(|node| number(node, "leakedbytes")).or_else(|| size_in(&said)).unwrap_or(0);
    let is_freed = block.as_ref().is_some_and(|block| !block.freed.is_empty());
    let kind = match kind {
        "InvalidRead" | "InvalidWrite" if is_freed => BugKind::UseAfterFree,
        "InvalidRead" => BugKind::ReadOutside,
        "InvalidWrite" => BugKind::WriteOutside,
        "InvalidFree" if is_freed => BugKind::DoubleFree,
        "InvalidFree" | "MismatchedFree" => BugKind::InvalidFree,
        "UninitCondition" | "UninitValue" | "SyscallParam" | "ClientCheck" => BugKind::Uninitialised,
        "Overlap" => BugKind::Overlap,
        "Leak_DefinitelyLost" => BugKind::Leak,
        _ if kind.starts_with("Leak_") => return None,
        _ => BugKind::Other,
    };
    let count = extended.and_then(|node| number(node, "leakedblocks")).unwrap_or(1);
    Some(BugReport { kind, bytes, said, stack, block, python: Vec::new(), count, pid })
}

/// "Address 0x5 is 0 bytes after a block of size 80 alloc'd".
fn described(text: &str) -> Option<BugBlock> {
    let rest = text.split_once(" is ")?.1;
    let (offset, rest) = rest.split_once(" bytes ")?;
    let offset: u64 = offset.replace(',', "").parse().ok()?;
    let size = size_in(rest)?;
    let block = BugBlock { size, ..BugBlock::default() };
    Some(match rest.split(' ').next()? {
        "after" => BugBlock { beyond: Some(offset as i64), ..block },
        "before" => BugBlock { beyond: Some(-(offset as i64)), ..block },
        _ => BugBlock { inside: Some(offset), ..block },
    })
}

/// The number behind "of size".
fn size_in(text: &str) -> Option<u64> {
    let digits = text.split_once("of size ")?.1;
    let digits: String =
        digits.chars().take_while(|character| character.is_ascii_digit() || *character == ',').collect();
    digits.replace(',', "").parse().ok()
}

fn frames(stack: Node<'_, '_>) -> Vec<NativeFrame> {
    let frames = stack.children().filter(|node| node.has_tag_name("frame"));
    frames
        .map(|frame| {
            let file = match (text_of(frame, "dir"), text_of(frame, "file")) {
                (Some(folder), Some(file)) => format!("{folder}/{file}"),
                (None, Some(file)) => file.to_owned(),
                _ => String::new(),
            };
            NativeFrame {
                function: text_of(frame, "fn").unwrap_or_default().to_owned(),
                file,
                line: number(frame, "line").unwrap_or(0) as u32,
                object: text_of(frame, "obj").unwrap_or_default().to_owned(),
            }
        })
        .collect()
}

/// The frames that `_check.py` wrote: file, line and function, each frame ended by a tab.
fn python_frames(text: &str) -> Vec<PythonFrame> {
    let frame = |part: &str| {
        let (rest, function) = part.rsplit_once('|')?;
        let (file, line) = rest.rsplit_once('|')?;
        Some(PythonFrame { file: file.to_owned(), line: line.parse().ok()?, function: function.to_owned() })
    };
    text.split('\t').filter_map(frame).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const XML: &str = r#"<?xml version="1.0"?>
<valgrindoutput>
<pid>7</pid>
<error><unique>0x0</unique><kind>InvalidWrite</kind><what>Invalid write of size 1</what>
 <stack><frame><obj>/x/ext.so</obj><fn>overflow</fn><dir>/x</dir><file>ext.c</file><line>13</line></frame></stack>
 <auxwhat>Address 0x5 is 0 bytes after a block of size 80 alloc'd</auxwhat>
 <stack><frame><fn>malloc</fn></frame><frame><fn>overflow</fn></frame></stack>
 <suppression><rawtext>
<![CDATA[
{
   <insert_a_suppression_name_here>
   Memcheck:Addr1
   fun:overflow
}
]]>
</rawtext></suppression></error>
<clientmsg><tid>1</tid><text>neurogc-python /x/a|b.py|5|f	/x/main.py|9|&lt;module&gt;	  </text></clientmsg>
<error><unique>0x1</unique><kind>InvalidFree</kind><what>Invalid free()</what>
 <stack><frame><fn>free</fn></frame></stack>
 <auxwhat>Address 0x5 is 0 bytes inside a block of size 1,032 free'd</auxwhat>
 <stack><frame><fn>free</fn></frame></stack>
 <auxwhat>Block was alloc'd at</auxwhat><stack><frame><fn>malloc</fn></frame></stack></error>
<error><unique>0x2</unique><kind>Leak_DefinitelyLost</kind>
 <xwhat><text>1,234 bytes in 2 blocks are definitely lost</text><leakedbytes>1234</leakedbytes><leakedblocks>2</leakedblocks></xwhat>
 <stack><frame><fn>malloc</fn></frame><frame><fn>leak</fn><obj>/x/ext.so</obj></frame></stack></error>
<error><unique>0x3</unique><kind>Leak_DefinitelyLost</kind><xwhat><text>.</text><leakedbytes>3</leakedbytes></xwhat>
 <stack><frame><fn>malloc</fn></frame><frame><fn>PyUnicode_New</fn><obj>/usr/bin/python3.12</obj></frame></stack></error>
<errorcounts><pair><count>9</count><unique>0x0</unique></pair></errorcounts>
"#;

    #[test]
    fn a_file_is_read_even_where_its_end_is_missing() {
        for text in [format!("{XML}</valgrindoutput>"), XML.to_owned(), format!("{XML}<error><unique>0x")] {
            let mut findings = ValgrindFindings::default();
            read(&text, &mut findings).unwrap();
            let seen: Vec<_> = findings.bugs.iter().map(|bug| (bug.kind, bug.bytes, bug.count, bug.pid)).collect();
            let counted = if text.ends_with("</valgrindoutput>") { 9 } else { 1 };
            let expected =
                [(BugKind::WriteOutside, 1, counted, 7), (BugKind::DoubleFree, 0, 1, 7), (BugKind::Leak, 1234, 2, 7)];
            assert_eq!(seen, expected);
            assert_eq!(findings.leaks_of_python, 1);
            let suppression = "{\n   <insert_a_suppression_name_here>\n   Memcheck:Addr1\n   fun:overflow\n}";
            assert_eq!(findings.suppressions, [suppression]);
        }
    }

    #[test]
    fn python_lines_belong_to_the_errors_before_them() {
        let mut findings = ValgrindFindings::default();
        read(XML, &mut findings).unwrap();
        let lines: Vec<_> = findings.bugs[0].python.iter().map(|frame| (frame.file.as_str(), frame.line)).collect();
        assert_eq!(lines, [("/x/a|b.py", 5), ("/x/main.py", 9)]);
        assert!(findings.bugs[1].python.is_empty());
    }

    #[test]
    fn a_block_is_described_by_where_the_access_lies() {
        let check = |text: &str, beyond, inside, size| {
            let block = described(text).unwrap();
            assert_eq!((block.beyond, block.inside, block.size), (beyond, inside, size));
        };
        check("Address 0x5 is 4 bytes after a block of size 80 alloc'd", Some(4), None, 80);
        check("Address 0x5 is 1,008 bytes before a block of size 2,000 alloc'd", Some(-1008), None, 2000);
        check("Address 0x5 is 3 bytes inside a block of size 48 free'd", None, Some(3), 48);
        assert!(described("Address 0x5 is not stack'd, malloc'd or (recently) free'd").is_none());
    }
}
