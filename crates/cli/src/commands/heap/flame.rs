//! `neurogc heap flame`: who holds what, as a flame graph in one HTML file.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use neurogc_heap::views::summary;
use neurogc_sites::export;

use crate::failure::CommandResult;
use crate::heap::{HeapFile, flame};
use crate::target::OutputFile;

/// Draw who holds what as a flame graph
///
/// A box is a place, such as app.registry.sessions, and as wide as what it retains. The result is one HTML file that
/// loads nothing.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  neurogc heap flame service.ngch -o heap.html")]
pub(crate) struct Arguments {
    /// A file of `neurogc heap dump`
    file: PathBuf,
    /// File to write [default: FILE with the ending html]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let path = arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension("html"));
    let target = OutputFile::new(&path, arguments.force)?;
    let mut file = HeapFile::open(&arguments.file)?;
    let paths = file.paths()?;
    let places = file.places(&paths)?;
    let page = export::page::encode(&flame::graph(&places, &summary(&file.heap)))?;
    file.done();
    target.write(|mut file| Ok(file.write_all(page.as_bytes())?))?;
    target.tell_page(arguments.json, out)
}
