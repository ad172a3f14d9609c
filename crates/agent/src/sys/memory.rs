//! Reads of this process's own memory that cannot fault: a wrong address gives `None`.

use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Fills `to` from `address` and says whether all of it could be read.
pub(crate) fn read(address: usize, to: &mut [u8]) -> bool {
    read_some(address, to) == to.len()
}

/// Fills as much of `to` as can be read and says how much that is.
pub(crate) fn read_some(address: usize, to: &mut [u8]) -> usize {
    let length = to.len();
    gather(&[(address, length)], to)
}

/// Reads several places one after the other into `to`, in one call, and says how much could be read.
pub(crate) fn gather<const N: usize>(places: &[(usize, usize); N], to: &mut [u8]) -> usize {
    // Asked anew each time: the id changes when the process forks.
    let this = Pid::this();
    let places = places.map(|(base, len)| RemoteIoVec { base, len });
    process_vm_readv(this, &mut [IoSliceMut::new(to)], &places).unwrap_or(0)
}

/// Reads a few bytes at each of many places, in as few calls as possible.
pub(crate) fn copies<const N: usize>(addresses: &[usize]) -> Vec<Option<[u8; N]>> {
    // The most that the kernel takes at a time.
    const AT_ONCE: usize = 1024;
    let this = Pid::this();
    let mut copies = Vec::with_capacity(addresses.len());
    let mut buffer = vec![0; N * addresses.len().min(AT_ONCE)];
    while copies.len() < addresses.len() {
        let places: Vec<RemoteIoVec> =
            addresses[copies.len()..].iter().take(AT_ONCE).map(|base| RemoteIoVec { base: *base, len: N }).collect();
        let to = &mut buffer[..N * places.len()];
        let read = process_vm_readv(this, &mut [IoSliceMut::new(to)], &places).unwrap_or(0);
        copies.extend(to[..read - read % N].chunks_exact(N).map(|bytes| bytes.first_chunk().copied()));
        if read / N < places.len() {
            // The one that could not be read is passed over.
            copies.push(None);
        }
    }
    copies
}

/// A word.
pub(crate) fn word(address: usize) -> Option<usize> {
    array(address).map(usize::from_ne_bytes)
}

/// A 32-bit integer.
pub(crate) fn int(address: usize) -> Option<i32> {
    array(address).map(i32::from_ne_bytes)
}

/// A few bytes.
pub(crate) fn array<const N: usize>(address: usize) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    read(address, &mut bytes).then_some(bytes)
}

/// A C string of at most `limit` bytes.
pub(crate) fn c_string(address: usize, limit: usize) -> Option<String> {
    let mut bytes = vec![0; limit];
    let length = read_some(address, &mut bytes);
    let end = bytes[..length].iter().position(|&byte| byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}

const PAGE: usize = 4096;
const KEPT_PAGES: usize = 64;
/// No page begins here.
const NO_PAGE: usize = usize::MAX;

/// Reads words and keeps the latest pages, for walks along lists whose members lie close together.
#[derive(Debug)]
pub(crate) struct Pages {
    kept: Vec<(usize, [u8; PAGE])>,
}

impl Pages {
    pub(crate) fn new() -> Self {
        Self { kept: vec![(NO_PAGE, [0; PAGE]); KEPT_PAGES] }
    }

    /// A word as it was when its page was first read.
    pub(crate) fn word(&mut self, address: usize) -> Option<usize> {
        let (page, offset) = (address & !(PAGE - 1), address & (PAGE - 1));
        let (kept, bytes) = &mut self.kept[(page / PAGE) % KEPT_PAGES];
        if *kept != page {
            *kept = NO_PAGE;
            if !read(page, bytes) {
                return None;
            }
            *kept = page;
        }
        Some(usize::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_address_is_no_crash() {
        assert_eq!(word(8), None);
        assert_eq!(c_string(usize::MAX - 64, 32), None);
    }

    #[test]
    fn many_copies_leave_out_what_cannot_be_read() {
        let list: Vec<usize> = (0..5_000).collect();
        let mut addresses: Vec<usize> = list.iter().map(|value| value as *const usize as usize).collect();
        let wrong = [0, 1, 1023, 1024, 3000, 4999];
        wrong.iter().for_each(|index| addresses[*index] = 8 + index);
        let copies = copies::<8>(&addresses);
        assert_eq!(copies.len(), list.len());
        for (value, copy) in copies.into_iter().enumerate() {
            assert_eq!(copy.map(usize::from_ne_bytes), (!wrong.contains(&value)).then_some(value));
        }
    }

    #[test]
    fn pages_give_the_same_words() {
        let list: Vec<usize> = (0..10_000).collect();
        let mut pages = Pages::new();
        assert!(list.iter().all(|value| pages.word(value as *const usize as usize) == Some(*value)));
        assert_eq!(pages.word(16), None);
    }

    #[test]
    fn own_memory_reads_back() {
        let value = 0x1234_5678_usize;
        assert_eq!(word(&raw const value as usize), Some(value));
        assert_eq!(c_string(c"hello".as_ptr() as usize, 6), Some("hello".to_owned()));
    }
}
