//! Workers that this process has forked: which of its children they are, and what they still share with it.
//!
//! Before such a fork the parent notes its mappings. A page that a worker has for itself was copied where it lies in one
//! of these and the parent has one, too; otherwise it is the worker's own.

use std::collections::VecDeque;
use std::fs;
use std::ops::Range;
use std::sync::Arc;

use neurogc_wire::workers::{WorkerKind, WorkerMemory};

use super::process::kilobytes;
use crate::sys::maps::{self, Mapping};
use crate::sys::native::{START_STEP_NS, boot_ns, started_ns};
use crate::sys::pagemap::{PageMap, parted};

/// Forks that are remembered. A worker of an older one is an ordinary child.
const MOST: usize = 256;

/// A longer mapping is not looked at: programs reserve address space that they do not use.
const LONGEST: usize = 64 << 30;

/// One fork of a worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerFork {
    kind: WorkerKind,
    /// Just before and just after it, by the clock that runs since the boot.
    from: u64,
    to: u64,
    /// What was mapped and can be written to, by addresses.
    ranges: Arc<[Range<usize>]>,
}

impl WorkerFork {
    /// One that comes next; nothing where the kernel does not say what is mapped.
    pub(crate) fn now(kind: WorkerKind) -> Option<Self> {
        let ranges = writable(&maps::text()?).into();
        Some(Self { kind, from: boot_ns(), to: u64::MAX, ranges })
    }
}

/// The forks of workers so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerForks {
    kept: VecDeque<WorkerFork>,
}

impl WorkerForks {
    /// A worker is forked next.
    pub(crate) fn begin(&mut self, fork: WorkerFork) {
        if self.kept.len() == MOST {
            self.kept.pop_front();
        }
        self.kept.push_back(fork);
    }

    /// It has been forked.
    pub(crate) fn end(&mut self) {
        if let Some(last) = self.kept.back_mut().filter(|last| last.to == u64::MAX) {
            last.to = boot_ns();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// What a child was forked as, and what was mapped then; nothing where it is no worker.
    pub(crate) fn of_child(&self, pid: u32) -> Option<(WorkerKind, &[Range<usize>])> {
        if self.is_empty() || !is_same_program(pid) {
            return None;
        }
        let fork = self.started_at(started_ns(&pid.to_string())?)?;
        Some((fork.kind, &fork.ranges))
    }

    /// The fork that a process with this start comes from.
    fn started_at(&self, started: u64) -> Option<&WorkerFork> {
        let is_it = |fork: &&WorkerFork| {
            started + START_STEP_NS >= fork.from && started <= fork.to.saturating_add(START_STEP_NS)
        };
        self.kept.iter().rev().filter(is_it).min_by_key(|fork| fork.from.abs_diff(started))
    }
}

/// Whether a process runs the same program file: a child that was not forked as a worker mostly does not.
fn is_same_program(pid: u32) -> bool {
    let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    program(&pid.to_string()).is_some_and(|its| program("self") == Some(its))
}

/// Private memory that can be written to, neighbours together.
fn writable(text: &str) -> Vec<Range<usize>> {
    let is_it = |mapping: &Mapping<'_>| mapping.is_private && mapping.is_writable && mapping.len() <= LONGEST;
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for mapping in maps::parse(text).into_iter().filter(is_it) {
        match ranges.last_mut() {
            Some(last) if last.end == mapping.range.start => last.end = mapping.range.end,
            _ => ranges.push(mapping.range),
        }
    }
    ranges.shrink_to_fit();
    ranges
}

/// The memory of a process as the kernel adds it up, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rollup {
    pub(crate) rss: u64,
    pub(crate) pss: u64,
    /// What no other process has.
    pub(crate) private: u64,
    /// What comes from no file.
    pub(crate) anonymous: u64,
}

impl Rollup {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let figure = |name: &str| kilobytes(text, name);
        let private = figure("Private_Clean:")? + figure("Private_Dirty:")? + figure("Private_Hugetlb:").unwrap_or(0);
        Some(Self { rss: figure("Rss:")?, pss: figure("Pss:")?, private, anonymous: figure("Anonymous:")? })
    }

    /// The parts of a worker of which so much was copied.
    fn split(self, kind: WorkerKind, copied: u64) -> WorkerMemory {
        let copied = copied.min(self.private);
        WorkerMemory {
            kind,
            shared: self.rss.saturating_sub(self.private),
            shared_pss: self.pss.saturating_sub(self.private),
            copied,
            own: self.private - copied,
        }
    }
}

/// Where the memory of a child comes from, if it is a worker.
pub(crate) fn as_worker(pid: u32, rollup: Rollup, forks: &WorkerForks) -> Option<WorkerMemory> {
    let (kind, inherited) = forks.of_child(pid)?;
    let copied = parted(&mut PageMap::of(pid)?, &mut PageMap::of(std::process::id())?, inherited)?;
    Some(rollup.split(kind, copied))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_worker_are_its_proportional_set() {
        let text = "Rss:  900 kB\nPss:  500 kB\nPrivate_Clean:  10 kB\nPrivate_Dirty:  390 kB\nAnonymous:  600 kB\n";
        let worker = Rollup::parse(text).unwrap().split(WorkerKind::Dataloader, 150 << 10);
        let parts = [worker.shared, worker.shared_pss, worker.copied, worker.own].map(|part| part >> 10);
        assert_eq!(parts, [500, 100, 150, 250]);
        assert_eq!(Rollup::parse("Rss: 900 kB\n"), None);
    }

    #[test]
    fn a_child_is_known_by_its_start() {
        let fork = |from: u64, to: u64| WorkerFork { kind: WorkerKind::Pool, from, to, ranges: Arc::default() };
        let at = |step: u64| step * START_STEP_NS;
        let forks = WorkerForks { kept: [fork(at(100), at(101)), fork(at(500), u64::MAX)].into() };
        assert_eq!(forks.started_at(at(100)).unwrap().from, at(100));
        assert_eq!(forks.started_at(at(501)).unwrap().from, at(500));
        assert!(forks.started_at(at(300)).is_none());
    }

    #[test]
    fn this_process_was_started_before_now() {
        let age = boot_ns() - started_ns("self").unwrap();
        assert!(age < 600 * 1_000_000_000, "{age}");
    }
}
