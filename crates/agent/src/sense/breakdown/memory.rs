//! Private memory without a file, divided among those that have mapped it: stacks, heaps of `malloc`, arenas of CPython,
//! libraries, and the rest.

use std::collections::HashMap;
use std::ops::Range;

use neurogc_wire::breakdown::Breakdown;

use super::LARGE;
use super::pools::PoolCount;
use crate::alloc;
use crate::sys::copies::Copies;
use crate::sys::libraries::Libraries;
use crate::sys::malloc::{HeapUse, MallocHeap, mapped_block};
use crate::sys::maps::Mapping;
use crate::sys::page::page_size;
use crate::sys::residency::Residency;

/// So many pages that are no head of a block are looked at in one reading. Blocks that have a mapping of their own begin at
/// any page; most of them follow each other, or were sampled.
const MOST_PROBES: usize = 4096;

/// The distance between what `malloc` maps and the block that it gives out.
const HEAD: usize = 16;

pub(super) struct PlainMemory {
    pub(super) is_glibc: bool,
    pub(super) pools: PoolCount,
    /// What is in the heaps of each arena of `malloc`.
    pub(super) arenas: HashMap<usize, HeapUse>,
    stacks: Vec<Range<usize>>,
    heaps: Vec<MallocHeap>,
    on_stacks: usize,
    in_libraries: usize,
    /// Blocks of `malloc` with a mapping of their own.
    blocks: usize,
    mapped: usize,
    probes: usize,
    /// Pages at which sampled blocks begin, in order.
    sampled: Vec<usize>,
    copies: Copies,
}

/// A block or mapping that may be worth listing: what of it is in memory, its address, and whether it is of `malloc`.
type Listed = (usize, usize, bool);

impl PlainMemory {
    /// None where memory cannot be copied.
    pub(super) fn new(stacks: Vec<Range<usize>>, heaps: Vec<MallocHeap>, is_glibc: bool) -> Option<Self> {
        Some(Self {
            is_glibc,
            pools: PoolCount::default(),
            arenas: HashMap::new(),
            stacks,
            heaps,
            on_stacks: 0,
            in_libraries: 0,
            blocks: 0,
            mapped: 0,
            probes: 0,
            sampled: alloc::large_blocks().into_iter().map(|block| block - HEAD).collect(),
            copies: Copies::new()?,
        })
    }

    /// Adds one mapping, and gives the large ones in it.
    pub(super) fn add(&mut self, mapping: &Mapping<'_>, residency: &Residency, libraries: &Libraries) -> Vec<Listed> {
        let mut listed = Vec::new();
        if residency.total() == 0 {
            return listed;
        }
        let mut taken: Vec<Range<usize>> = Vec::new();
        for stack in within(&self.stacks, &mapping.range) {
            self.on_stacks += residency.bytes(stack.clone());
            taken.push(stack);
        }
        for heap in self.heaps.iter().filter(|heap| mapping.range.contains(&heap.range.start)) {
            self.arenas.entry(heap.arena).or_default().add(&HeapUse::of(heap, residency, &mut self.copies));
            taken.push(heap.range.clone());
        }
        for part in libraries.within(&mapping.range) {
            self.in_libraries += residency.bytes(part.clone());
            taken.push(part);
        }
        if mapping.name == "[heap]" {
            return listed;
        }
        for rest in gaps(&mapping.range, taken) {
            let rest = self.leading_blocks(&rest, residency, &mut listed);
            let pools = self.pools.add(&rest, residency, &mut self.copies);
            for rest in gaps(&rest, pools) {
                self.divide(&rest, residency, &mut listed);
            }
        }
        listed
    }

    /// Counts the blocks that a range begins with, and gives the rest. New mappings come before older ones, so most mappings
    /// of `malloc` are found by this.
    fn leading_blocks(
        &mut self,
        range: &Range<usize>,
        residency: &Residency,
        listed: &mut Vec<Listed>,
    ) -> Range<usize> {
        let mut at = range.start;
        while let Some(size) = self.block_at(at, range.end, residency) {
            self.add_block(at, size, residency, listed);
            at += size;
        }
        at..range.end
    }

