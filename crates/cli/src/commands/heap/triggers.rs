//! `neurogc heap dump --on-… -- CMD`: a program that writes its dumps itself.

use std::ffi::OsString;
use std::path::Path;

use clap::Args;

use crate::commands::run;
use crate::failure::{CommandResult, Failure};

/// When a program shall write a dump.
#[derive(Debug, Args)]
#[group(id = "triggers", multiple = true, conflicts_with = "pid", requires = "command")]
pub(crate) struct Triggers {
    /// Start CMD, and write a dump when a MemoryError ends one of its threads or requests
    #[arg(long)]
    on_oom: bool,
    /// Start CMD, and write a dump when memory comes to this share of its limit
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "90", require_equals = false)]
    on_limit: Option<String>,
    /// Start CMD, and write a dump on this signal: USR1, USR2, HUP or URG
    #[arg(long, value_name = "SIGNAL")]
    on_signal: Option<String>,
}

impl Triggers {
    fn setting(&self) -> String {
        let limit = self.on_limit.as_ref().map(|percent| format!("limit={percent}"));
        let words = [self.on_oom.then(|| "oom".to_owned()), limit, self.on_signal.clone()];
        words.into_iter().flatten().collect::<Vec<_>>().join(",")
    }

    /// Becomes the command, which writes dumps to the folder while there are not so many of them.
    pub(super) fn start(
        &self,
        folder: Option<&Path>,
        files: Option<u32>,
        texts: bool,
        command: Vec<OsString>,
    ) -> CommandResult {
        let mut settings = vec![("heap_dump_on".to_owned(), self.setting())];
        if let Some(folder) = folder {
            let path = std::path::absolute(folder)?;
            if !path.is_dir() {
                return Err(Failure::usage(format!("{} is no folder; the dumps are written to it", folder.display())));
            }
            let path = path.to_str().ok_or_else(|| Failure::usage("the path of --output must be valid UTF-8"))?;
            settings.push(("heap_dump_folder".to_owned(), path.to_owned()));
        }
        settings.extend(files.map(|files| ("heap_dump_files".to_owned(), files.to_string())));
        if !texts {
            settings.push(("heap_dump_text".to_owned(), "false".to_owned()));
        }
        run::run(run::Arguments::with(settings, command))
    }
}
