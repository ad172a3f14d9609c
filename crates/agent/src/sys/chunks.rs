//! Arenas two by two in huge pages: which are handed out, and when a page goes back to the kernel.
//!
//! Address space is taken in regions of 64 arenas, each with one word that says which are in use. There is no lock:
//! interpreters with a GIL of their own come here at once, and a forked child may find anything half done. What a
//! thread had in hand that the child does not have is lost to it: an arena, at most a page.

mod upkeep;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::huge;
use super::wake::UPLINK;
use super::writable;

/// What CPython asks for at a time, in every version from 3.10 on, unless it was built otherwise.
pub(crate) const ARENA: usize = 1 << 20;

/// As many arenas as a word has bits.
const REGION: usize = 64 * ARENA;

/// The first arena of each page.
const FIRSTS: u64 = 0x5555_5555_5555_5555;

/// The address of a region that is not there, and of one that a thread is about to map or unmap.
const VACANT: usize = 0;
const CHANGING: usize = 1;

/// So many regions, and the memory that they can hold is 256 GiB. What is more goes to the allocator before us.
const REGIONS: usize = 4096;

/// All arenas in huge pages.
#[derive(Debug)]
pub(crate) struct Chunks {
    regions: [Region; REGIONS],
    /// Regions from here on were never used.
    end: AtomicUsize,
    /// Pages that were begun since the uplink last looked and that it may have to prepare others for.
    begun: AtomicUsize,
    /// The most pages in use that the uplink has seen lately.
    known_in_use: AtomicU32,
    /// Whether pages may keep their memory when they go out of use, and the fewest that had some since the last look.
    may_spare: AtomicBool,
    fewest_ready: AtomicU32,
    /// How far mending has come, in pages from the first region on; `usize::MAX` when there is nothing to mend.
    mended: AtomicUsize,
}

#[derive(Debug)]
struct Region {
    base: AtomicUsize,
    used: Occupancy,
    /// Arenas in pages that no other process shares: not touched before a fork that the program has made.
    own: AtomicU64,
    /// Pages that are not in use and have their memory already: both bits of each.
    ready: AtomicU64,
    /// Arenas that are not in use and have given their memory back, beside another one that is.
    thinned: AtomicU64,
    /// Arenas that were not in use at the last look, beside another one that is, and those that were not at two.
    idle: AtomicU64,
    for_long: AtomicU64,
}

/// Which arenas of a region are in use, one bit each, two for a page.
#[derive(Debug)]
struct Occupancy(AtomicU64);

/// What has become of an arena that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freed {
    /// The other half of its page is in use.
    Half,
    /// The page is not in use. Other threads cannot take either half before `vacate`.
    Page,
    /// It was not in use.
    NotUsed,
}

