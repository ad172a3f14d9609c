//! The kinds of leaks: how each comes about, what to do about it, and where to read more.

use neurogc_wire::finding::FindingKind;

/// What can be said about a kind, whatever the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Teaching {
    /// How it comes about.
    pub pattern: &'static str,
    /// What to do.
    pub advice: &'static str,
    /// The section of the documentation.
    pub doc: &'static str,
}

/// What can be said about a kind; nothing for kinds that are not about memory.
#[must_use]
pub fn teaching(kind: FindingKind) -> Option<Teaching> {
    let (pattern, advice, doc) = match kind {
        FindingKind::UnboundedContainer => (
            "accumulation: entries are added all the time, and none is removed",
            "Bound it: remove entries when they are done with, use collections.deque(maxlen=…), a cache with a bound, \
             weakref.WeakValueDictionary, or write them out.",
            "docs/leaks.md#unbounded-container",
        ),
        FindingKind::UnboundedCache => (
            "cache without a bound: each new key stays for ever",
            "Bound it: functools.lru_cache(maxsize=…), cachetools.LRUCache or TTLCache; or clear it at times.",
            "docs/leaks.md#unbounded-cache",
        ),
        FindingKind::Callbacks => (
            "callbacks are registered again and again, and never taken out; each keeps its object alive",
            "Register once, unregister in a finally block, or keep weakref.WeakMethod instead of bound methods.",
            "docs/leaks.md#callbacks",
        ),
        FindingKind::StoredExceptions => (
            "exceptions are stored; each holds its traceback, and that all local variables of its frames",
            "Keep text instead: traceback.format_exc(); or clear error.__traceback__ before you store an exception.",
            "docs/leaks.md#stored-exceptions",
        ),
        FindingKind::Logging => (
            "loggers or handlers are made again and again; logging keeps each of them for ever",
            "Make loggers once per module with logging.getLogger(__name__); remove and close handlers that you add.",
            "docs/leaks.md#logging",
        ),
        FindingKind::Contexts => (
            "context variables or contexts are made again and again",
            "Make each ContextVar once, at module level; reset it with its token; end the tasks that copied contexts.",
            "docs/leaks.md#contexts",
        ),
        FindingKind::Modules => (
            "modules, classes or code are made at run time; the interpreter keeps them",
            "Import and define things once: no exec, type() or create_model() for each request; intern no foreign strings.",
            "docs/leaks.md#modules",
        ),
        FindingKind::Tasks => (
            "asyncio tasks are started and do not end",
            "Give what they await a timeout (asyncio.timeout), cancel them, or use asyncio.TaskGroup.",
            "docs/leaks.md#tasks",
        ),
        FindingKind::Threads => (
            "threads are started and do not end",
            "Use one concurrent.futures.ThreadPoolExecutor for all, shut executors down, and join threads.",
            "docs/leaks.md#threads",
        ),
        FindingKind::Descriptors => (
            "files, sockets or pipes are opened and not closed",
            "Open them in with blocks, close sessions and responses; python -X dev names those that were not closed.",
            "docs/leaks.md#descriptors",
        ),
        FindingKind::Children => (
            "child processes are started and not ended, or they grow themselves",
            "Use one pool, join or wait for children, and set max_tasks_per_child; look at a child with neurogc memory.",
            "docs/leaks.md#children",
        ),
        FindingKind::CyclicGarbage => (
            "objects in reference cycles are not freed",
            "Let the collector run (gc.enable, neurogc policy auto), break cycles with weakref, and empty gc.garbage.",
            "docs/leaks.md#cyclic-garbage",
        ),
        FindingKind::PythonGrowth => (
            "Python objects are made at this line and not freed; what holds them is not known yet",
            "Take two heap dumps and compare them: neurogc heap dump, then neurogc heap diff.",
            "docs/leaks.md#python-growth",
        ),
        FindingKind::NativeGrowth => (
            "memory of native code, or of large buffers, grows while Python objects do not",
            "See the call stacks: neurogc memory sites --native --since 10m --by stack. Release what the library hands out.",
            "docs/leaks.md#native-growth",
        ),
        FindingKind::ArenaExplosion => (
            "malloc gives threads arenas of their own; memory that is freed in one is not used by others",
            "Set MALLOC_ARENA_MAX=2 in the environment of the program, or load jemalloc.",
            "docs/leaks.md#arena-explosion",
        ),
        FindingKind::MallocFree => (
            "malloc keeps freed memory between blocks that are in use",
            "Call malloc_trim(0) at times, set MALLOC_TRIM_THRESHOLD_=131072, or load jemalloc.",
            "docs/leaks.md#malloc-free",
        ),
        FindingKind::PymallocPinned => (
            "a few objects in each of many arenas keep CPython from returning them",
            "Build what lives long before what lives short, or do large one-time work in a child process.",
            "docs/leaks.md#pymalloc-pinned",
        ),
        FindingKind::DataloaderCopies => (
            "workers copy what they inherit: to read a Python object is to write its reference count, and the kernel copies \
             the whole page for that",
            "Keep the data as one array, not as many objects: a tensor, numpy, pyarrow or datasets; or np.memmap; or load it \
             in the worker (worker_init_fn, IterableDataset); or use fewer workers. spawn copies all at once.",
            "docs/training.md#memory-of-workers",
        ),
        FindingKind::Growing => (
            "",
            "Ask again later: the longer it was watched, the surer the verdict.",
            "docs/leaks.md#how-it-is-decided",
        ),
        FindingKind::Plateau
        | FindingKind::Filling
        | FindingKind::FollowsLoad
        | FindingKind::RisesAndFalls
        | FindingKind::AllocatorKeeps => ("", "", "docs/leaks.md#not-a-leak"),
        _ => return None,
    };
    Some(Teaching { pattern, advice, doc })
}