    fn block_at(&mut self, page: usize, end: usize, residency: &Residency) -> Option<usize> {
        let may_be = self.is_glibc && page.is_multiple_of(page_size()) && page < end && residency.has(page);
        if may_be { mapped_block(self.copies.array(page)?, page, end) } else { None }
    }

    fn add_block(&mut self, page: usize, size: usize, residency: &Residency, listed: &mut Vec<Listed>) {
        let resident = residency.bytes(page..page + size);
        self.blocks += resident;
        if resident >= LARGE {
            listed.push((resident, page + HEAD, true));
        }
    }

    /// Divides a range between blocks of `malloc` that have a mapping of their own, and the rest.
    fn divide(&mut self, range: &Range<usize>, residency: &Residency, listed: &mut Vec<Listed>) {
        let (mut at, mut rest) = (range.start, range.start);
        while let Some(page) = residency.next(at, range.end).filter(|_| self.is_glibc) {
            let Some(size) = self.block_at(page, range.end, residency) else {
                self.probes += 1;
                at = if self.probes < MOST_PROBES {
                    page + page_size()
                } else {
                    self.next_sampled(page).unwrap_or(range.end)
                };
                continue;
            };
            self.leave(rest..page, residency, listed);
            self.add_block(page, size, residency, listed);
            at = page + size;
            rest = at;
        }
        self.leave(rest..range.end, residency, listed);
    }

    /// Where the next sampled block begins.
    fn next_sampled(&self, page: usize) -> Option<usize> {
        self.sampled.get(self.sampled.partition_point(|start| *start <= page)).copied()
    }

    fn leave(&mut self, range: Range<usize>, residency: &Residency, listed: &mut Vec<Listed>) {
        let (start, resident) = (range.start, residency.bytes(range));
        self.mapped += resident;
        if resident >= LARGE {
            listed.push((resident, start, false));
        }
    }

    pub(super) fn fill(&self, breakdown: &mut Breakdown) {
        self.pools.fill(breakdown);
        breakdown.stacks += self.on_stacks as u64;
        breakdown.libraries += self.in_libraries as u64;
        breakdown.malloc_mapped = self.blocks as u64;
        // Where nothing is known of `malloc`, this may be its memory.
        breakdown.mapped += if self.is_glibc { self.mapped as u64 } else { 0 };
    }
}

/// The parts of these ranges that lie in another one.
fn within(ranges: &[Range<usize>], range: &Range<usize>) -> Vec<Range<usize>> {
    let clip = |part: &Range<usize>| part.start.max(range.start)..part.end.min(range.end);
    ranges.iter().map(clip).filter(|part| !part.is_empty()).collect()
}

/// What is left of a range without others, which may overlap.
fn gaps(range: &Range<usize>, mut taken: Vec<Range<usize>>) -> Vec<Range<usize>> {
    taken.sort_unstable_by_key(|part| part.start);
    let (mut left, mut at) = (Vec::new(), range.start);
    for part in taken {
        if part.start > at {
            left.push(at..part.start.min(range.end));
        }
        at = at.max(part.end);
    }
    if at < range.end {
        left.push(at..range.end);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_range() {
        let check = |taken: &[Range<usize>], left: &[Range<usize>]| assert_eq!(gaps(&(10..50), taken.to_vec()), left);
        check(&[], &[Range { start: 10, end: 50 }]);
        check(&[40..60, 10..20, 15..25], &[Range { start: 25, end: 40 }]);
        check(&[20..30, 0..12], &[12..20, 30..50]);
        check(&[0..40, 30..100], &[]);
        assert_eq!(within(&[0..15, 20..30, 60..70], &(10..50)), [10..15, 20..30]);
    }
}
