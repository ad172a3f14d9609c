//! Which addresses are objects: a bit for every eight bytes of the heap, beside the heap, and the number of each object.
//!
//! Two levels over regions of 1 MiB. Numbers are in the order of addresses, so neighbours in memory are neighbours in
//! number.

use super::super::control::WalkTrouble;
use super::super::system;

const REGION_BITS: usize = 20;
const MIDDLE_BITS: usize = 14;
const ADDRESS_BITS: usize = 48;
const TOP: usize = 1 << (ADDRESS_BITS - REGION_BITS - MIDDLE_BITS);
const MIDDLE: usize = 1 << MIDDLE_BITS;
const WORDS: usize = (1 << REGION_BITS) / 8 / 64;

/// Regions are taken from the kernel this many at a time.
const AT_ONCE: usize = 64;

/// What is known of 1 MiB of heap. All-zero is valid.
#[repr(C)]
pub(super) struct Region {
    /// Objects.
    pub(super) all: [u64; WORDS],
    /// Objects that have been walked.
    pub(super) done: [u64; WORDS],
    /// Objects that the collector tracks.
    pub(super) tracked: [u64; WORDS],
    /// Objects before each word.
    rank: [u32; WORDS],
    base: usize,
    /// Whether objects were added since the region was looked through.
    dirty: bool,
}

struct Middle {
    regions: [*mut Region; MIDDLE],
}

/// The set.
pub(super) struct Seen {
    top: *mut *mut Middle,
    fresh: *mut Region,
    fresh_left: usize,
    /// How many objects it has.
    count: u64,
}

/// Where an object's bit is.
#[derive(Clone, Copy)]
pub(super) struct BitPlace {
    region: *mut Region,
    word: usize,
    bit: u64,
}

