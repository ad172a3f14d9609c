//! Blocks of the heap that a walk of new objects can do without: only old objects, numbers and texts lie there.
//!
//! The clone lets go of them first thing. From then on they are the program's alone again, which writes to them without
//! copying pages, and most of what it writes to is there: the counts of references to its old objects.
//!
//! Which blocks these are, earlier walks have told: no new object was there, nor room for one, and the walk read nothing
//! else there. Should a walk touch one all the same, it ends there, and the next ones have that block.

use super::control::SharedControl;
use super::locked::{self, LockedBlocks};
use super::look_plan::LookPlan;
use super::mappings::Account;
use super::shadow::Shadow;
use super::system;
use crate::cpython::arenas;
use crate::sys::chunks::ARENA;

/// Blocks begin at multiples of this, and are as large: a huge page belongs to one process or to two, as a whole.
const BLOCK: usize = 2 * ARENA;

/// Where more of a block is free, new objects will come there.
const MOST_FREE: usize = BLOCK / 32;

/// What the program knows about such blocks.
#[derive(Debug)]
pub(super) struct OldBlocks {
    /// In the order of addresses, with something between each two.
    ranges: Vec<(usize, usize)>,
    looks: LookPlan,
    /// Walks that have missed a block, and flights since the last one that have done without some.
    misses: u32,
    good: u32,
    /// How many flights see everything after the next walks that miss too much.
    caution: u32,
}

/// After so many misses flights see everything for a while, and after so many good flights without one they are forgotten.
const MOST_MISSES: u32 = 3;
const GOOD: u32 = 64;

/// That is so many flights at first, and twice as many after each further time, up to the second number.
const CAUTION: (u32, u32) = (8, 512);

impl Default for OldBlocks {
    fn default() -> Self {
        Self { ranges: Vec::new(), looks: LookPlan::default(), misses: 0, good: 0, caution: CAUTION.0 }
    }
}

impl OldBlocks {
    /// Whether the next flight should look for more.
    pub(super) fn is_look_due(&self) -> bool {
        self.looks.is_due()
    }

    /// What a walk does without that reads this address.
    pub(super) fn without(&self, address: usize) -> Vec<(usize, usize)> {
        let read = address & !(BLOCK - 1);
        let parts = |(from, to): &(usize, usize)| [(*from, (*to).min(read)), ((*from).max(read + BLOCK), *to)];
        self.ranges.iter().flat_map(parts).filter(|(from, to)| from < to).collect()
    }

    /// A flight has landed. If it has looked, these were untouched.
    pub(super) fn landed(&mut self, untouched: Option<Vec<(usize, usize)>>) {
        self.looks.landed(untouched.is_some());
        if !self.ranges.is_empty() {
            self.good = self.good.saturating_add(1);
        }
        if self.good >= GOOD {
            (self.misses, self.caution) = (0, CAUTION.0);
        }
        if let Some(untouched) = untouched {
            self.ranges.extend(untouched);
            self.ranges = united(std::mem::take(&mut self.ranges));
        }
    }

    /// A walk has crashed that has touched this address last. If it had let go of that, this is true, and the next ones have it.
    pub(super) fn missed(&mut self, address: usize) -> bool {
        let rest = self.without(address);
        if rest == self.ranges {
            return false;
        }
        self.ranges = rest;
        (self.misses, self.good) = (self.misses + 1, 0);
        if self.misses >= MOST_MISSES {
            self.ranges.clear();
            self.looks.rest(self.caution);
            (self.misses, self.caution) = (0, (self.caution * 2).min(CAUTION.1));
        }
        true
    }
}

/// Ranges that touch or overlap are one.
fn united(mut ranges: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    ranges.sort_unstable();
    let mut united: Vec<(usize, usize)> = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        match united.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => united.push((from, to)),
        }
    }
    united
}

/// In the clone: lets go of these ranges, as far as they still are what they were. False where the kernel refuses.
///
/// # Safety
/// Blocks that small objects lie in must not be read afterwards.
pub(super) unsafe fn let_go(ranges: &[(usize, usize)]) -> bool {
    ranges.iter().all(|(from, to)| {
        let mut kept = *from;
        // A block that is something else now may be what this process stands on.
        // SAFETY: what was unmapped since then ends this process, as a missing block does. The rest is the caller's promise.
        (*from..*to).step_by(BLOCK).chain([*to]).all(|block| unsafe {
            if block < *to && holds_small_objects(block) {
                return true;
            }
            let done = kept == block || system::wall_off((kept, block));
            kept = block + BLOCK;
            done
        })
    })
}

/// In the clone, when new objects are known: locks the full blocks away that have none. False where there are no such blocks.
pub(super) fn lock_away(new: &Shadow) -> bool {
    let (Some(account), Some(mut locked)) = (Account::read(c"/proc/self/maps"), LockedBlocks::new(BLOCK)) else {
        return false;
    };
    let has_none = |block: &usize| (*block..block + BLOCK).step_by(ARENA).all(|part| !new.has_any(part));
    // SAFETY: these are mappings of this process that can be read.
    let is_full = |block: &usize| unsafe { holds_small_objects(*block) && arenas::free_in(*block, BLOCK) <= MOST_FREE };
    account.blocks(BLOCK).filter(has_none).filter(is_full).for_each(|block| locked.add(block));
    locked.lock()
}