impl Occupancy {
    /// Of a region that is not there.
    const fn full() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }

    /// Takes the other half of a page that is half in use.
    fn take_half(&self) -> Option<u32> {
        self.take(|used| lowest(idle_halves(used)))
    }

    /// Takes the first arena of a page that is not in use, one of these pages if there is one.
    fn take_first(&self, rather: u64) -> Option<u32> {
        self.take(|used| lowest(empty_pages(used) & rather & FIRSTS).or_else(|| lowest(empty_pages(used) & FIRSTS)))
    }

    /// Takes an arena that is not in use, and whose other half is.
    fn take_this_half(&self, arena: u32) -> bool {
        self.take(|used| (idle_halves(used) >> arena & 1 == 1).then_some(arena)).is_some()
    }

    /// Takes the first arena of this page, if it is not in use.
    fn take_this_page(&self, arena: u32) -> bool {
        self.take(|used| (empty_pages(used) >> arena & 1 == 1).then_some(arena & !1)).is_some()
    }

    fn take(&self, choose: impl Fn(u64) -> Option<u32>) -> Option<u32> {
        let mut used = self.0.load(Ordering::Relaxed);
        loop {
            let arena = choose(used)?;
            match self.0.compare_exchange_weak(used, used | 1 << arena, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(arena),
                Err(now) => used = now,
            }
        }
    }

    fn free(&self, arena: u32) -> Freed {
        let (mine, both) = (1 << arena, both(arena));
        let mut used = self.0.load(Ordering::Relaxed);
        loop {
            let (then, freed) = match used & both {
                0 => return Freed::NotUsed,
                held if held & mine == 0 => return Freed::NotUsed,
                held if held == mine => (used | both, Freed::Page),
                _ => (used & !mine, Freed::Half),
            };
            match self.0.compare_exchange_weak(used, then, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return freed,
                Err(now) => used = now,
            }
        }
    }

    /// Opens a page to others. True when nothing in the region is in use now.
    fn vacate(&self, arena: u32) -> bool {
        self.0.fetch_and(!both(arena), Ordering::AcqRel) & !both(arena) == 0
    }

    /// Takes everything, if nothing is in use.
    fn take_all(&self) -> bool {
        self.0.compare_exchange(0, u64::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Both arenas of a page.
fn both(arena: u32) -> u64 {
    0b11 << (arena & !1)
}

/// The arenas that are not in use beside another one that is.
fn idle_halves(used: u64) -> u64 {
    let halves = (used ^ (used >> 1)) & FIRSTS;
    (halves | halves << 1) & !used
}

/// Both arenas of every page of which neither is in use.
fn empty_pages(used: u64) -> u64 {
    let empty = !(used | (used >> 1)) & FIRSTS;
    empty | empty << 1
}

fn lowest(bits: u64) -> Option<u32> {
    (bits != 0).then(|| bits.trailing_zeros())
}

impl Region {
    const fn vacant() -> Self {
        Self {
            base: AtomicUsize::new(VACANT),
            used: Occupancy::full(),
            own: AtomicU64::new(0),
            ready: AtomicU64::new(0),
            thinned: AtomicU64::new(0),
            idle: AtomicU64::new(0),
            for_long: AtomicU64::new(0),
        }
    }

    /// Where one of its arenas is, if it is anywhere.
    fn address(&self, arena: u32) -> Option<usize> {
        Some(self.base()? + arena as usize * ARENA)
    }

    /// One of its pages, which was not in use, is.
    fn begin(&self, arena: u32) {
        self.own.fetch_or(both(arena), Ordering::Relaxed);
        self.ready.fetch_and(!both(arena), Ordering::Relaxed);
        self.thinned.fetch_and(!both(arena), Ordering::Relaxed);
    }

    /// Gives an arena back. Where the other half of its page is not in use, the page's memory goes with it, unless it `keeps`
    /// that for its next use. True when nothing in the region is in use now.
    ///
    /// # Safety
    /// It must be its owner's to give back.
    unsafe fn free(&self, arena: u32, keeps: impl FnOnce() -> bool) -> bool {
        if self.used.free(arena) != Freed::Page {
            return false;
        }
        if keeps() {
            self.ready.fetch_or(both(arena), Ordering::Relaxed);
        } else if let Some(page) = self.address(arena & !1) {
            // SAFETY: the caller gives one half up, the other was free, and no thread gets either before `vacate`.
            unsafe { huge::discard(page, huge::PAGE) };
        }
        self.used.vacate(arena)
    }

    /// Where it is, if it is anywhere.
    fn base(&self) -> Option<usize> {
        Some(self.base.load(Ordering::Acquire)).filter(|base| *base > CHANGING)
    }
}

impl Chunks {
    pub(crate) const fn new() -> Self {
        Self {
            regions: [const { Region::vacant() }; REGIONS],
            end: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            known_in_use: AtomicU32::new(0),
            may_spare: AtomicBool::new(false),
            fewest_ready: AtomicU32::new(0),
            mended: AtomicUsize::new(usize::MAX),
        }
    }

    fn regions(&self) -> &[Region] {
        self.regions.get(..self.end.load(Ordering::Acquire)).unwrap_or_default()
    }

    /// An arena in a huge page, if there can be one. Pages that are half in use come first.
    pub(crate) fn alloc(&self) -> Option<usize> {
        self.take().or_else(|| {
            self.map()?;
            self.take()
        })
    }

    fn take(&self) -> Option<usize> {
        for region in self.regions() {
            if let Some(arena) = region.used.take_half() {
                region.thinned.fetch_and(!(1 << arena), Ordering::Relaxed);
                return region.address(arena);
            }
        }
        for region in self.regions() {
            let ready = region.ready.load(Ordering::Relaxed);
            if let Some(arena) = region.used.take_first(ready) {
                region.begin(arena);
                self.fewest_ready.fetch_min(self.pages_ready(), Ordering::Relaxed);
                self.note_begun(ready & both(arena) != 0);
                return region.address(arena);
            }
        }
        None
    }

    /// A page was begun, which `had_memory` or not. The first since the uplink looked wakes it: it prepares memory for the next
    /// ones before they are begun. A program that gives a page back and takes it again finds its memory there, and needs no
    /// others.
    fn note_begun(&self, had_memory: bool) {
        if had_memory && self.pages_in_use() <= self.known_in_use.load(Ordering::Relaxed) {
            return;
        }
        if self.begun.fetch_add(1, Ordering::Relaxed) == 0 {
            UPLINK.wake();
        }
    }

    /// Maps a region.
    fn map(&self) -> Option<()> {
        let claim = |region: &Region| {
            region.base.compare_exchange(VACANT, CHANGING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let (at, region) = self.regions.iter().enumerate().find(|(_, region)| claim(region))?;
        let Some(base) = huge::map(REGION) else {
            region.base.store(VACANT, Ordering::Release);
            return None;
        };
        for bits in [&region.own, &region.ready, &region.thinned, &region.idle, &region.for_long] {
            bits.store(0, Ordering::Relaxed);
        }
        region.base.store(base, Ordering::Release);
        region.used.0.store(0, Ordering::Release);
        self.end.fetch_max(at + 1, Ordering::AcqRel);
        Some(())
    }

    /// Whether a region lies in a range, or a part of one.
    pub(crate) fn are_within(&self, from: usize, to: usize) -> bool {
        self.regions().iter().filter_map(Region::base).any(|base| base < to && from < base + REGION)
    }

    /// The region that an address lies in.
    pub(crate) fn region_of(&self, address: usize) -> Option<Range<usize>> {
        let base = self.find(address)?.0.base()?;
        Some(base..base + REGION)
    }

    fn find(&self, address: usize) -> Option<(&Region, u32)> {
        self.regions().iter().find_map(|region| {
            let offset = address.checked_sub(region.base()?)?;
            (offset < REGION).then_some((region, (offset / ARENA) as u32))
        })
    }

    /// Whether an arena is one of ours; if so, it is given back. Nothing is unmapped unless it `may` be.
    ///
    /// # Safety
    /// It must be its owner's to give back.
    pub(crate) unsafe fn free(&self, address: usize, may_unmap: bool) -> bool {
        let Some((region, arena)) = self.find(address) else { return false };
        // Pages that a clone shares are left to it: to get new ones takes less time than to copy them.
        let keeps = || !writable::is_shared() && self.may_spare();
        // SAFETY: the caller's promise.
        if unsafe { region.free(arena, keeps) } && may_unmap {
            self.trim();
        }
        true
    }

    /// Gives back the address space of regions that are not in use, as long as another one has room.
    pub(crate) fn trim(&self) {
        for region in self.regions() {
            if !region.used.take_all() {
                continue;
            }
            let has_room = |other: &Region| !std::ptr::eq(other, region) && empty_pages(other.used.now()) != 0;
            if let Some(base) = region.base()
                && self.regions().iter().any(has_room)
            {
                // Before it is unmapped: afterwards the kernel may map something else at the address.
                region.base.store(CHANGING, Ordering::Release);
                // SAFETY: nothing in it was in use, and no thread could take anything since.
                unsafe { huge::unmap(base, REGION) };
                region.base.store(VACANT, Ordering::Release);
            } else {
                region.used.0.store(0, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Occupancy {
        Occupancy(AtomicU64::new(0))
    }

    #[test]
    fn halves_are_filled_before_pages_are_begun() {
        let used = empty();
        assert_eq!(used.take_half(), None);
        assert_eq!(used.take_first(0), Some(0));
        assert_eq!(used.take_first(0), Some(2));
        assert_eq!(used.take_half(), Some(1));
        assert_eq!(used.take_half(), Some(3));
        assert_eq!(used.take_half(), None);
        assert_eq!(used.free(2), Freed::Half);
        assert_eq!(used.take_half(), Some(2));
        // A page that has its memory is preferred to one that has not.
        assert_eq!(used.take_first(0b11 << 8), Some(8));
        assert_eq!(used.take_first(0b11 << 8), Some(4));
    }

    #[test]
    fn halves_and_pages_are_told_from_each_other() {
        assert_eq!((idle_halves(0b11_01_10_00), empty_pages(0b11_01_10_00) & 0xff), (0b00_10_01_00, 0b11));
        let used = empty();
        used.0.store(0b01_10, Ordering::Relaxed);
        assert!(!used.take_this_half(1) && !used.take_this_half(4) && !used.take_this_page(0));
        assert!(used.take_this_half(0) && used.take_this_page(5));
        assert_eq!(used.now(), 0b01_01_11);
    }

    #[test]
    fn a_page_is_free_when_both_halves_are() {
        let used = empty();
        used.0.store(0b0111, Ordering::Relaxed);
        assert_eq!(used.free(0), Freed::Half);
        assert_eq!(used.free(0), Freed::NotUsed);
        assert_eq!(used.free(1), Freed::Page);
        // Kept from others until its memory has been given back.
        assert_eq!((used.take_first(0), used.0.load(Ordering::Relaxed)), (Some(4), 0b1_0111));
        assert!(!used.vacate(1));
        assert_eq!(used.free(2), Freed::Page);
        assert!(!used.vacate(2));
        assert_eq!(used.free(4), Freed::Page);
        assert!(used.vacate(4));
        assert!(used.take_all());
        assert_eq!((used.take_first(0), used.take_half()), (None, None));
    }

    #[test]
    fn a_full_region_has_nothing_left() {
        let used = empty();
        let taken: Vec<_> = std::iter::from_fn(|| used.take_half().or_else(|| used.take_first(0))).collect();
        assert_eq!(taken, (0..64).collect::<Vec<_>>());
        assert_eq!(empty_pages(used.now()), 0);
    }

    #[test]
    fn threads_never_get_the_same_arena() {
        let used = empty();
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let Some(arena) = used.take_half().or_else(|| used.take_first(0)) else { continue };
                        let before = taken.fetch_or(1 << arena, Ordering::AcqRel);
                        assert_eq!(before >> arena & 1, 0, "arena {arena} was handed out twice");
                        taken.fetch_and(!(1 << arena), Ordering::AcqRel);
                        if used.free(arena) == Freed::Page {
                            assert_eq!(taken.load(Ordering::Acquire) & both(arena), 0, "page of {arena} was in use");
                            used.vacate(arena);
                        }
                    }
                });
            }
        });
        assert_eq!(used.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_page_that_is_out_of_use_keeps_its_memory_for_a_while() {
        static CHUNKS: Chunks = Chunks::new();
        if !huge::are_possible() {
            return;
        }
        let take = || CHUNKS.alloc().expect("there is address space");
        let arenas: Vec<usize> = (0..8).map(|_| take()).collect();
        // SAFETY: it is ours.
        let write = |arena: usize| unsafe { *(arena as *mut usize) = 7 };
        // SAFETY: as above.
        let read = |arena: usize| unsafe { *(arena as *const usize) };
        // SAFETY: it is not used afterwards.
        let free = |arena: usize| assert!(unsafe { CHUNKS.free(arena, false) });
        // The last page, before there is known to be room.
        write(arenas[6]);
        arenas[6..].iter().for_each(|arena| free(*arena));
        assert_eq!((CHUNKS.pages_ready(), take(), read(arenas[6]), take()), (0, arenas[6], 0, arenas[7]));
        CHUNKS.prepare(true);
        CHUNKS.give_back(u32::MAX);
        write(arenas[6]);
        arenas[6..].iter().for_each(|arena| free(*arena));
        assert_eq!((CHUNKS.pages_ready(), take(), read(arenas[6]), take()), (1, arenas[6], 7, arenas[7]));
        arenas[4..].iter().for_each(|arena| free(*arena));
        assert_eq!(CHUNKS.pages_ready(), 1, "one for eight that are in use");
        // The first look begins to count.
        CHUNKS.give_back_unneeded();
        CHUNKS.give_back_unneeded();
        assert_eq!(CHUNKS.pages_ready(), 1, "one is always kept");
        CHUNKS.spare_nothing();
        assert_eq!(CHUNKS.pages_ready(), 0);
        arenas[..4].iter().for_each(|arena| free(*arena));
        assert_eq!(CHUNKS.pages_ready(), 0);
    }

    #[test]
    fn a_page_that_goes_and_comes_again_needs_no_preparation() {
        static CHUNKS: Chunks = Chunks::new();
        if !huge::are_possible() {
            return;
        }
        let take = || CHUNKS.alloc().expect("there is address space");
        // SAFETY: it is not used afterwards.
        let free = |arena: usize| assert!(unsafe { CHUNKS.free(arena, true) });
        let kept: Vec<usize> = (0..4).map(|_| take()).collect();
        let passing = take();
        assert!(CHUNKS.have_begun() && CHUNKS.are_there());
        CHUNKS.prepare(true);
        assert!(!CHUNKS.have_begun());
        free(passing);
        for _ in 0..3 {
            free(take());
            assert!(!CHUNKS.have_begun(), "its memory was kept");
        }
        let more = [take(), take(), take()];
        assert!(CHUNKS.have_begun(), "there are more pages than before");
        CHUNKS.spare_nothing();
        kept.iter().chain(&more).for_each(|arena| free(*arena));
    }

    #[test]
    fn regions_come_and_go_with_their_arenas() {
        static CHUNKS: Chunks = Chunks::new();
        if !huge::are_possible() {
            return;
        }
        let arenas: Vec<_> = (0..200).map(|_| CHUNKS.alloc().expect("there is address space")).collect();
        assert_eq!(CHUNKS.regions().len(), 4);
        for (at, arena) in arenas.iter().enumerate() {
            assert!(arena.is_multiple_of(ARENA));
            // SAFETY: the arena is ours.
            unsafe { *(*arena as *mut usize) = at };
        }
        CHUNKS.begin_mending();
        assert!(!CHUNKS.mend(|| false));
        for (at, arena) in arenas.iter().enumerate() {
            // SAFETY: as above, and it was written.
            assert_eq!(unsafe { *(*arena as *const usize) }, at);
            // SAFETY: it is no longer used.
            assert!(unsafe { CHUNKS.free(*arena, false) });
        }
        let (first, other) = (arenas[0], &raw const CHUNKS as usize);
        assert!(CHUNKS.are_within(first + ARENA, first + 2 * ARENA) && !CHUNKS.are_within(other, other + 1));
        // SAFETY: it is none of ours, so nothing is done.
        assert!(!unsafe { CHUNKS.free(&raw const CHUNKS as usize, true) });
        let mapped = || CHUNKS.regions().iter().filter(|region| region.base().is_some()).count();
        assert_eq!(mapped(), 4);
        CHUNKS.trim();
        assert_eq!(mapped(), 1);
        let again = CHUNKS.alloc().expect("one region was kept");
        // SAFETY: the arena is ours; it was discarded.
        assert_eq!(unsafe { *(again as *const usize) }, 0);
        // SAFETY: it is not used.
        assert!(unsafe { CHUNKS.free(again, true) });
    }
}
