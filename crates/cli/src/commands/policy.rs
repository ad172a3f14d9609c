//! `neurogc policy`: the policy of a running process, or another one.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use neurogc_policy::Name;
use neurogc_wire::control::{Ask, Outcome};
use neurogc_wire::status::{Status, shown_policy};
use serde_json::json;

use crate::agents::Rendezvous;
use crate::failure::{CommandResult, Failure};
use crate::{figures, models, process};

/// How long the agent may take to answer, and to come to it.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);

/// Show or change the policy of a running process
///
/// Without P, shows the policy in force. Another policy stays in force until the process ends or the policy is changed again. Child processes forked from then on
/// inherit it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  neurogc policy 4242\n  neurogc policy 4242 gap\n  neurogc policy 4242 observe\n  \
                        neurogc policy 4242 threshold:50000,10,10"
)]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`
    #[arg(value_parser = process::number)]
    pid: u32,
    #[arg(help = format!("One of {}", neurogc_policy::written(", ")))]
    policy: Option<Name>,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let Arguments { pid, policy, json } = arguments;
    let rendezvous = Rendezvous::of_this_machine();
    let Some(policy) = policy else {
        let status = rendezvous.ask(*pid, PATIENCE).map_err(Failure::failed)?;
        return show(&status, *json, out);
    };
    let ask = Ask::Policy(models::checked(policy.clone())?.to_string());
    match rendezvous.have_done(*pid, ask, PATIENCE, LONGEST).map_err(Failure::failed)? {
        Outcome::Policy { before, after } if *json => writeln!(out, "{}", json!({"before": before, "after": after}))?,
        Outcome::Policy { before, after } => {
            let shown = shown_policy(&policy.to_string(), &after);
            writeln!(
                out,
                "process {pid}: policy changed from {} to {}",
                figures::plain(&before),
                figures::plain(&shown)
            )?;
        }
        other => return Err(Failure::failed(format!("process {pid} gave an unexpected answer: {other:?}"))),
    }
    Ok(())
}

fn show(status: &Status, json: bool, out: &mut dyn Write) -> CommandResult {
    let acts = status.conduct.acting;
    if json {
        writeln!(out, "{}", json!({"policy": status.policy, "policy_set": status.policy_set, "acting": acts}))?;
    } else {
        let acts = if acts { "it decides when to collect" } else { "it only watches" };
        writeln!(out, "process {}: policy {}, {acts}", status.pid, figures::plain(&status.policy_shown()))?;
    }
    Ok(())
}
