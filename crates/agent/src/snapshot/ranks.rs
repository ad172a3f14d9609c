//! Numbers for the heads that are garbage, without gaps: a bit for every 32 bytes of heap, and a running count beside it.

use super::shadow::{LEAF, Shadow, place};
use super::system;

/// A tracked object takes 32 bytes at least with its head, so of these places one at most is that of a head.
const HEADS_APART: usize = 2;

/// Words of bits for a leaf of the table.
const WORDS: usize = LEAF / HEADS_APART / u64::BITS as usize;

/// The numbers. First all heads are added, then they are counted, and then each has its number.
pub(super) struct Ranks {
    bits: *mut u64,
    /// For each word, how many heads come before it.
    before: *mut u32,
    words: usize,
}

impl Ranks {
    /// For a table with so many leaves. Nothing where the kernel has no memory.
    pub(super) fn new(leaves: usize) -> Option<Self> {
        let words = leaves * WORDS;
        let bits: *mut u64 = system::map(words.max(1) * size_of::<u64>()).cast();
        let before: *mut u32 = system::map(words.max(1) * size_of::<u32>()).cast();
        (!std::ptr::eq(bits, std::ptr::null()) && !std::ptr::eq(before, std::ptr::null())).then_some(Self {
            bits,
            before,
            words,
        })
    }

    /// Adds a head that the table has a byte for.
    #[inline(always)]
    pub(super) fn add(&mut self, shadow: &Shadow, head: usize) {
        let (word, bit) = self.find(shadow, head);
        // SAFETY: `find` gives a word of ours.
        unsafe { *self.bits.add(word) |= 1 << bit };
    }

    /// Counts the heads. Nothing where there are more than numbers.
    pub(super) fn count(&mut self) -> Option<u32> {
        let mut sum = 0_u32;
        for word in 0..self.words {
            // SAFETY: there are so many words of both kinds.
            unsafe {
                let heads = (*self.bits.add(word)).count_ones();
                // Where there are none, nothing is looked up, and the memory need not be touched.
                if heads != 0 {
                    *self.before.add(word) = sum;
                    sum = sum.checked_add(heads)?;
                }
            }
        }
        Some(sum)
    }

    /// The number of a head that was added before all were counted.
    #[inline(always)]
    pub(super) fn get(&self, shadow: &Shadow, head: usize) -> u32 {
        let (word, bit) = self.find(shadow, head);
        // SAFETY: `find` gives a word of ours.
        unsafe {
            let lower = *self.bits.add(word) & ((1 << bit) - 1);
            *self.before.add(word) + lower.count_ones()
        }
    }

    #[inline(always)]
    fn find(&self, shadow: &Shadow, head: usize) -> (usize, u32) {
        let slot = place(head) / HEADS_APART;
        let word = shadow.number(head) as usize * WORDS + slot / u64::BITS as usize;
        debug_assert!(word < self.words);
        (word, slot as u32 % u64::BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_gaps_and_follow_the_places() {
        let Some(mut shadow) = Shadow::new() else { panic!("no memory") };
        let heads: Vec<usize> = (0..20_000).map(|number| 0x7f00_0000_0000 + number * 37 * 32).collect();
        for head in &heads {
            assert!(!shadow.make(*head).is_null());
        }
        let Some(mut ranks) = Ranks::new(shadow.leaves()) else { panic!("no memory") };
        // Every third one is garbage.
        let garbage: Vec<usize> = heads.iter().copied().step_by(3).collect();
        for head in garbage.iter().rev() {
            ranks.add(&shadow, *head);
        }
        assert_eq!(ranks.count(), Some(garbage.len() as u32));
        for (number, head) in garbage.iter().enumerate() {
            assert_eq!(ranks.get(&shadow, *head), number as u32);
        }
    }

    #[test]
    fn a_table_without_leaves_has_no_numbers() {
        let Some(mut ranks) = Ranks::new(0) else { panic!("no memory") };
        assert_eq!(ranks.count(), Some(0));
    }
}