impl Seen {
    pub(super) fn new() -> Option<Self> {
        let top: *mut *mut Middle = system::map(TOP * size_of::<usize>()).cast();
        (!top.is_null()).then_some(Self { top, fresh: std::ptr::null_mut(), fresh_left: 0, count: 0 })
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    #[inline(always)]
    fn region(&self, address: usize) -> *mut Region {
        // SAFETY: the callers' addresses have no more bits than the tables have room for; every pointer in a table is
        // null or that of a table of its kind.
        unsafe {
            let middle = *self.top.add(address >> (REGION_BITS + MIDDLE_BITS));
            if middle.is_null() {
                return std::ptr::null_mut();
            }
            (&(*middle).regions)[(address >> REGION_BITS) % MIDDLE]
        }
    }

    #[cold]
    fn make(&mut self, address: usize) -> *mut Region {
        // SAFETY: as in `region`; new tables are zeroed and have the size that it expects.
        unsafe {
            let middle = self.top.add(address >> (REGION_BITS + MIDDLE_BITS));
            if (*middle).is_null() {
                *middle = system::map(size_of::<Middle>()).cast();
            }
            if self.fresh_left == 0 {
                self.fresh = system::map(AT_ONCE * size_of::<Region>()).cast();
                self.fresh_left = AT_ONCE;
            }
            if (*middle).is_null() || self.fresh.is_null() {
                self.fresh_left = 0;
                return std::ptr::null_mut();
            }
            let region = self.fresh;
            self.fresh = region.add(1);
            self.fresh_left -= 1;
            (*region).base = address >> REGION_BITS << REGION_BITS;
            (&mut (**middle).regions)[(address >> REGION_BITS) % MIDDLE] = region;
            region
        }
    }

    /// Where an address has its bit; nothing where it cannot be an object's, or where there is no memory.
    #[inline(always)]
    fn place(&mut self, address: usize) -> Option<BitPlace> {
        if address >> ADDRESS_BITS != 0 || !address.is_multiple_of(8) {
            return None;
        }
        let mut region = self.region(address);
        if region.is_null() {
            region = self.make(address);
            if region.is_null() {
                return None;
            }
        }
        let granule = (address % (1 << REGION_BITS)) >> 3;
        Some(BitPlace { region, word: granule >> 6, bit: 1 << (granule & 63) })
    }

    /// Adds an object. True if it is new.
    #[inline(always)]
    pub(super) fn add(&mut self, address: usize) -> Result<bool, WalkTrouble> {
        let Some(BitPlace { region, word, bit }) = self.place(address) else { return Err(WalkTrouble::NoMemory) };
        // SAFETY: `place` gives a region and a word in it.
        unsafe {
            let bits = (*region).all.as_mut_ptr().add(word);
            if *bits & bit != 0 {
                return Ok(false);
            }
            *bits |= bit;
            (*region).dirty = true;
        }
        self.count += 1;
        Ok(true)
    }

    /// Notes that the collector tracks an object, which is added.
    #[inline(always)]
    pub(super) fn track(&mut self, address: usize) -> Result<(), WalkTrouble> {
        let Some(BitPlace { region, word, bit }) = self.place(address) else { return Err(WalkTrouble::NoMemory) };
        // SAFETY: as in `add`.
        unsafe {
            let bits = (*region).all.as_mut_ptr().add(word);
            self.count += u64::from(*bits & bit == 0);
            *bits |= bit;
            *(*region).tracked.as_mut_ptr().add(word) |= bit;
            (*region).dirty = true;
        }
        Ok(())
    }

    /// Whether an address is an object.
    #[inline(always)]
    pub(super) fn has(&self, address: usize) -> bool {
        self.find(address).is_some()
    }

    /// Where an object is, if the address is that of one.
    #[inline(always)]
    fn find(&self, address: usize) -> Option<BitPlace> {
        if address >> ADDRESS_BITS != 0 || !address.is_multiple_of(8) {
            return None;
        }
        let region = self.region(address);
        if region.is_null() {
            return None;
        }
        let granule = (address % (1 << REGION_BITS)) >> 3;
        let (word, bit) = (granule >> 6, 1 << (granule & 63));
        // SAFETY: the word is below `WORDS` because of the remainder above.
        let bits = unsafe { *(*region).all.as_ptr().add(word) };
        (bits & bit != 0).then_some(BitPlace { region, word, bit })
    }

    /// Marks an object as walked; false if it was before.
    #[inline(always)]
    pub(super) fn take(&mut self, address: usize) -> bool {
        let Some(BitPlace { region, word, bit }) = self.find(address) else { return false };
        // SAFETY: as in `add`.
        unsafe {
            let done = (*region).done.as_mut_ptr().add(word);
            let fresh = *done & bit == 0;
            *done |= bit;
            fresh
        }
    }

    /// The number of an object, after `rank`.
    #[inline(always)]
    pub(super) fn number(&self, address: usize) -> Option<u32> {
        let BitPlace { region, word, bit } = self.find(address)?;
        // SAFETY: as in `add`.
        unsafe {
            let bits = *(*region).all.as_ptr().add(word);
            Some(*(*region).rank.as_ptr().add(word) + (bits & (bit - 1)).count_ones())
        }
    }

    /// Numbers all objects.
    pub(super) fn rank(&mut self) -> Result<(), WalkTrouble> {
        let (mut before, mut top, mut middle) = (0_u64, 0, 0);
        while let Some(region) = self.next_region(&mut top, &mut middle) {
            for word in 0..WORDS {
                // SAFETY: the region is one of the table's.
                unsafe {
                    (&mut (*region).rank)[word] = before as u32;
                    before += u64::from((&(*region).all)[word].count_ones());
                }
            }
        }
        // Numbers have 32 bits.
        if before > u64::from(u32::MAX) { Err(WalkTrouble::TooMany) } else { Ok(()) }
    }

    /// The region at this place of the tables or the next one behind it; the place then is behind that.
    pub(super) fn next_region(&self, top: &mut usize, middle: &mut usize) -> Option<*mut Region> {
        while *top < TOP {
            // SAFETY: as in `region`.
            let table = unsafe { *self.top.add(*top) };
            if !table.is_null() {
                while *middle < MIDDLE {
                    // SAFETY: as in `region`.
                    let region = unsafe { (&(*table).regions)[*middle] };
                    *middle += 1;
                    if !region.is_null() {
                        return Some(region);
                    }
                }
            }
            (*top, *middle) = (*top + 1, 0);
        }
        None
    }
}

impl Region {
    pub(super) const WORDS: usize = WORDS;

    /// Whether objects were added since this was asked last.
    pub(super) fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    /// The address of a bit.
    #[inline(always)]
    pub(super) fn address(&self, word: usize, bit: u32) -> usize {
        self.base + ((word << 6) + bit as usize) * 8
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_the_order_of_addresses() {
        let mut seen = Seen::new().unwrap();
        let addresses = [0x7f12_3456_7890, 0x10, 0x7f12_3456_7888, 0x5555_0000_0000, 0x7f12_3466_7890];
        for address in addresses {
            assert_eq!(seen.add(address), Ok(true));
            assert_eq!(seen.add(address), Ok(false));
        }
        seen.rank().unwrap();
        let mut sorted = addresses;
        sorted.sort_unstable();
        for (number, address) in sorted.into_iter().enumerate() {
            assert_eq!(seen.number(address), Some(number as u32));
        }
        assert_eq!((seen.number(0x18), seen.number(0x11), seen.number(usize::MAX)), (None, None, None));
        assert_eq!(seen.count(), 5);
    }

    #[test]
    fn what_cannot_be_an_object_is_refused() {
        let mut seen = Seen::new().unwrap();
        assert!(seen.add(1 << 48).is_err() && seen.add(0x7f00_0000_0001).is_err());
    }

    #[test]
    fn an_object_is_taken_once() {
        let mut seen = Seen::new().unwrap();
        assert!(!seen.take(0x1000));
        seen.track(0x1000).unwrap();
        assert!(seen.take(0x1000) && !seen.take(0x1000));
    }
}
