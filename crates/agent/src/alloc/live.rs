//! The live samples: a table of addresses that no thread ever waits for.
//!
//! An address has two buckets of eight places each. A place is taken by exchanging an empty key for a reserved one, and
//! given back by exchanging the address for an empty key. Only the thread that owns a block adds or removes its
//! address, except for thinning, which may remove any.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

use neurogc_wire::sites::AllocationDomain;

use super::interface::{MARKED, SamplePoints};

const WAYS: usize = 8;
const BUCKETS: usize = 1024;
const PLACES: usize = BUCKETS * WAYS;
const FILTER: usize = 32 * 1024;

/// The key of a place that is being filled. No block has this address.
const RESERVED: usize = 1;

/// Beyond so many live samples the interval is doubled, and the table thinned. A sampled block lies `MARKED` bytes from the next
/// one, so this also limits the memory between them.
pub(super) const MANY: u32 = 4096;

/// Below so many it is halved again.
pub(super) const FEW: u32 = 512;

/// The table. All zeros are an empty one.
#[derive(Debug)]
pub(super) struct LiveBlocks {
    keys: [AtomicUsize; PLACES],
    samples: [Place; PLACES],
    /// How many live samples share a value of a hash. Nearly every block that is looked up and was not sampled is told
    /// apart by this alone.
    filter: [AtomicU16; FILTER],
    count: AtomicU32,
    lost: AtomicU64,
    /// Bytes that the live samples stand for, and the most since that was last asked for.
    weight: AtomicI64,
    peak: AtomicI64,
}

#[derive(Debug)]
struct Place {
    weight: AtomicU64,
    site: AtomicU32,
    size: AtomicU32,
}

/// A stack and an allocator: the number of a node, and two bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SiteKey(pub(super) u32);

/// Allocators by their number.
pub(super) const DOMAINS: [AllocationDomain; 4] =
    [AllocationDomain::Object, AllocationDomain::Raw, AllocationDomain::Malloc, AllocationDomain::Mmap];

impl SiteKey {
    pub(super) fn new(node: u32, domain: AllocationDomain) -> Self {
        Self(node << 2 | domain as u32 & 3)
    }

    pub(super) fn node(self) -> u32 {
        self.0 >> 2
    }

    pub(super) fn domain(self) -> AllocationDomain {
        DOMAINS[(self.0 & 3) as usize]
    }
}

/// A sampled block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockSample {
    /// The bytes that it stands for.
    pub(super) weight: u64,
    /// Its own size, which is cut at 4 GiB.
    pub(super) size: u32,
    pub(super) site: SiteKey,
}

impl BlockSample {
    /// The blocks that it stands for.
    pub(super) fn blocks(self) -> u64 {
        let size = u64::from(self.size.max(1));
        if self.size == u32::MAX { 1 } else { ((self.weight + size / 2) / size).max(1) }
    }
}

fn buckets(address: usize) -> [usize; 2] {
    let word = (address >> 4) as u64;
    [0x9e37_79b9_7f4a_7c15_u64, 0xc2b2_ae3d_27d4_eb4f].map(|factor| (word.wrapping_mul(factor) >> 54) as usize * WAYS)
}

