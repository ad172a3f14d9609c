//! The walk along the blocks of a heap.

use std::ops::Range;

use super::heaps::MallocHeap;
use crate::sys::copies::{Copies, ROOM};
use crate::sys::page::page_size;
use crate::sys::residency::Residency;

/// The bits beside a block's size: the block before it is in use; it is a mapping of its own; it is not of the main arena.
const BEFORE_IN_USE: usize = 1;
const MAPPED: usize = 2;
const NOT_MAIN: usize = 4;
const FLAGS: usize = 7;

const SMALLEST: usize = 32;
const ALIGNED: usize = 16;

/// A walk that lost its way goes on where so many blocks in a row make sense.
const IN_A_ROW: usize = 8;

/// It looks at no more than this for such places, in all of one heap.
const MOST_SEARCHED: usize = 2 << 20;

/// What a heap's memory is used for. All but `size` is what of it is in memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapUse {
    pub(crate) size: usize,
    pub(crate) resident: usize,
    /// Free blocks, that at the end apart.
    pub(crate) free: usize,
    /// The free block at the end, from which the heap grows.
    pub(crate) top: usize,
    /// Whole pages in both of these, which could be given back.
    pub(crate) trimmable: usize,
    /// How many free blocks have such pages.
    pub(crate) trimmable_blocks: usize,
    /// What the walk passed over because it made no sense.
    pub(crate) unclear: usize,
}

impl HeapUse {
    /// What is in use: all the rest.
    pub(crate) fn used(&self) -> usize {
        self.resident.saturating_sub(self.free + self.top + self.unclear)
    }

    /// Adds what another heap of the same arena has.
    pub(crate) fn add(&mut self, other: &Self) {
        self.size += other.size;
        self.resident += other.resident;
        self.free += other.free;
        self.top += other.top;
        self.trimmable += other.trimmable;
        self.trimmable_blocks += other.trimmable_blocks;
        self.unclear += other.unclear;
    }

    /// Goes along the blocks of a heap. `residency` is that of the mapping it lies in.
    pub(crate) fn of(heap: &MallocHeap, residency: &Residency, copies: &mut Copies) -> Self {
        let mut walk = Walk {
            range: heap.range.clone(),
            is_main: heap.arena == 0,
            residency,
            copies,
            windows: Windows { parts: [Part::default(), Part::default()], latest: 0, next: page_size() },
            searched: 0,
            found: Self { size: heap.range.len(), resident: residency.bytes(heap.range.clone()), ..Self::default() },
        };
        walk.run(heap.first.next_multiple_of(ALIGNED));
        walk.found
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The size of the block before it, where that is free.
    before: usize,
    size: usize,
    flags: usize,
}

/// A part of the heap that has been read.
#[derive(Debug, Default)]
struct Part {
    start: usize,
    bytes: Vec<u8>,
}

/// Two parts: a walk that looks ahead comes back.
#[derive(Debug)]
struct Windows {
    parts: [Part; 2],
    latest: usize,
    /// How much is read next: more where the walk goes on to the next pages, and little where it leaps.
    next: usize,
}

struct Walk<'a> {
    range: Range<usize>,
    is_main: bool,
    residency: &'a Residency,
    copies: &'a mut Copies,
    windows: Windows,
    /// How much has been searched for places to go on from.
    searched: usize,
    found: HeapUse,
}

