//! `neurogc heap dump`: all objects of a running process in a file.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use neurogc_heap::{DumpStream, Intake};
use neurogc_wire::control::{Ask, GatheredPages, Outcome, dump_pipe};
use serde_json::json;

use super::triggers::Triggers;
use crate::agents::Rendezvous;
use crate::failure::{CommandResult, Failure};
use crate::figures;
use crate::nudge::Nudge;
use crate::process;

/// How long the agent may take to answer, and a thread of the program to come by and make the clone.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(120);

/// How often the agent is asked whether there will be a dump, and how long for its figures afterwards.
const ASK_EVERY: Duration = Duration::from_millis(200);
const FIGURES: Duration = Duration::from_secs(5);

/// From here on a stop is worth a word about what would make it shorter.
const LONG_STOP_MS: f64 = 5.0;

/// How much of a dump waits in memory for the disk at most.
const WAITING: usize = 1 << 30;

/// Write all objects of a running process to a file
///
/// The program stands still only while its process is cloned; the clone writes the dump. Only you can read the file: it
/// has the beginning of every string, unless --no-text is given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc heap dump 4242\n  neurogc heap dump 4242 -o before.ngch --no-text\n  \
    neurogc heap dump --on-oom --on-limit 90% -o /var/dumps -- python app.py")]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`
    #[arg(value_parser = process::number, required_unless_present = "command")]
    pid: Option<u32>,
    /// The file to write; heap-PID.ngch if it is not given. With --on-…: the folder for the dumps
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave out the values of strings and integers, except for names
    #[arg(long)]
    no_text: bool,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    triggers: Triggers,
    /// With --on-…: how many dumps there may be in the folder [default: 2]
    #[arg(long, value_name = "N", requires = "triggers")]
    files: Option<u32>,
    /// A command to start, with its arguments
    #[arg(value_name = "CMD", last = true, requires = "triggers", conflicts_with_all = ["pid", "json"])]
    command: Vec<OsString>,
}

/// How much nicer than other programs the command is while it reads a dump: as the clone that writes it.
const NICER: i32 = 10;

