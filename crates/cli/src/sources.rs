//! Where settings are read from on this machine; which one wins is decided by `neurogc-settings`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;

use neurogc_settings::{ENVIRONMENT_PREFIX, FILE_NAME, PROJECT_FILE_NAME, Sources};

/// The sources of a command that was given these keywords, and which file cannot be read and why, if one cannot.
pub(crate) fn gather(keywords: Vec<(String, String)>) -> (Sources, Option<String>) {
    let environment = env::vars_os().filter_map(ours).collect();
    let (file, unread) = file().map_or_else(|unread| (None, Some(unread)), |file| (file, None));
    // A project file is for many tools: one that cannot be read is not ours to speak of.
    let project = fs::read_to_string(PROJECT_FILE_NAME).ok().map(|text| (PathBuf::from(PROJECT_FILE_NAME), text));
    (Sources { keywords, environment, file, project }, unread)
}

/// A variable that may be a setting. Others are left out because they need not be text.
fn ours((name, value): (OsString, OsString)) -> Option<(String, String)> {
    let name = name.into_string().ok()?;
    name.starts_with(ENVIRONMENT_PREFIX).then(|| (name, value.to_string_lossy().into_owned()))
}

fn file() -> Result<Option<(PathBuf, String)>, String> {
    let named = env::var_os(neurogc_settings::env::CONFIG).filter(|name| !name.is_empty()).map(PathBuf::from);
    let asked_for = named.is_some();
    let path = named.unwrap_or_else(|| PathBuf::from(FILE_NAME));
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !asked_for => Ok(None),
        Err(error) => {
            let whence = if asked_for { " (named by NEUROGC_CONFIG)" } else { "" };
            Err(format!(
                "cannot read the settings file {}{whence}: {error}. Make it readable, or remove it to use the defaults",
                path.display()
            ))
        }
    }
}
