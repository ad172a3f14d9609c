//! What is looked at: live memory, its growth, or the rate of allocation.

use neurogc_wire::sites::{SiteCounts, SiteTable};
use serde::{Deserialize, Serialize};

/// A way to look at the counts of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// What is allocated and not freed.
    #[default]
    Live,
    /// By how much that has grown since the moment that the table is compared with.
    Growth,
    /// What is allocated in a second, freed or not: since the moment of comparison, or since sampling began.
    Rate,
}

/// Bytes and blocks, or bytes and blocks in a second. Growth may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Amount {
    /// Bytes.
    pub bytes: f64,
    /// Blocks.
    pub blocks: f64,
}

impl Measure {
    /// All measures, with the names they are written by.
    pub const ALL: [(Self, &str); 3] = [(Self::Live, "live"), (Self::Growth, "growth"), (Self::Rate, "rate")];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The amount for counts of a table of which `seconds` gave the time.
    #[must_use]
    pub fn amount(self, now: &SiteCounts, before: &SiteCounts, seconds: f64) -> Amount {
        let apart = |now: u64, before: u64| now as f64 - before as f64;
        let made = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        match self {
            Self::Live => Amount { bytes: now.live_bytes as f64, blocks: now.live_blocks as f64 },
            Self::Growth => Amount {
                bytes: apart(now.live_bytes, before.live_bytes),
                blocks: apart(now.live_blocks, before.live_blocks),
            },
            Self::Rate => Amount {
                bytes: made(now.made_bytes, before.made_bytes),
                blocks: made(now.made_blocks, before.made_blocks),
            },
        }
    }
}

/// The time over which a table counts what was allocated, in seconds: at least a millisecond.
#[must_use]
pub fn seconds(table: &SiteTable) -> f64 {
    let from = table.compared_unix_ms.unwrap_or(table.since_unix_ms);
    table.taken_unix_ms.saturating_sub(from).max(1) as f64 / 1e3
}