fn in_filter(address: usize) -> usize {
    ((address / MARKED) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(49) as usize
}

const _: () = assert!(BUCKETS == 1 << (64 - 54) && FILTER == 1 << (64 - 49));

impl LiveBlocks {
    /// Adds a block. Where there is no room, it is counted as lost.
    pub(super) fn add(&self, address: usize, sample: BlockSample) -> bool {
        // The emptier bucket first: then hardly any block finds both of them full.
        let taken = |first: usize| self.keys[first..first + WAYS].iter().filter(|key| key.load(Relaxed) != 0).count();
        let [one, other] = buckets(address);
        for first in if taken(one) <= taken(other) { [one, other] } else { [other, one] } {
            for at in first..first + WAYS {
                let key = &self.keys[at];
                if key.load(Relaxed) == 0 && key.compare_exchange(0, RESERVED, AcqRel, Relaxed).is_ok() {
                    let place = &self.samples[at];
                    place.weight.store(sample.weight, Relaxed);
                    place.site.store(sample.site.0, Relaxed);
                    place.size.store(sample.size, Relaxed);
                    self.filter[in_filter(address)].fetch_add(1, Relaxed);
                    self.count.fetch_add(1, Relaxed);
                    self.weigh(sample.weight as i64);
                    key.store(address, Release);
                    return true;
                }
            }
        }
        self.lose();
        false
    }

    /// Takes a block out, if it is there. No block is at 0, which an empty place holds.
    pub(super) fn take(&self, address: usize) -> Option<BlockSample> {
        let at = self.find(address)?;
        let sample = self.read(at);
        self.clear(at, address, sample.weight).then_some(sample)
    }

    /// The sample of a block, which its owner asks for.
    pub(super) fn get(&self, address: usize) -> Option<BlockSample> {
        self.find(address).map(|at| self.read(at))
    }

    fn find(&self, address: usize) -> Option<usize> {
        if address <= RESERVED || self.filter[in_filter(address)].load(Relaxed) == 0 {
            return None;
        }
        let places = buckets(address).into_iter().flat_map(|first| first..first + WAYS);
        places.into_iter().find(|at| self.keys[*at].load(Acquire) == address)
    }

    fn read(&self, at: usize) -> BlockSample {
        let place = &self.samples[at];
        BlockSample {
            weight: place.weight.load(Relaxed),
            size: place.size.load(Relaxed),
            site: SiteKey(place.site.load(Relaxed)),
        }
    }

    fn clear(&self, at: usize, address: usize, weight: u64) -> bool {
        let cleared = self.keys[at].compare_exchange(address, 0, AcqRel, Relaxed).is_ok();
        if cleared {
            self.filter[in_filter(address)].fetch_sub(1, Relaxed);
            self.count.fetch_sub(1, Relaxed);
            self.weigh(-(weight as i64));
        }
        cleared
    }

    /// Makes every sample stand for at least so many bytes: one of less weight stays with a probability that is its
    /// share of them. Of the samples of a site one in every so many bytes stays, so its sum changes by less than that.
    pub(super) fn thin(&self, least: u64, random: &SamplePoints) {
        /// Sites that share a sum are thinned as one.
        const SUMS: usize = 256;
        let below_least = |random: u64| ((u128::from(random) * u128::from(least)) >> 64) as u64;
        let mut sums: [u64; SUMS] = std::array::from_fn(|_| below_least(random.next()));
        for at in 0..PLACES {
            let address = self.keys[at].load(Acquire);
            if address <= RESERVED {
                continue;
            }
            let weight = self.samples[at].weight.load(Relaxed);
            if weight >= least {
                continue;
            }
            let site = u64::from(self.samples[at].site.load(Relaxed));
            let sum = &mut sums[(site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize];
            *sum += weight;
            if *sum < least {
                self.clear(at, address, weight);
            } else {
                *sum -= least;
                // Its owner may have taken it out meanwhile, and the place may be another block's.
                let _ = self.samples[at].weight.compare_exchange(weight, least, Relaxed, Relaxed);
            }
        }
        // An owner that took a block out meanwhile may have read the weight that it had before.
        self.weight.store(self.iter().map(|sample| sample.weight as i64).sum(), Relaxed);
    }

    fn weigh(&self, more: i64) {
        let now = self.weight.fetch_add(more, Relaxed) + more;
        if more > 0 && now > self.peak.load(Relaxed) {
            self.peak.fetch_max(now, Relaxed);
        }
    }

    /// The bytes that live samples stand for.
    pub(super) fn weight(&self) -> u64 {
        self.weight.load(Relaxed).max(0) as u64
    }

    /// The bytes that live samples stand for, and the most since the last time that this was asked.
    pub(super) fn weights(&self) -> (i64, i64) {
        let now = self.weight.load(Relaxed);
        (now, self.peak.swap(now, Relaxed).max(now))
    }

    /// All samples. Blocks come and go meanwhile.
    pub(super) fn iter(&self) -> impl Iterator<Item = BlockSample> {
        (0..PLACES).filter(|at| self.keys[*at].load(Acquire) > RESERVED).map(|at| self.read(at))
    }

    /// The addresses of samples of at least this size.
    pub(super) fn addresses(&self, least: u32) -> impl Iterator<Item = usize> {
        let large = (0..PLACES).filter(move |at| self.samples[*at].size.load(Relaxed) >= least);
        large.map(|at| self.keys[at].load(Acquire)).filter(|address| *address > RESERVED)
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Counts a sampled block that is not in the table.
    pub(super) fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    /// How many sampled blocks are not in the table.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::tables::Tables;
    use super::*;

    fn sample(weight: u64) -> BlockSample {
        BlockSample { weight, size: 64, site: SiteKey::new(5, AllocationDomain::Malloc) }
    }

    #[test]
    fn what_is_added_is_found_once() {
        let live = &Tables::map().unwrap().live;
        assert!(live.add(0x7000_0400, sample(9)));
        assert_eq!(live.get(0x7000_0400), Some(sample(9)));
        assert_eq!(live.take(0x7000_0400), Some(sample(9)));
        assert_eq!((live.take(0x7000_0400), live.count()), (None, 0));
    }

    #[test]
    fn null_is_no_block() {
        let live = &Tables::map().unwrap().live;
        for address in (0..200).map(|index| 0x1000 + index * 1024) {
            live.add(address, sample(1));
        }
        assert_eq!((live.take(0), live.take(RESERVED)), (None, None));
    }

    #[test]
    fn there_is_room_for_as_many_as_there_may_be() {
        let live = &Tables::map().unwrap().live;
        let address = |index: usize| 0x7f00_0000_0000 + index * 33 * 1024;
        (0..MANY as usize).for_each(|index| assert!(live.add(address(index), sample(1)), "{index}"));
        assert_eq!((live.count(), live.lost()), (MANY, 0));
        (0..MANY as usize).for_each(|index| assert!(live.take(address(index)).is_some()));
        assert_eq!(live.iter().count(), 0);
    }

    #[test]
    fn a_full_table_counts_what_it_loses() {
        let live = &Tables::map().unwrap().live;
        for index in 0..PLACES + 100 {
            live.add(0x10_0000 + index * 1024, sample(1));
        }
        assert!(live.lost() >= 100 && live.count() as usize + live.lost() as usize == PLACES + 100);
    }

    #[test]
    fn thinning_keeps_sums_and_halves_the_number() {
        let live = &Tables::map().unwrap().live;
        let random = SamplePoints::new();
        random.begin(11, 100);
        for index in 0..4000 {
            live.add(0x10_0000 + index * 1024, sample(100));
        }
        live.add(0x5_0000_0000, sample(5000));
        live.thin(200, &random);
        let sum: u64 = live.iter().map(|sample| sample.weight).sum();
        assert!((live.count() as i32 - 2001).abs() <= 1, "{}", live.count());
        assert!(sum.abs_diff(405_000) <= 200, "{sum}");
        assert_eq!(live.get(0x5_0000_0000), Some(sample(5000)));
        // Those of 200 bytes become those of 800 with a probability of a quarter.
        live.thin(800, &random);
        assert!((live.count() as i32 - 501).abs() <= 1, "{}", live.count());
    }

    #[test]
    fn the_peak_is_that_since_it_was_last_asked_for() {
        let live = &Tables::map().unwrap().live;
        assert!(live.add(0x7000_0400, sample(9)) && live.add(0x7000_0800, sample(5)));
        live.take(0x7000_0400);
        assert_eq!((live.weights(), live.weights()), ((5, 14), (5, 5)));
    }

    #[test]
    fn threads_that_add_and_take_leave_nothing_behind() {
        let live = &Tables::map().unwrap().live;
        let random = SamplePoints::new();
        random.begin(13, 100);
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                scope.spawn(move || {
                    for round in 0..20_000_usize {
                        let address = 0x1000_0000 * (thread + 1) + (round % 1500) * 1024;
                        live.add(address, sample(100));
                        live.take(address);
                    }
                });
            }
            (0..50).for_each(|_| live.thin(200, &random));
        });
        assert_eq!((live.count(), live.iter().count()), (0, 0));
        live.thin(200, &random);
        assert_eq!(live.weights().0, 0);
        assert!(live.filter.iter().all(|count| count.load(Relaxed) == 0));
    }

    #[test]
    fn a_sample_stands_for_blocks_of_its_size() {
        let of = |weight, size| BlockSample { weight, size, site: SiteKey(0) }.blocks();
        assert_eq!((of(32768, 64), of(100_000, 100_000), of(32768, 60_000), of(1 << 33, u32::MAX)), (512, 1, 1, 1));
    }
}
