//! `neurogc memory flame`: a flame graph in one HTML file.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use neurogc_sites::{Flame, SiteFilter, export};

use super::measure;
use crate::failure::CommandResult;
use crate::figures;
use crate::memory::subject::Subject;
use crate::target::OutputFile;

/// Draw live memory by call stack as a flame graph
///
/// The result is one HTML file that loads nothing. With --since it shows what has grown.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  neurogc memory flame 4242\n  neurogc memory flame 4242 --since 10m -o growth.html\n  \
                        neurogc memory flame 4242 --rate -o rate.html\n  neurogc memory flame after.pb.gz"
)]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`, or a trace or a file of `neurogc memory record`
    #[arg(value_name = "PID")]
    subject: Subject,
    /// File to write [default: neurogc-PID.html]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Show what has grown in this time, for instance 30s, 10m or 1h
    #[arg(long, value_name = "T", value_parser = figures::seconds)]
    since: Option<u32>,
    /// Widths are what is live, coloured by growth; goes with --since
    #[arg(long, requires = "since", conflicts_with = "rate")]
    live: bool,
    /// Show what is allocated in a second, freed or not
    #[arg(long)]
    rate: bool,
    /// Only what came from malloc and mmap
    #[arg(long)]
    native: bool,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let path = arguments.output.clone().unwrap_or_else(|| arguments.subject.file_name("html"));
    let target = OutputFile::new(&path, arguments.force)?;
    let table = arguments.subject.table(arguments.since)?;
    let measure = measure(table.compared_unix_ms.is_some() && !arguments.live, arguments.rate);
    let keep = if arguments.native { SiteFilter::Native } else { SiteFilter::All };
    let page = export::page::encode(&Flame::of(&table, measure, keep))?;
    target.write(|mut file| Ok(file.write_all(page.as_bytes())?))?;
    target.tell_page(arguments.json, out)
}
