//! `neurogc trace`: what is done with recorded traces.

pub(crate) mod export;
pub(crate) mod show;

use std::io::Write;

use clap::Subcommand;

use crate::failure::CommandResult;

/// Read a recorded trace
#[derive(Debug, Subcommand)]
pub(crate) enum TraceVerb {
    Show(show::Arguments),
    Export(export::Arguments),
}

impl TraceVerb {
    pub(crate) fn run(self, out: &mut dyn Write) -> CommandResult {
        match self {
            Self::Show(arguments) => show::run(&arguments, out),
            Self::Export(arguments) => export::run(&arguments, out),
        }
    }
}
