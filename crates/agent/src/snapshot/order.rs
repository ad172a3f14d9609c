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
        if number >> (u32::BITS - PLACE_BITS) != 0 {
            self.incomplete = true;
            return true;
        }
        self.push((number << PLACE_BITS) | place(head) as u32)
    }

    #[inline(always)]
    fn push(&mut self, entry: u32) -> bool {
        if self.count == CHUNK * MOST_CHUNKS {
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
            *(*chunk).add(self.count % CHUNK) = entry;
        }
        self.count += 1;
        true
    }

    /// Adds what another order has, the last first, which leaves that one empty. False where there is no memory.
    pub(super) fn append_reversed(&mut self, other: &mut Self) -> bool {
        self.incomplete |= other.incomplete;
        while let Some(last) = other.count.checked_sub(1) {
            if !self.push(other.entry(last)) {
                return false;
            }
            other.count = last;
        }
        true
    }

    /// How many heads there are; nothing where some are missing.
    pub(super) fn count(&self) -> Option<usize> {
        (!self.incomplete).then_some(self.count)
    }

    /// The leaf and the place of a head, by its number, which must be below the count.
    #[inline(always)]
    pub(super) fn get(&self, shadow: &Shadow, number: usize) -> (Leaf, usize) {
        let entry = self.entry(number);
        (shadow.leaf((entry >> PLACE_BITS) as usize), entry as usize % LEAF)
    }

    #[inline(always)]
    fn entry(&self, number: usize) -> u32 {
        debug_assert!(number < self.count);
        // SAFETY: the caller's promise: the number is below the count.
        unsafe { *(*self.chunks.add(number / CHUNK)).add(number % CHUNK) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_met_from_the_end_comes_last_and_turned_round() {
        let (Some(mut shadow), Some(mut order), Some(mut end)) = (Shadow::new(), ListOrder::new(), ListOrder::new())
        else {
            panic!("no memory")
        };
        let head = |number: usize| 0x7f00_0000_0000 + number * 32;
        // Two lists of eight and of three.
        for (ahead, behind) in [(0..4, 4..8), (8..10, 10..11)] {
            for number in ahead {
                assert!(!shadow.make(head(number)).is_null() && order.add(&shadow, head(number)));
            }
            for number in behind.rev() {
                assert!(!shadow.make(head(number)).is_null() && end.add(&shadow, head(number)));
            }
            assert!(order.append_reversed(&mut end));
        }
        assert_eq!((order.count(), end.count()), (Some(11), Some(0)));
        for number in 0..11 {
            let (leaf, place) = order.get(&shadow, number);
            assert_eq!(leaf.head(place), head(number));
        }
    }

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
