//! What every view of a table says of the table itself.

use neurogc_wire::sites::SiteTable;
use serde::Serialize;

/// The process, the moments, and how it was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableHead {
    /// Process id.
    pub pid: u32,
    /// When the table was taken.
    pub taken_unix_ms: u64,
    /// The start of sampling.
    pub since_unix_ms: u64,
    /// The moment of comparison.
    pub compared_unix_ms: Option<u64>,
    /// What was sampled.
    pub mode: &'static str,
    /// Mean distance of two sampling points.
    pub sample_bytes: u64,
    /// Sampled blocks that are missing.
    pub lost: u64,
}

impl TableHead {
    /// Of a table.
    #[must_use]
    pub fn of(table: &SiteTable) -> Self {
        Self {
            pid: table.pid,
            taken_unix_ms: table.taken_unix_ms,
            since_unix_ms: table.since_unix_ms,
            compared_unix_ms: table.compared_unix_ms,
            mode: table.mode.name(),
            sample_bytes: table.sample_bytes,
            lost: table.lost,
        }
    }
}
