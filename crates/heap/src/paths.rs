//! Shortest paths from the roots, in the order in which a person knows roots.
//!
//! The shortest path stands for the one that is easiest to understand, and a path from a module teaches more than one
//! through a thread's stack. So modules begin, and other roots join the search some steps later: a path from a frame is
//! taken only if it is shorter by that much.

use std::io;

use neurogc_ngch::RootKind;
use rustc_hash::FxHashMap;

use crate::array::Numbers;
use crate::graph::NONE;
use crate::heap::{Heap, rank};
use crate::reader::{DumpTables, HeapTask};
use crate::roots::Reason;

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStart {
    /// At a root, for a reason.
    Root(Reason),
    /// At a task of asyncio, by its place in the table.
    Task(u32),
}

/// The last step of the shortest path to each object.
#[derive(Debug)]
pub struct Paths {
    before: Numbers<u32>,
    starts: FxHashMap<u32, PathStart>,
}

/// The step of the search at which tasks join.
const TASKS: usize = 5;

/// The step of the search at which a root joins.
fn joins(rank: u8) -> usize {
    [0, 8, 10, 6, 12, 12, 12, 14].get(usize::from(rank)).copied().unwrap_or(16)
}

impl Paths {
    /// Searches from all roots. Weak references are not in a dump.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn find(heap: &Heap) -> io::Result<Self> {
        let objects = heap.graph.objects();
        let mut before = Numbers::filled(objects, NONE)?;
        let mut starts = FxHashMap::default();
        let mut queue = Numbers::<u32>::zeroed(objects)?;
        let (mut read, mut written, mut step) = (0, 0, 0);
        let mut waiting = waiting(heap);
        let links = &heap.graph.links;
        {
            let (before, queue): (&mut [u32], &mut [u32]) = (&mut before, &mut queue);
            loop {
                // Nothing is left to go on from: the next roots need not wait.
                if read == written
                    && let Some((next, _, _)) = waiting.last()
                {
                    step = step.max(*next);
                }
                while let Some((_, object, start)) = waiting.pop_if(|(when, _, _)| *when <= step) {
                    if before[object as usize] == NONE {
                        before[object as usize] = object;
                        starts.insert(object, start);
                        queue[written] = object;
                        written += 1;
                    }
                }
                match (read == written, waiting.is_empty()) {
                    (true, true) => break,
                    // All that joined were reached before: it is the next ones' turn.
                    (true, false) => continue,
                    _ => {}
                }
                let end = written;
                for place in read..end {
                    let object = queue[place];
                    for target in links.of(object) {
                        if before[*target as usize] == NONE {
                            before[*target as usize] = object;
                            queue[written] = *target;
                            written += 1;
                        }
                    }
                }
                read = end;
                step = step.saturating_add(1);
            }
        }
        Ok(Self { before, starts })
    }

    /// The path to an object, from its start on; empty for garbage.
    #[must_use]
    pub fn to(&self, object: u32) -> Vec<u32> {
        let mut path = Vec::new();
        let mut at = object;
        while self.before[at as usize] != NONE {
            path.push(at);
            let above = self.before[at as usize];
            if above == at {
                break;
            }
            at = above;
        }
        path.reverse();
        path
    }

    /// The object before on the path, or none at the start.
    #[must_use]
    pub fn before(&self, object: u32) -> Option<u32> {
        let above = self.before[object as usize];
        (above != object && above != NONE).then_some(above)
    }

    /// Why a path begins at this object.
    #[must_use]
    pub fn start(&self, object: u32) -> Option<PathStart> {
        self.starts.get(&object).copied()
    }
}

/// All roots with the step at which they join, the last one to join first.
fn waiting(heap: &Heap) -> Vec<(usize, u32, PathStart)> {
    let tables = &heap.dump.tables;
    let mut all: Vec<(usize, u32, PathStart)> = Vec::new();
    for (place, root) in tables.roots.iter().enumerate() {
        // A word that was not believed is no reason for its object, and so for none of the paths.
        let believed = matches!(root.kind, RootKind::Modules | RootKind::Local | RootKind::Frame)
            || heap.named_root(root.object) == Some(root);
        if believed {
            all.push((joins(rank(root)), root.object, PathStart::Root(Reason::Claim(place as u32))));
        }
    }
    // A task that waits for nothing that exists is garbage, and no start of a path.
    let runs = |task: &HeapTask| DumpTables::is_pending(task) && heap.tree.reached(task.object);
    let pending = tables.tasks.iter().enumerate().filter(|(_, task)| runs(task));
    all.extend(pending.map(|(place, task)| (TASKS, task.object, PathStart::Task(place as u32))));
    let mut others: Vec<_> = heap.reasons.iter().filter(|(_, it)| !matches!(it, Reason::Claim(_))).collect();
    others.sort_unstable_by_key(|(object, _)| **object);
    all.extend(others.into_iter().map(|(object, reason)| (usize::MAX, *object, PathStart::Root(*reason))));
    // Within a step the order stays: the last of the list is taken first.
    all.sort_by_key(|(step, _, _)| *step);
    all.reverse();
    all
}
