//! What Valgrind finds in the interpreter itself: it is found out once for each interpreter, and left out from then on.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::valgrind;
use crate::notice::say;
use crate::program;

/// What the interpreter does for it: it starts, imports what many programs need, has a thread and ends.
const CODE: &str = "
import importlib
for name in ('asyncio collections concurrent.futures contextlib csv ctypes dataclasses datetime decimal email.message hashlib heapq '
             'inspect json logging math pickle random re shutil socket ssl struct subprocess tempfile threading typing unittest uuid '
             'xml.etree.ElementTree zlib').split():
    try:
        importlib.import_module(name)
    except ImportError:
        pass
import threading
thread = threading.Thread(target=lambda: [str(number) for number in range(100)])
thread.start()
thread.join()
";

/// Frames of a suppression that are kept.
const FRAMES: usize = 4;

/// Raised whenever what is kept for an interpreter is made otherwise.
const MADE: u32 = 2;

/// Valgrind's word for a name that is still to be given.
const UNNAMED: &str = "<insert_a_suppression_name_here>";

/// The interpreter that a command is run by, where that can be told.
pub(crate) fn interpreter(words: &[OsString]) -> Option<PathBuf> {
    let path = env::var_os("PATH");
    let found = program::find(words.first()?, path.as_deref())?;
    let is_python = |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(program::is_python);
    if is_python(&found) {
        return Some(found);
    }
    let named = program::find(&OsString::from(program::shebang(&found)?.0), path.as_deref())?;
    is_python(&named).then_some(named)
}

/// The file of suppressions for an interpreter, which is made where there is none. Empty where that fails.
pub(crate) fn file(interpreter: Option<&Path>, folder: &Path) -> Result<PathBuf, std::io::Error> {
    let none = folder.join("none.supp");
    fs::write(&none, "")?;
    let Some(python) = interpreter else { return Ok(none) };
    let Some(kept) = kept(python) else { return made(python, folder, &none) };
    if kept.is_file() {
        return Ok(kept);
    }
    let made = made(python, folder, &none)?;
    if let Some(parent) = kept.parent() {
        // Where it cannot be kept, it is made again next time.
        let part = kept.with_extension(std::process::id().to_string());
        let _ = fs::create_dir_all(parent).and_then(|()| fs::copy(&made, &part)).and_then(|_| fs::rename(&part, &kept));
    }
    Ok(made)
}

/// Where it is kept: by the interpreter's file and Valgrind's version.
fn kept(python: &Path) -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))?;
    let real = fs::canonicalize(python).ok()?;
    let facts = fs::metadata(&real).ok()?;
    let version = Command::new("valgrind").arg("--version").output().ok()?.stdout;
    let mut hasher = DefaultHasher::new();
    (real, facts.mtime(), facts.size(), version, CODE, MADE).hash(&mut hasher);
    Some(cache.join("neurogc").join("check").join(format!("{:016x}.supp", hasher.finish())))
}

fn made(python: &Path, folder: &Path, none: &Path) -> Result<PathBuf, std::io::Error> {
    say(format!("finding out what Valgrind has to say of {} itself; this is done once", python.display()));
    let reports = folder.join("interpreter");
    fs::create_dir_all(&reports)?;
    let words = [python.as_os_str().to_owned(), "-s".into(), "-c".into(), CODE.into()];
    let mut command = valgrind::command(&words, &reports, none);
    // Not by -I, which would have the interpreter pass over PYTHONMALLOC, too.
    command.env_remove("PYTHONPATH").env_remove("PYTHONSTARTUP");
    command.env("PYTHONMALLOC", "malloc").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status()?;
    let path = folder.join("interpreter.supp");
    let found = valgrind::read_all(&reports).suppressions;
    fs::write(&path, text(&found))?;
    Ok(path)
}

/// The innermost frames are enough to know it by: from where the interpreter came there differs from program to program.
fn text(suppressions: &[String]) -> String {
    let mut known: Vec<String> = Vec::new();
    for suppression in suppressions {
        let mut frames = 0;
        let kept = suppression.lines().filter(|line| {
            let is_frame = ["fun:", "obj:", "src:", "..."].iter().any(|kind| line.trim_start().starts_with(kind));
            frames += usize::from(is_frame);
            !is_frame || frames <= FRAMES
        });
        let kept = kept.collect::<Vec<_>>().join("\n");
        if !known.contains(&kept) {
            known.push(kept);
        }
    }
    let named = |(number, text): (usize, String)| text.replace(UNNAMED, &format!("the interpreter, {}", number + 1));
    known.into_iter().enumerate().map(named).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_and_is_known_by_its_innermost_frames() {
        let from = |caller: &str| {
            let frames = ["a", "b", "c", "d", caller].map(|function| format!("   fun:{function}\n")).concat();
            format!("{{\n   <insert_a_suppression_name_here>\n   Memcheck:Cond\n{frames}}}")
        };
        let written = text(&[from("e"), from("f")]);
        let frames = "   fun:a\n   fun:b\n   fun:c\n   fun:d\n";
        assert_eq!(written, format!("{{\n   the interpreter, 1\n   Memcheck:Cond\n{frames}}}"));
    }
}
