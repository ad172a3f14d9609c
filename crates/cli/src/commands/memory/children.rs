//! `neurogc memory PID --children`: the memory of a process and of everything below it.

use std::io::Write;

use crate::agents::Rendezvous;
use crate::failure::{CommandResult, Failure};
use crate::figures;
use crate::memory::children;
use crate::memory::subject::PATIENCE;

/// Has the agent look now, and prints what it finds.
pub(super) fn show(pid: u32, json: bool, out: &mut dyn Write) -> CommandResult {
    let report = Rendezvous::of_this_machine().children(pid, 4 * PATIENCE).map_err(Failure::failed)?;
    if json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?);
    }
    Ok(write!(out, "{}", children::text(&report, figures::room()))?)
}
