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
use crate::sys::native::process_cpu_ns;
use crate::sys::page::page_size;

/// The interval is doubled at most so often.
const MOST_DOUBLINGS: u32 = 20;

/// A sample takes about 2 µs, most of it for memory that is not in the processor's caches. Where a program allocates so much
/// that so many samples come within this much processor time (0.5 % of it), the interval is longer: doubled at most so often.
const TURN: u32 = 256;
const TURN_NS: u64 = TURN as u64 * 400_000;
const MOST_FOR_PACE: u32 = 3;

/// The interval stays as it is while at least this share of a turn's samples remains live: the program builds its heap then, and
/// what is sampled now is what reports will show.
const BUILDING: u32 = 8;

/// Shorter intervals than this stay: the user has set `sample_kib` below its default.
const ASKED_FOR: u64 = 32 << 10;

/// The tables.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(super) live: LiveBlocks,
    pub(super) stacks: StackTree,
    pub(super) mappings: Mappings,
    /// How often the interval was doubled because there are many live samples.
    doublings: AtomicU32,
    /// How often it is doubled at least, because samples come fast.
    pace: AtomicU32,
    /// Samples so far, and the processor time of the process when the latest turn of them began.
    taken: AtomicU32,
    turn_began: AtomicU64,
    /// Live samples then.
    turn_live: AtomicU32,
    /// Whether a thread is thinning.
    thinning: AtomicBool,
    /// Bytes of live samples at which the thread that looks at memory is woken, and by how much more than there is that may be;
    /// 0 for never.
    wakes_at: AtomicU64,
    wakes_after: AtomicU64,
    /// Bytes of live samples when the latest collection ended.
    left: AtomicU64,
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
        base << self.doublings.load(Relaxed).max(self.pace.load(Relaxed)).min(MOST_DOUBLINGS)
    }

    /// The thread that looks at memory shall be woken when so many more bytes are live than now.
    pub(super) fn wake_after(&self, growth: u64) {
        self.wakes_after.store(growth, Relaxed);
        self.wakes_at.store(self.live.weight() + growth, Relaxed);
    }

    /// A collection has ended: growth counts from here.
    pub(super) fn collection_ended(&self) {
        let (left, growth) = (self.live.weight(), self.wakes_after.load(Relaxed));
        self.left.store(left, Relaxed);
        if growth != 0 {
            self.wakes_at.store(left + growth, Relaxed);
        }
    }

    /// What was live when the latest collection ended, if one has.
    pub(super) fn left(&self) -> Option<u64> {
        Some(self.left.load(Relaxed)).filter(|left| *left > 0)
    }

    /// Whether it is to be woken now, once.
    pub(super) fn is_time_to_wake(&self) -> bool {
        let at = self.wakes_at.load(Relaxed);
        at != 0 && self.live.weight() >= at && self.wakes_at.compare_exchange(at, 0, Relaxed, Relaxed).is_ok()
    }

    /// Fits the interval to how fast samples come, after each sample.
    pub(super) fn keep_pace(&self, base: u64) {
        if base >= ASKED_FOR && self.taken.fetch_add(1, Relaxed) % TURN == TURN - 1 {
            let now = process_cpu_ns();
            let took = now.saturating_sub(self.turn_began.swap(now, Relaxed));
            let live = self.live.count();
            let kept = live.saturating_sub(self.turn_live.swap(live, Relaxed));
            self.pace.store(pace_after(self.pace.load(Relaxed), took, kept), Relaxed);
        }
    }

    /// Fits the interval to the number of live samples.
    pub(super) fn fit(&self, base: u64, random: &SamplePoints) {
        let count = self.live.count();
        let own = self.doublings.load(Relaxed);
        // A table that is too full must be thinned to more than the interval in force.
        let doublings = if count > MANY { own.max(self.pace.load(Relaxed)) } else { own };
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

/// How often the interval is doubled after a turn of samples that took so much processor time and left so many more live.
fn pace_after(pace: u32, took: u64, kept: u32) -> u32 {
    if kept >= TURN / BUILDING {
        0
    } else if took < TURN_NS {
        let short = TURN_NS.div_ceil(took.max(1)).next_power_of_two().trailing_zeros();
        (pace + short).min(MOST_FOR_PACE)
    } else if took > 4 * TURN_NS {
        pace.saturating_sub(1)
    } else {
        pace
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
    fn growth_wakes_once() {
        let tables = Tables::map().unwrap();
        let site = SiteKey::new(1, AllocationDomain::Object);
        tables.live.add(0x20_0000, BlockSample { weight: 1_000, size: 64, site });
        assert!(!tables.is_time_to_wake(), "nothing was asked for");
        tables.wake_after(1_000);
        assert!(!tables.is_time_to_wake());
        tables.live.add(0x30_0000, BlockSample { weight: 1_000, size: 64, site });
        assert!(tables.is_time_to_wake() && !tables.is_time_to_wake());
        assert_eq!(tables.left(), None);
        tables.collection_ended();
        assert_eq!(tables.left(), Some(2_000));
        tables.live.add(0x40_0000, BlockSample { weight: 1_000, size: 64, site });
        assert!(tables.is_time_to_wake() && !tables.is_time_to_wake(), "growth counts from the end of the collection");
    }

    #[test]
    fn a_program_that_allocates_much_is_sampled_less_often() {
        let ms = 1_000_000;
        assert_eq!(TURN_NS, 102_400_000);
        let churning = |pace, took| pace_after(pace, took, 0);
        assert_eq!(churning(0, 103 * ms), 0, "0.5 % of the time");
        assert_eq!((churning(0, 100 * ms), churning(0, 40 * ms), churning(0, 24 * ms)), (1, 2, 3));
        assert_eq!((churning(2, 40 * ms), churning(0, 0)), (MOST_FOR_PACE, MOST_FOR_PACE));
        assert_eq!((churning(2, 300 * ms), churning(2, 420 * ms), churning(0, 900 * ms)), (2, 1, 0));
    }

    #[test]
    fn a_program_that_builds_its_heap_is_sampled_as_closely_as_before() {
        assert_eq!(pace_after(0, 1_000_000, TURN), 0);
        assert_eq!(pace_after(3, 1_000_000, TURN / BUILDING), 0);
        assert_eq!(pace_after(1, 1_000_000, TURN / BUILDING - 1), MOST_FOR_PACE);
    }

    #[test]
    fn the_interval_that_was_asked_for_stays_however_fast_samples_come() {
        let tables = Tables::map().unwrap();
        tables.turn_began.store(process_cpu_ns(), Relaxed);
        (0..3 * TURN).for_each(|_| tables.keep_pace(ASKED_FOR / 2));
        assert_eq!(tables.interval(ASKED_FOR / 2), ASKED_FOR / 2);
        (0..3 * TURN).for_each(|_| tables.keep_pace(ASKED_FOR));
        assert_eq!(tables.interval(ASKED_FOR), ASKED_FOR << MOST_FOR_PACE);
        // The table has room for as many samples as before, at the longer interval.
        let random = SamplePoints::new();
        random.begin(5, ASKED_FOR);
        let site = SiteKey::new(1, AllocationDomain::Object);
        for index in 0..=MANY as usize {
            let weight = tables.interval(ASKED_FOR);
            tables.live.add(0x10_0000 + index * 1024, BlockSample { weight, size: 64, site });
            tables.fit(ASKED_FOR, &random);
        }
        assert_eq!(tables.interval(ASKED_FOR), ASKED_FOR << (MOST_FOR_PACE + 1));
        assert!(tables.live.count() < MANY * 2 / 3, "{}", tables.live.count());
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
