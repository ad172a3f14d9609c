//! Where a dump is written to: sections, to descriptors that the program opened for the clone.

use neurogc_ngch::{SECTION_HEAD, Tag, padding, put_section_head};

use super::super::control::WalkTrouble;
use super::super::system;
use super::super::walk::WalkWatch;
use super::raw::Array;

/// Descriptors for a dump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// The first bytes go here: to memory, or to another process.
    pub(crate) first: i32,
    /// How many those are at most.
    pub(crate) limit: u64,
    /// What is behind them goes here, to the place in the file where it belongs.
    pub(crate) rest: Option<i32>,
}

impl Destination {
    /// Of a dump that is not launched yet.
    pub(crate) const NONE: Self = Self { first: -1, limit: 0, rest: None };
}

/// How long one wait for a slow reader takes at most, in milliseconds. Then the watch is asked.
const WAIT_MS: i32 = 50;

/// A dump that is being written.
pub(super) struct Output {
    to: Destination,
    /// How many bytes were written.
    pub(super) written: u64,
    /// Where each section begins.
    pub(super) offsets: Array<u64>,
}

impl Output {
    pub(super) fn new(to: Destination) -> Option<Self> {
        Some(Self { to, written: 0, offsets: Array::new(4096)? })
    }

    /// Writes a section that consists of these parts.
    pub(super) fn section<const N: usize>(
        &mut self,
        tag: Tag,
        parts: [&[u8]; N],
        watch: &mut WalkWatch<'_>,
    ) -> Result<(), WalkTrouble> {
        let mut crc = crc32fast::Hasher::new();
        parts.iter().for_each(|part| crc.update(part));
        let length = parts.iter().map(|part| part.len() as u64).sum();
        let head: [u8; SECTION_HEAD] = put_section_head(tag, crc.finalize(), length);
        if tag != Tag::Foot && !self.offsets.push(self.written) {
            return Err(WalkTrouble::NoMemory);
        }
        self.write(&head, watch)?;
        for part in parts {
            self.write(part, watch)?;
        }
        self.write(&[0; 8][..padding(length)], watch)
    }

    /// Writes bytes.
    pub(super) fn write(&mut self, bytes: &[u8], watch: &mut WalkWatch<'_>) -> Result<(), WalkTrouble> {
        let mut left = bytes;
        while !left.is_empty() {
            let to_first = self.to.limit.saturating_sub(self.written);
            let written = if to_first > 0 {
                let part = left.len().min(usize::try_from(to_first).unwrap_or(usize::MAX));
                system::write(self.to.first, &left[..part])
            } else if let Some(rest) = self.to.rest {
                system::write_at(rest, left, self.written)
            } else {
                return Err(WalkTrouble::NoRoom);
            };
            match written {
                Ok(count) => {
                    self.written += count as u64;
                    left = left.get(count..).unwrap_or_default();
                    watch.wrote(self.written);
                }
                Err(libc::EAGAIN) => {
                    system::wait_to_write(self.to.first, WAIT_MS);
                    watch.look()?;
                }
                Err(libc::EINTR) => watch.look()?,
                Err(libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::ENOMEM) => return Err(WalkTrouble::NoRoom),
                // The process that reads has gone.
                Err(_) => return Err(WalkTrouble::NotRead),
            }
        }
        Ok(())
    }
}
