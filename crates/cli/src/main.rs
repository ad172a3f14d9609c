//! The `neurogc` command: it starts programs under the agent, and shows what the agents saw.
//!
//! It meets an agent only as a file to inject and a socket to speak to.

#![deny(unsafe_code)]

mod agent_socket;
mod agents;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "ptrace has no safe interface")]
mod attach;
mod bench;
mod check;
mod columns;
mod commands;
mod container;
mod demo;
mod failure;
mod figures;
mod gpu;
mod heap;
mod home;
mod injection;
mod kernel;
mod latency;
mod live;
mod memory;
mod models;
mod notice;
mod nudge;
mod own_hub;
mod paint;
mod plot;
mod probe;
mod process;
mod program;
mod report;
#[cfg(test)]
mod samples;
mod simulation;
mod sources;
mod stalls;
mod table;
mod target;
mod trace;
mod training;
mod verdict;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::commands::Verb;
use crate::failure::CommandResult;

/// See why a Python program stalls or grows: its collections, stalls, requests and memory, live
#[derive(Debug, Parser)]
#[command(name = "neurogc", version, after_help = "Start with:\n  neurogc run -- python app.py\n  neurogc ps")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            notice::say(&failure);
            ExitCode::from(failure.code())
        }
    }
}

/// Not locked: the terminal UI and a panic in another thread must be able to write too.
fn run(verb: Verb) -> CommandResult {
    let mut out = io::BufWriter::new(io::stdout());
    verb.run(&mut out)?;
    Ok(out.flush()?)
}
