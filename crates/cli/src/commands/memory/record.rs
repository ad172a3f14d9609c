//! `neurogc memory record`: what a process holds and allocates in a while, as a file for other tools.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use neurogc_sites::{GroupBy, Measure, SiteChoice, SiteFilter, SiteReport, compare, export};
use neurogc_wire::sites::SiteTable;
use serde_json::json;

use crate::bench::interrupt::Interrupt;
use crate::failure::{CommandResult, Failure};
use crate::figures::{self, bytes, span};
use crate::memory::listing;
use crate::memory::subject::{Subject, of_process};
use crate::notice::say;
use crate::process;
use crate::target::OutputFile;

/// How often the process is asked meanwhile: what it last said is kept where it ends.
const EVERY: Duration = Duration::from_secs(10);

/// How often the progress is shown, and Ctrl-C is looked for.
const STEP: Duration = Duration::from_millis(100);

/// Record where a process allocates, for pprof and other tools
///
/// The file holds what is live at the end, and what was allocated meanwhile. Ctrl-C ends the recording early and
/// keeps it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc memory record 4242 --for 60s -o memory.pb.gz\n  \
                        go tool pprof -http=: memory.pb.gz\n  \
                        neurogc memory record 4242 --for 5m -o memory.speedscope.json\n  \
                        neurogc memory record service.ngct --format collapsed -o - | head")]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`; or a trace, of which the time up to its end is taken
    #[arg(value_name = "PID")]
    subject: Subject,
    /// How long to record, for instance 30s, 5m or 1h
    #[arg(long = "for", default_value = "60s", value_name = "T", value_parser = figures::seconds)]
    length: u32,
    /// File to write; - is standard output [default: neurogc-PID with the format's ending]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// The format [default: by the ending of OUT, or pprof]
    #[arg(long)]
    format: Option<Format>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Print what was written as JSON; goes with a file
    #[arg(long)]
    json: bool,
}

/// The formats there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// pprof's profile.proto with gzip: go tool pprof, Pyroscope, Parca
    Pprof,
    /// A file for speedscope.app
    Speedscope,
    /// A line of semicolons and a number for each stack, live bytes
    Collapsed,
    /// A table of stacks as text, like that of memray
    #[value(aliases = ["memray", "memray-like"])]
    Table,
    /// The table of sites as it is, for neurogc memory diff and scripts
    Json,
}

impl Format {
    fn ending(self) -> &'static str {
        match self {
            Self::Pprof => "pb.gz",
            Self::Speedscope => "speedscope.json",
            Self::Collapsed => "collapsed.txt",
            Self::Table => "txt",
            Self::Json => "json",
        }
    }

    /// The format that a file is named for.
    fn of(path: &Path) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let all = [Self::Pprof, Self::Speedscope, Self::Collapsed, Self::Table, Self::Json];
        let named = all.into_iter().find(|format| name.ends_with(&format!(".{}", format.ending())));
        named.unwrap_or(Self::Pprof)
    }
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let named = arguments.format.or_else(|| arguments.output.as_deref().map(Format::of));
    let format = named.unwrap_or(Format::Pprof);
    let path = arguments.output.clone().unwrap_or_else(|| arguments.subject.file_name(format.ending()));
    if path == Path::new("-") {
        let table = recorded(arguments)?;
        return Ok(out.write_all(&encoded(&table, format)?)?);
    }
    // A wrong path is told before the time is spent.
    let target = OutputFile::new(&path, arguments.force)?;
    let table = recorded(arguments)?;
    let bytes = encoded(&table, format)?;
    target.write(|mut file| Ok(file.write_all(&bytes)?))?;
    let sites = table.sites.len();
    if arguments.json {
        writeln!(out, "{}", json!({"file": path, "sites": sites}))?;
    } else {
        say(format_args!("wrote {sites} sites to {}", path.display()));
    }
    Ok(())
}

fn recorded(arguments: &Arguments) -> Result<SiteTable, Failure> {
    match &arguments.subject {
        Subject::Process(pid) => watch(*pid, Duration::from_secs(arguments.length.into())),
        file => file.table(Some(arguments.length)),
    }
}

/// Asks a process now and then, and compares the last answer with the first.
fn watch(pid: u32, length: Duration) -> Result<SiteTable, Failure> {
    let interrupt = Interrupt::watch()?;
    let first = of_process(pid, None)?;
    let mut last = None;
    let terminal = io::stderr().is_terminal();
    if !terminal {
        say(format_args!("recording process {pid} for {}", span(length.as_secs_f64())));
    }
    let (began, mut asked) = (Instant::now(), Instant::now());
    while began.elapsed() < length && !interrupt.came() {
        std::thread::sleep(STEP.min(length.saturating_sub(began.elapsed())));
        if asked.elapsed() >= EVERY {
            asked = Instant::now();
            match of_process(pid, None) {
                Ok(table) => last = Some(table),
                Err(_) if process::look_up(pid).is_none() => break,
                Err(failure) => return Err(failure),
            }
        }
        if terminal {
            let live: u64 = last.as_ref().unwrap_or(&first).sites.iter().map(|site| site.now.live_bytes).sum();
            let (so_far, all) = (span(began.elapsed().as_secs_f64()), span(length.as_secs_f64()));
            let _ = write!(io::stderr(), "\r\x1b[2Krecording process {pid}: {so_far} of {all}, {} live", bytes(live));
        }
    }
    if terminal {
        let _ = write!(io::stderr(), "\r\x1b[2K");
    }
    match of_process(pid, None) {
        Ok(table) => last = Some(table),
        Err(failure) if last.is_none() => return Err(failure),
        Err(_) => say(format_args!("process {pid} has ended; the file holds what it last said")),
    }
    Ok(compare(&first, &last.unwrap_or_default()))
}

fn encoded(table: &SiteTable, format: Format) -> Result<Vec<u8>, Failure> {
    Ok(match format {
        Format::Pprof => export::pprof::encode(table),
        Format::Speedscope => serde_json::to_vec(&export::speedscope::encode(table))?,
        Format::Collapsed => export::collapsed::encode(table, Measure::Live, SiteFilter::All).into_bytes(),
        Format::Table => {
            let choice =
                SiteChoice { by: GroupBy::Stack, measure: Measure::Live, keep: SiteFilter::All, top: usize::MAX };
            listing::text(&SiteReport::of(table, &choice), None).into_bytes()
        }
        Format::Json => serde_json::to_vec(table)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_for_its_format() {
        let cases = [
            ("x.pb.gz", Format::Pprof),
            ("x", Format::Pprof),
            ("a/x.speedscope.json", Format::Speedscope),
            ("x.json", Format::Json),
            ("x.collapsed.txt", Format::Collapsed),
            ("x.txt", Format::Table),
        ];
        for (path, expect) in cases {
            assert_eq!(Format::of(Path::new(path)), expect, "{path}");
        }
    }
}
