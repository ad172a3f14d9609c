//! The order of the collector's lists, remembered: following a list again through all of memory takes longer than
//! anything else that is done for a little garbage.

use super::shadow::{LEAF, Leaf, Shadow, place};
use super::system;

/// The heads of all lists, one after the other. Each takes four bytes: the number of its leaf and its place there.
pub(super) struct ListOrder {
    chunks: *mut *mut u32,
    count: usize,
    /// Leaves with a number that does not fit have been left out.
    incomplete: bool,
}

const CHUNK: usize = 1 << 20;
const MOST_CHUNKS: usize = 1 << 12;
const PLACE_BITS: u32 = LEAF.trailing_zeros();

impl ListOrder {
    pub(super) fn new() -> Option<Self> {
        let chunks: *mut *mut u32 = system::map(MOST_CHUNKS * size_of::<*mut u32>()).cast();
        (!std::ptr::eq(chunks, std::ptr::null())).then_some(Self { chunks, count: 0, incomplete: false })
    }

    /// Adds a head that the table has a byte for. False where there is no memory.
    #[inline(always)]
    pub(super) fn add(&mut self, shadow: &Shadow, head: usize) -> bool {
        let number = shadow.number(head);
        if number >> (u32::BITS - PLACE_BITS) != 0 || self.count == CHUNK * MOST_CHUNKS {
            self.incomplete = true;
            return true;
        }
        // SAFETY: there are no more chunks than there is room for, and each is whole before it is used.
        unsafe {
            let chunk = self.chunks.add(self.count / CHUNK);
            if (*chunk).is_null() {
                *chunk = system::map(CHUNK * size_of::<u32>()).cast();
                if (*chunk).is_null() {
                    return false;
                }
            }
            *(*chunk).add(self.count % CHUNK) = (number << PLACE_BITS) | place(head) as u32;
        }
        self.count += 1;
        true
    }

    /// How many heads there are; nothing where some are missing.
    pub(super) fn count(&self) -> Option<usize> {
        (!self.incomplete).then_some(self.count)
    }

    /// The leaf and the place of a head, by its number, which must be below the count.
    #[inline(always)]
    pub(super) fn get(&self, shadow: &Shadow, number: usize) -> (Leaf, usize) {
        debug_assert!(number < self.count);
        // SAFETY: the caller's promise.
        let entry = unsafe { *(*self.chunks.add(number / CHUNK)).add(number % CHUNK) };
        (shadow.leaf((entry >> PLACE_BITS) as usize), entry as usize % LEAF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_in_their_order() {
        let (Some(mut shadow), Some(mut order)) = (Shadow::new(), ListOrder::new()) else { panic!("no memory") };
        let heads: Vec<usize> = (0..30_000).map(|number| 0x7f00_0000_0000 + number * 7_777 * 16).rev().collect();
        for head in &heads {
            assert!(!shadow.make(*head).is_null() && order.add(&shadow, *head));
        }
        assert_eq!(order.count(), Some(heads.len()));
        for (number, head) in heads.iter().enumerate() {
            let (leaf, place) = order.get(&shadow, number);
            assert_eq!(leaf.head(place), *head);
        }
    }
}