impl Walk<'_> {
    fn run(&mut self, first: usize) {
        let Some(mut at) = self.find(first) else {
            return self.pass_over(first);
        };
        self.found.unclear += self.residency.bytes(first..at);
        loop {
            let next = match self.plausible(at) {
                Some(head) if at + head.size == self.range.end => return self.ends_with(at),
                Some(head) => {
                    let next = at + head.size;
                    if self.head(next).and_then(|after| self.step(at, head, after)).is_some() {
                        at = next;
                        continue;
                    }
                    next
                }
                None => at,
            };
            // The last block of a heap that is not the newest of its arena is followed by a mark.
            if self.range.end - next <= 2 * SMALLEST {
                return;
            }
            // Where only the next page is missing, there is no need to search this block.
            let from = if self.residency.has(next) { at + ALIGNED } else { next };
            let Some(again) = self.find(from) else { return self.pass_over(at) };
            self.found.unclear += self.residency.bytes(at..again);
            at = again;
        }
    }

    /// Goes on from a block to the one after it, and counts the first if it is free. None where they contradict each other.
    fn step(&mut self, at: usize, head: Head, after: Head) -> Option<()> {
        if after.flags & BEFORE_IN_USE == 0 {
            if after.before != head.size {
                return None;
            }
            let inside = at + ALIGNED..at + head.size;
            self.found.free += self.residency.bytes(at..at + head.size);
            let pages = self.residency.whole_pages(inside.start + ALIGNED..inside.end);
            self.found.trimmable += pages * page_size();
            self.found.trimmable_blocks += usize::from(pages > 0);
        } else if (head.flags & NOT_MAIN != 0) == self.is_main {
            return None;
        }
        Some(())
    }

    fn ends_with(&mut self, top: usize) {
        self.found.top = self.residency.bytes(top..self.range.end);
        self.found.trimmable += self.residency.whole_pages(top + ALIGNED..self.range.end) * page_size();
    }

    fn pass_over(&mut self, from: usize) {
        self.found.unclear += self.residency.bytes(from..self.range.end);
    }

    /// The next place at which a row of blocks makes sense.
    fn find(&mut self, from: usize) -> Option<usize> {
        let mut at = self.residency.next(from.next_multiple_of(ALIGNED), self.range.end)?;
        let end = self.range.end;
        while at < end && self.searched < MOST_SEARCHED {
            if self.residency.has(at) {
                if self.is_row(at) {
                    return Some(at);
                }
                at += ALIGNED;
                self.searched += ALIGNED;
            } else {
                at = self.residency.next(at, end)?;
            }
        }
        None
    }

    fn is_row(&mut self, mut at: usize) -> bool {
        for _ in 0..IN_A_ROW {
            let Some(head) = self.plausible(at) else { return false };
            let next = at + head.size;
            if next == self.range.end {
                return true;
            }
            let Some(after) = self.head(next) else { return false };
            let is_free = after.flags & BEFORE_IN_USE == 0;
            let fits = if is_free { after.before == head.size } else { (head.flags & NOT_MAIN == 0) == self.is_main };
            if !fits {
                return false;
            }
            at = next;
        }
        true
    }

    /// The head at an address, where it may be one.
    fn plausible(&mut self, at: usize) -> Option<Head> {
        let head = self.head(at)?;
        let fits = head.size >= SMALLEST && head.size.is_multiple_of(ALIGNED) && head.size <= self.range.end - at;
        (fits && head.flags & MAPPED == 0).then_some(head)
    }

    fn head(&mut self, at: usize) -> Option<Head> {
        if at < self.range.start || at + ALIGNED > self.range.end {
            return None;
        }
        let bytes = self.windows.at(at, self.range.end, self.residency, self.copies)?;
        let word = |index: usize| Some(usize::from_ne_bytes(*bytes.get(index * 8..)?.first_chunk()?));
        let (before, size) = (word(0)?, word(1)?);
        Some(Head { before, size: size & !FLAGS, flags: size & FLAGS })
    }
}

impl Part {
    fn end(&self) -> usize {
        self.start + self.bytes.len()
    }

    fn get(&self, at: usize) -> Option<&[u8]> {
        self.bytes.get(at.checked_sub(self.start)?..)?.get(..ALIGNED)
    }
}

