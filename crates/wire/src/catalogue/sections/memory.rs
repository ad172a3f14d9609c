//! Figures of where the resident memory is, and of free memory that was given back.

use super::super::figure::{Across, Figure, Metric, Unit, figure};

const PARTS: Metric = Metric::shared("neurogc_memory_breakdown_bytes", "Resident memory by what it is used for");

/// Where the resident memory is.
pub(crate) const MEMORY: &[Figure] = &[
    figure!(memory.breakdown.python_used)
        .peak(Unit::Bytes, "Small Python objects")
        .note("In the arenas of CPython's own allocator. This and the next seven add up to the resident set.")
        .series("memory.breakdown.python_used")
        .metric(PARTS.with(&[("part", "python_used")])),
    figure!(memory.breakdown.python_free)
        .peak(Unit::Bytes, "Free memory in those arenas")
        .series("memory.breakdown.python_free")
        .metric(PARTS.with(&[("part", "python_free")])),
    figure!(memory.breakdown.malloc_used)
        .peak(Unit::Bytes, "Blocks of `malloc` in use")
        .note("Large Python objects, buffers, native code; also what threads keep for their next small allocations.")
        .series("memory.breakdown.malloc_used")
        .metric(PARTS.with(&[("part", "malloc_used")])),
    figure!(memory.breakdown.malloc_free)
        .peak(Unit::Bytes, "Free memory that `malloc` keeps")
        .series("memory.breakdown.malloc_free")
        .metric(PARTS.with(&[("part", "malloc_free")])),
    figure!(memory.breakdown.mapped)
        .peak(Unit::Bytes, "Memory mapped without `malloc`, and files that are no libraries")
        .series("memory.breakdown.mapped")
        .metric(PARTS.with(&[("part", "mapped")])),
    figure!(memory.breakdown.stacks)
        .peak(Unit::Bytes, "Stacks of all threads")
        .series("memory.breakdown.stacks")
        .metric(PARTS.with(&[("part", "stacks")])),
    figure!(memory.breakdown.libraries)
        .peak(Unit::Bytes, "Code and data of the interpreter and of libraries")
        .series("memory.breakdown.libraries")
        .metric(PARTS.with(&[("part", "libraries")])),
    figure!(memory.breakdown.other)
        .peak(Unit::Bytes, "Everything else")
        .series("memory.breakdown.other")
        .metric(PARTS.with(&[("part", "other")])),
    figure!(memory.breakdown.at_s)
        .latest(Unit::Seconds, "When it was read, since the agent was installed")
        .note("0 before the first time. It is read every 30 seconds, or more seldom where that takes long.")
        .across(Across::Apart),
    figure!(memory.breakdown.took_ms)
        .latest(Unit::Milliseconds, "How long the reading took; the program went on meanwhile")
        .across(Across::Max),
    figure!(memory.breakdown.explained)
        .latest(Unit::Ratio, "The share of the resident set that is not `other`, from 0 to 1")
        .across(Across::Apart),
    figure!(memory.breakdown.malloc)
        .text("Whose `malloc` it is: `glibc`, or `unknown`")
        .note("Of an unknown one nothing is read: its memory is in `other`. `degraded` says so."),
    figure!(memory.breakdown.malloc_arenas)
        .peak(Unit::Count, "Arenas of `malloc`")
        .series("memory.malloc_arenas")
        .prometheus("neurogc_malloc_arenas"),
    figure!(memory.breakdown.malloc_arenas_free)
        .peak(Unit::Bytes, "What the arenas other than the main one keep free")
        .note("A part of `malloc_free`."),
    figure!(memory.breakdown.malloc_mapped)
        .peak(Unit::Bytes, "Large blocks of `malloc` with a mapping of their own")
        .note("A part of `malloc_used`."),
    figure!(memory.breakdown.trimmable)
        .peak(Unit::Bytes, "Whole pages in free blocks of `malloc`, which `trim` can give back")
        .note("A part of `malloc_free`.")
        .series("memory.trimmable")
        .prometheus("neurogc_memory_trimmable_bytes"),
    figure!(memory.breakdown.python_arenas).peak(Unit::Count, "Arenas of CPython's allocator"),
    figure!(memory.breakdown.python_sparse_arenas)
        .peak(Unit::Count, "Those of which less than a quarter is in use")
        .note("A few objects keep such an arena from going back to the system."),
    figure!(memory.breakdown.python_sparse_free)
        .peak(Unit::Bytes, "Free memory in those")
        .note("A part of `python_free`."),
    figure!(memory.breakdown.mapped_files)
        .peak(Unit::Bytes, "Files that are no libraries, and shared memory")
        .note("A part of `mapped`."),
    figure!(memory.breakdown.ours)
        .peak(Unit::Bytes, "The agent's own memory, without its library")
        .note("It is a part of `malloc_used` and `mapped`."),
    figure!(memory.huge_pages)
        .peak(Unit::Bytes, "Memory in transparent huge pages")
        .note("Read as rarely as `memory.pss`."),
    figure!(memory.trim.count)
        .counter(Unit::Count, "How often free memory of `malloc` was given back")
        .series("memory.trims")
        .prometheus("neurogc_trims_total"),
    figure!(memory.trim.saved_bytes)
        .counter(Unit::Bytes, "Resident memory that this has saved")
        .note("At the time. The program may have needed some of it again.")
        .prometheus("neurogc_trimmed_bytes_total"),
    figure!(memory.trim.total_ms)
        .counter(Unit::Milliseconds, "How long it took; the program went on meanwhile")
        .prometheus("neurogc_trim_seconds_total"),
    figure!(memory.trim.max_lock_ms)
        .largest(Unit::Milliseconds, "The longest time that an arena of `malloc` was locked for it")
        .note("A thread that allocated from this arena had to wait."),
];
