//! Giving free memory of glibc's arenas back to the system, in steps.
//!
//! `malloc_trim` does the same, but all at once: it locks an arena, goes along its free blocks, and gives back the pages of
//! each before it lets go of the lock. With 1 GB free in one arena, threads that allocate wait for a tenth of a second. It also
//! leaves the free end of every arena but the main one.
//!
//! So the agent takes the lock of an arena itself, for a third of a millisecond at a time. It knows an arena by several signs,
//! all of which must agree: the end of the newest heap, the size of all heaps, and the ring of all arenas, which leads through
//! the C library's own data. What it reads of a list under the lock, it reads through the kernel, and it gives back only
//! pages of blocks that their neighbours in the list and in memory call free. Nothing is allocated while a lock is held: that
//! could wait for the same lock.

use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use super::heaps::MallocHeap;
use crate::sys::copies::Copies;
use crate::sys::maps::Mapping;
use crate::sys::memory;
use crate::sys::page::page_size;

/// Where an arena, `malloc_state`, has the address of the free block at the end of its heaps: up to glibc 2.42, and since it has
/// no fast lists any more.
const TOPS: [usize; 2] = [0x60, 0x08];

/// Where other things are, counted from that place. The heads of lists begin there, too: each is laid out as a block.
mod from_top {
    pub(super) const LISTS: usize = 127;
    pub(super) const NEXT: usize = 0x810;
    pub(super) const SYSTEM: usize = 0x828;
    pub(super) const END: usize = 0x838;
}

/// Lists of blocks that are smaller than a page are passed over; the first list has blocks of all sizes.
const FIRST_OF_PAGES: usize = 98;

/// How long an arena is locked at a time, about, and how many times that its threads then have for themselves.
const LOCKED: Duration = Duration::from_micros(300);
const REST: u32 = 2;

/// What is given back at a time: the clock is looked at after each.
const PIECE: usize = 256 << 10;

/// How often it is tried to lock an arena that is in use, and the pause before the next try.
const ATTEMPTS: u32 = 50;
const BETWEEN: Duration = Duration::from_micros(100);

/// Blocks that are looked at in one arena, at most.
const MOST_BLOCKS: usize = 1_000_000;

/// The beginning of a free end that stays: the arena needs it next.
const KEPT_AT_END: usize = 128 << 10;

/// Data of the C library that is searched for the main arena, at most.
const MOST_DATA: usize = 1 << 20;

const FLAGS: usize = 7;
const BEFORE_IN_USE: usize = 1;

/// An arena that all signs agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arena {
    place: Place,
    heaps: Vec<Range<usize>>,
}

/// Where an arena is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Its beginning, which is its lock.
    lock: usize,
    /// Where the address of its end stands.
    top: usize,
}

impl Place {
    fn new(lock: usize, offset: usize) -> Self {
        Self { lock, top: lock.saturating_add(offset) }
    }

    fn word(self, offset: usize) -> Option<usize> {
        memory::word(self.top.checked_add(offset)?)
    }

