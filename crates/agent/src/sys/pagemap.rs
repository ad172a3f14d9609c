//! Which pages two processes have in common, as `/proc/PID/pagemap` tells.
//!
//! Without rights of root the kernel does not say which page of memory an address has, but it says whether there is one and
//! whether another process has the same one. It lets go of the lock on the address space after a few megabytes.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::pace::breathe;
use super::page::page_size;

/// Pages that are asked for at a time.
const AT_ONCE: usize = 4096;

/// Bits of an entry: the page is there, it is on disk, it is of a file or of shared memory, and no other process has it.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
const ALONE: u64 = 1 << 56;

/// The pages of a process.
#[derive(Debug)]
pub(crate) struct PageMap {
    file: File,
    buffer: Vec<u8>,
}

impl PageMap {
    /// None where the kernel does not show it.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Some(Self { file: File::open(format!("/proc/{pid}/pagemap")).ok()?, buffer: vec![0; AT_ONCE * 8] })
    }

    /// Whether memory of this process alone is in a range, but for at most so many pages without any.
    pub(crate) fn is_full_and_alone(&mut self, range: Range<usize>, most_missing: usize) -> bool {
        let pages = range.len() / page_size();
        let Some(entries) = self.entries(range.start, pages.min(AT_ONCE)) else { return false };
        let (mut own, mut missing) = (0, 0);
        for entry in entries {
            match entry & (PRESENT | SWAPPED | OF_FILE | ALONE) {
                0 => missing += 1,
                entry if entry == PRESENT | ALONE => own += 1,
                _ => return false,
            }
        }
        missing <= most_missing && own + missing == pages
    }

    /// The pages of a range that are memory of this process alone, as runs of numbers from its start on.
    pub(crate) fn own(&mut self, range: Range<usize>) -> Option<Vec<Range<usize>>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (at, entry) in self.entries(range.start, (range.len() / page_size()).min(AT_ONCE))?.enumerate() {
            if !is_own(entry) {
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
        Some(runs)
    }

    fn entries(&mut self, address: usize, pages: usize) -> Option<impl Iterator<Item = u64>> {
        breathe();
        let buffer = &mut self.buffer[..pages * 8];
        self.file.read_exact_at(buffer, (address / page_size() * 8) as u64).ok()?;
        let entry = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Some(buffer.chunks_exact(8).map(entry))
    }
}

/// Whether a page is memory of one process alone.
fn is_own(entry: u64) -> bool {
    entry & (PRESENT | OF_FILE | ALONE) == PRESENT | ALONE
}

/// Bytes of these ranges that both processes have, each for itself: what was common to them and was then written to.
pub(crate) fn parted(one: &mut PageMap, other: &mut PageMap, ranges: &[Range<usize>]) -> Option<u64> {
    let mut parted = 0;
    for range in ranges {
        for address in range.clone().step_by(AT_ONCE * page_size()) {
            let pages = ((range.end - address) / page_size()).min(AT_ONCE);
            let own: Vec<usize> = one
                .entries(address, pages)?
                .enumerate()
                .filter(|(_, entry)| is_own(*entry))
                .map(|(at, _)| at)
                .collect();
            if own.is_empty() {
                continue;
            }
            let there: Vec<u64> = other.entries(address, pages)?.collect();
            parted += own.iter().filter(|at| there[**at] & PRESENT != 0).count();
        }
    }
    Some((parted * page_size()) as u64)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_alone_is_parted_from_itself() {
        let size = 64 * page_size();
        let memory = vec![1_u8; size];
        let from = (memory.as_ptr() as usize).next_multiple_of(page_size());
        let whole = from..from + size - page_size();
        let open = || PageMap::of(std::process::id()).unwrap();
        let parted = parted(&mut open(), &mut open(), std::slice::from_ref(&whole));
        assert_eq!(parted, Some((size - page_size()) as u64));
        assert!(open().is_full_and_alone(whole.clone(), 0));
        drop(memory);
    }

    #[test]
    fn what_is_not_mapped_is_nothing() {
        let open = || PageMap::of(std::process::id()).unwrap();
        let nowhere = 16 * page_size()..32 * page_size();
        assert!(!open().is_full_and_alone(nowhere.clone(), 15) && open().is_full_and_alone(nowhere.clone(), 16));
        assert_eq!(super::parted(&mut open(), &mut open(), std::slice::from_ref(&nowhere)), Some(0));
    }
}
