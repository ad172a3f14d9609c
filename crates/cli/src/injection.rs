//! The environment that makes a Python program, and every Python child of it, load the agent.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use neurogc_settings::ENVIRONMENT_PREFIX;
use neurogc_settings::env::{HOME, ROOT_PID};

use crate::home::Home;

const PYTHONPATH: &str = "PYTHONPATH";

/// What the dynamic linker loads before everything else, separated by colons or spaces.
const LD_PRELOAD: &str = "LD_PRELOAD";

/// Prepares a command to load the agent of `home` with these settings.
pub(crate) fn inject(command: &mut Command, home: &Home, settings: &[(String, String)]) -> Result<(), String> {
    inject_before(command, home, settings, env::var_os(PYTHONPATH).as_deref())
}

/// The same for a program that shall see nothing of this command's own `PYTHONPATH`.
pub(crate) fn inject_alone(command: &mut Command, home: &Home, settings: &[(String, String)]) -> Result<(), String> {
    inject_before(command, home, settings, None)
}

fn inject_before(
    command: &mut Command,
    home: &Home,
    settings: &[(String, String)],
    others: Option<&OsStr>,
) -> Result<(), String> {
    let python_path = python_path(&home.inject(), others)?;
    command.env(PYTHONPATH, python_path).env(HOME, home.folder());
    command.env(ROOT_PID, std::process::id().to_string());
    for (name, value) in settings {
        command.env(variable(name), value);
    }
    Ok(())
}

/// Has the dynamic linker load the library that samples native allocations, in the command and in its children. Where it
/// is not there, or cannot be named, the agent samples CPython's allocators only, and says so.
pub(crate) fn preload(command: &mut Command, home: &Home) {
    if let Some(library) = home.preload()
        && let Some(value) = preload_first(&library, env::var_os(LD_PRELOAD).as_deref())
    {
        command.env(LD_PRELOAD, value);
    }
}

/// `LD_PRELOAD` with our library first, and only once.
fn preload_first(library: &Path, before: Option<&OsStr>) -> Option<OsString> {
    let library = library.to_str().filter(|path| !path.contains([':', ' ', '$']))?;
    let before = before.map_or(Some(""), OsStr::to_str)?;
    let others = before.split([':', ' ']).filter(|path| !path.is_empty() && *path != library);
    Some(std::iter::once(library).chain(others).collect::<Vec<_>>().join(":").into())
}

/// The variable of a setting.
pub(crate) fn variable(setting: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", setting.to_ascii_uppercase())
}

/// `PYTHONPATH` with our folder first, and only once where `neurogc run` runs itself.
fn python_path(inject: &Path, before: Option<&OsStr>) -> Result<OsString, String> {
    let before = before.filter(|value| !value.is_empty());
    let others = before.into_iter().flat_map(env::split_paths).filter(|path| path != inject);
    env::join_paths(std::iter::once(PathBuf::from(inject)).chain(others)).map_err(|_| {
        format!("{} cannot go on PYTHONPATH, because it holds a colon. Install NeuroGC elsewhere", inject.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: Option<&str>, expect: &str) {
        let path = python_path(Path::new("/home/_inject"), before.map(OsStr::new));
        assert_eq!(path, Ok(expect.into()));
    }

    #[test]
    fn our_folder_comes_first_and_once() {
        check(None, "/home/_inject");
        check(Some(""), "/home/_inject");
        check(Some("/a:/b"), "/home/_inject:/a:/b");
        check(Some("/home/_inject:/a"), "/home/_inject:/a");
        check(Some("/a:/home/_inject"), "/home/_inject:/a");
    }

    #[test]
    fn our_library_is_loaded_first_and_once() {
        let check = |before: Option<&str>, expect: Option<&str>| {
            let value = preload_first(Path::new("/home/p.so"), before.map(OsStr::new));
            assert_eq!(value, expect.map(OsString::from));
        };
        check(None, Some("/home/p.so"));
        check(Some(""), Some("/home/p.so"));
        check(Some("/a.so /b.so"), Some("/home/p.so:/a.so:/b.so"));
        check(Some("/a.so:/home/p.so"), Some("/home/p.so:/a.so"));
        assert_eq!(preload_first(Path::new("/with space/p.so"), None), None);
    }

    #[test]
    fn a_colon_in_the_way_is_said() {
        assert!(python_path(Path::new("/a:b/_inject"), None).is_err_and(|error| error.contains("colon")));
    }
}
