//! What is done for huge pages beside the program, by a thread that may take its time: none of it needs the GIL.

use std::sync::atomic::Ordering;

use super::{ARENA, Chunks, FIRSTS, REGION, Region, both, empty_pages, huge, idle_halves, lowest};

/// Pages of a region.
const PAGES: usize = REGION / huge::PAGE;

/// At most so many pages have their memory before they are used, and one for so many that are in use.
const MOST_READY: u32 = 8;
const READY_EACH: u32 = 32;

/// At most so many pages keep their memory when they go out of use, and one for so many that are in use. A program whose garbage
/// is freed needs them again soon, and to get new ones takes it longer than anything else that it does with them.
const MOST_SPARE: u32 = 32;
const SPARE_EACH: u32 = 8;

/// Where fewer pages are in use, a clone is short even if all of them are broken up, and to mend them takes the processor
/// longer than it saves.
const FEWEST_TO_MEND: u32 = 64;

impl Chunks {
    /// The program is about to fork. Pages that it shares with a child are not mended: that would copy them.
    pub(crate) fn share_all(&self) {
        for region in self.regions() {
            region.own.store(0, Ordering::Relaxed);
        }
    }

    /// Pages may be broken up since a clone: mending begins anew.
    pub(crate) fn begin_mending(&self) {
        if self.pages_in_use() >= FEWEST_TO_MEND && huge::can_be_mended() {
            self.mended.store(0, Ordering::Release);
        }
    }

    /// Whether mending has begun and has not come to its end.
    pub(crate) fn have_to_be_mended(&self) -> bool {
        self.mended.load(Ordering::Acquire) != usize::MAX
    }

    /// Whether there are any: a small program has none.
    pub(crate) fn are_there(&self) -> bool {
        self.regions().iter().any(|region| region.base().is_some())
    }

