//! Where live memory was allocated: the table that an agent gives out when it is asked, and writes to its trace.
//!
//! The agent samples allocations. Every figure here is an estimate of the whole: a block that was met stands for
//! `sample_bytes` bytes for each sampling point that fell into it. Call stacks share their outer frames, so they are
//! stored as a tree: a node is a frame below its parent, and a site is the node of the innermost frame.

use serde::{Deserialize, Serialize};

/// The parent of a node that has none.
pub const NO_PARENT: u32 = u32::MAX;

/// Live and allocated memory by call stack, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteTable {
    /// Process id.
    pub pid: u32,
    /// When the table was taken: milliseconds since 1970.
    pub taken_unix_ms: u64,
    /// When sampling began. Memory that is older is in no site.
    pub since_unix_ms: u64,
    /// The moment that `Site::before` is of, if a comparison was asked for: the stored moment nearest to it.
    pub compared_unix_ms: Option<u64>,
    /// What is sampled.
    pub mode: AllocationMode,
    /// Mean distance of two sampling points in bytes.
    pub sample_bytes: u64,
    /// Sampled blocks that found no room in the agent's tables and are missing here.
    pub lost: u64,
    /// Texts that frames refer to by index.
    pub strings: Vec<String>,
    /// Places in the code.
    pub frames: Vec<SiteFrame>,
    /// The tree of calls. A parent comes before its children.
    pub nodes: Vec<SiteNode>,
    /// The sites: at most one for each node and domain.
    pub sites: Vec<Site>,
}

/// Which allocations an agent samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocationMode {
    /// None.
    #[default]
    Off,
    /// What CPython's own allocators hand out.
    Python,
    /// That, and what native code takes from `malloc` and `mmap`.
    Native,
}

impl AllocationMode {
    /// All modes, in the order of their numbers in a trace.
    pub const ALL: [Self; 3] = [Self::Off, Self::Python, Self::Native];

    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Python => "python",
            Self::Native => "native",
        }
    }
}

/// Which allocator handed a block out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocationDomain {
    /// CPython's small-object allocator, for objects and for the memory that belongs to them (`obj` and `mem`).
    #[default]
    Object,
    /// CPython's `raw` domain, where `malloc` itself is not sampled.
    Raw,
    /// `malloc` and its relatives. Python objects of more than 512 bytes come from here too.
    Malloc,
    /// Anonymous memory mappings.
    Mmap,
}

impl AllocationDomain {
    /// All allocators, in the order of their numbers in a trace.
    pub const ALL: [Self; 4] = [Self::Object, Self::Raw, Self::Malloc, Self::Mmap];

    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Raw => "raw",
            Self::Malloc => "malloc",
            Self::Mmap => "mmap",
        }
    }
}

/// A line of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SiteFrame {
    /// The file, an index into `strings`.
    pub file: u32,
    /// The function, an index into `strings`.
    pub function: u32,
    /// The line, or 0 where it is not known.
    pub line: u32,
    /// The line at which the function begins.
    pub first_line: u32,
}

/// A frame in the tree of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteNode {
    /// The node of the caller, or `NO_PARENT`.
    pub parent: u32,
    /// The place, an index into `frames`.
    pub frame: u32,
}

/// What one call stack allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The innermost frame, an index into `nodes`; `NO_PARENT` for threads and moments without a Python frame.
    pub node: u32,
    /// The allocator.
    pub domain: AllocationDomain,
    /// At the moment of the table.
    pub now: SiteCounts,
    /// At the moment that the table is compared with. Zero without a comparison, and for sites that are new since.
    pub before: SiteCounts,
}

/// Estimates for one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteCounts {
    /// Bytes allocated here that have not been freed.
    pub live_bytes: u64,
    /// Blocks of them.
    pub live_blocks: u64,
    /// Bytes allocated here since sampling began, freed or not.
    pub made_bytes: u64,
    /// Blocks of them.
    pub made_blocks: u64,
}
