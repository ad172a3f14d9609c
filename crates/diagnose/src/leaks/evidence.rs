//! What is known of a process's memory over time. An agent fills it, and so can a hub or a replay.

use neurogc_wire::breakdown::Breakdown;
use neurogc_wire::workers::WorkerMemory;

use crate::growth::tracks::Track;
use crate::growth::{FigureSeries, Tracks};

/// How many things of each sort are followed.
const SITES: usize = 64;
const TYPES: usize = 40;
const CONTAINERS: usize = 64;
const WORKERS: usize = 64;

/// Figures of the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessFigure {
    /// Resident memory.
    Rss,
    /// Memory that no other process shares.
    Uss,
    /// Live bytes of sampled allocations.
    Sampled,
    /// What CPython's allocator has handed out, and what it keeps free.
    PythonUsed,
    /// See `PythonUsed`.
    PythonFree,
    /// What `malloc` has handed out, and what it keeps free.
    MallocUsed,
    /// See `MallocUsed`.
    MallocFree,
    /// Open descriptors.
    Descriptors,
    /// Threads.
    Threads,
    /// Child processes, and their memory.
    Children,
    /// See `Children`.
    ChildrenBytes,
    /// Objects that the collector tracks.
    Tracked,
    /// Those of them that were reachable when they were counted.
    Reachable,
    /// Objects that no collection could free.
    Uncollectable,
    /// Objects that the program has frozen: no collection looks at them.
    Frozen,
    /// Requests per second.
    Requests,
    /// Requests that are being served.
    InFlight,
}

impl ProcessFigure {
    /// All figures.
    pub const ALL: [Self; 17] = [
        Self::Rss,
        Self::Uss,
        Self::Sampled,
        Self::PythonUsed,
        Self::PythonFree,
        Self::MallocUsed,
        Self::MallocFree,
        Self::Descriptors,
        Self::Threads,
        Self::Children,
        Self::ChildrenBytes,
        Self::Tracked,
        Self::Reachable,
        Self::Uncollectable,
        Self::Frozen,
        Self::Requests,
        Self::InFlight,
    ];

    /// The figure in words, and its unit.
    #[must_use]
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Rss => ("resident memory", "bytes"),
            Self::Uss => ("memory that no other process shares", "bytes"),
            Self::Sampled => ("live memory by samples of allocations", "bytes"),
            Self::PythonUsed => ("small Python objects", "bytes"),
            Self::PythonFree => ("free memory in CPython's allocator", "bytes"),
            Self::MallocUsed => ("memory handed out by malloc", "bytes"),
            Self::MallocFree => ("free memory in malloc", "bytes"),
            Self::Descriptors => ("open descriptors", "descriptors"),
            Self::Threads => ("threads", "threads"),
            Self::Children => ("child processes", "processes"),
            Self::ChildrenBytes => ("memory of child processes", "bytes"),
            Self::Tracked => ("objects that the collector tracks", "objects"),
            Self::Reachable => ("reachable objects", "objects"),
            Self::Uncollectable => ("objects that could not be collected", "objects"),
            Self::Frozen => ("objects that are frozen", "objects"),
            Self::Requests => ("requests per second", "requests/s"),
            Self::InFlight => ("requests in flight", "requests"),
        }
    }
}

/// A line of code that allocates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteFacts {
    /// The innermost line of the program's own code: `/srv/app/stats.py:41 in add`.
    pub line: String,
    /// The line that allocates, where that is another one, in a library.
    pub inner: String,
    /// Functions on the way to it, the innermost first.
    pub callers: Vec<String>,
    /// Whether `malloc` or `mmap` handed most of it out.
    pub native: bool,
    /// Live blocks, and how many there were over time.
    pub blocks: u64,
    /// See `blocks`.
    pub counts: FigureSeries,
}

impl SiteFacts {
    /// Notes how many live blocks there are.
    pub fn count(&mut self, at_s: f64, blocks: u64) {
        self.blocks = blocks;
        self.counts.push(at_s, blocks as f64);
    }
}

/// A type of object; its series are counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeFacts {
    /// The bytes of all its objects.
    pub bytes: u64,
}

/// A container; its series are lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerFacts {
    /// Its type.
    pub kind: String,
    /// Its own bytes.
    pub bytes: u64,
    /// How many entries it can have at most, where it has a bound: `maxlen` of a deque, `maxsize` of a cache.
    pub bound: Option<u64>,
}

/// A worker that the process has forked; its series is what it has copied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerFacts {
    /// Its memory.
    pub memory: WorkerMemory,
    /// Batches that were delivered so far, by all workers.
    pub batches: u64,
    /// What it has allocated itself, over time.
    pub own: FigureSeries,
    /// When it was first looked at, with its memory and the batches then.
    pub first: (f64, WorkerMemory, u64),
}