/// Writes down the blocks that the walk has not touched.
pub(super) fn tell_untouched(control: &SharedControl) {
    locked::tell(control, BLOCK, locked::untouched());
}

/// Whether all of a block is arenas of CPython's.
unsafe fn holds_small_objects(block: usize) -> bool {
    // SAFETY: the caller's promise: the block can be read.
    unsafe { arenas::pools_in(block, BLOCK) }.all(|is_pool| is_pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges of blocks by number.
    fn blocks<const COUNT: usize>(ranges: [(usize, usize); COUNT]) -> Vec<(usize, usize)> {
        ranges.iter().map(|(from, to)| (from * BLOCK, to * BLOCK)).collect()
    }

    #[test]
    fn what_looks_find_adds_up() {
        let mut old = OldBlocks::default();
        old.landed(Some(blocks([(8, 9), (20, 21)])));
        old.landed(None);
        old.landed(Some(blocks([(1, 3), (9, 11)])));
        assert_eq!(old.without(0), blocks([(1, 3), (8, 11), (20, 21)]));
        // A block that is something else for one flight is met again.
        old.landed(Some(blocks([(2, 4), (20, 21)])));
        assert_eq!(old.without(0), blocks([(1, 4), (8, 11), (20, 21)]));
    }

    #[test]
    fn the_block_that_the_walk_begins_in_stays() {
        let mut old = OldBlocks::default();
        old.landed(Some(blocks([(1, 5), (8, 9)])));
        assert_eq!(old.without(3 * BLOCK + 4096), blocks([(1, 3), (4, 5), (8, 9)]));
        assert_eq!(old.without(8 * BLOCK), blocks([(1, 5)]));
        assert_eq!(old.without(9 * BLOCK), blocks([(1, 5), (8, 9)]));
    }

    #[test]
    fn a_block_that_was_missed_is_kept_from_then_on() {
        let mut old = OldBlocks::default();
        old.landed(Some(blocks([(1, 5), (8, 9)])));
        assert!(!old.missed(6 * BLOCK) && !old.missed(0), "other crashes are real ones");
        assert!(old.missed(2 * BLOCK + 48));
        assert_eq!(old.without(0), blocks([(1, 2), (3, 5), (8, 9)]));
    }

    #[test]
    fn walks_that_miss_much_make_cautious_for_longer_and_longer() {
        let mut old = OldBlocks::default();
        let mut waits = Vec::new();
        let mut wait_and_miss = |old: &mut OldBlocks| {
            let mut flights = 0;
            while old.without(0).is_empty() {
                let untouched = old.is_look_due().then(|| blocks([(1, 9)]));
                old.landed(untouched);
                flights += 1;
            }
            assert!((1..=MOST_MISSES as usize).all(|block| old.missed(block * BLOCK)) && !old.missed(BLOCK));
            waits.push(flights);
        };
        (0..10).for_each(|_| wait_and_miss(&mut old));
        assert_eq!((waits[0], waits[1], waits[9]), (1, 9, 513), "{waits:?}");
        assert!(waits.is_sorted());
        old.looks = LookPlan::default();
        old.landed(Some(blocks([(1, 9)])));
        (0..GOOD).for_each(|_| old.landed(None));
        assert_eq!((old.misses, old.caution), (0, CAUTION.0));
    }

    #[test]
    fn only_what_holds_small_objects_is_let_go_of() {
        const BLOCKS: usize = 4;
        let memory = (system::map((BLOCKS + 1) * BLOCK) as usize).next_multiple_of(BLOCK);
        // SAFETY: the mapping is this test's own, and large enough. In the child, nothing else is touched.
        unsafe {
            for block in [0, 1, 3] {
                (memory + block * BLOCK..memory + (block + 1) * BLOCK)
                    .step_by(arenas::POOL)
                    .for_each(|pool| arenas::make_pool(pool));
            }
            *((memory + 2 * BLOCK) as *mut u8) = 7;
            let child = libc::fork();
            if child == 0 {
                if !let_go(&[(memory, memory + BLOCKS * BLOCK)]) {
                    libc::_exit(1);
                }
                let mut there = [0_u8; 1];
                let read = |block: usize, into: *mut u8| {
                    let (to, from) = (
                        libc::iovec { iov_base: into.cast(), iov_len: 1 },
                        libc::iovec { iov_base: (memory + block * BLOCK) as *mut libc::c_void, iov_len: 1 },
                    );
                    libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) == 1
                };
                let gone = [0, 1, 3].iter().all(|block| !read(*block, there.as_mut_ptr()));
                let kept = read(2, there.as_mut_ptr()) && there[0] == 7;
                libc::_exit(if gone && kept { 0 } else { 2 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
        }
    }
}
