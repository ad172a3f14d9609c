//! `neurogc gpu`: who holds the memory of GPUs.

pub(crate) mod show;

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use neurogc_wire::control::{Ask, Outcome};
use neurogc_wire::finding::Finding;
use neurogc_wire::gpu::GpuReport;
use serde::Serialize;

use crate::agents::Rendezvous;
use crate::failure::{CommandResult, Failure};
use crate::gpu::listing;
use crate::{figures, process};

/// How long the agent may take to answer, and the program to come to it: a thread of its own looks.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

/// Find out who holds the memory of the GPUs that a process uses by PyTorch
///
/// It prints the memory by what it is used for (parameters, gradients, optimizer state, buffers, activations that autograd has
/// saved, other tensors, what the allocator keeps), the Python paths that hold other tensors, and the verdict on growth
/// from step to step. The main thread of the program looks at its tensors for that, which takes some hundred milliseconds.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  neurogc gpu 4242\n  neurogc gpu 4242 --json\n  neurogc gpu show snapshot.pickle"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The process, as listed by `neurogc ps`
    #[arg(value_parser = process::number, required = true)]
    pid: Option<u32>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Show(show::Arguments),
}

/// The report and the verdict, as JSON.
#[derive(Serialize)]
struct GpuLook<'a> {
    #[serde(flatten)]
    report: &'a GpuReport,
    findings: &'a [Finding],
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    if let Some(Verb::Show(arguments)) = &arguments.verb {
        return show::run(arguments, out);
    }
    let pid = arguments.pid.ok_or_else(|| Failure::usage("name a process"))?;
    let agents = Rendezvous::of_this_machine();
    let report = match agents.have_done(pid, Ask::Gpu, PATIENCE, LONGEST).map_err(Failure::failed)? {
        Outcome::Gpu(report) => report,
        other => return Err(Failure::failed(format!("process {pid} gave an unexpected answer: {other:?}"))),
    };
    let status = agents.ask(pid, PATIENCE).map_err(Failure::failed)?;
    let findings: Vec<Finding> = status.findings.into_iter().filter(|finding| finding.kind.is_of_gpu()).collect();
    if arguments.json {
        let look = GpuLook { report: &report, findings: &findings };
        writeln!(out, "{}", serde_json::to_string_pretty(&look)?)?;
    } else {
        write!(out, "{}", listing::text(&report, &findings, figures::room()))?;
    }
    Ok(())
}
