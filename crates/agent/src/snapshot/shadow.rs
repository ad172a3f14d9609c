//! A byte for every 16 bytes of the heap, beside the heap: what the walk knows about the object whose head begins there.
//!
//! Three levels, of which only what is used takes memory. A leaf stands for 1 MiB of heap and takes 64 KiB.

use super::system;

/// Nothing that is tracked begins here.
pub(super) const NOTHING: u8 = 0;
/// One more than the references left, from here to `MOST_COUNTED`.
pub(super) const NONE_LEFT: u8 = 1;
pub(super) const MOST_COUNTED: u8 = 252;
/// Too many references for a byte: the count is in the table of large counts.
pub(super) const MANY: u8 = 253;
/// Reachable, and not yet traversed.
pub(super) const GREY: u8 = 254;
/// Reachable; traversed or about to be.
pub(super) const BLACK: u8 = 255;

const GRANULE_BITS: usize = 4;
const LEAF_BITS: usize = 20;
const MIDDLE_BITS: usize = 13;
const ADDRESS_BITS: usize = 48;
const TOP: usize = 1 << (ADDRESS_BITS - LEAF_BITS - MIDDLE_BITS);
const MIDDLE: usize = 1 << MIDDLE_BITS;
pub(super) const LEAF: usize = 1 << (LEAF_BITS - GRANULE_BITS);

/// Leaves are taken from the kernel this many at a time.
const LEAVES_AT_ONCE: usize = 1024;

/// 2 TiB of heap.
const MOST_LEAVES: usize = 1 << 21;

/// A leaf: where its bytes are, and the address that the first of them stands for.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    pub(super) bytes: *mut u8,
    pub(super) base: usize,
}

/// The leaves of 8 GiB of heap.
#[repr(C)]
struct Middle {
    leaves: [*mut u8; MIDDLE],
    /// Each leaf's number.
    numbers: [u32; MIDDLE],
    /// Whether something grey may be in the leaf that no stack knows of.
    greys: [bool; MIDDLE],
}

/// The table.
pub(super) struct Shadow {
    top: *mut *mut Middle,
    leaves: *mut Leaf,
    count: usize,
    fresh: *mut u8,
    fresh_left: usize,
}

impl Shadow {
    /// Nothing where the kernel has no memory.
    pub(super) fn new() -> Option<Self> {
        let top = system::map(TOP * size_of::<*mut u8>()).cast();
        let leaves = system::map(MOST_LEAVES * size_of::<Leaf>()).cast();
        let none = std::ptr::null_mut();
        (!std::ptr::eq(top, std::ptr::null()) && !std::ptr::eq(leaves, std::ptr::null())).then_some(Self {
            top,
            leaves,
            count: 0,
            fresh: none,
            fresh_left: 0,
        })
    }

    /// The byte for a head, or null where there is none.
    #[inline(always)]
    pub(super) fn find(&self, head: usize) -> *mut u8 {
        if head >> ADDRESS_BITS != 0 {
            return std::ptr::null_mut();
        }
        // SAFETY: the index is below `TOP` because of the test above, and below `LEAF` because of the mask; every pointer
        // in the table is null or that of a table of its kind.
        unsafe {
            let middle = *self.top.add(head >> (LEAF_BITS + MIDDLE_BITS));
            if middle.is_null() {
                return std::ptr::null_mut();
            }
            let leaf = (*middle).leaves[within(head)];
            if leaf.is_null() {
                return leaf;
            }
            leaf.add(place(head))
        }
    }

    /// Whether there is a leaf for this address: something begins within the same 1 MiB.
    pub(super) fn has_any(&self, address: usize) -> bool {
        !self.find(address).is_null()
    }

    /// The number of the leaf that a head belongs to; there must be one.
    #[inline(always)]
    pub(super) fn number(&self, head: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { (*self.middle(head)).numbers[within(head)] }
    }

    /// Notes that something in the head's leaf is grey. There must be such a leaf.
    #[cold]
    pub(super) fn note_grey(&mut self, head: usize) {
        // SAFETY: the caller's promise.
        unsafe { (*self.middle(head)).greys[within(head)] = true };
    }

    /// Whether something in a leaf was noted to be grey since this was asked last.
    pub(super) fn take_grey(&mut self, leaf: Leaf) -> bool {
        // SAFETY: the leaf is one of the table's.
        unsafe { std::mem::take(&mut (*self.middle(leaf.base)).greys[within(leaf.base)]) }
    }

    fn middle(&self, head: usize) -> *mut Middle {
        // SAFETY: heads have no more bits than `TOP` has room for.
        unsafe { *self.top.add(head >> (LEAF_BITS + MIDDLE_BITS)) }
    }