    fn holds(self, address: usize) -> bool {
        (self.lock..self.top.saturating_add(from_top::END)).contains(&address)
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trimmed {
    /// Address space that was given back. Some of it may not have been in memory.
    pub(crate) bytes: usize,
    /// The longest time that an arena was locked.
    pub(crate) longest: Duration,
    /// Arenas that were always in use by others, or changed too much.
    pub(crate) left_out: usize,
}

/// The arenas of these heaps, or why they cannot be trimmed. An arena that does not agree with its heaps is left out: it has
/// changed since they were read, or is none.
pub(crate) fn find_arenas(heaps: &[MallocHeap], mappings: &[Mapping<'_>]) -> Result<Vec<Arena>, &'static str> {
    let of_main = heaps.iter().find(|heap| heap.arena == 0).ok_or("the heap of the main arena was not found")?;
    let (main, offset) = find_main(&of_main.range, mappings).ok_or("the main arena was not found")?;
    let ring = ring_of(main, offset).ok_or("the arenas do not form a ring")?;
    let mut arenas: Vec<Arena> = Vec::new();
    for heap in heaps {
        let place = Place::new(if heap.arena == 0 { main } else { heap.arena }, offset);
        match arenas.iter_mut().find(|arena| arena.place == place) {
            Some(arena) => arena.heaps.push(heap.range.clone()),
            None => arenas.push(Arena { place, heaps: vec![heap.range.clone()] }),
        }
    }
    arenas.retain(|arena| ring.contains(&arena.place.lock) && arena.agrees());
    if arenas.is_empty() { Err("no arena is laid out as expected") } else { Ok(arenas) }
}

/// The main arena lies in the data of the C library, and holds the address of the free block at the end of its heap. Gives where
/// it is, and where in it that address is.
fn find_main(heap: &Range<usize>, mappings: &[Mapping<'_>]) -> Option<(usize, usize)> {
    let data = mappings.iter().filter(|mapping| {
        let file = mapping.name.rsplit('/').next().unwrap_or("");
        mapping.is_writable && mapping.inode != 0 && (file.starts_with("libc.so") || file.starts_with("libc-2"))
    });
    for mapping in data {
        let mut bytes = vec![0; mapping.len().min(MOST_DATA)];
        let length = memory::read_some(mapping.range.start, &mut bytes);
        for (index, word) in bytes[..length].chunks_exact(8).enumerate() {
            if !ends_heap(usize::from_ne_bytes(*word.first_chunk()?), heap) {
                continue;
            }
            let at = mapping.range.start + index * word.len();
            let places = TOPS.iter().map(|offset| (at.saturating_sub(*offset), *offset));
            let found = places.into_iter().find(|(lock, offset)| ring_of(*lock, *offset).is_some());
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// Whether a block lies at the end of a heap.
fn ends_heap(block: usize, heap: &Range<usize>) -> bool {
    heap.contains(&block)
        && block.is_multiple_of(16)
        && memory::word(block + 8).is_some_and(|size| block.checked_add(size & !FLAGS) == Some(heap.end))
}

/// The arenas in the order in which they point to each other.
fn ring_of(main: usize, offset: usize) -> Option<Vec<usize>> {
    const MOST: usize = 8192;
    let mut ring = vec![main];
    let mut at = main;
    while ring.len() < MOST {
        // The lock is free, taken, or taken and waited for.
        if !matches!(memory::int(at)?, 0..=2) {
            return None;
        }
        at = Place::new(at, offset).word(from_top::NEXT)?;
        if at == main {
            return Some(ring);
        }
        ring.push(at);
    }
    None
}

/// Gives the free pages of these arenas back, until `enough`.
pub(crate) fn trim(arenas: &[Arena], enough: impl Fn() -> bool) -> Trimmed {
    let mut trimmed = Trimmed::default();
    let Some(mut copies) = Copies::new() else { return trimmed };
    for arena in arenas {
        let mut cursor = Cursor::default();
        loop {
            if enough() {
                return trimmed;
            }
            // A thread that has just let others run is the least likely to lose the processor while it holds the lock.
            std::thread::yield_now();
            let Some(lock) = Lock::take(arena.place.lock) else {
                trimmed.left_out += 1;
                break;
            };
            let began = Instant::now();
            let bytes = cursor.advance(arena, began, &mut copies);
            drop(lock);
            let locked = began.elapsed();
            trimmed.longest = trimmed.longest.max(locked);
            trimmed.bytes += bytes;
            if cursor.is_over {
                break;
            }
            std::thread::sleep(locked * REST);
        }
    }
    trimmed
}

/// The lock of an arena, as `lll_lock` takes it: 0 is free, 1 taken, 2 taken and waited for.
struct Lock<'a>(&'a AtomicI32);

impl Lock<'_> {
    /// Takes the lock if it comes free soon.
    fn take(lock: usize) -> Option<Self> {
        // SAFETY: all signs agree that this is an arena, which begins with its lock. Arenas are never unmapped.
        let lock = unsafe { AtomicI32::from_ptr(lock as *mut i32) };
        for _ in 0..ATTEMPTS {
            if lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(Self(lock));
            }
            std::thread::sleep(BETWEEN);
        }
        None
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the word is there as long as the process; the call only wakes a thread.
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), wake, 1) };
        }
    }
}

/// A free block in a list.
#[derive(Clone, Copy)]
struct Block {
    at: usize,
    size: usize,
    next: usize,
}

/// How far the work on one arena has come. Nothing in it allocates.
#[derive(Debug, Default)]
struct Cursor {
    /// The list, and the block in it that is next; 0 is its last one.
    list: usize,
    block: usize,
    /// What of that block has been given back already.
    done: usize,
    looked_at: usize,
    is_over: bool,
}

impl Cursor {
    /// Does a part of the work, with the arena locked, and gives the bytes that were given back.
    fn advance(&mut self, arena: &Arena, began: Instant, copies: &mut Copies) -> usize {
        let mut given = 0;
        while self.list < from_top::LISTS && self.looked_at < MOST_BLOCKS {
            if began.elapsed() >= LOCKED {
                return given;
            }
            if self.list != 0 && self.list < FIRST_OF_PAGES {
                self.list = FIRST_OF_PAGES;
            }
            let head = arena.place.top + 16 * self.list;
            if self.block == 0 {
                self.block = copies.word(head + 24).unwrap_or(head);
            }
            let is_head = arena.place.holds(self.block);
            self.looked_at += 1;
            let block = if is_head { None } else { Block::read(self.block, arena, copies) };
            let Some(block) = block else {
                // The list is over, or a thread has taken the block since the last step: what is left stays for the next time.
                (self.list, self.block, self.done) = (self.list + 1, 0, 0);
                continue;
            };
            // Blocks in lists have up to six words of their own at their beginning.
            let pages = (block.at + 48).next_multiple_of(page_size())..(block.at + block.size) & !(page_size() - 1);
            if !self.give_back(pages, began, &mut given) {
                return given;
            }
            (self.block, self.done) = (block.next, 0);
        }
        self.finish(arena, began, copies, &mut given);
        given
    }