    /// Whether the program has begun pages since the uplink last prepared some, and may need more.
    pub(crate) fn have_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed) > 0
    }

    /// Mends pages until `enough` says so. True when there are more. One thread does this.
    pub(crate) fn mend(&self, enough: impl Fn() -> bool) -> bool {
        let mut at = self.mended.load(Ordering::Acquire);
        while let Some(region) = self.regions().get(at / PAGES) {
            let arena = (at % PAGES * 2) as u32;
            at += 1;
            // One that is thin on purpose stays so.
            let wanted = region.used.now() & region.own.load(Ordering::Relaxed) & both(arena) != 0
                && region.thinned.load(Ordering::Relaxed) & both(arena) == 0;
            match region.address(arena) {
                Some(page) if wanted && !huge::mend(page..page + huge::PAGE) => break,
                Some(_) if wanted => {}
                _ => continue,
            }
            if enough() {
                self.mended.store(at, Ordering::Release);
                return true;
            }
        }
        self.mended.store(usize::MAX, Ordering::Release);
        false
    }

    /// Sees to it that a page has its memory when the program begins it: in one piece that takes the program a while.
    /// There are more of them while it begins many.
    /// Where memory is short there are none.
    pub(crate) fn prepare(&self, has_room: bool) {
        let begun = self.begun.swap(0, Ordering::Relaxed) as u32;
        self.may_spare.store(has_room, Ordering::Relaxed);
        let in_use = self.pages_in_use();
        self.known_in_use.fetch_max(in_use, Ordering::Relaxed);
        let most = if has_room && in_use > 0 { MOST_READY.min(1 + in_use / READY_EACH) } else { 0 };
        let (there, wanted) = (self.pages_ready(), most.min(if begun > 0 { 2 + 2 * begun } else { 1 }));
        if begun == 0 || !has_room {
            self.give_back(there.saturating_sub(wanted));
        }
        for _ in there..wanted {
            let ready = |region: &Region| region.ready.load(Ordering::Relaxed);
            let next = |region: &Region| Some(empty_pages(region.used.now()) & !ready(region)).and_then(lowest);
            let found = || self.regions().iter().find_map(|region| Some((region, next(region)?)));
            let Some((region, arena)) = found().or_else(|| self.map().and_then(|()| found())) else { return };
            region.make_ready(arena);
        }
    }

    /// Whether another page may keep its memory when it goes out of use.
    pub(super) fn may_spare(&self) -> bool {
        let most = || MOST_SPARE.min(1 + self.pages_in_use() / SPARE_EACH);
        self.may_spare.load(Ordering::Relaxed) && self.pages_ready() < most()
    }

    /// Gives back the memory of all pages that are not in use, and none keeps it from now on.
    pub(crate) fn spare_nothing(&self) {
        self.may_spare.store(false, Ordering::Relaxed);
        self.give_back(u32::MAX);
    }

    /// Gives back the memory of pages that the program has not needed since the last look.
    pub(crate) fn give_back_unneeded(&self) {
        self.give_back(self.fewest_ready.load(Ordering::Relaxed).saturating_sub(1));
        self.fewest_ready.store(self.pages_ready(), Ordering::Relaxed);
        self.known_in_use.store(self.pages_in_use(), Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, pages: u32) {
        self.regions().iter().flat_map(Region::take_ready).take(pages as usize).for_each(drop);
    }

    /// Pages that are not in use and have their memory.
    pub(super) fn pages_ready(&self) -> u32 {
        self.sum(|region| (region.ready.load(Ordering::Relaxed) & FIRSTS).count_ones())
    }

    pub(super) fn pages_in_use(&self) -> u32 {
        self.sum(Region::pages_in_use)
    }

    fn sum(&self, pages: impl Fn(&Region) -> u32) -> u32 {
        self.regions().iter().filter(|region| region.base().is_some()).map(pages).sum()
    }

    /// Looks which arenas have been out of use since the last look while the other half of their page is in use.
    pub(crate) fn begin_thinning(&self) {
        for region in self.regions() {
            let idle = idle_halves(region.used.now());
            region.for_long.store(idle & region.idle.swap(idle, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Gives back the memory of those until `enough` says so. True when there are more.
    pub(crate) fn thin(&self, enough: impl Fn() -> bool) -> bool {
        for region in self.regions() {
            let due = || region.for_long.load(Ordering::Relaxed) & !region.thinned.load(Ordering::Relaxed);
            while let Some(arena) = lowest(due()) {
                region.for_long.fetch_and(!(1 << arena), Ordering::Relaxed);
                region.thin(arena);
                if enough() {
                    return true;
                }
            }
        }
        false
    }

    /// Gives back the memory of an arena that is out of use now, if the other half of its page is in use.
    pub(crate) fn thin_at(&self, address: usize) {
        if let Some((region, arena)) = self.find(address) {
            region.thin(arena);
        }
    }
}

impl Region {
    fn pages_in_use(&self) -> u32 {
        PAGES as u32 - (empty_pages(self.used.now()) & FIRSTS).count_ones()
    }

    fn thin(&self, arena: u32) {
        if !self.used.take_this_half(arena) {
            return;
        }
        if let Some(address) = self.address(arena) {
            // SAFETY: the arena is ours since it was taken.
            unsafe { huge::discard_part(address, ARENA) };
            self.thinned.fetch_or(1 << arena, Ordering::Relaxed);
        }
        // SAFETY: it was taken above.
        unsafe { self.free(arena, || false) };
    }

    /// Gets the memory of a page that is not in use.
    fn make_ready(&self, arena: u32) {
        if !self.used.take_this_page(arena) {
            return;
        }
        if let Some(page) = self.address(arena & !1) {
            // SAFETY: its first arena is ours since it was taken, and the region stays mapped while it is.
            unsafe { huge::touch(page) };
            self.ready.fetch_or(both(arena), Ordering::Relaxed);
        }
        self.put_back(arena & !1);
    }

    /// Takes the memory of pages that are ready, one with each step.
    fn take_ready(&self) -> impl Iterator<Item = ()> + '_ {
        std::iter::from_fn(|| {
            let arena = lowest(self.ready.load(Ordering::Relaxed))?;
            self.ready.fetch_and(!both(arena), Ordering::Relaxed);
            if self.used.take_this_page(arena) {
                // SAFETY: it has just been taken.
                unsafe { self.free(arena & !1, || false) };
            }
            Some(())
        })
    }

    /// Gives an arena back whose page keeps its memory. The program may have taken the other half meanwhile.
    fn put_back(&self, arena: u32) {
        match self.used.free(arena) {
            super::Freed::Page => {
                self.used.vacate(arena);
            }
            super::Freed::Half => {
                self.begin(arena);
            }
            super::Freed::NotUsed => {}
        }
    }
}
