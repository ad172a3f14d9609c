//! `neurogc heap`: heap dumps, and what they say.

pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod flame;
pub(crate) mod path;
pub(crate) mod show;
mod triggers;

use std::io::Write;

use clap::Subcommand;

use crate::failure::CommandResult;

/// Find out what holds memory, from a heap dump
#[derive(Debug, Subcommand)]
pub(crate) enum HeapVerb {
    Dump(dump::Arguments),
    Show(show::Arguments),
    Path(path::Arguments),
    Diff(diff::Arguments),
    Flame(flame::Arguments),
}

impl HeapVerb {
    pub(crate) fn run(self, out: &mut dyn Write) -> CommandResult {
        match self {
            Self::Dump(arguments) => dump::run(arguments, out),
            Self::Show(arguments) => show::run(&arguments, out),
            Self::Path(arguments) => path::run(&arguments, out),
            Self::Diff(arguments) => diff::run(&arguments, out),
            Self::Flame(arguments) => flame::run(&arguments, out),
        }
    }
}