    /// The free end comes last.
    fn finish(&mut self, arena: &Arena, began: Instant, copies: &mut Copies, given: &mut usize) {
        let top = copies.word(arena.place.top).filter(|top| arena.holds(*top)).unwrap_or(0);
        let size = copies.word(top + 8).map_or(0, |size| size & !FLAGS);
        let (from, to) =
            ((top + 16 + KEPT_AT_END).next_multiple_of(page_size()), top.saturating_add(size) & !(page_size() - 1));
        // A heap may have grown since it was looked at, but then its end is in use.
        let is_whole = top != 0 && arena.heaps.iter().any(|heap| heap.contains(&top) && to <= heap.end);
        self.is_over = !is_whole || self.give_back(from..to, began, given);
    }

    /// Gives pages back, and says whether all of them were before the time was over.
    fn give_back(&mut self, pages: Range<usize>, began: Instant, given: &mut usize) -> bool {
        let mut at = pages.start.saturating_add(self.done);
        while at < pages.end {
            if began.elapsed() >= LOCKED {
                return false;
            }
            let length = PIECE.min(pages.end - at);
            // SAFETY: the pages lie in a free block of an arena that is locked: nothing is read from them before it is written.
            let done = unsafe { libc::madvise(at as *mut libc::c_void, length, libc::MADV_DONTNEED) };
            if done == 0 {
                *given += length;
            }
            at += length;
            self.done += length;
        }
        true
    }
}

impl Arena {
    /// Whether the arena says of its heaps what was read of them.
    fn agrees(&self) -> bool {
        let size: usize = self.heaps.iter().map(Range::len).sum();
        let top = self.place.word(0).unwrap_or(0);
        self.place.word(from_top::SYSTEM) == Some(size) && self.heaps.iter().any(|heap| ends_heap(top, heap))
    }

