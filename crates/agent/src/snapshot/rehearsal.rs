//! Walks over graphs of made-up objects, judged by a model that knows what is reachable. No interpreter is needed: an
//! object is a head, a count, a type and its references.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use super::control::{Shared, WalkTrouble};
use super::walk::{Lists, Walk, WalkWatch};
use super::{candidates, system};
use crate::cpython::arenas;
use crate::cpython::generations::GcHead;
use crate::cpython::layout::{self, Layout};
use crate::cpython::tables::ObjectTables;

/// An object as the layout of CPython 3.12 has it, and behind that what it refers to.
#[repr(C, align(16))]
struct Object {
    head: GcHead,
    count: i64,
    kind: usize,
    references: *const usize,
    length: usize,
}

type Visit = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

unsafe extern "C" fn traverse(object: *mut c_void, visit: Visit, argument: *mut c_void) -> c_int {
    // SAFETY: only objects of this test have this function.
    unsafe {
        let object = object.cast::<u8>().sub(GcHead::SIZE).cast::<Object>();
        for index in 0..(*object).length {
            visit(*(*object).references.add(index) as *mut c_void, argument);
        }
    }
    0
}

/// A graph: what each object refers to, and how often it is held from outside.
#[derive(Debug, Default)]
struct Graph {
    edges: Vec<Vec<usize>>,
    held: Vec<i64>,
}

const IMMORTAL: i64 = -1;

impl Graph {
    fn with(count: usize) -> Self {
        Self { edges: vec![Vec::new(); count], held: vec![0; count] }
    }

    fn garbage(&self) -> BTreeSet<usize> {
        let mut open: Vec<usize> = (0..self.held.len()).filter(|index| self.held[*index] != 0).collect();
        let mut reached: BTreeSet<usize> = open.iter().copied().collect();
        while let Some(index) = open.pop() {
            open.extend(self.edges[index].iter().copied().filter(|target| reached.insert(*target)));
        }
        (0..self.held.len()).filter(|index| !reached.contains(index)).collect()
    }

    /// Groups of garbage that hang together, each in the order of the list.
    fn components(&self) -> Vec<Vec<usize>> {
        let garbage = self.garbage();
        let mut of: BTreeMap<usize, usize> = garbage.iter().map(|index| (*index, *index)).collect();
        loop {
            let mut changed = false;
            for index in &garbage {
                for target in self.edges[*index].iter().filter(|target| garbage.contains(target)) {
                    let least = of[index].min(of[target]);
                    changed |= of.insert(*index, least) != Some(least);
                    changed |= of.insert(*target, least) != Some(least);
                }
            }
            if !changed {
                break;
            }
        }
        let mut groups = BTreeMap::<usize, Vec<usize>>::new();
        for (index, first) in of {
            groups.entry(first).or_default().push(index);
        }
        groups.into_values().collect()
    }

    /// Walks the graph and gives the components that are found, by number.
    fn walk(&self, capacity: usize) -> Result<(Vec<Vec<usize>>, u64), WalkTrouble> {
        let layout: &'static Layout = layout::any();
        let mut kind = [0_usize; 64];
        kind[layout.type_traverse / size_of::<usize>()] = traverse as *const () as usize;
        kind[layout.type_basicsize / size_of::<usize>()] = size_of::<Object>() - GcHead::SIZE;
        let count = self.edges.len();
        let blank = || Object {
            head: GcHead { next: 0, previous: 0 },
            count: 0,
            kind: kind.as_ptr() as usize,
            references: std::ptr::null(),
            length: 0,
        };
        let mut objects: Vec<Object> = (0..count).map(|_| blank()).collect();
        let address = |index: usize| objects.as_ptr() as usize + index * size_of::<Object>() + GcHead::SIZE;
        let references: Vec<Vec<usize>> =
            self.edges.iter().map(|edges| edges.iter().map(|target| address(*target)).collect()).collect();
        // Three lists in turns; the last one is that of the frozen objects, which is empty.
        let mut heads: [GcHead; 4] = std::array::from_fn(|_| GcHead { next: 0, previous: 0 });
        let head_addresses: [usize; 4] = std::array::from_fn(|list| &raw const heads[list] as usize);
        for (list, head) in heads.iter_mut().enumerate() {
            head.next = head_addresses[list];
        }
        let addresses: Vec<usize> = (0..count).map(address).collect();
        for index in (0..count).rev() {
            let list = index * 3 / count;
            objects[index].head.next = std::mem::replace(&mut heads[list].next, addresses[index] - GcHead::SIZE);
            objects[index].count = self.held[index];
            (objects[index].references, objects[index].length) = (references[index].as_ptr(), references[index].len());
        }
        for target in self.edges.iter().flatten() {
            if self.held[*target] != IMMORTAL {
                objects[*target].count += 1;
            }
        }
        // The way back.
        for (list, head) in head_addresses.iter().enumerate() {
            let mut at = heads[list].next;
            let mut before = *head;
            while at != *head {
                let index = (at + GcHead::SIZE - addresses[0]) / size_of::<Object>();
                // CPython keeps flags in the low bits.
                objects[index].head.previous = before | (index & 1);
                (before, at) = (at, objects[index].head.next);
            }
            heads[list].previous = before;
        }
        let Some(shared) = Shared::new(capacity) else { return Err(WalkTrouble::NoMemory) };
        let control = shared.control();
        let watch = WalkWatch::new(control, system::parent(), u64::MAX, None);
        let mut walk = Walk::new(layout, ObjectTables::default(), watch)?;
        // What comes from here on stays new; it is in the first list.
        let newer = count / 6;
        let lists = Lists { heads: head_addresses, since: None, newer: Some(addresses[newer] - GcHead::SIZE) };
        // SAFETY: the lists are well formed, and nothing changes them.
        unsafe {
            walk.enlist(&lists)?;
            walk.subtract()?;
            walk.mark()?;
            candidates::write(&mut walk, &lists, layout, &shared)?;
        }
        assert_eq!(control.tracked.load(Ordering::Relaxed), count as u64);
        let garbage = self.garbage();
        let older = (0..newer).filter(|index| !garbage.contains(index)).count();
        assert_eq!(control.older.load(Ordering::Relaxed), older as u64);
        let (found, sizes) = shared.found();
        let mut found = found.iter().map(|candidate| {
            assert_eq!(candidate.kind, kind.as_ptr() as usize);
            assert_ne!(candidate.is_small(), arenas::may_be_elsewhere(candidate.object()));
            addresses.binary_search(&candidate.object()).unwrap_or_else(|_| panic!("no object: {candidate:?}"))
        });
        let groups = sizes.iter().map(|size| found.by_ref().take(*size as usize).collect()).collect();
        Ok((groups, control.left_out.load(Ordering::Relaxed)))
    }
}

