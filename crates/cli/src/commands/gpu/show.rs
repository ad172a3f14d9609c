//! `neurogc gpu show`: what PyTorch's own snapshot files say.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use neurogc_gpu::{GpuSnapshot, ReadLimits};

use crate::failure::{CommandResult, Failure};
use crate::figures;
use crate::gpu::{page, snapshot};

/// The largest file that is read: more than the allocator's own viewer opens.
const MOST_BYTES: u64 = 4 << 30;

/// Memory for what is read: some times the file, and no less than this.
const TIMES: usize = 24;
const LEAST_MEMORY: usize = 64 << 20;

/// Show a snapshot file of PyTorch's allocator: segments, blocks, where they were allocated, and the events before
///
/// The file is one of `torch.cuda.memory._dump_snapshot(FILE)`, or `torch.cuda.memory._snapshot()` written by pickle. Call stacks
/// and events are in it if the program had called `torch.cuda.memory._record_memory_history()`. Nothing in the file is run: it is
/// read as plain data. Of a file that is cut off or damaged, what comes before the damage is shown.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  neurogc gpu show snapshot.pickle\n  neurogc gpu show snapshot.pickle -o snapshot.html\n  \
                  neurogc gpu show snapshot.pickle --json | jq .devices"
)]
pub(crate) struct Arguments {
    /// A file of `torch.cuda.memory._dump_snapshot`
    file: PathBuf,
    /// Write a page with a map of the blocks and memory over the events, instead of text
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// How many lines of each table to show
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let report = read(&arguments.file)?;
    let name = arguments.file.file_name().unwrap_or_default().to_string_lossy();
    if let Some(output) = &arguments.output {
        let page = page::encode(&name, &report)?;
        fs::write(output, page).map_err(|error| Failure::failed(format!("{}: {error}", output.display())))?;
        writeln!(out, "wrote {}", output.display())?;
    } else if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(out, "{}", snapshot::text(&name, &report, arguments.top, figures::room()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<GpuSnapshot, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", path.display()));
    let size = fs::metadata(path).map_err(|error| failed(&error))?.len();
    if size > MOST_BYTES {
        return Err(failed(&format!(
            "it has {} and at most {} are read",
            figures::bytes(size),
            figures::bytes(MOST_BYTES)
        )));
    }
    let bytes = fs::read(path).map_err(|error| failed(&error))?;
    let memory = bytes.len().saturating_mul(TIMES).max(LEAST_MEMORY);
    neurogc_gpu::read(&bytes, ReadLimits { memory }).map_err(|error| failed(&error))
}