/// What the agent says about the dump.
#[derive(Clone, Debug, Default)]
struct DumpFigures {
    pause_ms: f64,
    flight_ms: f64,
    pages: GatheredPages,
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> CommandResult {
    match arguments.pid {
        Some(pid) => take(pid, &arguments, out),
        None => {
            let Arguments { output, files, no_text, command, triggers, .. } = arguments;
            triggers.start(output.as_deref(), files, !no_text, command)
        }
    }
}

fn take(pid: u32, arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let Arguments { no_text, json, .. } = arguments;
    let rendezvous = Rendezvous::of_this_machine();
    let socket = rendezvous.socket(pid).map_err(Failure::failed)?;
    let path = arguments.output.clone().unwrap_or_else(|| free_name(pid));
    let failed = |what: &str, error: io::Error| Failure::failed(format!("{what}: {error}"));
    let (pipe, at) = dump_pipe(socket.folder(), pid, std::process::id());
    let mut intake = Intake::make(&at)
        .map_err(|error| failed(&format!("no pipe for the dump in {}", socket.folder().display()), error))?;
    let part = PathBuf::from(format!("{}.part", path.display()));
    let file = private_file(&part).map_err(|error| failed(&part.display().to_string(), error))?;
    // The program comes first where both want the same processor.
    let _ = rustix::process::nice(NICER);
    let ask = Ask::Dump { pipe, text: !no_text };
    let ticket = rendezvous.have_begun(pid, ask, PATIENCE).map_err(|reason| {
        let _ = std::fs::remove_file(&part);
        Failure::failed(reason)
    })?;

    let mut bar = DumpBar::new(pid);
    let mut nudge = Nudge::new(pid);
    let (mut told, mut asked, began) = (None, Instant::now(), Instant::now());
    let (stream, outcome) = intake.copy_to(file, WAITING, |stream| {
        bar.show(stream);
        if asked.elapsed() < ASK_EVERY {
            return Ok(true);
        }
        asked = Instant::now();
        nudge.try_now();
        bar.gathering = if stream.bytes == 0 { rendezvous.gathering(pid, PATIENCE) } else { None };
        match rendezvous.outcome(pid, ticket, PATIENCE)? {
            // The clone has ended. What is still in the pipe is read until it is empty.
            Some(outcome) => {
                let over = told.replace(outcome).is_some();
                Ok(!over)
            }
            None if stream.bytes == 0 && began.elapsed() > LONGEST => Err(format!(
                "process {pid} made no clone within {} s; it will when one of its threads runs Python code",
                LONGEST.as_secs()
            )),
            None => Ok(true),
        }
    });
    bar.clear();
    if !stream.is_complete() {
        return Err(incomplete(&part, &path, &stream, outcome));
    }
    outcome.map_err(Failure::failed)?;
    std::fs::rename(&part, &path).map_err(|error| failed(&path.display().to_string(), error))?;
    let figures = told
        .or_else(|| wait_for_figures(&rendezvous, pid, ticket, &mut nudge))
        .map_or_else(DumpFigures::default, figures_of);
    report(pid, &path, &stream, figures, *json, out)
}

/// A dump that ends early is kept if it has objects: it can be read as far as it goes.
fn incomplete(part: &Path, path: &Path, stream: &DumpStream, outcome: Result<(), String>) -> Failure {
    let reason =
        outcome.err().unwrap_or_else(|| "the clone of the process has ended before it was complete".to_owned());
    if stream.came == 0 {
        let _ = std::fs::remove_file(part);
        return Failure::failed(reason);
    }
    let _ = std::fs::rename(part, path);
    let share = stream.share() * 100.0;
    Failure::failed(format!(
        "{reason}. {} has {share:.0} % of the objects and can be read as far as it goes",
        path.display()
    ))
}

fn wait_for_figures(rendezvous: &Rendezvous, pid: u32, ticket: u64, nudge: &mut Nudge) -> Option<Outcome> {
    let deadline = Instant::now() + FIGURES;
    while Instant::now() < deadline {
        match rendezvous.outcome(pid, ticket, PATIENCE) {
            Ok(Some(outcome)) => return Some(outcome),
            Ok(None) => {
                std::thread::sleep(Duration::from_millis(20));
                nudge.try_now();
            }
            Err(_) => return None,
        }
    }
    None
}

fn figures_of(outcome: Outcome) -> DumpFigures {
    match outcome {
        Outcome::Dumped { pause_ms, flight_ms, pages, .. } => DumpFigures { pause_ms, flight_ms, pages },
        _ => DumpFigures::default(),
    }
}

fn report(
    pid: u32,
    path: &Path,
    stream: &DumpStream,
    dumped: DumpFigures,
    json: bool,
    out: &mut dyn Write,
) -> CommandResult {
    let DumpFigures { pause_ms, flight_ms, pages } = dumped;
    if json {
        let file = path.display().to_string();
        let report = json!({
            "pid": pid, "file": file, "objects": stream.objects, "bytes": stream.bytes,
            "pause_ms": pause_ms, "flight_ms": flight_ms, "huge_pages": pages.huge, "huge_pages_ms": pages.took_ms,
            "huge_pages_why_not": pages.why_not,
        });
        writeln!(out, "{report}")?;
    } else {
        let (objects, bytes) = (figures::count(stream.objects), figures::bytes(stream.bytes));
        let (pause, flight) = (figures::ms(pause_ms), figures::ms(flight_ms));
        writeln!(
            out,
            "process {pid}: {objects} objects in {} ({bytes}), stopped for {pause}, cloned for {flight}",
            path.display()
        )?;
        if pages.huge > 0 {
            let (huge, took) = (figures::count(pages.huge), figures::ms(pages.took_ms));
            writeln!(
                out,
                "  small objects were put into {huge} huge pages before that, beside the program, in {took}"
            )?;
        }
        if let Some(why) = pages.why_not.filter(|_| pause_ms >= LONG_STOP_MS) {
            writeln!(out, "  on huge pages the stop would be shorter: {why}")?;
        }
    }
    Ok(())
}

/// A name that no file has yet.
fn free_name(pid: u32) -> PathBuf {
    let name = |number: u32| match number {
        1 => PathBuf::from(format!("heap-{pid}.ngch")),
        _ => PathBuf::from(format!("heap-{pid}-{number}.ngch")),
    };
    (1..1000).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(1))
}

/// A file that only this user can read.
fn private_file(path: &Path) -> io::Result<File> {
    let _ = std::fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// How far it is: a bar on a terminal, plain lines elsewhere.
#[derive(Debug)]
struct DumpBar {
    terminal: bool,
    pid: u32,
    next: Instant,
    /// How far the process is with what it does before the clone.
    gathering: Option<f64>,
}

impl DumpBar {
    fn new(pid: u32) -> Self {
        // What is over within a second needs no bar.
        Self {
            terminal: io::stderr().is_terminal(),
            pid,
            next: Instant::now() + Duration::from_secs(1),
            gathering: None,
        }
    }

    fn show(&mut self, stream: &DumpStream) {
        const WIDTH: usize = 24;
        if Instant::now() < self.next {
            return;
        }
        let pid = self.pid;
        let share = self.gathering.unwrap_or(stream.share());
        // The walk writes nothing before it has found all objects.
        let state = match stream.bytes {
            0 if self.gathering.is_some() => {
                format!("{:3.0} %  process {pid} makes huge pages of small ones, for a short stop", share * 100.0)
            }
            0 => format!("process {pid} has written nothing yet: it does when one of its threads runs Python code"),
            bytes => format!("{:3.0} %  dump of process {pid}, {}", share * 100.0, figures::bytes(bytes)),
        };
        if self.terminal {
            self.next = Instant::now() + Duration::from_millis(100);
            let full = (share * WIDTH as f64) as usize;
            let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full));
            let _ = write!(io::stderr(), "\r\x1b[2K{bar} {state}");
            let _ = io::stderr().flush();
        } else {
            self.next = Instant::now() + Duration::from_secs(2);
            let _ = writeln!(io::stderr(), "{state}");
        }
    }

    fn clear(&self) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}