fn check(graph: &Graph) {
    let (found, left_out) = graph.walk(graph.edges.len() + 1).unwrap_or_else(|trouble| panic!("{trouble:?}"));
    assert_eq!(left_out, 0);
    assert_eq!(found, graph.components());
}

/// Numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

#[test]
fn random_graphs_are_judged_as_by_the_model() {
    for seed in 0..400 {
        let mut numbers = Numbers(seed);
        let count = 1 + numbers.below(60);
        let mut graph = Graph::with(count);
        for index in 0..count {
            for _ in 0..numbers.below(4) {
                graph.edges[index].push(numbers.below(count));
            }
            graph.held[index] = match numbers.below(12) {
                0 => 1,
                1 => 3,
                2 => IMMORTAL,
                _ => 0,
            };
        }
        check(&graph);
    }
}

#[test]
fn more_references_than_a_byte_can_count_are_counted() {
    for held in [0, 1] {
        let mut graph = Graph::with(700);
        graph.held[0] = held;
        for index in 1..600 {
            graph.edges[index].push(0);
            graph.edges[0].push(index);
            // Right at the edge of what a byte counts.
            for times in 0..(247 + index % 10) {
                graph.edges[600 + times % 7].push(index);
            }
        }
        graph.edges[0].extend(600..700);
        check(&graph);
    }
}

#[test]
fn a_graph_that_is_wider_than_the_stack_is_marked() {
    let count = 30_000;
    let mut graph = Graph::with(count);
    graph.held[count / 2] = 1;
    graph.edges[count / 2] = (0..count).step_by(2).collect();
    // Each of these is wide itself, and leads on to where the look through the table has been already.
    for index in (0..count).step_by(6_000) {
        graph.edges[index] = (1..count).step_by(2).filter(|target| target % 6_000 < 5_000).collect();
    }
    check(&graph);
}

#[test]
fn a_deep_graph_needs_no_stack() {
    let count = 200_000;
    let mut graph = Graph::with(count);
    graph.held[count - 1] = 1;
    for index in 1..count {
        // Two chains; one of them has no reference from outside.
        if index != count / 2 {
            graph.edges[index].push(index - 1);
        }
    }
    let (found, _) = graph.walk(count).unwrap_or_else(|trouble| panic!("{trouble:?}"));
    assert_eq!(found, [(0..count / 2).collect::<Vec<_>>()]);
}

#[test]
fn what_finds_no_room_is_left_out_whole() {
    let mut graph = Graph::with(10);
    for index in 0..10 {
        graph.edges[index].push(if index < 6 { (index + 1) % 6 } else { 6 + (index - 6 + 1) % 4 });
    }
    assert_eq!(graph.walk(5), Ok((vec![vec![6, 7, 8, 9]], 6)));
}

#[test]
fn a_walk_that_is_no_longer_needed_is_given_up() {
    let Some(shared) = Shared::new(1) else { panic!("no memory") };
    let control = shared.control();
    let watch = |parent, deadline| WalkWatch::new(control, parent, deadline, None);
    assert_eq!(watch(system::parent(), u64::MAX).look(), Ok(()));
    assert_eq!(watch(-5, u64::MAX).look(), Err(WalkTrouble::Orphaned));
    assert_eq!(watch(system::parent(), 1).look(), Err(WalkTrouble::Late));
    control.say_stop();
    assert_eq!(watch(system::parent(), u64::MAX).look(), Err(WalkTrouble::Stopped));
}
