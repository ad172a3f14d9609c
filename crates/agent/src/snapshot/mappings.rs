//! Which large memory has no Python objects in it, found out in the clone: blocks of large mappings that the walk does not
//! touch.

use super::control::SharedControl;
use super::locked::{self, LockedBlocks};
use super::system;
use crate::cpython::arenas;
use crate::sys::page::page_size;

/// Blocks begin at multiples of this, and are as large.
pub(super) const BLOCK: usize = 64 << 20;

/// Room for the kernel's account of all mappings; a process with more of them goes without.
const ACCOUNT: usize = 64 << 20;

/// Locks large mappings away, in whole blocks. False where there are none, or it cannot be done.
pub(super) fn lock_away() -> bool {
    let (Some(account), Some(mut locked)) = (Account::read(c"/proc/self/maps"), LockedBlocks::new(BLOCK)) else {
        return false;
    };
    account.blocks(BLOCK).for_each(|block| locked.add(block));
    locked.lock()
}

/// Writes down the blocks that are full of memory and that the walk has not touched.
pub(super) fn tell_untouched(control: &SharedControl) {
    let residency = system::map(BLOCK / page_size());
    if residency.is_null() {
        return;
    }
    // SAFETY: there is room for a byte for each page. A block that is unlocked can be read.
    let has_no_objects = |block: &usize| unsafe {
        is_full(*block, residency) && {
            locked::unlock(*block);
            !holds_small_objects(*block)
        }
    };
    locked::tell(control, BLOCK, locked::untouched().filter(has_no_objects));
}

/// Whether at least half of a block's pages are there: less is not worth the while.
unsafe fn is_full(block: usize, residency: *mut u8) -> bool {
    // SAFETY: the caller has room for a byte for each page.
    unsafe {
        if libc::syscall(libc::SYS_mincore, block, BLOCK, residency) != 0 {
            return false;
        }
        let pages = std::slice::from_raw_parts(residency, BLOCK / page_size());
        pages.iter().filter(|page| **page & 1 != 0).count() >= BLOCK / page_size() / 2
    }
}

/// Whether some of it is an arena of CPython's: one that has only numbers and texts in it may have others soon.
unsafe fn holds_small_objects(block: usize) -> bool {
    // SAFETY: the caller's promise: the block can be read.
    unsafe { arenas::pools_in(block, BLOCK) }.any(|is_pool| is_pool)
}

/// A file of the kernel's, whole.
pub(super) struct Account {
    text: &'static [u8],
}

impl Account {
    pub(super) fn read(path: &std::ffi::CStr) -> Option<Self> {
        let buffer = system::map(ACCOUNT);
        if buffer.is_null() {
            return None;
        }
        // SAFETY: the mapping is as long as said, and nothing else refers to it.
        let length = system::read_all(path, unsafe { std::slice::from_raw_parts_mut(buffer, ACCOUNT) })?;
        // SAFETY: so much has been filled, and it stays until this process ends.
        Some(Self { text: unsafe { std::slice::from_raw_parts(buffer, length) } })
    }

    /// The whole blocks of this size that mappings of plain memory have, in the order of their addresses.
    pub(super) fn blocks(&self, size: usize) -> impl Iterator<Item = usize> {
        self.text.split(|byte| *byte == b'\n').filter_map(plain_mapping).flat_map(move |(from, to)| {
            let first = from.next_multiple_of(size);
            (first..to.max(first)).step_by(size).filter(move |block| block + size <= to)
        })
    }
}

/// The range of a mapping that is private, anonymous and writable, and as large as a block.
pub(super) fn large_mapping(line: &[u8]) -> Option<(usize, usize)> {
    plain_mapping(line).filter(|(from, to)| to - from >= BLOCK)
}

/// The same of any length.
fn plain_mapping(line: &[u8]) -> Option<(usize, usize)> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let mut range = words.next()?.split(|byte| *byte == b'-');
    let (from, to) = (hexadecimal(range.next()?)?, hexadecimal(range.next()?)?);
    let is_writable = words.next()? == b"rw-p";
    let is_anonymous = words.nth(2)? == b"0" && words.next().is_none_or(|name| name.starts_with(b"[anon"));
    (is_writable && is_anonymous && from <= to).then_some((from, to))
}

fn hexadecimal(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0_usize, |sum, digit| Some((sum << 4) | (*digit as char).to_digit(16)? as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_anonymous_mappings_are_told_from_others() {
        let check = |line: &str, large: bool| assert_eq!(large_mapping(line.as_bytes()).is_some(), large, "{line}");
        check("7f0000000000-7f0004000000 rw-p 00000000 00:00 0 ", true);
        check("7f0000000000-7f0004000000 rw-p 00000000 00:00 0                 [anon:cpython:obmalloc]", true);
        check("7f0000000000-7f0003fff000 rw-p 00000000 00:00 0 ", false);
        check("7f0000000000-7f0004000000 ---p 00000000 00:00 0 ", false);
        check("7f0000000000-7f0004000000 rw-s 00000000 00:01 7 /dev/zero (deleted)", false);
        check("7f0000000000-7f0004000000 rw-p 00000000 00:00 0                 [stack]", false);
        check("7f0000000000-7f0004000000 rw-p 00000000 fe:00 77 /usr/lib/x.so", false);
        check("7f0004000000-7f0000000000 rw-p 00000000 00:00 0 ", false);
        check("Rss:                   4 kB", false);
        assert_eq!(large_mapping(b"10000000-20000000 rw-p 0 00:00 0"), Some((0x1000_0000, 0x2000_0000)));
    }

    #[test]
    fn blocks_are_whole_ones() {
        let text =
            b"1000-9000 rw-p 0 00:00 0\n9000-a000 ---p 0 00:00 0\na000-b000 rw-p 0 00:00 0\nc000-14000 rw-p 0 00:00 0";
        let blocks: Vec<usize> = Account { text }.blocks(0x4000).collect();
        assert_eq!(blocks, [0x4000, 0xc000, 0x1_0000]);
    }
}
