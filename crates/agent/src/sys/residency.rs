//! Which pages of a mapping are in memory.
//!
//! `smaps` would tell, but it goes through a whole mapping with the address space locked: 5 GB take it tens of milliseconds,
//! in which no thread can map or unmap memory. `mincore` and `pagemap` let go of the lock after at most 4096 pages, which are
//! 16 MB where a page has 4 KiB.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::pace::breathe;
use super::page::page_size;

/// Pages that are asked for at a time.
const AT_ONCE: usize = 4096;

/// A longer mapping is not looked at: programs reserve address space that they do not use.
const LONGEST: usize = 64 << 30;

/// The pages of one mapping.
#[derive(Debug, Default)]
pub(crate) struct Residency {
    start: usize,
    /// One bit for each page.
    bits: Vec<u64>,
    pages: usize,
}

/// Reads residency, and keeps what it needs for that.
#[derive(Debug)]
pub(crate) struct ResidencyReader {
    /// What the kernel knows about pages; none where it is not shown.
    pagemap: Option<File>,
    buffer: Vec<u8>,
}

impl ResidencyReader {
    pub(crate) fn new() -> Self {
        Self { pagemap: File::open("/proc/self/pagemap").ok(), buffer: vec![0; AT_ONCE * 8] }
    }

    /// The pages of private memory without a file. None where the mapping has gone or is too long.
    pub(crate) fn of_memory(&mut self, range: &Range<usize>) -> Option<Residency> {
        let mut residency = Residency::new(range)?;
        for (address, pages) in pieces(range) {
            breathe();
            let buffer = &mut self.buffer[..pages];
            // SAFETY: the buffer has a byte for each page; the kernel only looks at the mapping.
            if unsafe { libc::mincore(address as *mut libc::c_void, pages * page_size(), buffer.as_mut_ptr()) } != 0 {
                return None;
            }
            residency.add(address, buffer.iter().map(|page| page & 1 == 1));
        }
        Some(residency)
    }

    /// The pages of a file that this process has in use. For a file, `mincore` tells what any process has.
    pub(crate) fn of_file(&mut self, range: &Range<usize>) -> Option<Residency> {
        let pagemap = self.pagemap.as_ref()?;
        let mut residency = Residency::new(range)?;
        for (address, pages) in pieces(range) {
            breathe();
            let buffer = &mut self.buffer[..pages * 8];
            pagemap.read_exact_at(buffer, (address / page_size() * 8) as u64).ok()?;
            // The highest bit of each word says that the page is there.
            residency.add(address, buffer.chunks_exact(8).map(|word| word[7] & 0x80 != 0));
        }
        Some(residency)
    }
}

/// A range in pieces that are asked for at a time: where each begins and its pages.
fn pieces(range: &Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let end = range.end;
    range
        .clone()
        .step_by(AT_ONCE * page_size())
        .map(move |address| (address, ((end - address) / page_size()).min(AT_ONCE)))
}

impl Residency {
    fn new(range: &Range<usize>) -> Option<Self> {
        let length = range.end.checked_sub(range.start)?;
        if length > LONGEST || !range.start.is_multiple_of(page_size()) || !length.is_multiple_of(page_size()) {
            return None;
        }
        let pages = length / page_size();
        Some(Self { start: range.start, bits: vec![0; pages.div_ceil(64)], pages })
    }

    fn add(&mut self, address: usize, pages: impl Iterator<Item = bool>) {
        let first = (address - self.start) / page_size();
        for (page, _) in pages.enumerate().filter(|(_, is_there)| *is_there) {
            let page = first + page;
            if let Some(word) = self.bits.get_mut(page / 64) {
                *word |= 1 << (page % 64);
            }
        }
    }

