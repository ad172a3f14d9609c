//! The bytes of a dump: a mapped file, or a buffer.

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::Mmap;

/// The bytes.
#[derive(Debug)]
pub(crate) enum DumpBytes {
    Mapped(Mmap),
    Buffer(Vec<u8>),
}

impl DumpBytes {
    /// Maps a file.
    #[expect(unsafe_code, reason = "a mapped file can change under the reader, which the compiler cannot rule out")]
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        // SAFETY: the map is only read, as bytes without any meaning that memory safety would rest on: each number in
        // them is checked where it is used. A file that is cut short meanwhile ends this process with a signal; dumps
        // are written once and renamed when they are complete.
        let map = unsafe { Mmap::map(file)? };
        Ok(Self::Mapped(map))
    }
}

impl Deref for DumpBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Buffer(bytes) => bytes,
        }
    }
}
