//! Anonymous mappings that native code has made: all of them, not a sample. There are few.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

use neurogc_wire::sites::AllocationDomain;

use super::live::{BlockSample, SiteKey};

const PLACES: usize = 4096;

/// The start of a place that is being filled.
const RESERVED: usize = 1;

/// The mappings. All zeros are an empty table.
#[derive(Debug)]
pub(super) struct Mappings {
    places: [Place; PLACES],
    count: AtomicU32,
    /// Places from here on were never used.
    used: AtomicUsize,
}

#[derive(Debug)]
struct Place {
    start: AtomicUsize,
    size: AtomicUsize,
    node: AtomicU32,
}

impl Mappings {
    /// Adds a mapping. False where there is no room.
    pub(super) fn add(&self, start: usize, size: usize, node: u32) -> bool {
        // What was there before is gone, even where it went in a way that is not seen here.
        self.remove(start, size);
        let free = self.places.iter().position(|place| {
            place.start.load(Relaxed) == 0 && place.start.compare_exchange(0, RESERVED, AcqRel, Relaxed).is_ok()
        });
        let Some((at, place)) = free.and_then(|at| Some((at, self.places.get(at)?))) else { return false };
        self.used.fetch_max(at + 1, AcqRel);
        place.size.store(size, Relaxed);
        place.node.store(node, Relaxed);
        self.count.fetch_add(1, Relaxed);
        place.start.store(start, Release);
        true
    }

    /// Takes a range out of every mapping that has a part in it. Of one that is cut in two, the first part stays.
    pub(super) fn remove(&self, start: usize, size: usize) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let end = start.saturating_add(size);
        for place in self.used() {
            let from = place.start.load(Acquire);
            let to = from.saturating_add(place.size.load(Relaxed));
            if from <= RESERVED || to <= start || from >= end {
                continue;
            }
            if from < start {
                place.size.store(start - from, Relaxed);
            } else if to > end {
                place.size.store(to - end, Relaxed);
                place.start.store(end, Release);
            } else if place.start.compare_exchange(from, 0, AcqRel, Relaxed).is_ok() {
                self.count.fetch_sub(1, Relaxed);
            }
        }
    }

    fn used(&self) -> &[Place] {
        &self.places[..self.used.load(Acquire).min(PLACES)]
    }

    /// The node of the mapping that an address lies in.
    pub(super) fn node_at(&self, address: usize) -> Option<u32> {
        let holds = |place: &&Place| {
            let start = place.start.load(Acquire);
            start > RESERVED && (start..start.saturating_add(place.size.load(Relaxed))).contains(&address)
        };
        self.used().iter().find(holds).map(|place| place.node.load(Relaxed))
    }

    /// All mappings, as samples that stand for themselves.
    pub(super) fn iter(&self) -> impl Iterator<Item = BlockSample> {
        self.used().iter().filter(|place| place.start.load(Acquire) > RESERVED).map(|place| {
            let size = place.size.load(Relaxed);
            sample(size, place.node.load(Relaxed))
        })
    }
}

/// A mapping as a sample that stands for itself.
pub(super) fn sample(size: usize, node: u32) -> BlockSample {
    BlockSample {
        weight: size as u64,
        size: u32::try_from(size).unwrap_or(u32::MAX),
        site: SiteKey::new(node, AllocationDomain::Mmap),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::tables::Tables;
    use super::*;

    fn check(remove: (usize, usize), expect: &[u64]) {
        let mappings = &Tables::map().unwrap().mappings;
        assert!(mappings.add(0x10_0000, 0x1_0000, 1) && mappings.add(0x20_0000, 0x2_0000, 2));
        mappings.remove(remove.0, remove.1);
        assert_eq!(mappings.iter().map(|sample| sample.weight).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn what_is_unmapped_is_taken_out() {
        check((0x10_0000, 0x1_0000), &[0x2_0000]);
        check((0x10_0000, 0x4000), &[0xc000, 0x2_0000]);
        check((0x10_c000, 0x4000), &[0xc000, 0x2_0000]);
        check((0x0, 0x100_0000), &[]);
        check((0x11_0000, 0x1000), &[0x1_0000, 0x2_0000]);
    }

    #[test]
    fn the_mapping_of_an_address_is_found() {
        let mappings = &Tables::map().unwrap().mappings;
        assert!(mappings.add(0x10_0000, 0x1_0000, 7));
        let found = [0xf_ffff, 0x10_0000, 0x10_ffff, 0x11_0000].map(|address| mappings.node_at(address));
        assert_eq!(found, [None, Some(7), Some(7), None]);
    }

    #[test]
    fn a_mapping_over_another_replaces_it_and_a_full_table_says_so() {
        let mappings = &Tables::map().unwrap().mappings;
        assert!(mappings.add(0x10_0000, 0x1000, 1) && mappings.add(0x10_0000, 0x2000, 1));
        assert_eq!(mappings.iter().map(|sample| sample.weight).collect::<Vec<_>>(), [0x2000]);
        let added = (0..PLACES + 88).filter(|index| mappings.add(0x100_0000 + index * 0x1000, 0x1000, 1)).count();
        assert_eq!(added, PLACES - 1);
    }
}