    /// Whether the page of this address is in memory.
    pub(crate) fn has(&self, address: usize) -> bool {
        let Some(offset) = address.checked_sub(self.start) else { return false };
        let page = offset / page_size();
        self.bits.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// All bytes that are in memory.
    pub(crate) fn total(&self) -> usize {
        self.bits.iter().map(|word| word.count_ones() as usize).sum::<usize>() * page_size()
    }

    /// The bytes of a range that are in memory; pages count as far as they lie in the range.
    pub(crate) fn bytes(&self, range: Range<usize>) -> usize {
        let (from, to) = (range.start.max(self.start), range.end.min(self.start + self.pages * page_size()));
        if from >= to {
            return 0;
        }
        let (first, last) = (from & !(page_size() - 1), (to - 1) & !(page_size() - 1));
        if first == last {
            return if self.has(first) { to - from } else { 0 };
        }
        let head = if self.has(first) { first + page_size() - from } else { 0 };
        let tail = if self.has(last) { to - last } else { 0 };
        head + tail + self.pages_between(first + page_size(), last) * page_size()
    }

    /// The whole pages of a range that are in memory.
    pub(crate) fn whole_pages(&self, range: Range<usize>) -> usize {
        let (from, to) = (range.start.next_multiple_of(page_size()).max(self.start), range.end & !(page_size() - 1));
        self.pages_between(from, to.min(self.start + self.pages * page_size()))
    }

    /// Pages in memory from one page boundary to another one.
    fn pages_between(&self, from: usize, to: usize) -> usize {
        if from >= to {
            return 0;
        }
        let (first, end) = ((from - self.start) / page_size(), (to - self.start) / page_size());
        let mut count = 0;
        let mut page = first;
        while page < end {
            let (word, bit) = (self.bits.get(page / 64).copied().unwrap_or(0), page % 64);
            let here = (64 - bit).min(end - page);
            let mask = if here == 64 { u64::MAX } else { ((1 << here) - 1) << bit };
            count += (word & mask).count_ones() as usize;
            page += here;
        }
        count
    }

    /// How far memory can be read from an address on without a page that is not there, up to a length.
    pub(crate) fn run(&self, address: usize, most: usize) -> usize {
        let mut end = address;
        while end - address < most && self.has(end) {
            end = (end & !(page_size() - 1)) + page_size();
        }
        (end - address).min(most)
    }

    /// The first page at or after an address that is in memory, and before `end`.
    pub(crate) fn next(&self, address: usize, end: usize) -> Option<usize> {
        let mut page = address & !(page_size() - 1);
        while page < end {
            if self.has(page) {
                return Some(page.max(address));
            }
            // Whole words of pages that are not there are passed over.
            let number = (page - self.start) / page_size();
            let is_empty = number.is_multiple_of(64) && self.bits.get(number / 64).is_none_or(|word| *word == 0);
            page += if is_empty { 64 * page_size() } else { page_size() };
        }
        None
    }
}

#[cfg(test)]
impl Residency {
    /// Everything is in memory.
    pub(crate) fn full(range: &Range<usize>) -> Self {
        let mut residency = Self::new(range).unwrap_or_default();
        let pages = residency.pages;
        residency.add(range.start, std::iter::repeat_n(true, pages));
        residency
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn made(pages: &[bool]) -> Residency {
        let mut residency = Residency::new(&(page_size()..page_size() + pages.len() * page_size())).unwrap();
        residency.add(page_size(), pages.iter().copied());
        residency
    }

    #[test]
    fn bytes_count_as_far_as_their_pages_are_there() {
        let residency = made(&[true, false, true, true]);
        assert_eq!(residency.total(), 3 * page_size());
        assert_eq!(residency.bytes(page_size() + 100..page_size() + 200), 100);
        assert_eq!(residency.bytes(2 * page_size()..3 * page_size()), 0);
        assert_eq!(residency.bytes(page_size() + 4000..3 * page_size() + 50), 96 + 50);
        assert_eq!(residency.bytes(0..100 * page_size()), 3 * page_size());
        assert_eq!(residency.whole_pages(page_size() + 1..5 * page_size()), 2);
        assert_eq!(residency.whole_pages(page_size()..4 * page_size() - 1), 1);
        assert_eq!(
            (residency.run(page_size(), 9000), residency.run(3 * page_size() + 10, 1 << 20)),
            (page_size(), 2 * page_size() - 10)
        );
        assert_eq!(
            (residency.next(2 * page_size(), 5 * page_size()), residency.next(5 * page_size(), 5 * page_size())),
            (Some(3 * page_size()), None)
        );
    }

    #[test]
    fn long_ranges_are_counted_by_words() {
        let pages: Vec<bool> = (0..1000).map(|page| page % 3 == 0).collect();
        let residency = made(&pages);
        for (from, to) in [(0, 1000), (1, 64), (63, 65), (64, 128), (100, 900)] {
            let expect = pages[from..to].iter().filter(|page| **page).count();
            assert_eq!(
                residency.pages_between(page_size() + from * page_size(), page_size() + to * page_size()),
                expect,
                "{from} to {to}"
            );
        }
    }

    #[test]
    fn memory_that_was_written_to_is_there() {
        let length = 32 * page_size();
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice, of which one page is written to.
        let start = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            start.cast::<u8>().add(5 * page_size()).write(1);
            start as usize
        };
        let mut reader = ResidencyReader::new();
        let range = start..start + length;
        let seen = reader.of_memory(&range).unwrap();
        assert_eq!((seen.total(), seen.has(start + 5 * page_size() + 7)), (page_size(), true));
        if reader.pagemap.is_some() {
            assert_eq!(reader.of_file(&range).unwrap().total(), page_size());
        }
        // SAFETY: the mapping from above.
        assert_eq!(unsafe { libc::munmap(start as *mut libc::c_void, length) }, 0);
        assert!(reader.of_memory(&range).is_none(), "a mapping that is gone");
    }
}