impl Windows {
    /// Sixteen bytes at an address. Pages that are not in memory are not read: they would be brought there.
    fn at(&mut self, at: usize, end: usize, residency: &Residency, copies: &mut Copies) -> Option<&[u8]> {
        match self.parts.iter().position(|part| part.get(at).is_some()) {
            Some(part) => self.latest = part,
            None => {
                let goes_on = self.parts.iter().any(|part| at >= part.start && at <= part.end() + page_size());
                self.next = if goes_on { (2 * self.next).min(ROOM) } else { page_size() };
                self.latest = 1 - self.latest;
                let (part, start) = (&mut self.parts[self.latest], at & !(page_size() - 1));
                part.start = start;
                part.bytes.clear();
                part.bytes.extend_from_slice(copies.read(start, residency.run(start, self.next.min(end - start))));
            }
        }
        self.parts[self.latest].get(at)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A heap that is made up: sizes of blocks, and whether each is free.
    struct MadeUp {
        memory: Vec<u64>,
    }

    impl MadeUp {
        fn new(pages: usize) -> Self {
            Self { memory: vec![0; (pages + 1) * page_size() / 8] }
        }

        fn start(&self) -> usize {
            (self.memory.as_ptr() as usize).next_multiple_of(page_size())
        }

        fn put(&mut self, offset: usize, value: usize) {
            let index = (self.start() + offset - self.memory.as_ptr() as usize) / 8;
            self.memory[index] = value as u64;
        }

        fn fill(&mut self, blocks: &[(usize, bool)], flags: usize) -> usize {
            let mut at = 0;
            let mut before = (0, false);
            for (size, is_free) in blocks {
                if before.1 {
                    self.put(at, before.0);
                }
                let own = if *is_free { 0 } else { flags };
                self.put(at + 8, size | own | usize::from(!before.1));
                before = (*size, *is_free);
                at += size;
            }
            at
        }

        fn heap(&self, length: usize, arena: usize) -> MallocHeap {
            MallocHeap { arena, range: self.start()..self.start() + length, first: self.start() }
        }

        fn found(&self, length: usize, arena: usize) -> HeapUse {
            let heap = self.heap(length, arena);
            HeapUse::of(&heap, &Residency::full(&heap.range), &mut Copies::new().unwrap())
        }
    }

    fn blocks() -> Vec<(usize, bool)> {
        let mut blocks: Vec<(usize, bool)> = (0..100).map(|index| (64 + 16 * (index % 7), index % 5 == 4)).collect();
        blocks.push((3 * page_size(), true));
        blocks.push((48, false));
        let sum: usize = blocks.iter().map(|(size, _)| size).sum();
        blocks.push((16 * page_size() - sum, false));
        blocks
    }

    #[test]
    fn free_blocks_and_the_end_are_told_from_what_is_in_use() {
        for (flags, arena) in [(0, 0), (NOT_MAIN, 4096)] {
            let mut made = MadeUp::new(16);
            let mut blocks = blocks();
            let length = made.fill(&blocks, flags);
            let (top, _) = blocks.pop().unwrap_or_default();
            let free: usize = blocks.iter().filter(|(_, is_free)| *is_free).map(|(size, _)| size).sum();
            let found = made.found(length, arena);
            assert_eq!((found.free, found.top, found.unclear, found.resident), (free, top, 0, 16 * page_size()));
            assert_eq!(found.used(), 16 * page_size() - free - top);
            assert!(found.trimmable >= 2 * page_size() && found.trimmable_blocks == 1);
        }
    }

    #[test]
    fn a_walk_that_loses_its_way_finds_it_again() {
        let mut made = MadeUp::new(16);
        let length = made.fill(&blocks(), 0);
        let whole = made.found(length, 0);
        // The size of the eleventh block is destroyed.
        let at: usize = blocks().iter().take(10).map(|(size, _)| size).sum();
        made.put(at + 8, 0x1234_5670);
        let found = made.found(length, 0);
        assert_eq!(found.top, whole.top);
        assert!(found.unclear > 0 && found.unclear < 1024, "{found:?}");
        assert!(whole.free - found.free < 512);
    }

    #[test]
    fn what_is_no_heap_is_unclear() {
        let mut made = MadeUp::new(16);
        let found = made.found(16 * page_size(), 0);
        assert_eq!((found.unclear, found.used(), found.free), (16 * page_size(), 0, 0));
        (0..16 * page_size() / 8).for_each(|word| made.put(word * 8, word.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let found = made.found(16 * page_size(), 0);
        assert!(found.unclear > 15 * page_size(), "{found:?}");
    }
}
