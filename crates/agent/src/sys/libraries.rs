//! The memory of libraries: what the dynamic linker has mapped for the program and for each library.

use std::collections::HashSet;
use std::ops::Range;

use super::maps::Mapping;
use super::memory;
use super::page::page_size;

/// Libraries among the mappings.
#[derive(Debug, Default)]
pub(crate) struct Libraries {
    /// Files of which a part can be executed.
    files: HashSet<u64>,
    /// From the first to the last byte of each library, with memory that is in no file.
    spans: Vec<Range<usize>>,
}

impl Libraries {
    pub(crate) fn of(mappings: &[Mapping<'_>]) -> Self {
        let executable = mappings.iter().filter(|mapping| mapping.is_executable && mapping.inode != 0);
        let files: HashSet<u64> = executable.map(|mapping| mapping.inode).collect();
        let heads = mappings.iter().filter(|mapping| mapping.offset == 0 && files.contains(&mapping.inode));
        let spans = heads.filter_map(|mapping| span_of(mapping.range.start)).collect();
        Self { files, spans }
    }

    /// Whether a file is one.
    pub(crate) fn have_file(&self, inode: u64) -> bool {
        self.files.contains(&inode)
    }

    /// The parts of a mapping without a file that belong to libraries: data that begins as zeros.
    pub(crate) fn within(&self, range: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let clip = |span: &Range<usize>| span.start.max(range.start)..span.end.min(range.end);
        self.spans.iter().map(clip).filter(|part| !part.is_empty())
    }
}

/// From the first to the last byte of the library whose file begins here, by its program headers.
fn span_of(start: usize) -> Option<Range<usize>> {
    const HEADERS: usize = 64;
    const LOADED: u32 = 1;
    let head: [u8; 64] = memory::array(start)?;
    // 64-bit, with program headers of the usual size.
    if head[..5] != *b"\x7fELF\x02" || u16_at(&head, 54)? != 56 {
        return None;
    }
    let (offset, count) = (u64_at(&head, 32)?, usize::from(u16_at(&head, 56)?).min(HEADERS));
    let mut headers = vec![0; count * 56];
    if !memory::read(start.checked_add(offset)?, &mut headers) {
        return None;
    }
    let loaded = headers.chunks_exact(56).filter(|header| header.get(..4) == Some(&LOADED.to_ne_bytes()));
    let ends = loaded.map(|header| Some((u64_at(header, 16)?, u64_at(header, 16)?.checked_add(u64_at(header, 40)?)?)));
    let (mut low, mut high) = (usize::MAX, 0);
    for (from, to) in ends.flatten() {
        (low, high) = (low.min(from), high.max(to));
    }
    let length = high.checked_sub(low & !(page_size() - 1))?;
    Some(start..start.checked_add(length)?.next_multiple_of(page_size()))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<usize> {
    bytes.get(offset..)?.first_chunk().map(|bytes| usize::from_ne_bytes(*bytes))
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::maps;
    use super::*;

    static mut ZEROS: [u8; 3 << 16] = [0; 3 << 16];

    #[test]
    fn data_that_begins_as_zeros_belongs_to_the_program() {
        let text = maps::text().unwrap();
        let mappings = maps::parse(&text);
        let libraries = Libraries::of(&mappings);
        let zeros = &raw const ZEROS as usize + page_size();
        let mapping = mappings.iter().find(|mapping| mapping.range.contains(&zeros)).unwrap();
        assert!(libraries.within(&mapping.range).any(|part| part.contains(&zeros)));
        let local = 0_u8;
        let stack = mappings.iter().find(|mapping| mapping.range.contains(&(&raw const local as usize))).unwrap();
        assert_eq!(libraries.within(&stack.range).count(), 0);
    }
}
