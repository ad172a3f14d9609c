//! The mappings of this process, as `/proc/self/maps` lists them.
//!
//! The kernel fills a page of text at a time and lets others change mappings in between, so nothing waits for long.

use std::fs::File;
use std::io::Read;
use std::ops::Range;

use super::pace::breathe;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    pub(crate) range: Range<usize>,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    pub(crate) is_executable: bool,
    pub(crate) is_private: bool,
    /// Where in the file it begins.
    pub(crate) offset: usize,
    /// The file's number; 0 where there is no file.
    pub(crate) inode: u64,
    /// A path, a name of the kernel's such as `[heap]`, or nothing.
    pub(crate) name: &'a str,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (from, to) = words.next()?.split_once('-')?;
        let access = words.next()?.as_bytes();
        let offset = usize::from_str_radix(words.next()?, 16).ok()?;
        let _device = words.next()?;
        let inode = words.next()?.parse().ok()?;
        Some(Self {
            range: usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?,
            is_readable: access.first() == Some(&b'r'),
            is_writable: access.get(1) == Some(&b'w'),
            is_executable: access.get(2) == Some(&b'x'),
            is_private: access.get(3) == Some(&b'p'),
            offset,
            inode,
            name: words.next().unwrap_or("").trim_start(),
        })
    }

    /// Whether it is private memory without a file that a program can write to.
    pub(crate) fn is_plain_memory(&self) -> bool {
        self.is_private
            && self.is_writable
            && self.inode == 0
            && (self.name.is_empty() || self.name.starts_with("[anon"))
    }

    /// Whether it is memory that the process has got by moving its break: the heap of `malloc`'s main arena.
    pub(crate) fn is_heap(&self) -> bool {
        self.name == "[heap]" && self.is_writable
    }

    /// Its length.
    pub(crate) fn len(&self) -> usize {
        self.range.end - self.range.start
    }
}

/// The kernel's text, which mappings are read from.
pub(crate) fn text() -> Option<String> {
    const AT_ONCE: usize = 4096;
    let mut file = File::open("/proc/self/maps").ok()?;
    let mut bytes = Vec::new();
    loop {
        breathe();
        let length = bytes.len();
        bytes.resize(length + AT_ONCE, 0);
        let read = file.read(&mut bytes[length..]).ok()?;
        bytes.truncate(length + read);
        if read == 0 {
            // Names of files need not be UTF-8.
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

/// Puts neighbours together that are plain memory, or parts of `[heap]`: where one of them ends says nothing about what is in them. The
/// kernel keeps parts apart that were advised differently: numpy asks for huge pages in large arrays, also in the middle of `[heap]`.
pub(crate) fn merged<'a>(mappings: &[Mapping<'a>]) -> Vec<Mapping<'a>> {
    let mut merged: Vec<Mapping<'a>> = Vec::with_capacity(mappings.len());
    for mapping in mappings {
        match merged.last_mut() {
            Some(last)
                if last.range.end == mapping.range.start
                    && (last.is_plain_memory() && mapping.is_plain_memory() || last.is_heap() && mapping.is_heap()) =>
            {
                last.range.end = mapping.range.end;
            }
            _ => merged.push(mapping.clone()),
        }
    }
    merged
}

/// The mappings of a text, in the order of their addresses.
pub(crate) fn parse(text: &str) -> Vec<Mapping<'_>> {
    text.lines().filter_map(Mapping::parse).filter(|mapping| !mapping.range.is_empty()).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let text = "7f00-7f10 rw-p 00000000 00:00 0 \n\
                    7f10-7f20 r-xp 00026000 fe:00 326279                     /usr/lib/x y.so (deleted)\n\
                    7f20-7f30 ---s 00000000 00:01 7                          [heap]\nnonsense\n";
        let mappings = parse(text);
        assert_eq!(mappings.len(), 3);
        assert!(mappings[0].is_plain_memory() && mappings[0].range == (0x7f00..0x7f10));
        assert_eq!(
            (mappings[1].name, mappings[1].offset, mappings[1].inode),
            ("/usr/lib/x y.so (deleted)", 0x26000, 326_279)
        );
        assert!(mappings[1].is_executable && !mappings[1].is_writable && !mappings[2].is_readable);
        assert!(!mappings[2].is_private && !mappings[2].is_plain_memory());
    }

    #[test]
    fn neighbours_of_the_same_kind_are_one() {
        let text = "1000-2000 rw-p 0 00:00 0 \n2000-3000 rw-p 0 00:00 0  [anon: x]\n3000-4000 ---p 0 00:00 0 \n\
                    4000-5000 rw-p 0 00:00 0 \n6000-7000 rw-p 0 00:00 0 \n\
                    8000-9000 rw-p 0 00:00 0 [heap]\n9000-a000 rw-p 0 00:00 0 [heap]\na000-b000 rw-p 0 00:00 0 \n";
        let ranges: Vec<_> = merged(&parse(text)).into_iter().map(|mapping| mapping.range).collect();
        let plain = [0x1000..0x3000, 0x3000..0x4000, 0x4000..0x5000, 0x6000..0x7000];
        assert_eq!(ranges, [&plain[..], &[0x8000..0xa000, 0xa000..0xb000]].concat());
    }

    #[test]
    fn this_process_has_a_stack_and_a_library() {
        let text = text().unwrap();
        let mappings = parse(&text);
        assert!(mappings.iter().any(|mapping| mapping.name == "[stack]"));
        assert!(mappings.iter().any(|mapping| mapping.is_executable && mapping.inode != 0));
        let local = 0_u8;
        assert!(mappings.iter().any(|mapping| mapping.range.contains(&(&raw const local as usize))));
    }
}