    fn holds(&self, address: usize) -> bool {
        address.is_multiple_of(16) && self.heaps.iter().any(|heap| heap.contains(&address))
    }
}

impl Block {
    /// A block that its neighbours in the list and in memory call free.
    fn read(at: usize, arena: &Arena, copies: &mut Copies) -> Option<Self> {
        if !arena.holds(at) {
            return None;
        }
        let [_, size, forward, backward] = words(at, copies)?;
        let size = size & !FLAGS;
        let after = at.checked_add(size)?;
        let is_listed = copies.word(forward.checked_add(24)?)? == at && copies.word(backward.checked_add(16)?)? == at;
        let heap = arena.heaps.iter().find(|heap| heap.contains(&at))?;
        if !is_listed || after >= heap.end {
            return None;
        }
        let [before, next, ..] = words(after, copies)?;
        (before == size && next & BEFORE_IN_USE == 0).then_some(Self { at, size, next: backward })
    }
}

fn words(at: usize, copies: &mut Copies) -> Option<[usize; 4]> {
    let bytes: [u8; 32] = copies.array(at)?;
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = usize::from_ne_bytes(*bytes.first_chunk()?);
    }
    Some(words)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::{HeapUse, find_heaps};
    use super::*;
    use crate::sys::maps;
    use crate::sys::residency::ResidencyReader;

    /// The heaps of this process, and what they have that could be given back.
    fn seen() -> (Vec<MallocHeap>, usize, String) {
        let text = maps::text().unwrap();
        let mappings = maps::merged(&maps::parse(&text));
        let mut reader = ResidencyReader::new();
        let mut copies = Copies::new().unwrap();
        let mut trimmable = 0;
        let heaps = find_heaps(&mappings).into_iter().filter_map(|heap| {
            let mapping = mappings.iter().find(|mapping| mapping.range.contains(&heap.range.start))?;
            let seen = HeapUse::of(&heap, &reader.of_memory(&mapping.range)?, &mut copies);
            trimmable += seen.trimmable;
            Some(heap)
        });
        (heaps.collect(), trimmable, text)
    }

    #[test]
    fn freed_memory_of_a_thread_goes_back_and_what_is_in_use_stays() {
        let (to, from) = std::sync::mpsc::channel();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // Every tenth block stays, so that the others cannot go back by themselves.
            let mut blocks: Vec<Vec<u8>> = (0..2000_usize).map(|index| vec![index as u8; 20_000]).collect();
            let mut index = 0_usize;
            blocks.retain(|_| {
                index += 1;
                index.is_multiple_of(10)
            });
            to.send(()).unwrap();
            let _ = wait.recv();
            blocks.iter().enumerate().all(|(index, block)| block.iter().all(|byte| *byte == (10 * index + 9) as u8))
        });
        from.recv().unwrap();
        let (heaps, before, text) = seen();
        assert!(before > 25 << 20, "{before}");
        let arenas = find_arenas(&heaps, &maps::parse(&text)).unwrap();
        let trimmed = trim(&arenas, || false);
        let (_, after, _) = seen();
        assert!(after < before / 5, "{before} to {after}, {trimmed:?}");
        assert!(trimmed.bytes > 20 << 20 && trimmed.longest > Duration::ZERO);
        drop(release);
        assert!(thread.join().unwrap(), "a block in use has changed");
    }

    #[test]
    fn what_is_no_arena_is_refused() {
        let text = maps::text().unwrap();
        let mappings = maps::parse(&text);
        assert!(find_arenas(&[], &mappings).is_err());
        let heap = MallocHeap { arena: 0, range: 0x10_0000..0x20_0000, first: 0x10_0000 };
        assert!(find_arenas(&[heap], &mappings).is_err());
    }
}
