//! The blocks of a counted section that live: a hash table from an address to what is known of the block.
//!
//! It takes its memory from the kernel, so that it can grow in the middle of an allocation.

use std::ptr::null_mut;

/// A block that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountedBlock {
    pub(super) size: u64,
    /// The node of the stack that it was allocated by.
    pub(super) node: u32,
}

/// Bits of a word that hold the node; the others hold the size.
const NODE_BITS: u32 = 14;
const NODE: u64 = (1 << NODE_BITS) - 1;

/// Places of a new table, and of the largest one, which takes 512 MiB.
const FIRST: usize = 1 << 14;
const MOST: usize = 1 << 25;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Zero where there is no block.
    address: usize,
    what: u64,
}

/// The table. A new one has no memory yet.
#[derive(Debug)]
pub(super) struct Blocks {
    places: *mut Place,
    capacity: usize,
    used: usize,
}

// SAFETY: the table owns its mapping, and hands out copies only.
unsafe impl Send for Blocks {}

impl Blocks {
    pub(super) const fn new() -> Self {
        Self { places: null_mut(), capacity: 0, used: 0 }
    }

    /// How many blocks live.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Adds a block and gives the one that was at the same address. Says `Err` where there is no room.
    pub(super) fn insert(&mut self, address: usize, block: CountedBlock) -> Result<Option<CountedBlock>, NoRoom> {
        // Half of the places are taken at most: neighbours share a part of the table.
        if self.used >= self.capacity / 2 && !self.grow() {
            return Err(NoRoom);
        }
        let what = block.size << NODE_BITS | u64::from(block.node) & NODE;
        let place = self.place(address);
        let before = (place.address == address).then(|| known(place.what));
        *place = Place { address, what };
        self.used += usize::from(before.is_none());
        Ok(before)
    }

    /// Takes a block out.
    pub(super) fn remove(&mut self, address: usize) -> Option<CountedBlock> {
        if self.used == 0 || address == 0 {
            return None;
        }
        let mask = self.capacity - 1;
        let place = self.place(address);
        if place.address != address {
            return None;
        }
        let block = known(place.what);
        // Those behind it move up, so that none is cut off from the place where its search begins.
        let places = self.places_mut();
        let mut hole = position(places, address);
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let next = places[at];
            if next.address == 0 {
                break;
            }
            let wish = hash(next.address) & mask;
            if (at.wrapping_sub(wish) & mask) >= (at.wrapping_sub(hole) & mask) {
                places[hole] = next;
                hole = at;
            }
        }
        places[hole] = Place { address: 0, what: 0 };
        self.used -= 1;
        Some(block)
    }

    /// Forgets all blocks and gives the memory back.
    pub(super) fn clear(&mut self) {
        unmap(self.places, self.capacity);
        *self = Self::new();
    }

    fn places_mut(&mut self) -> &mut [Place] {
        if self.capacity == 0 {
            return &mut [];
        }
        // SAFETY: the mapping has so many places, all zeros are valid ones, and the table is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.places, self.capacity) }
    }

    /// The place of an address, or the empty one where it would go. The table is never full.
    fn place(&mut self, address: usize) -> &mut Place {
        let places = self.places_mut();
        let at = position(places, address);
        &mut places[at]
    }

    fn grow(&mut self) -> bool {
        let capacity = (self.capacity * 2).max(FIRST);
        let Some(places) = (capacity <= MOST).then(|| map(capacity)).flatten() else { return false };
        let mut larger = Self { places, capacity, used: self.used };
        for place in self.places_mut() {
            if place.address != 0 {
                *larger.place(place.address) = *place;
            }
        }
        unmap(self.places, self.capacity);
        *self = larger;
        true
    }
}

/// The table is as large as it may be, or the kernel gives no memory.
#[derive(Debug)]
pub(super) struct NoRoom;

fn known(what: u64) -> CountedBlock {
    CountedBlock { size: what >> NODE_BITS, node: (what & NODE) as u32 }
}

/// Blocks that lie close together begin their search close together: they are often allocated one after the other.
fn hash(address: usize) -> usize {
    let part = (address as u64 >> 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
    (part as usize) << 4 | (address >> 4) & 0xf
}

fn position(places: &[Place], address: usize) -> usize {
    let mask = places.len() - 1;
    let mut at = hash(address) & mask;
    while places[at].address != 0 && places[at].address != address {
        at = (at + 1) & mask;
    }
    at
}

/// By the kernel's own calls: the preloaded library would report the mapping to the section that is being counted.
fn map(capacity: usize) -> Option<*mut Place> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let bytes = capacity * size_of::<Place>();
    // SAFETY: a new mapping at an address of the kernel's choice touches no other.
    let start = unsafe { libc::syscall(libc::SYS_mmap, 0_usize, bytes, access, kind, -1_isize, 0_usize) };
    (start > 0).then_some(start as *mut Place)
}

fn unmap(places: *mut Place, capacity: usize) {
    if capacity > 0 {
        // SAFETY: the mapping is the table's own, which does not use it any more.
        unsafe { libc::syscall(libc::SYS_munmap, places, capacity * size_of::<Place>()) };
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A few random numbers.
    fn random(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed | 1;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    #[test]
    fn it_does_what_a_map_does() {
        for seed in 1..200 {
            let (mut blocks, mut map, mut random) = (Blocks::new(), HashMap::new(), random(seed * 77_777));
            for _ in 0..400 {
                // Few addresses, many of which begin their search at the same place.
                let address = (1 + random(100) as usize) << 40;
                let block = CountedBlock { size: random(1 << 40), node: random(16_384) as u32 };
                if random(5) < 3 {
                    assert_eq!(blocks.insert(address, block).unwrap(), map.insert(address, block));
                } else {
                    assert_eq!(blocks.remove(address), map.remove(&address));
                }
                assert_eq!(blocks.len(), map.len());
            }
            for (address, block) in map {
                assert_eq!(blocks.remove(address), Some(block));
            }
            assert_eq!(blocks.len(), 0);
            blocks.clear();
        }
    }

    #[test]
    fn it_grows() {
        let mut blocks = Blocks::new();
        for at in 1..100_000_usize {
            assert_eq!(blocks.insert(at * 16, CountedBlock { size: at as u64, node: 7 }).unwrap(), None);
        }
        assert_eq!(blocks.remove(16 * 77_777), Some(CountedBlock { size: 77_777, node: 7 }));
        assert_eq!(blocks.len(), 99_998);
        blocks.clear();
        assert_eq!(blocks.remove(16), None);
    }
}
