//! Recorded traces: read from a file, summed up, and turned into other formats.

pub(crate) mod columns;
pub(crate) mod csv;
pub(crate) mod parquet;
pub(crate) mod perfetto;
pub(crate) mod summary;

use std::fs;
use std::path::Path;

use neurogc_wire::trace::{Record, Trace, read};

use crate::failure::Failure;
use crate::notice::say;

/// Reads a trace file. What cannot be read of it is said on standard error; the rest is given.
pub(crate) fn load(path: &Path) -> Result<Trace, Failure> {
    let shown = path.display();
    let bytes = fs::read(path)
        .map_err(|error| Failure::failed(format!("cannot read {shown}: {error}. Check the path of the trace")))?;
    let trace = read(&bytes).map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    for damage in &trace.damage {
        say(format_args!("warning: {shown} is damaged, {damage}; everything else was read"));
    }
    Ok(trace)
}

/// The kind of a record, as named in reports and exports.
pub(crate) fn kind(record: &Record) -> &'static str {
    match record {
        Record::RequestStart { .. } => "request_start",
        Record::RequestEnd { .. } => "request_end",
        Record::RequestWait { .. } => "request_wait",
        Record::Collection { .. } => "collection",
        Record::Gap { .. } => "gap",
        Record::Counts { .. } => "counts",
        Record::Process { .. } => "process",
        Record::Stall { .. } => "stall",
        Record::Dropped { .. } => "dropped",
        Record::Order { .. } => "order",
        Record::Policy { .. } => "policy",
        Record::Heap { .. } => "heap",
        Record::Flight { .. } => "flight",
    }
}

/// The moment at which a record's span ends; its own moment where it has none.
pub(crate) fn end(record: &Record) -> u64 {
    match *record {
        Record::Collection { at, pause, .. } => at.saturating_add(pause),
        Record::Gap { at, busy, idle } => at.saturating_add(busy).saturating_add(idle),
        Record::Stall { at, duration, .. } => at.saturating_add(duration),
        _ => record.at(),
    }
}
