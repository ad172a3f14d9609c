//! `neurogc detach`: the agent out of a process that goes on running.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::attach::{Attachable, PlacedPackage, remove_folder};
use crate::commands::attach::{done, ms, value};
use crate::failure::{CommandResult, Failure};
use crate::home::Home;
use crate::{figures, process};

/// Take the agent out of a process, which goes on running
///
/// The process collects as it would have without the agent, with the thresholds it had. What cannot be taken out is
/// listed; it does nothing any more. Also works for a process that was started with `neurogc run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc detach 4242\n  neurogc detach 4242 --json")]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`
    #[arg(value_parser = process::number)]
    pid: u32,
    /// How many seconds the process may take to come to it
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let Arguments { pid, timeout, json } = *arguments;
    let home = Home::find().map_err(Failure::failed)?;
    let target = Attachable::look_at(pid).map_err(Failure::failed)?;
    let package = PlacedPackage::for_target(&home, &target.facts).map_err(Failure::failed)?;
    let code = format!("{}answer = module.detach()\n", package.loading());
    let executed = target.execute(&code, Duration::from_secs(timeout));
    package.remove();
    let execution = executed.map_err(Failure::failed)?;
    let answer = done(pid, &execution).map_err(Failure::failed)?.unwrap_or_default();
    if value(&answer, "outcome") == Some("none") {
        return Err(Failure::failed(format!("process {pid} has no agent")));
    }
    if let Some(copy) = value(&answer, "home") {
        let _ = remove_folder(pid, copy);
    }
    let left: Vec<_> = answer.lines().filter_map(|line| line.strip_prefix("left=")).map(figures::plain).collect();
    if json {
        let told = json!({
            "pid": pid,
            "detached": true,
            "left": left,
            "way": execution.way.name(),
            "stops": execution.stops,
            "longest_stop_ms": ms(execution.longest_stop),
            "took_ms": ms(execution.took),
            "left_page": execution.left_page,
        });
        writeln!(out, "{told}")?;
        return Ok(());
    }
    writeln!(
        out,
        "process {pid}: the agent is out. It was stopped for at most {:.2} ms. What stays, and does nothing:",
        ms(execution.longest_stop)
    )?;
    for line in left {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}
