//! What is the matter with a process: findings, each a sentence with its number, its place and the next step.

use serde::{Deserialize, Serialize};

/// One finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// What kind it is.
    pub kind: FindingKind,
    /// How sure it is, from 0 to 1.
    pub confidence: f64,
    /// What is the matter, as a sentence for a person.
    pub text: String,
    /// What holds the memory; empty where the finding is not about memory that something holds.
    pub holder: String,
    /// Where in the code; empty where it is no single place.
    pub site: String,
    /// How fast memory grows, in bytes per hour; zero where the finding is not about growth.
    pub rate_bytes_h: f64,
    /// What to do next; empty where nothing is to be done.
    pub advice: String,
    /// How the program came to it, for findings on memory: what is done again and again.
    pub pattern: String,
    /// Where to read more: a page of the documentation and its section.
    pub doc: String,
    /// What is held now, in bytes; zero where that is not known.
    pub bytes: u64,
    /// The share of the growth of the whole process, from 0 to 1; zero where that is not known.
    pub share: f64,
    /// Since when it has been so, in seconds since the agent was installed; zero where that is not known.
    pub since_s: f64,
}

/// The least confidence of a finding that is called certain, and of one that is called likely.
pub const CERTAIN: f64 = 0.9;
/// See `CERTAIN`.
pub const LIKELY: f64 = 0.6;

impl Finding {
    /// How sure it is, in a word.
    #[must_use]
    pub fn certainty(&self) -> &'static str {
        match self.confidence {
            CERTAIN.. => "certain",
            LIKELY.. => "likely",
            _ => "possible",
        }
    }

    /// Whether it says, with some confidence, that memory or something else will run out.
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        self.kind.is_leak() && self.confidence >= LIKELY
    }
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Nothing held the program up.
    #[default]
    Nothing,
    /// It has not been watched for long enough.
    TooEarly,
    /// Garbage collections held it up.
    Gc,
    /// Native code that held the GIL did.
    GilNative,
    /// Python code that ran on without giving way did.
    Python,
    /// CPU starvation.
    CpuStarved,
    /// It was held up and the cause could not be told.
    Unknown,
    /// Requests waited although nothing held the program up: more came than it serves.
    Queueing,
    /// The heap is larger than its goal.
    MemoryOverGoal,
    /// The agent cannot do everything here.
    Degraded,
    /// A container is only added to: a global list, dict, set or deque, one of a class or of an object.
    UnboundedContainer,
    /// A cache without a bound.
    UnboundedCache,
    /// Callbacks or listeners are registered again and again.
    Callbacks,
    /// Exceptions are stored, with their tracebacks and all that those refer to.
    StoredExceptions,
    /// Loggers or handlers of `logging` pile up.
    Logging,
    /// Contexts of `contextvars` pile up.
    Contexts,
    /// Modules, classes or code pile up.
    Modules,
    /// Asyncio tasks that do not end pile up.
    Tasks,
    /// Threads pile up.
    Threads,
    /// Open files, sockets or other descriptors pile up.
    Descriptors,
    /// Child processes pile up, or grow.
    Children,
    /// Cyclic garbage is not freed: it cannot be, or the collector does not run.
    CyclicGarbage,
    /// Python objects grow, and what holds them is not known.
    PythonGrowth,
    /// Memory of native code grows.
    NativeGrowth,
    /// `malloc` has many arenas, each with free memory of its own.
    ArenaExplosion,
    /// `malloc` keeps much memory that was freed.
    MallocFree,
    /// CPython's allocator keeps much memory because a few objects are spread over it.
    PymallocPinned,
    /// Workers of a loader or a pool copy what they inherit.
    DataloaderCopies,
    /// Memory of a GPU grows from step to step.
    GpuLeak,
    /// Memory of a GPU is in pieces.
    GpuFragmented,
    /// It grows, and it cannot be told yet whether that will end.
    Growing,
    /// Not a leak: it has grown and does not any more.
    Plateau,
    /// Not a leak: a container or cache fills up to its bound.
    Filling,
    /// Not a leak: memory follows the load.
    FollowsLoad,
    /// Not a leak: it rises and falls.
    RisesAndFalls,
    /// Not a leak: the allocator keeps what the program has freed.
    AllocatorKeeps,
    /// Not a leak: PyTorch's allocator keeps memory of a GPU.
    GpuCacheKeeps,
}

