//! The trace format: what a process did, compact enough to record all day.
//!
//! ```text
//! file    = "NGCTRACE" version:u16 header-length:u32 header-crc:u32 header:JSON block*
//! block   = "NGCB" length:u32 crc:u32 record*
//!         | "NGCS" length:u32 crc:u32 table
//! record  = tag:u8 time:signed-varint field:varint*
//! ```
//!
//! Integers are little-endian. A record's time is the difference to the record before it in nanoseconds; a block
//! starts from zero, the start of the trace, so that each block can be read by itself. A writer ends a block at
//! least once a second: what is lost when the process is killed, or when a block is damaged, is that block. A block of
//! the second kind holds a table of allocation sites, see `site_block`.

mod order;
mod reader;
mod record;
mod site_block;
mod version1;
mod writer;

use serde::{Deserialize, Serialize};

pub use order::OrderKind;
pub use reader::{Block, Damage, Trace, TraceError, header_length, read, read_block, walk};
pub use record::{Place, Record, WaitSource};
pub use site_block::{MAX_SITES_BLOCK, SITES_MAGIC, SMALLER_SITES, cut_sites, encode_sites};
pub use writer::{BlockWriter, MAX_BLOCK, encode, encode_header};

/// The version of the file format that is written.
pub const VERSION: u16 = 4;

/// The oldest version that can be read.
pub const OLDEST_VERSION: u16 = 1;

/// The first bytes of a trace.
pub const MAGIC: &[u8; 8] = b"NGCTRACE";

/// The first bytes of a block.
pub const BLOCK_MAGIC: &[u8; 4] = b"NGCB";

/// What the whole trace is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Process id.
    pub pid: u32,
    /// The command line, shortened.
    pub command: String,
    /// Interpreter and version.
    pub python: String,
    /// Version of NeuroGC.
    pub neurogc: String,
    /// The policy that was in force at the start.
    pub policy: String,
    /// The service that the process belongs to.
    pub service: String,
    /// When the trace begins: nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// The collector's thresholds at the start.
    pub thresholds: [u32; 3],
    /// Step of the GIL samples in nanoseconds: shorter spans are not seen.
    pub gil_step_ns: u64,
}
