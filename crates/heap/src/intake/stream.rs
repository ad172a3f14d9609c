//! How far a dump is that comes through a pipe: its head says how many objects there are, each block which ones it has.

use neurogc_ngch::{DumpHead, HEAD, SECTION_HEAD, TAIL, padding};

/// What is looked at of a section: its head, and the first words of a block.
const LOOKED_AT: usize = SECTION_HEAD + 8;

/// A dump that is read from the front.
#[derive(Debug, Default)]
pub struct DumpStream {
    /// Bytes so far.
    pub bytes: u64,
    /// Objects that the dump will have.
    pub objects: u64,
    /// Those that came.
    pub came: u64,
    /// Where the next thing to look at begins, and what came of it.
    next: u64,
    seen: Vec<u8>,
    foot: bool,
}

impl DumpStream {
    /// Takes in what came next.
    pub fn take(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let here = self.bytes + at as u64;
            if here < self.next {
                at += usize::try_from(self.next - here).unwrap_or(usize::MAX).min(bytes.len() - at);
                continue;
            }
            let wanted = if self.next == 0 { HEAD } else { LOOKED_AT };
            let part = (wanted - self.seen.len()).min(bytes.len() - at);
            self.seen.extend_from_slice(&bytes[at..at + part]);
            at += part;
            if self.seen.len() == wanted {
                self.look();
            }
        }
        self.bytes += bytes.len() as u64;
    }

    fn look(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        if self.next == 0 {
            self.objects = DumpHead::decode(&seen).map_or(0, |head| head.objects);
            self.next = HEAD as u64;
            return;
        }
        let word = |at: usize| {
            seen.get(at..at + 4)
                .and_then(|four| four.try_into().ok())
                .map_or(0, |four| u64::from(u32::from_le_bytes(four)))
        };
        let length = word(8) | word(12) << 32;
        match seen.get(..4) {
            Some(b"BLCK") => self.came = word(SECTION_HEAD) + word(SECTION_HEAD + 4),
            Some(b"FOOT") => self.foot = true,
            _ => {}
        }
        let end = self.next.saturating_add(SECTION_HEAD as u64).saturating_add(length);
        self.next = end.saturating_add(padding(length) as u64);
    }

    /// Whether all of it is there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.foot && self.bytes >= self.next.saturating_add(TAIL as u64)
    }

    /// The share that is there.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.objects == 0 { 0.0 } else { (self.came as f64 / self.objects as f64).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use neurogc_ngch::{Tag, put_section_head, put_tail};

    use super::*;

    fn dump() -> Vec<u8> {
        let mut dump = DumpHead { objects: 10, ..DumpHead::default() }.encode().to_vec();
        let mut section = |tag, bytes: &[u8]| {
            dump.extend(put_section_head(tag, 0, bytes.len() as u64));
            dump.extend(bytes);
            dump.extend(vec![0; padding(bytes.len() as u64)]);
        };
        section(Tag::Types, &[1; 21]);
        let block = |objects: u32, first: u32| [objects.to_le_bytes(), first.to_le_bytes(), [0; 4]].concat();
        section(Tag::Block, &block(4, 0));
        section(Tag::Block, &block(6, 4));
        section(Tag::Foot, &[0; 9]);
        dump.extend(put_tail(0));
        dump
    }

    #[test]
    fn it_is_complete_when_all_of_it_came_in_whatever_pieces() {
        let dump = dump();
        for piece in [1, 3, 7, 64, 1000] {
            let mut stream = DumpStream::default();
            for bytes in dump.chunks(piece) {
                assert!(!stream.is_complete());
                stream.take(bytes);
            }
            assert!(stream.is_complete() && stream.share() == 1.0 && stream.objects == 10, "{stream:?}");
        }
    }

    #[test]
    fn the_share_follows_the_blocks() {
        let mut stream = DumpStream::default();
        stream.take(&dump()[..64 + 16 + 24 + 16 + 8]);
        assert_eq!((stream.share(), stream.is_complete()), (0.4, false));
    }
}
