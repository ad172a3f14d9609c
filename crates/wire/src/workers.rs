//! The memory of child processes, and of workers what they still share with their parent.

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::status::Child;

/// What forked a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerKind {
    /// A pre-fork server.
    #[default]
    Server,
    /// A `DataLoader` of PyTorch.
    Dataloader,
    /// A pool of `multiprocessing` or `concurrent.futures`.
    Pool,
}

impl WorkerKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Server, Self::Dataloader, Self::Pool];

    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Dataloader => "dataloader",
            Self::Pool => "pool",
        }
    }

    /// Whose worker it is, in words.
    #[must_use]
    pub fn owner(self) -> &'static str {
        match self {
            Self::Server => "the server",
            Self::Dataloader => "a DataLoader",
            Self::Pool => "a process pool",
        }
    }
}

/// The memory of a worker in bytes. `shared_pss`, `copied` and `own` add up to its proportional set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerMemory {
    /// What forked it.
    pub kind: WorkerKind,
    /// Resident memory that it shares with its parent or others, libraries included.
    pub shared: u64,
    /// Its proportional part of that.
    pub shared_pss: u64,
    /// What it has inherited and has for itself now, because it or its parent has written to it.
    pub copied: u64,
    /// What it has allocated itself.
    pub own: u64,
}

/// The memory of a process and of everything below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChildrenReport {
    /// Process id of the parent.
    pub pid: u32,
    /// Its resident set.
    pub rss: u64,
    /// Its proportional set.
    pub pss: Option<u64>,
    /// What its workers can share with it: its resident memory that comes from no file.
    pub inheritable: u64,
    /// Everything below it, parents before their children.
    pub children: Vec<Child>,
    /// How the memory of workers has grown since they were first looked at.
    pub growth: Vec<WorkerGrowth>,
    /// The proportional sets of all added up: what the machine has free when they have ended.
    pub total_pss: u64,
    /// Batches that loaders have delivered so far.
    pub batches: u64,
    /// What is the matter with workers.
    pub findings: Vec<Finding>,
    /// How long the reading took.
    pub took_ms: f64,
}

/// How the memory of one worker has grown since it was first looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerGrowth {
    /// Process id.
    pub pid: u32,
    /// How long ago that was, in seconds.
    pub seconds: f64,
    /// Growth of the copied part, in bytes.
    pub copied: i64,
    /// Growth of its own part, in bytes.
    pub own: i64,
    /// Growth of the copied part for each batch that was delivered meanwhile; none where there was no batch.
    pub copied_per_batch: Option<f64>,
}
