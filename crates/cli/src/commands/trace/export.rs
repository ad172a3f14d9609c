//! `neurogc trace export`: a trace in a format that other tools read.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use neurogc_wire::trace::Trace;
use serde_json::json;

use crate::failure::{CommandResult, Failure};
use crate::notice::say;
use crate::target::OutputFile;
use crate::trace::{csv, load, parquet, perfetto};

/// Convert a trace to a table or a timeline
///
/// parquet and csv have one row per record; open perfetto files at ui.perfetto.dev.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc trace export service.ngct --to parquet\n  \
    neurogc trace export service.ngct --to csv -o - | head\n  \
    neurogc trace export service.ngct --to perfetto -o timeline.json")]
pub(crate) struct Arguments {
    /// The trace
    file: PathBuf,
    /// The format
    #[arg(long, value_name = "FORMAT")]
    to: Format,
    /// File to write; - is standard output [default: FILE with the format's extension]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
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
    /// A typed table for dataframes
    Parquet,
    /// A table as text
    Csv,
    /// A timeline of trace events in JSON
    Perfetto,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Perfetto => "perfetto.json",
        }
    }
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let to_stdout = arguments.output.as_deref() == Some(Path::new("-"));
    if to_stdout && arguments.to == Format::Parquet {
        return Err(Failure::usage("parquet cannot go to standard output. Name a file with -o"));
    }
    let trace = load(&arguments.file)?;
    if to_stdout {
        return Ok(write_text(arguments.to, &trace, out)?);
    }
    let path = arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension(arguments.to.extension()));
    let shown = path.display();
    if is_same(&path, &arguments.file) {
        return Err(Failure::failed(format!("{shown} is the trace itself. Name another file with -o")));
    }
    let target = OutputFile::new(&path, arguments.force)?;
    target.write(|file| write(arguments.to, &trace, file))?;
    let records = trace.records.len();
    if arguments.json {
        writeln!(out, "{}", json!({"file": path, "records": records}))?;
    } else {
        say(format_args!("wrote {records} records to {shown}"));
    }
    Ok(())
}

/// Whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    real(one).is_some_and(|path| real(other) == Some(path))
}

fn write(format: Format, trace: &Trace, file: File) -> anyhow::Result<()> {
    let mut file = BufWriter::new(file);
    match format {
        Format::Parquet => parquet::write(trace, &mut file)?,
        Format::Csv | Format::Perfetto => write_text(format, trace, &mut file)?,
    }
    Ok(file.flush()?)
}

fn write_text(format: Format, trace: &Trace, to: &mut dyn Write) -> std::io::Result<()> {
    if format == Format::Perfetto { perfetto::write(trace, to) } else { csv::write(trace, to) }
}
