//! Where the heaps are: that of the main arena is `[heap]`, those of the others begin at multiples of 64 MB.

use std::ops::Range;

use crate::sys::maps::Mapping;
use crate::sys::memory;
use crate::sys::page::page_size;

/// Heaps of arenas other than the main one begin at multiples of this, and are no longer.
const LARGEST: usize = 64 << 20;

/// A heap: memory that an arena gives out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MallocHeap {
    /// The address of its arena; 0 for the main one.
    pub(crate) arena: usize,
    /// Blocks lie in this range.
    pub(crate) range: Range<usize>,
    /// Where the first block may begin.
    pub(crate) first: usize,
}

/// `heap_info`. Later versions have one more field.
struct HeapInfo {
    arena: usize,
    previous: usize,
    size: usize,
}

impl HeapInfo {
    /// The first words of a heap, if this is one.
    fn read(heap: usize) -> Option<Self> {
        let bytes: [u8; 32] = memory::array(heap)?;
        let word = |index: usize| Some(usize::from_ne_bytes(*bytes.get(index * 8..)?.first_chunk()?));
        let (arena, previous, size, writable) = (word(0)?, word(1)?, word(2)?, word(3)?);
        let has_size = size > 0 && size <= writable && writable <= LARGEST;
        let is_aligned = size.is_multiple_of(page_size())
            && writable.is_multiple_of(page_size())
            && previous.is_multiple_of(LARGEST);
        // The arena itself lies in its first heap, right behind these words.
        let is_near = (32..=64).contains(&(arena % LARGEST)) && arena.is_multiple_of(16);
        (has_size && is_aligned && is_near && arena > LARGEST).then_some(Self { arena, previous, size })
    }
}

/// The heaps in these mappings, which are merged: a heap may consist of several.
pub(crate) fn find_heaps(mappings: &[Mapping<'_>]) -> Vec<MallocHeap> {
    let mut heaps = Vec::new();
    for mapping in mappings {
        if mapping.is_heap() {
            heaps.push(MallocHeap { arena: 0, range: mapping.range.clone(), first: mapping.range.start });
        } else if mapping.is_plain_memory() {
            let mut at = mapping.range.start.next_multiple_of(LARGEST);
            while at < mapping.range.end {
                heaps.extend(heap_at(at));
                at += LARGEST;
            }
        }
    }
    // An arena whose own heap was not found is none.
    let starts: Vec<usize> = heaps.iter().map(|heap| heap.range.start).collect();
    heaps.retain(|heap| heap.arena == 0 || starts.contains(&(heap.arena & !(LARGEST - 1))));
    heaps
}

/// The heap that begins here, if one does. It may have grown beyond the mapping as that was read.
fn heap_at(start: usize) -> Option<MallocHeap> {
    let info = HeapInfo::read(start)?;
    let range = start..start + info.size;
    let is_own = info.arena & !(LARGEST - 1) == start;
    // The first heap of an arena has no other before it, and holds the arena. Later ones have.
    (is_own == (info.previous == 0)).then(|| MallocHeap {
        arena: info.arena,
        first: if is_own { info.arena } else { start } + 32,
        range,
    })
}

/// The size of the block of its own mapping that begins here, if one does, and ends before `end`.
pub(crate) fn mapped_block(head: [u8; 16], start: usize, end: usize) -> Option<usize> {
    /// Smaller blocks get no mapping of their own.
    const SMALLEST: usize = 128 << 10;
    const HEAD: usize = 16;
    let word = |index: usize| Some(usize::from_ne_bytes(*head.get(index * 8..)?.first_chunk()?));
    let (before, size) = (word(0)?, word(1)?);
    let flags = size & 7;
    // From glibc 2.43 on the size is without the head.
    let size = [size & !7, (size & !7) + HEAD].into_iter().find(|size| size.is_multiple_of(page_size()))?;
    let fits = size >= SMALLEST && start.checked_add(size).is_some_and(|to| to <= end);
    (before == 0 && flags == 2 && fits).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_its_own_mapping_is_known_by_its_head() {
        let head = |before: usize, size: usize| {
            let mut head = [0; 16];
            head[..8].copy_from_slice(&before.to_ne_bytes());
            head[8..].copy_from_slice(&size.to_ne_bytes());
            head
        };
        let check = |head, expect| assert_eq!(mapped_block(head, 1 << 30, (1 << 30) + (1 << 20)), expect);
        check(head(0, (256 << 10) | 2), Some(256 << 10));
        check(head(0, ((256 << 10) - 16) | 2), Some(256 << 10));
        check(head(0, ((256 << 10) + 16) | 2), None);
        check(head(0, 256 << 10), None);
        check(head(0, (256 << 10) | 3), None);
        check(head(16, (256 << 10) | 2), None);
        check(head(0, (2 << 20) | 2), None);
        check(head(0, 4096 | 2), None);
    }
}
