//! A file that a command writes: never over another one by accident, and never half.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;

use crate::failure::{CommandResult, Failure};
use crate::notice::say;

/// Where to write.
#[derive(Debug)]
pub(crate) struct OutputFile<'p> {
    path: &'p Path,
    /// A device or a pipe is written to as it is: a rename would replace it.
    in_place: bool,
}

impl<'p> OutputFile<'p> {
    /// Checks that the path can be written to. An existing file needs `force`.
    pub(crate) fn new(path: &'p Path, force: bool) -> Result<Self, Failure> {
        let shown = path.display();
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                Err(Failure::failed(format!("{shown} is a folder. Name a file in it")))
            }
            Ok(metadata) if metadata.is_file() && !force => {
                let message = format!("{shown} exists already. Use --force to overwrite it, or -o to write elsewhere");
                Err(Failure::failed(message))
            }
            Ok(metadata) => Ok(Self { path, in_place: !metadata.is_file() }),
            Err(_) => Ok(Self { path, in_place: false }),
        }
    }

    /// Writes to a temporary file and renames it, so that the target is never incomplete.
    pub(crate) fn write(&self, write: impl FnOnce(File) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        if self.in_place {
            return File::create(self.path).map_err(anyhow::Error::from).and_then(write).with_context(failed);
        }
        let mut aside = self.path.as_os_str().to_owned();
        aside.push(format!(".{}.part", std::process::id()));
        let aside = PathBuf::from(aside);
        let written = File::create(&aside)
            .map_err(anyhow::Error::from)
            .and_then(write)
            .and_then(|()| Ok(fs::rename(&aside, self.path)?))
            .with_context(failed);
        if written.is_err() {
            let _ = fs::remove_file(&aside);
        }
        written
    }

    /// Tells where a page is that has been written.
    pub(crate) fn tell_page(&self, json: bool, out: &mut dyn Write) -> CommandResult {
        if json {
            writeln!(out, "{}", json!({"file": self.path}))?;
        } else {
            say(format_args!("wrote {}; open it in a browser", self.path.display()));
        }
        Ok(())
    }
}
