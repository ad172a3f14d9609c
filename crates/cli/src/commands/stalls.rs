//! `neurogc stalls`: where a process has stalled, by Python stack.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use neurogc_sites::{Flame, export};
use neurogc_wire::stacks::StallStack;
use neurogc_wire::status::Status;

use crate::agents::Rendezvous;
use crate::failure::{CommandResult, Failure};
use crate::figures::{count, ms, plain};
use crate::process;
use crate::target::OutputFile;

/// How long the agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Show where a process has stalled since its start, by Python stack
///
/// The stacks that stalled longest come first, each with the place and its callers. An agent keeps 16 stacks of 8 frames.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc stalls 4242\n  neurogc stalls 4242 --json\n  \
                        neurogc stalls 4242 -o stalls.html               a flame graph in one HTML file\n  \
                        neurogc stalls 4242 --collapsed > stalls.txt     for speedscope, inferno or flamegraph.pl")]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`
    #[arg(value_parser = process::number)]
    pid: u32,
    /// Print one line for each stack, outermost frame first, with its microseconds: what flame graphs are made from
    #[arg(long, conflicts_with = "json")]
    collapsed: bool,
    /// Print the stacks as JSON; with -o, what was written
    #[arg(long)]
    json: bool,
    /// Write a flame graph to this HTML file, which loads nothing; widths are time in stalls
    #[arg(short, long, value_name = "OUT", conflicts_with = "collapsed")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let status = Rendezvous::of_this_machine().ask_since(arguments.pid, None, PATIENCE).map_err(Failure::failed)?;
    let stacks = &status.stalls.stacks;
    if let Some(path) = &arguments.output {
        draw(&status, path, arguments, out)?;
    } else if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(stacks)?)?;
    } else if arguments.collapsed {
        write!(out, "{}", collapsed(stacks))?;
    } else if stacks.is_empty() {
        writeln!(out, "process {} has not stalled at a known place", arguments.pid)?;
    } else {
        write!(out, "{}", text(stacks))?;
    }
    Ok(())
}

/// Writes the flame graph.
fn draw(status: &Status, path: &Path, arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let target = OutputFile::new(path, arguments.force)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let since = now.saturating_sub((status.uptime_s * 1e3) as u64);
    let page = export::page::encode(&Flame::of_stalls(status.pid, now, since, &status.stalls.stacks))?;
    target.write(|mut file| Ok(file.write_all(page.as_bytes())?))?;
    target.tell_page(arguments.json, out)
}

/// Stacks for a person.
fn text(stacks: &[StallStack]) -> String {
    let mut text = String::new();
    for stack in stacks {
        let [total, longest] = [stack.total_ms, stack.max_ms].map(ms);
        let (cause, times) = (stack.cause.name(), count(stack.count));
        let gap = if text.is_empty() { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{gap}{total} in {times} stalls, longest {longest}: {cause}");
        for frame in &stack.frames {
            let _ = writeln!(text, "  {}", plain(frame));
        }
    }
    text
}

/// One line for each stack, as tools for flame graphs read it. The cause is the innermost frame.
fn collapsed(stacks: &[StallStack]) -> String {
    let mut lines = String::new();
    for stack in stacks {
        let frames = stack.frames.iter().rev().map(|frame| plain(frame).replace(';', ","));
        let frames = frames.chain([format!("[{}]", stack.cause.name())]).collect::<Vec<_>>().join(";");
        let _ = writeln!(lines, "{frames} {:.0}", stack.total_ms * 1000.0);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn stacks_are_shown_innermost_first() {
        let expected = "1.3 s in 8 stalls, longest 412 ms: gc\n  shop/app.py:41 in basket\n  shop/routes.py:77 in show\n  \
                        starlette/routing.py:73 in app\n";
        assert_eq!(text(&samples::service().stalls.stacks), expected);
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn collapsed_stacks_begin_outside_and_have_a_weight() {
        let mut stacks = samples::service().stalls.stacks;
        stacks[0].frames[1] = "a;b.py:1 in f".to_owned();
        let expected = "starlette/routing.py:73 in app;a,b.py:1 in f;shop/app.py:41 in basket;[gc] 1312500\n";
        assert_eq!(collapsed(&stacks), expected);
    }
}