impl FindingKind {
    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::TooEarly => "too_early",
            Self::Gc => "gc",
            Self::GilNative => "gil_native",
            Self::Python => "python",
            Self::CpuStarved => "cpu_starved",
            Self::Unknown => "unknown",
            Self::Queueing => "queueing",
            Self::MemoryOverGoal => "memory_over_goal",
            Self::Degraded => "degraded",
            Self::UnboundedContainer => "unbounded_container",
            Self::UnboundedCache => "unbounded_cache",
            Self::Callbacks => "callbacks",
            Self::StoredExceptions => "stored_exceptions",
            Self::Logging => "logging",
            Self::Contexts => "contexts",
            Self::Modules => "modules",
            Self::Tasks => "tasks",
            Self::Threads => "threads",
            Self::Descriptors => "descriptors",
            Self::Children => "children",
            Self::CyclicGarbage => "cyclic_garbage",
            Self::PythonGrowth => "python_growth",
            Self::NativeGrowth => "native_growth",
            Self::ArenaExplosion => "arena_explosion",
            Self::MallocFree => "malloc_free",
            Self::PymallocPinned => "pymalloc_pinned",
            Self::DataloaderCopies => "dataloader_copies",
            Self::GpuLeak => "gpu_leak",
            Self::GpuFragmented => "gpu_fragmented",
            Self::Growing => "growing",
            Self::Plateau => "plateau",
            Self::Filling => "filling",
            Self::FollowsLoad => "follows_load",
            Self::RisesAndFalls => "rises_and_falls",
            Self::AllocatorKeeps => "allocator_keeps",
            Self::GpuCacheKeeps => "gpu_cache_keeps",
        }
    }

    /// Whether it says that something is the matter with the program.
    #[must_use]
    pub fn is_trouble(self) -> bool {
        !matches!(self, Self::Nothing | Self::TooEarly | Self::Degraded | Self::Growing) && !self.is_harmless()
    }

    /// Whether it says that something grows that should not, or takes memory that it does not need.
    #[must_use]
    pub fn is_leak(self) -> bool {
        self.is_growth()
            || matches!(self, Self::ArenaExplosion | Self::MallocFree | Self::PymallocPinned)
            || matches!(self, Self::DataloaderCopies | Self::GpuFragmented)
    }

    /// Whether it says that something grows that should not.
    #[must_use]
    pub fn is_growth(self) -> bool {
        use FindingKind::{
            Callbacks, Children, Contexts, CyclicGarbage, Descriptors, GpuLeak, Logging, Modules, NativeGrowth,
            PythonGrowth, StoredExceptions, Tasks, Threads, UnboundedCache, UnboundedContainer,
        };
        matches!(
            self,
            UnboundedContainer
                | UnboundedCache
                | Callbacks
                | StoredExceptions
                | Logging
                | Contexts
                | Modules
                | Tasks
                | Threads
                | Descriptors
                | Children
                | CyclicGarbage
                | PythonGrowth
                | NativeGrowth
                | GpuLeak
        )
    }

    /// Whether it says of something that looks like a leak that it is none.
    #[must_use]
    pub fn is_harmless(self) -> bool {
        use FindingKind::{AllocatorKeeps, Filling, FollowsLoad, GpuCacheKeeps, Plateau, RisesAndFalls};
        matches!(self, Plateau | Filling | FollowsLoad | RisesAndFalls | AllocatorKeeps | GpuCacheKeeps)
    }

    /// Whether it is about the memory of GPUs.
    #[must_use]
    pub fn is_of_gpu(self) -> bool {
        matches!(self, Self::GpuLeak | Self::GpuFragmented | Self::GpuCacheKeeps)
    }

    /// Whether it is about memory and what grows.
    #[must_use]
    pub fn is_of_memory(self) -> bool {
        self.is_leak() || self.is_harmless() || self == Self::Growing
    }
}