/// A worker that is followed.
pub type WorkerTrack = Track<WorkerFacts>;

impl WorkerFacts {
    /// A worker that is looked at for the first time.
    #[must_use]
    pub fn new(at_s: f64, memory: WorkerMemory, batches: u64) -> Self {
        let mut facts = Self { first: (at_s, memory, batches), ..Self::default() };
        facts.note(at_s, memory, batches);
        facts
    }

    /// Takes in another look.
    pub fn note(&mut self, at_s: f64, memory: WorkerMemory, batches: u64) {
        (self.memory, self.batches) = (memory, batches);
        self.own.push(at_s, memory.own as f64);
    }

    /// By how much the copied part has grown for each batch since the first look; nothing where there was none.
    #[must_use]
    pub fn copied_per_batch(&self) -> Option<f64> {
        let (_, memory, batches) = self.first;
        let more = self.batches.saturating_sub(batches);
        (more > 0).then(|| (self.memory.copied as f64 - memory.copied as f64) / more as f64)
    }
}

/// Objects in arenas of CPython of which little is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArenaPins {
    /// All that are known; zero where they were not counted.
    pub objects: u64,
    /// How many there are of the most frequent types, the most frequent first.
    pub types: Vec<(String, u64)>,
}

/// What is known of the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CollectorFacts {
    /// Whether the program has it switched off.
    pub disabled: bool,
    /// When everything was last collected, in seconds since the agent was installed.
    pub last_full_s: Option<f64>,
}

/// Everything that the verdict is made from. Its size is fixed: about 1 MB when all series are there.
#[derive(Clone, Debug)]
pub struct MemoryEvidence {
    /// Process id, for commands that are advised.
    pub pid: u32,
    /// Now, in seconds since the agent was installed.
    pub at_s: f64,
    /// The limit of memory, if there is one.
    pub limit: Option<u64>,
    /// What one sampled allocation stands for, in bytes.
    pub grain: f64,
    /// Where resident memory is, by the latest look.
    pub breakdown: Option<Breakdown>,
    /// What keeps arenas of CPython from being returned.
    pub pins: ArenaPins,
    /// The collector.
    pub collector: CollectorFacts,
    /// Lines that allocate: live bytes.
    pub sites: Tracks<u64, SiteFacts>,
    /// Types: counts.
    pub types: Tracks<String, TypeFacts>,
    /// Containers by name: lengths.
    pub containers: Tracks<String, ContainerFacts>,
    /// Workers by process id: what they have copied.
    pub workers: Tracks<u32, WorkerFacts>,
    /// What workers can share with the process: its resident memory that comes from no file.
    pub inheritable: u64,
    process: Vec<FigureSeries>,
}

impl Default for MemoryEvidence {
    fn default() -> Self {
        Self {
            pid: 0,
            at_s: 0.0,
            limit: None,
            grain: 0.0,
            breakdown: None,
            pins: ArenaPins::default(),
            collector: CollectorFacts::default(),
            sites: Tracks::new(SITES),
            types: Tracks::new(TYPES),
            containers: Tracks::new(CONTAINERS),
            workers: Tracks::new(WORKERS),
            inheritable: 0,
            process: vec![FigureSeries::default(); ProcessFigure::ALL.len()],
        }
    }
}

impl MemoryEvidence {
    /// Notes a figure of the process at a moment.
    pub fn push(&mut self, figure: ProcessFigure, at_s: f64, value: f64) {
        self.at_s = self.at_s.max(at_s);
        self.process[figure as usize].push(at_s, value);
    }

    /// Notes where resident memory is.
    pub fn push_breakdown(&mut self, at_s: f64, parts: Breakdown) {
        for (figure, value) in [
            (ProcessFigure::PythonUsed, parts.python_used),
            (ProcessFigure::PythonFree, parts.python_free),
            (ProcessFigure::MallocUsed, parts.malloc_used),
            (ProcessFigure::MallocFree, parts.malloc_free),
        ] {
            self.push(figure, at_s, value as f64);
        }
        self.breakdown = Some(parts);
    }

    /// The series of a figure; one without values where it was never measured.
    #[must_use]
    pub fn series(&self, figure: ProcessFigure) -> &FigureSeries {
        &self.process[figure as usize]
    }

    /// For how long the process has been watched.
    #[must_use]
    pub fn watched_s(&self) -> f64 {
        self.series(ProcessFigure::Rss).span().map_or(0.0, |(first, last)| last - first)
    }
}
