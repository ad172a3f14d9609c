//! What a command line is about to start: a Python, a Python script, or something else.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where the system looks for commands when `PATH` is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// What is known about a program before it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramFacts {
    /// Whether it is run by a Python.
    python: bool,
    /// Options that keep Python from reading `PYTHONPATH` or from importing `sitecustomize`.
    hiding: Vec<char>,
}

impl ProgramFacts {
    /// Looks at a program and its arguments.
    pub(crate) fn look_at(path: &Path, arguments: &[OsString]) -> Self {
        let names = [file_name(path), fs::canonicalize(path).map(|real| file_name(&real)).unwrap_or_default()];
        if names.iter().any(|name| is_python(name)) {
            return Self { python: true, hiding: hiding_options(arguments) };
        }
        let Some((interpreter, options)) = shebang(path) else { return Self::default() };
        let name = Path::new(&interpreter);
        if !is_python(&file_name(name)) && !fs::canonicalize(name).is_ok_and(|real| is_python(&file_name(&real))) {
            return Self::default();
        }
        let options: Vec<_> = options.into_iter().map(OsString::from).collect();
        Self { python: true, hiding: hiding_options(&options) }
    }

    /// What the user should know before it runs, if anything. That a Python is too old it says itself.
    pub(crate) fn remark(&self, name: &str) -> Option<String> {
        if !self.python {
            return Some(format!("{name} is not a Python program; Python programs that it starts will be observed"));
        }
        if self.hiding.is_empty() {
            return None;
        }
        let options: Vec<_> = self.hiding.iter().map(|option| format!("-{option}")).collect();
        let keeps = if options.len() == 1 { "keeps" } else { "keep" };
        Some(format!(
            "{} {keeps} Python from loading the agent; {name} runs without NeuroGC. \
             Leave the option out, or call neurogc.install() in the program",
            options.join(" and ")
        ))
    }
}

/// Finds a command as the system would. `None` where there is no such file.
pub(crate) fn find(command: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Path::new(command).exists().then(|| command.into());
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    let candidates = std::env::split_paths(path).map(|folder| folder.join(command));
    let found: Vec<_> = candidates.filter(|candidate| candidate.is_file()).collect();
    found.iter().find(|candidate| is_executable(candidate)).or_else(|| found.first()).cloned()
}

/// Whether this user may execute a file.
pub(crate) fn is_executable(path: &Path) -> bool {
    nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}

/// The interpreter that a script names in its first line, with the options there.
pub(crate) fn shebang(path: &Path) -> Option<(String, Vec<String>)> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(1024).read_to_end(&mut head).ok()?;
    parse_shebang(&String::from_utf8_lossy(head.strip_prefix(b"#!")?))
}

fn parse_shebang(text: &str) -> Option<(String, Vec<String>)> {
    let mut lines = text.lines();
    let mut words = lines.next()?.split_whitespace().map(str::to_owned);
    let interpreter = words.next()?;
    match file_name(Path::new(&interpreter)).as_str() {
        // `env` takes options and assignments before the command.
        "env" => {
            let mut words = words.skip_while(|word| word.starts_with('-') || word.contains('='));
            Some((words.next()?, words.collect()))
        }
        // pip writes this where the interpreter's path is too long for a first line.
        "sh" => match lines.next().and_then(|line| line.strip_prefix("'''exec' ")) {
            Some(line) => Some((quoted(line)?, Vec::new())),
            None => Some((interpreter, words.collect())),
        },
        _ => Some((interpreter, words.collect())),
    }
}

fn quoted(line: &str) -> Option<String> {
    match line.strip_prefix('"') {
        Some(rest) => rest.split('"').next().map(str::to_owned),
        None => line.split_whitespace().next().map(str::to_owned),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether a file name is that of a Python interpreter: `python`, `python3`, `python3.13t`, `pypy3`.
pub(crate) fn is_python(name: &str) -> bool {
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || b".-dmtuw".contains(&byte)))
}

/// The options before the script that keep the agent out: `-I`, `-E` and `-S`.
fn hiding_options(arguments: &[OsString]) -> Vec<char> {
    let mut hiding = Vec::new();
    let mut arguments = arguments.iter().map(|argument| argument.to_string_lossy());
    while let Some(argument) = arguments.next() {
        if let Some(long) = argument.strip_prefix("--") {
            // The only long option with a value; a bare `--` ends the options.
            match long {
                "" => break,
                "check-hash-based-pycs" => drop(arguments.next()),
                _ => {}
            }
            continue;
        }
        let Some(letters) = argument.strip_prefix('-').filter(|letters| !letters.is_empty()) else { break };
        for (index, letter) in letters.char_indices() {
            match letter {
                'I' | 'E' | 'S' if !hiding.contains(&letter) => hiding.push(letter),
                'c' | 'm' => return hiding,
                'W' | 'X' => {
                    if index + 1 == letters.len() {
                        drop(arguments.next());
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    hiding
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn interpreters_are_known_by_name() {
        for name in ["python", "python3", "python3.12", "python3.13t", "python3.12d", "pypy3.10"] {
            assert!(is_python(name), "{name}");
        }
        for name in ["python-config", "pythonw.exe", "gunicorn", "py", "python3-foo"] {
            assert!(!is_python(name), "{name}");
        }
    }

    #[test]
    fn only_options_before_the_script_count() {
        let cases = [
            ("-I app.py", "I"),
            ("-bBE app.py", "E"),
            ("-W error -S app.py", "S"),
            ("-Werror -X dev -I -c pass", "I"),
            ("-c -I", ""),
            ("-m app -E", ""),
            ("app.py -I", ""),
            ("-WI app.py", ""),
            ("-u -- -I", ""),
            ("--check-hash-based-pycs never -E x", "E"),
            ("", ""),
        ];
        for (arguments, expect) in cases {
            assert_eq!(hiding_options(&words(arguments)).iter().collect::<String>(), expect, "{arguments}");
        }
    }

    #[test]
    fn first_lines_name_their_interpreter() {
        let cases = [
            ("/usr/bin/python3\n", "/usr/bin/python3"),
            (" /usr/bin/env python3.9", "python3.9"),
            ("/usr/bin/env -S PYTHONHASHSEED=0 python3 -I", "python3"),
            ("/bin/sh\n'''exec' \"/a b/python3.12\" \"$0\" \"$@\"\n' '''", "/a b/python3.12"),
            ("/bin/sh\necho", "/bin/sh"),
        ];
        for (text, expect) in cases {
            assert_eq!(parse_shebang(text).unwrap().0, expect, "{text}");
        }
        assert_eq!(parse_shebang("/usr/bin/env -S python3 -I").unwrap().1, ["-I"]);
    }

    #[test]
    fn a_remark_is_made_only_where_something_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, content: &str, arguments: &str| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            ProgramFacts::look_at(&path, &words(arguments)).remark(name).unwrap_or_default()
        };
        assert_eq!(check("python3", "", "app.py"), "");
        assert_eq!(check("gunicorn", "#!/nowhere/bin/python3\n", "app:app"), "");
        assert_eq!(check("tool", "#!/usr/bin/env python2.7\n", ""), "");
        assert!(check("python3.11", "", "-I x.py").starts_with("-I keeps Python from loading the agent"));
        assert_eq!(
            check("serve", "#!/bin/sh\n", ""),
            "serve is not a Python program; Python programs that it starts will be observed"
        );
    }
}
