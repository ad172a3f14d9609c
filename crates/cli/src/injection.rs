//! The environment that makes a Python program, and every Python child of it, load the agent.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use neurogc_settings::ENVIRONMENT_PREFIX;
use neurogc_settings::env::{HOME, ROOT_PID};

use crate::home::Home;

const PYTHONPATH: &str = "PYTHONPATH";

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
    fn a_colon_in_the_way_is_said() {
        assert!(python_path(Path::new("/a:b/_inject"), None).is_err_and(|error| error.contains("colon")));
    }
}
