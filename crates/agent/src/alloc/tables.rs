//! All tables of the sampler, in one mapping that a forked child finds empty.
//!
//! Every field is an atomic number, and all zeros are an empty table. So a child has nothing to repair, whatever other
//! threads of its parent were doing.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::interface::SamplePoints;
use super::live::{FEW, LiveBlocks, MANY};
use super::mappings::Mappings;
use super::stacks::StackTree;
use crate::sys::page::page_size;

/// The interval is doubled at most so often.
const MOST_DOUBLINGS: u32 = 20;

/// The tables.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(super) live: LiveBlocks,
    pub(super) stacks: StackTree,
    pub(super) mappings: Mappings,
    /// How often the interval was doubled.
    doublings: AtomicU32,
    /// Whether a thread is thinning.
    thinning: AtomicBool,
    /// Bytes that samples have stood for since the beginning.
    pub(super) made: AtomicU64,
}

const _: () = assert!(size_of::<Tables>() <= 4 << 20);

impl Tables {
    /// New tables, which stay mapped as long as the process lives. None where the kernel gives no memory.
    pub(super) fn map() -> Option<&'static Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice touches no other.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Self>(), access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the range was just mapped. Huge pages would make it larger than what is used of it.
        unsafe {
            libc::madvise(start, size_of::<Self>(), libc::MADV_WIPEONFORK);
            libc::madvise(start, size_of::<Self>(), libc::MADV_NOHUGEPAGE);
            // SAFETY: it is aligned to a page, large enough, never unmapped, and zeros are valid for every field.
            Some(&*(start as *const Self))
        }
    }

    /// Empties the tables in a forked child, where the kernel has not.
    pub(super) fn wipe_in_child(&self) {
        if self.made.load(Relaxed) != 0 {
            // SAFETY: the mapping is private and anonymous, so its pages read as zeros afterwards, which is valid for
            // every field; the child has no other thread.
            unsafe { libc::madvise(std::ptr::from_ref(self) as *mut _, size_of::<Self>(), libc::MADV_DONTNEED) };
        }
    }

    /// How much memory they take: most of it is never touched.
    pub(super) fn resident(&self) -> usize {
        /// There is no smaller page.
        const LEAST: usize = 4096;
        let mut pages = [0_u8; size_of::<Tables>().div_ceil(LEAST)];
        // SAFETY: the range is that of the mapping, and there is a byte for each of its pages.
        let read = unsafe { libc::mincore(std::ptr::from_ref(self) as *mut _, size_of::<Self>(), pages.as_mut_ptr()) };
        if read == 0 { pages.iter().filter(|page| **page & 1 != 0).count() * page_size() } else { size_of::<Self>() }
    }

    /// The interval in force.
    pub(super) fn interval(&self, base: u64) -> u64 {
        base << self.doublings.load(Relaxed).min(MOST_DOUBLINGS)
    }

    /// Fits the interval to the number of live samples.
    pub(super) fn fit(&self, base: u64, random: &SamplePoints) {
        let count = self.live.count();
        let doublings = self.doublings.load(Relaxed);
        let is_too_many = count > MANY && doublings < MOST_DOUBLINGS;
        let is_too_few = count < FEW && doublings > 0;
        if !(is_too_many || is_too_few) || self.thinning.swap(true, Acquire) {
            return;
        }
        if is_too_many {
            self.doublings.store(doublings + 1, Relaxed);
            self.live.thin(base << (doublings + 1), random);
        } else {
            self.doublings.store(doublings - 1, Relaxed);
        }
        self.thinning.store(false, Release);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use neurogc_wire::sites::AllocationDomain;

    use super::super::live::{BlockSample, SiteKey};
    use super::*;

    #[test]
    fn the_interval_follows_the_heap() {
        let tables = Tables::map().unwrap();
        let random = SamplePoints::new();
        random.begin(5, 32 << 10);
        let site = SiteKey::new(1, AllocationDomain::Object);
        let mut truth = 0;
        for index in 0..30_000_usize {
            let interval = tables.interval(32 << 10);
            // One block of this interval's length each time: what a stretch of small blocks comes to.
            tables.live.add(0x10_0000 + index * 1024, BlockSample { weight: interval, size: 64, site });
            truth += interval;
            tables.fit(32 << 10, &random);
            assert!(tables.live.count() <= MANY + 1);
        }
        let estimate: u64 = tables.live.iter().map(|sample| sample.weight).sum();
        assert!((estimate as f64 / truth as f64 - 1.0).abs() < 0.1, "{estimate} for {truth}");
        assert_eq!(tables.live.lost(), 0);
        let grown = tables.interval(32 << 10);
        assert!(grown > 32 << 10);
        for index in 0..30_000_usize {
            tables.live.take(0x10_0000 + index * 1024);
        }
        tables.fit(32 << 10, &random);
        assert_eq!(tables.interval(32 << 10), grown / 2);
    }

    #[test]
    fn a_forked_child_finds_them_empty() {
        let tables = Tables::map().unwrap();
        let site = SiteKey::new(1, AllocationDomain::Object);
        tables.live.add(0x4000, BlockSample { weight: 1, size: 1, site });
        // SAFETY: the child only reads atomics and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_empty = tables.live.count() == 0 && tables.live.get(0x4000).is_none();
            // SAFETY: it ends the child at once.
            unsafe { libc::_exit(i32::from(!is_empty)) };
        }
        let mut status = 0;
        // SAFETY: the child's number and a place for its status.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((status, tables.live.count()), (0, 1));
        assert!((1..100_000).contains(&tables.resident()), "{}", tables.resident());
    }
}
