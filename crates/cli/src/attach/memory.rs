//! The memory of another process, read and written through the kernel, and its map.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

/// The memory of one process.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetMemory {
    pid: Pid,
}

impl TargetMemory {
    pub(super) fn of(pid: u32) -> Self {
        Self { pid: Pid::from_raw(pid.cast_signed()) }
    }

    /// Fills the buffer, or fails.
    pub(super) fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Errno> {
        let whole = into.len();
        let from = [RemoteIoVec { base: address as usize, len: whole }];
        match process_vm_readv(self.pid, &mut [IoSliceMut::new(into)], &from)? {
            read if read == whole => Ok(()),
            _ => Err(Errno::EFAULT),
        }
    }

    /// Writes all of the bytes, or fails.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let to = [RemoteIoVec { base: address as usize, len: bytes.len() }];
        match process_vm_writev(self.pid, &[IoSlice::new(bytes)], &to)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(Errno::EFAULT),
        }
    }

    pub(super) fn bytes<const N: usize>(&self, address: u64) -> Result<[u8; N], Errno> {
        let mut read = [0; N];
        self.read(address, &mut read)?;
        Ok(read)
    }

    pub(super) fn word(&self, address: u64) -> Result<u64, Errno> {
        Ok(u64::from_le_bytes(self.bytes(address)?))
    }

    pub(super) fn half(&self, address: u64) -> Result<u32, Errno> {
        Ok(u32::from_le_bytes(self.bytes(address)?))
    }
}

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MappedRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) executable: bool,
    pub(super) offset: u64,
    /// A path, or a name in brackets, or nothing.
    pub(super) name: String,
}

impl MappedRange {
    pub(super) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// The map of a process, in the order of addresses.
pub(super) fn map_of(pid: u32) -> io::Result<Vec<MappedRange>> {
    Ok(fs::read_to_string(format!("/proc/{pid}/maps"))?.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<MappedRange> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(MappedRange {
        start: number(start)?,
        end: number(end)?,
        readable: rights.first() == Some(&b'r'),
        writable: rights.get(1) == Some(&b'w'),
        executable: rights.get(2) == Some(&b'x'),
        offset: number(words.next()?)?,
        name: words.nth(2).unwrap_or_default().trim_start().to_owned(),
    })
}

/// An address in the middle of the largest hole of a map, where nothing else will be put soon. `salt` varies it.
pub(super) fn free_address(map: &[MappedRange], size: u64, salt: u64) -> Option<u64> {
    const LOWEST: u64 = 1 << 32;
    const HIGHEST: u64 = 1 << 47;
    let below = map.iter().filter(|range| range.end <= HIGHEST);
    let (mut best, mut end) = ((0, 0), LOWEST);
    for range in below {
        if range.start > end && range.start - end > best.1 - best.0 {
            best = (end, range.start);
        }
        end = end.max(range.end);
    }
    let room = best.1 - best.0;
    (room > 1024 * size).then(|| (best.0 + room / 4 + salt % (room / 2)) & !0xffff)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_map_is_read_with_its_whole_name() {
        let line = "7f00-7f10 r-xp 00001000 08:01 99   /a folder/lib c.so (deleted)";
        let range = parse(line).unwrap();
        assert_eq!((range.start, range.end, range.offset), (0x7f00, 0x7f10, 0x1000));
        assert!(range.readable && !range.writable && range.executable);
        assert_eq!(range.name, "/a folder/lib c.so (deleted)");
        assert_eq!(parse("1000-2000 rw-p 00000000 00:00 0 ").unwrap().name, "");
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn a_free_address_lies_in_a_hole() {
        let map = map_of(std::process::id()).unwrap();
        for salt in [0, 1, u64::MAX, 0x1234_5678_9abc] {
            let address = free_address(&map, 0x10000, salt).unwrap();
            assert_eq!(address % 0x10000, 0);
            assert!(map.iter().all(|range| !range.contains(address) && !range.contains(address + 0xffff)));
        }
    }

    #[test]
    fn own_memory_is_read_and_written() {
        let memory = TargetMemory::of(std::process::id());
        let word = 42_u64;
        assert_eq!(memory.word(&raw const word as u64), Ok(42));
        assert_eq!(memory.word(8), Err(Errno::EFAULT));
    }
}
