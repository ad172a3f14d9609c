//! Copies of this process's own memory that cannot fault and take no lock on the address space.
//!
//! The kernel writes the memory to a file that has no name, and this process has mapped that file. A write stops where memory
//! cannot be read. `process_vm_readv`, which `memory` uses, locks the address space for each place that it reads: done some
//! ten thousand times in a row, threads that map or unmap memory wait for milliseconds.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// The file's length, which is the most that is copied at a time.
pub(crate) const ROOM: usize = 128 << 10;

/// Places that the kernel takes at a time.
const PLACES: usize = 1024;

/// The file, and where it is mapped.
#[derive(Debug)]
pub(crate) struct Copies {
    file: OwnedFd,
    area: NonNull<u8>,
}

impl Copies {
    /// None where the kernel gives no such file, or the process may not write files of its length.
    pub(crate) fn new() -> Option<Self> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the kernel fills a variable of this function, and makes a new file and a new mapping of it, at an address of
        // its choice.
        unsafe {
            // A write beyond the limit would be answered with a signal.
            if libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) != 0 || limit.rlim_cur < ROOM as libc::rlim_t {
                return None;
            }
            let number = libc::memfd_create(c"neurogc".as_ptr(), libc::MFD_CLOEXEC);
            if number < 0 {
                return None;
            }
            let file = OwnedFd::from_raw_fd(number);
            if libc::ftruncate(number, ROOM as libc::off_t) != 0 {
                return None;
            }
            let area = libc::mmap(std::ptr::null_mut(), ROOM, libc::PROT_READ, libc::MAP_SHARED, number, 0);
            if area == libc::MAP_FAILED {
                return None;
            }
            Some(Self { file, area: NonNull::new(area.cast())? })
        }
    }

    /// As much of a range as can be read, and as there is room for.
    pub(crate) fn read(&mut self, address: usize, length: usize) -> &[u8] {
        let place = libc::iovec { iov_base: address as *mut c_void, iov_len: length.min(ROOM) };
        let length = self.write(&[place]);
        self.area(length)
    }

    /// A few bytes.
    pub(crate) fn array<const N: usize>(&mut self, address: usize) -> Option<[u8; N]> {
        self.read(address, N).first_chunk().copied()
    }

    /// A word.
    pub(crate) fn word(&mut self, address: usize) -> Option<usize> {
        self.array(address).map(usize::from_ne_bytes)
    }

    /// A few bytes at each of many places, in as few calls as possible.
    pub(crate) fn many<const N: usize>(&mut self, addresses: &[usize]) -> Vec<Option<[u8; N]>> {
        let mut copies = Vec::with_capacity(addresses.len());
        while copies.len() < addresses.len() {
            let left = addresses[copies.len()..].iter().take(PLACES.min(ROOM / N));
            let places: Vec<libc::iovec> =
                left.map(|address| libc::iovec { iov_base: *address as *mut c_void, iov_len: N }).collect();
            let written = self.write(&places);
            copies.extend(self.area(written).chunks_exact(N).map(|bytes| bytes.first_chunk().copied()));
            if written / N < places.len() {
                // The one that could not be read is passed over.
                copies.push(None);
            }
        }
        copies
    }

    /// Has the kernel copy places to the beginning of the file, and says how much that is.
    fn write(&self, places: &[libc::iovec]) -> usize {
        let count = places.len() as libc::c_int;
        // SAFETY: the kernel reads the places, which may be anything, and writes to a file that only this value has.
        let written = unsafe { libc::pwritev(self.file.as_raw_fd(), places.as_ptr(), count, 0) };
        usize::try_from(written).unwrap_or(0)
    }

    fn area(&self, length: usize) -> &[u8] {
        // SAFETY: the mapping is as long as the file, and what is written to it is written by methods that borrow this value for
        // as long as the slice lives.
        unsafe { std::slice::from_raw_parts(self.area.as_ptr(), length.min(ROOM)) }
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.area.as_ptr().cast(), ROOM) };
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn memory_is_copied_as_far_as_it_can_be_read() {
        let mut copies = Copies::new().unwrap();
        let value = 0x1234_5678_usize;
        assert_eq!(copies.word(&raw const value as usize), Some(value));
        assert_eq!((copies.word(8), copies.read(16, 100).len()), (None, 0));
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of two pages, of which the second one is given back.
        let start = unsafe {
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), 8192, access, kind, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            start.cast::<u8>().write_bytes(7, 4096);
            assert_eq!(libc::munmap(start.add(4096), 4096), 0);
            start as usize
        };
        assert_eq!(copies.read(start + 4000, 200), [7; 96]);
    }

    #[test]
    fn many_places_leave_out_what_cannot_be_read() {
        let list: Vec<usize> = (0..5_000).collect();
        let mut addresses: Vec<usize> = list.iter().map(|value| value as *const usize as usize).collect();
        let wrong = [0, 1, 1023, 1024, 3000, 4999];
        wrong.iter().for_each(|index| addresses[*index] = 8 + index);
        let copied = Copies::new().unwrap().many::<8>(&addresses);
        assert_eq!(copied.len(), list.len());
        for (value, copy) in copied.into_iter().enumerate() {
            assert_eq!(copy.map(usize::from_ne_bytes), (!wrong.contains(&value)).then_some(value));
        }
    }
}
