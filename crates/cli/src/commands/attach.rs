//! `neurogc attach`: the agent in a process that runs already.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use neurogc_policy::Name;
use neurogc_wire::control::{Ask, Outcome};
use serde_json::json;

use crate::agents::Rendezvous;
use crate::attach::{Attachable, Execution, PlacedPackage, TextAnswer};
use crate::commands::run::{self, assignment};
use crate::failure::{CommandResult, Failure};
use crate::home::Home;
use crate::{figures, process};

/// How long the agent may take to answer, and to change its policy.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);

/// Start the agent in a Python process that runs already
///
/// The process needs no preparation and goes on as before: it is stopped for less than a millisecond, three or four times, and then its main
/// thread loads the agent. The default policy is `observe`, which only measures. Works for CPython 3.10 and later on
/// x86-64, also in containers. Needs the right to trace the process: the same user, or root.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc attach 4242\n  neurogc attach 4242 --policy auto\n  \
    sudo neurogc attach 4242 --set allocations=python\n  neurogc detach 4242")]
pub(crate) struct Arguments {
    /// The process
    #[arg(value_parser = process::number)]
    pid: u32,
    #[arg(long, value_name = "P", help = format!("When to collect: {}. The default is observe", neurogc_policy::written(", ")))]
    policy: Option<String>,
    /// Record a trace to FILE, as the process sees it
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Also report to a hub on another machine, with the token in NEUROGC_HUB_TOKEN
    #[arg(long, value_name = "URL")]
    hub: Option<String>,
    /// Change a setting; `neurogc doctor` lists all settings
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    settings: Vec<(String, String)>,
    /// How many seconds the process may take to come to it
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> CommandResult {
    let Arguments { pid, json, .. } = arguments;
    let rendezvous = Rendezvous::of_this_machine();
    if let Ok(status) = rendezvous.ask_at_once(pid, PATIENCE) {
        return already(&arguments, &rendezvous, &status.policy, out);
    }
    let patience = Duration::from_secs(arguments.timeout);
    let settings = settings(&arguments)?;
    let home = Home::find().map_err(Failure::failed)?;
    let target = Attachable::look_at(pid).map_err(Failure::failed)?;
    let package = PlacedPackage::for_target(&home, &target.facts).map_err(Failure::failed)?;
    let executed = target.execute(&code(&package, &settings), patience).and_then(|execution| {
        let answer = done(pid, &execution)?;
        Ok((execution, answer))
    });
    let (execution, answer) = executed.map_err(|reason| {
        package.remove();
        Failure::failed(reason)
    })?;
    if answer.as_deref().and_then(|answer| value(answer, "outcome")) == Some("present") {
        package.remove();
        // Another command has put it in at the same time.
        return match rendezvous.ask_newcomer(pid, PATIENCE) {
            Ok(status) => already(&arguments, &rendezvous, &status.policy, out),
            Err(_) => Err(Failure::failed(format!(
                "process {pid} has an agent already, but it does not answer. `neurogc detach {pid}` takes it out"
            ))),
        };
    }
    let version = answer.as_deref().and_then(|answer| value(answer, "python")).unwrap_or_default();
    let status = rendezvous.ask_newcomer(pid, PATIENCE);
    if json {
        let told = json!({
            "pid": pid,
            "attached": true,
            "python": version,
            "policy": status.as_ref().ok().map(|status| &status.policy),
            "way": execution.way.name(),
            "stops": execution.stops,
            "longest_stop_ms": ms(execution.longest_stop),
            "took_ms": ms(execution.took),
            "package": package.inside,
            "left_page": execution.left_page,
            "unreachable": status.as_ref().err(),
        });
        writeln!(out, "{told}")?;
        return Ok(());
    }
    let policy = status.as_ref().map_or_else(|_| "observe".to_owned(), |status| figures::plain(&status.policy_shown()));
    writeln!(
        out,
        "process {pid}: the agent is in, with policy {policy}. It was stopped for at most {:.2} ms, and loaded the agent \
         within {:.0} ms. See `neurogc status {pid}`; `neurogc detach {pid}` takes the agent out again",
        ms(execution.longest_stop),
        ms(execution.took)
    )?;
    if let Err(reason) = status {
        writeln!(out, "It cannot be asked yet: {reason}")?;
    }
    Ok(())
}

/// The process has an agent: only another policy is to be put in force, where one was named.
fn already(arguments: &Arguments, rendezvous: &Rendezvous, policy: &str, out: &mut dyn Write) -> CommandResult {
    let pid = arguments.pid;
    if arguments.trace.is_some() || arguments.hub.is_some() || !arguments.settings.is_empty() {
        return Err(Failure::failed(format!(
            "process {pid} has an agent already, whose settings stay as they are. `neurogc detach {pid}` first, and then \
             attach with other settings"
        )));
    }
    let mut after = policy.to_owned();
    if let Some(wanted) = &arguments.policy {
        let name: Name = wanted.parse().map_err(|error| Failure::usage(format!("--policy {wanted}: {error}")))?;
        let ask = Ask::Policy(crate::models::checked(name)?.to_string());
        if let Outcome::Policy { after: changed, .. } =
            rendezvous.have_done(pid, ask, PATIENCE, LONGEST).map_err(Failure::failed)?
        {
            after = changed;
        }
    }
    let (before, after) = (figures::plain(policy), figures::plain(&after));
    if arguments.json {
        writeln!(out, "{}", json!({"pid": pid, "attached": false, "policy": after, "policy_before": before}))?;
    } else if before == after {
        writeln!(out, "process {pid} has an agent already, with policy {after}. See `neurogc status {pid}`")?;
    } else {
        writeln!(out, "process {pid} has an agent already. Its policy was changed from {before} to {after}")?;
    }
    Ok(())
}

/// The settings that the agent gets as keywords. They are checked here: in the target it would be too late.
fn settings(arguments: &Arguments) -> Result<Vec<(String, String)>, Failure> {
    let policy = arguments.policy.clone().unwrap_or_else(|| "observe".to_owned());
    run::checked_settings(run::given(
        Some(&policy),
        arguments.trace.as_deref(),
        arguments.hub.as_deref(),
        &arguments.settings,
    )?)
    .map(|(given, _)| given)
}

fn code(package: &PlacedPackage, settings: &[(String, String)]) -> String {
    let pairs: Vec<_> = settings
        .iter()
        .map(|(name, value)| format!("{}: {}", crate::attach::literal(name), crate::attach::literal(value)))
        .collect();
    format!("{}answer = module.attach(home, {{{}}})\n", package.loading(), pairs.join(", "))
}

/// The lines that the target answered; nothing where it could not answer.
pub(crate) fn done(pid: u32, execution: &Execution) -> Result<Option<String>, String> {
    match &execution.answer {
        Some(TextAnswer::Done(lines)) => Ok(Some(lines.clone())),
        Some(TextAnswer::Again(reason) | TextAnswer::Failed(reason)) => {
            Err(format!("process {pid}: {}. It runs on without an agent", figures::plain(reason)))
        }
        None => Ok(None),
    }
}

/// The value of a name in lines of `name=value`.
pub(crate) fn value<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

pub(crate) fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_whole_name() {
        let answer = "outcome=installed\npython=3.12.1\nleft=a\nleft=b";
        assert_eq!(value(answer, "python"), Some("3.12.1"));
        assert_eq!(value(answer, "pyth"), None);
    }
}
