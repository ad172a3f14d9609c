//! The pools of small objects whose memory is known to be there: arenas stay mapped while a snapshot is out, so what
//! lies in a pool of a candidate can be read directly, whatever has become of it.

use std::ops::Range;

use super::counts::spread;
use crate::cpython::arenas::{self, POOL};

/// Pools by their addresses, in a table with open addressing. A slot without an address is free.
#[derive(Debug)]
pub(super) struct Pools {
    /// A power of two of them, or none. The low bit says that the pool is known to be there.
    slots: Vec<usize>,
    used: usize,
    /// The pools that were noted and found last: objects that hang together lie together.
    noted: usize,
    found: usize,
    /// Those that have to be looked at.
    new: Vec<usize>,
    /// Address space of arenas in huge pages, in which the last pool lay that was there. It stays mapped as arenas do, so its
    /// pools need not be noted.
    region: Range<usize>,
}

const THERE: usize = 1;
const FIRST_SLOTS: usize = 1024;

/// No pool begins here.
const NONE: usize = usize::MAX;

impl Default for Pools {
    fn default() -> Self {
        Self { slots: Vec::new(), used: 0, noted: NONE, found: NONE, new: Vec::new(), region: 0..0 }
    }
}

impl Pools {
    /// Notes the pool of an object that was small when the snapshot was taken.
    #[inline(always)]
    pub(super) fn note(&mut self, address: usize) {
        let pool = address & !(POOL - 1);
        if pool != self.noted {
            self.noted = pool;
            if !self.are_mapped_at(pool) {
                self.add(pool);
            }
        }
    }

    /// Whether an address lies in address space of arenas in huge pages.
    #[inline(always)]
    pub(super) fn are_mapped_at(&mut self, address: usize) -> bool {
        self.region.contains(&address) || self.is_in_region(address)
    }

    fn is_in_region(&mut self, address: usize) -> bool {
        let Some(region) = arenas::region_of(address) else { return false };
        self.region = region;
        true
    }

    fn add(&mut self, pool: usize) {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        let at = self.slot(pool);
        if self.slots[at] == 0 {
            self.slots[at] = pool;
            self.used += 1;
            self.new.push(pool);
        }
    }

    fn grow(&mut self) {
        let slots = vec![0; (2 * self.slots.len()).max(FIRST_SLOTS)];
        for old in std::mem::replace(&mut self.slots, slots) {
            if old != 0 {
                let at = self.slot(old & !THERE);
                self.slots[at] = old;
            }
        }
    }

    /// The slot of a pool, or the free one where it would stand. At most half of them are used, so there is one.
    #[inline(always)]
    fn slot(&self, pool: usize) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = spread(pool) & mask;
        while self.slots[at] & !THERE != pool && self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        at
    }

    /// Has the kernel read the headers of those that were noted since the last time. Where one says that it is a pool,
    /// all of the pool belongs to one arena, which is mapped as a whole.
    pub(super) fn prove(&mut self) {
        let new = std::mem::take(&mut self.new);
        for (pool, is_pool) in new.iter().zip(arenas::are_pools(&new)) {
            if is_pool {
                let at = self.slot(*pool);
                self.slots[at] = *pool | THERE;
            }
        }
    }

    /// Whether sixteen bytes at an address lie in a pool that is known to be there.
    #[inline(always)]
    pub(super) fn contain(&mut self, address: usize) -> bool {
        let pool = address & !(POOL - 1);
        address.is_multiple_of(16)
            && (pool == self.found || self.region.contains(&pool) || self.find(pool) || self.is_in_region(pool))
    }

    fn find(&mut self, pool: usize) -> bool {
        let is_there = !self.slots.is_empty() && pool != 0 && self.slots[self.slot(pool)] == pool | THERE;
        if is_there {
            self.found = pool;
        }
        is_there
    }

    /// Arenas are not kept any more: nothing is known.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_a_pool_and_was_noted_is_known() {
        let mut memory = vec![0_u8; 4 * POOL];
        let first = (memory.as_mut_ptr() as usize).next_multiple_of(POOL);
        // SAFETY: there is room for three whole pools from the first one on.
        unsafe { [first, first + POOL].iter().for_each(|pool| arenas::make_pool(*pool)) };
        let mut pools = Pools::default();
        assert!(!pools.contain(first + 64));
        pools.note(first + 64);
        pools.note(first + 2 * POOL);
        // Nothing is mapped here.
        pools.note(POOL);
        assert!(!pools.contain(first + 64));
        pools.prove();
        assert!(pools.contain(first + 1024) && pools.contain(first + POOL - 16));
        assert!(!pools.contain(first + POOL - 8), "it reaches into the next one");
        assert!(!pools.contain(first + POOL), "it was not noted");
        assert!(!pools.contain(first + 2 * POOL) && !pools.contain(POOL) && !pools.contain(0) && !pools.contain(16));
        pools.forget();
        assert!(!pools.contain(first + 1024));
    }

    #[test]
    fn a_table_that_grows_keeps_what_it_knows() {
        let mut memory = vec![0_u8; 2 * POOL];
        let first = (memory.as_mut_ptr() as usize).next_multiple_of(POOL);
        // SAFETY: there is room for a whole pool.
        unsafe { arenas::make_pool(first) };
        let mut pools = Pools::default();
        pools.note(first);
        pools.prove();
        (1..5_000).for_each(|number| pools.note(number * POOL));
        pools.prove();
        assert!(pools.contain(first) && (1..5_000).all(|number| !pools.contain(number * POOL)));
    }
}