    /// The byte for a head, which is made where there is none. Null where the kernel has no memory, or for an address
    /// that cannot be.
    pub(super) fn make(&mut self, head: usize) -> *mut u8 {
        let found = self.find(head);
        if !found.is_null() || head >> ADDRESS_BITS != 0 || self.count == MOST_LEAVES {
            return found;
        }
        // SAFETY: as in `find`; new tables have the size that `find` expects.
        unsafe {
            let middle = self.top.add(head >> (LEAF_BITS + MIDDLE_BITS));
            if (*middle).is_null() {
                *middle = system::map(size_of::<Middle>()).cast();
                if (*middle).is_null() {
                    return std::ptr::null_mut();
                }
            }
            if self.fresh_left == 0 {
                self.fresh = system::map(LEAVES_AT_ONCE * LEAF);
                if self.fresh.is_null() {
                    return std::ptr::null_mut();
                }
                self.fresh_left = LEAVES_AT_ONCE;
            }
            let bytes = self.fresh;
            self.fresh = bytes.add(LEAF);
            self.fresh_left -= 1;
            (**middle).leaves[within(head)] = bytes;
            (**middle).numbers[within(head)] = self.count as u32;
            *self.leaves.add(self.count) = Leaf { bytes, base: head & !((1 << LEAF_BITS) - 1) };
            self.count += 1;
        }
        self.find(head)
    }

    /// How many leaves there are.
    pub(super) fn leaves(&self) -> usize {
        self.count
    }

    /// The leaf with this number, which must be below `leaves()`.
    pub(super) fn leaf(&self, number: usize) -> Leaf {
        debug_assert!(number < self.count);
        // SAFETY: the caller's promise; the first `count` leaves are filled in.
        unsafe { *self.leaves.add(number) }
    }
}

/// The place of a head's byte in its leaf.
#[inline(always)]
pub(super) fn place(head: usize) -> usize {
    (head >> GRANULE_BITS) % LEAF
}

/// The place of a head's leaf in its middle table.
#[inline(always)]
fn within(head: usize) -> usize {
    (head >> LEAF_BITS) & (MIDDLE - 1)
}

impl Leaf {
    /// Eight of its bytes at once. `index` must be a multiple of eight below `LEAF`.
    #[inline(always)]
    pub(super) fn eight(self, index: usize) -> u64 {
        debug_assert!(index.is_multiple_of(8) && index < LEAF);
        // SAFETY: the caller's promise; leaves are aligned to pages.
        unsafe { *self.bytes.add(index).cast() }
    }

    /// One of its bytes. `index` must be below `LEAF`.
    #[inline(always)]
    pub(super) fn byte(self, index: usize) -> *mut u8 {
        debug_assert!(index < LEAF);
        // SAFETY: the caller's promise.
        unsafe { self.bytes.add(index) }
    }

    /// The head that a byte stands for.
    #[inline(always)]
    pub(super) fn head(self, index: usize) -> usize {
        self.base + (index << GRANULE_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_made_once_and_found_again() {
        let Some(mut shadow) = Shadow::new() else { panic!("no memory") };
        let heads = [0x7f12_3456_7890, 0x7f12_3456_78a0, 0x10, 0xffff_ffff_fff0, 0x5555_0000_0000];
        for (number, head) in heads.into_iter().enumerate() {
            assert!(number == 1 || shadow.find(head).is_null());
            let byte = shadow.make(head);
            assert!(!byte.is_null() && byte == shadow.find(head) && byte == shadow.make(head));
            // SAFETY: `make` has given a byte of the table.
            unsafe { *byte = number as u8 + 1 };
        }
        for (number, head) in heads.into_iter().enumerate() {
            // SAFETY: as above.
            assert_eq!(unsafe { *shadow.find(head) }, number as u8 + 1);
        }
        assert_eq!(shadow.leaves(), 4);
    }

    #[test]
    fn a_leaf_knows_the_heads_of_its_bytes() {
        let Some(mut shadow) = Shadow::new() else { panic!("no memory") };
        let head = 0x7f12_3456_7890;
        let byte = shadow.make(head);
        let leaf = shadow.leaf(0);
        let index = byte as usize - leaf.bytes as usize;
        assert_eq!((leaf.head(index), leaf.byte(index)), (head, byte));
        shadow.make(head + (1 << LEAF_BITS));
        assert_eq!((shadow.number(head), shadow.number(head + (1 << LEAF_BITS))), (0, 1));
    }

    #[test]
    fn what_is_grey_is_told_once() {
        let Some(mut shadow) = Shadow::new() else { panic!("no memory") };
        let head = 0x7f12_3456_7890;
        shadow.make(head);
        let leaf = shadow.leaf(0);
        assert!(!shadow.take_grey(leaf));
        shadow.note_grey(head);
        assert!(shadow.take_grey(leaf) && !shadow.take_grey(leaf));
    }

    #[test]
    fn what_is_no_address_has_no_byte() {
        let Some(mut shadow) = Shadow::new() else { panic!("no memory") };
        assert!(shadow.find(usize::MAX).is_null() && shadow.make(1 << 48).is_null());
    }
}
