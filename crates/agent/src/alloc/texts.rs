//! The names of files and functions, each stored once in memory of fixed size.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU32};

const BYTES: usize = 512 * 1024;
const SLOTS: usize = 8192;
/// How many slots are tried for a text.
const TRIES: usize = 32;

/// Longer texts are cut.
pub(super) const LONGEST: usize = 400;

/// The texts. All zeros are an empty table.
#[derive(Debug)]
pub(super) struct Texts {
    /// Numbers of texts by the hash of their bytes; zero where there is none.
    slots: [AtomicU32; SLOTS],
    used: AtomicU32,
    /// For each text the length in two bytes, and its bytes.
    bytes: [AtomicU8; BYTES],
}

impl Texts {
    /// The number of a text, which it gets where it has none. Zero where there is no more room.
    pub(super) fn number(&self, text: &[u8]) -> u32 {
        let text = &text[..text.len().min(LONGEST)];
        let hash = text
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        let mut stored = 0;
        for attempt in 0..TRIES {
            let slot = &self.slots[((hash >> 32) as usize + attempt) & (SLOTS - 1)];
            let mut number = slot.load(Acquire);
            if number == 0 {
                if stored == 0 {
                    stored = self.store(text);
                    if stored == 0 {
                        return 0;
                    }
                }
                match slot.compare_exchange(0, stored, AcqRel, Acquire) {
                    Ok(_) => return stored,
                    Err(other) => number = other,
                }
            }
            if self.is(number, text) {
                return number;
            }
        }
        0
    }

    fn store(&self, text: &[u8]) -> u32 {
        let size = text.len() + 2;
        let room = |used: u32| (used as usize + size <= BYTES).then_some(used + size as u32);
        let Ok(start) = self.used.fetch_update(Relaxed, Relaxed, room) else { return 0 };
        let place = self.bytes.iter().skip(start as usize);
        let length = (text.len() as u16).to_le_bytes();
        length.iter().chain(text).zip(place).for_each(|(byte, place)| place.store(*byte, Relaxed));
        start + 1
    }

    /// The bytes of a text.
    fn of(&self, number: u32) -> impl Iterator<Item = u8> {
        let start = number.saturating_sub(1) as usize;
        let at = |index: usize| self.bytes.get(index).map_or(0, |byte| byte.load(Relaxed));
        let length = if number == 0 { 0 } else { usize::from(u16::from_le_bytes([at(start), at(start + 1)])) };
        (start + 2..start + 2 + length).map(at)
    }

    fn is(&self, number: u32, text: &[u8]) -> bool {
        self.of(number).eq(text.iter().copied())
    }

    /// The text of a number. It allocates, so it is for our own threads.
    pub(super) fn text(&self, number: u32) -> String {
        String::from_utf8_lossy(&self.of(number).collect::<Vec<_>>()).into_owned()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::tables::Tables;
    use super::*;

    #[test]
    fn a_text_has_one_number() {
        let texts = &Tables::map().unwrap().stacks.texts;
        let numbers = ["app.py", "handler", "app.py", ""].map(|text| texts.number(text.as_bytes()));
        assert!(numbers[0] == numbers[2] && numbers[0] != numbers[1] && !numbers.contains(&0));
        assert_eq!(numbers.map(|number| texts.text(number)), ["app.py", "handler", "app.py", ""]);
        assert_eq!(texts.text(0), "");
    }

    #[test]
    fn a_long_text_is_cut_and_a_full_table_says_zero() {
        let texts = &Tables::map().unwrap().stacks.texts;
        assert_eq!(texts.text(texts.number(&[b'x'; 1000])).len(), LONGEST);
        let refused = (0..20_000).filter(|index| texts.number(format!("{index:0>90}").as_bytes()) == 0).count();
        assert!(refused > 10_000, "{refused}");
        assert_eq!(texts.text(texts.number(&[b'x'; 400])).len(), LONGEST);
    }
}
