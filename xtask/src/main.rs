//! Checks of this repository that no compiler makes, and pages that are written by code.
//!
//! `cargo run -p xtask -- tidy` checks, `cargo run -p xtask -- docs` writes what is generated.

mod generated;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let verb = std::env::args().nth(1).unwrap_or_default();
    let done = match verb.as_str() {
        "tidy" => tidy::run(&root),
        "docs" => generated::write(&root),
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy | docs");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(message) => {
            eprintln!("{verb}: {message}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
