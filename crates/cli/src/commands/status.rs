//! `neurogc status`: one report about one process, or one after the other.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use neurogc_wire::status::Status;

use crate::agents::Rendezvous;
use crate::failure::{CommandResult, Failure};
use crate::notice::say;
use crate::{figures, paint, process, report, verdict};

/// How long the agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two reports of `--watch`.
const EVERY: Duration = Duration::from_secs(2);

/// Report on one process: what is the matter, requests, collections, stalls, memory
///
/// The first line is the verdict: what held the program up in the last five minutes, where, and what to do next.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc status 4242\n  neurogc status 4242 --since 1m\n  \
                        neurogc status 4242 --watch\n  neurogc status 4242 --json | jq .findings[0].text")]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`
    #[arg(value_parser = process::number)]
    pid: u32,
    /// How far back the verdict and the figures of the last minutes go, for instance 30s or 2m; the agent keeps 5 minutes
    #[arg(long, value_name = "T", value_parser = figures::seconds)]
    since: Option<u32>,
    /// Report again every two seconds until the process ends
    #[arg(long)]
    watch: bool,
    /// Print the report as JSON; with --watch, one line for each report
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let rendezvous = Rendezvous::of_this_machine();
    let ask = || rendezvous.ask_since(arguments.pid, arguments.since, PATIENCE);
    let mut status = ask().map_err(Failure::failed)?;
    if let Some(remark) = shorter_than_asked(&status, arguments.since) {
        say(remark);
    }
    loop {
        show(&status, arguments, out)?;
        if !arguments.watch {
            return Ok(());
        }
        out.flush()?;
        std::thread::sleep(EVERY);
        status = match ask() {
            Ok(status) => status,
            Err(_) if process::look_up(arguments.pid).is_none() => {
                say(format!("process {} has ended", arguments.pid));
                return Ok(());
            }
            Err(trouble) => return Err(Failure::failed(trouble)),
        };
    }
}

fn show(status: &Status, arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    if arguments.json && arguments.watch {
        writeln!(out, "{}", serde_json::to_string(status)?)?;
    } else if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(status)?)?;
    } else {
        if arguments.watch && io::stdout().is_terminal() {
            // To the top, and away with what was there.
            write!(out, "\x1b[H\x1b[2J\x1b[3J")?;
        }
        let text = report::text(status, figures::room());
        let verdict = verdict::findings(status).first().map(|finding| finding.kind);
        write!(out, "{}", if paint::is_wanted() { paint::report(&text, verdict) } else { text })?;
    }
    Ok(())
}

/// What to say where there is less than was asked for.
fn shorter_than_asked(status: &Status, since: Option<u32>) -> Option<String> {
    let asked = f64::from(since?);
    let window = status.window.seconds;
    (window + 0.5 < asked).then(|| {
        let (asked, window) = (figures::span(asked), figures::span(window));
        format!(
            "there are figures of the last {window} only, not of {asked}: the agent keeps 5 minutes, without start-up"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_window_shorter_than_asked_for_is_told() {
        let status = samples::service();
        assert_eq!(shorter_than_asked(&status, None), None);
        assert_eq!(shorter_than_asked(&status, Some(60)), None);
        let remark = shorter_than_asked(&status, Some(3600)).unwrap_or_default();
        assert!(remark.starts_with("there are figures of the last 1 m 59 s only, not of 1 h 00 m"), "{remark}");
    }
}
