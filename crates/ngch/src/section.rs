//! Sections: what follows the head. Each has a tag, a length and a checksum, and begins at a multiple of eight bytes.

use crate::{Cursor, FormatError, HEAD};

/// Length of a section's own head.
pub const SECTION_HEAD: usize = 16;

/// Which section it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tag {
    /// Types of objects.
    Types,
    /// Attribute names that many dicts or instances share.
    Shapes,
    /// Threads of the program.
    Threads,
    /// Frames that run or wait.
    Frames,
    /// Tasks of asyncio.
    Tasks,
    /// Files that are loaded as code.
    Images,
    /// What holds objects from outside of the heap.
    Roots,
    /// Up to 65 536 objects.
    Block,
    /// Totals and where everything is.
    Foot,
}

impl Tag {
    const ALL: [(Self, [u8; 4]); 9] = [
        (Self::Types, *b"TYPE"),
        (Self::Shapes, *b"SHAP"),
        (Self::Threads, *b"THRD"),
        (Self::Frames, *b"FRAM"),
        (Self::Tasks, *b"TASK"),
        (Self::Images, *b"IMAG"),
        (Self::Roots, *b"ROOT"),
        (Self::Block, *b"BLCK"),
        (Self::Foot, *b"FOOT"),
    ];

    /// The four bytes that stand for it.
    #[must_use]
    pub fn bytes(self) -> [u8; 4] {
        Self::ALL.iter().find(|(tag, _)| *tag == self).map_or([0; 4], |(_, bytes)| *bytes)
    }

    fn of(bytes: [u8; 4]) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == bytes).map(|(tag, _)| *tag)
    }
}

/// How many zero bytes follow a section of this length.
#[must_use]
pub fn padding(length: u64) -> usize {
    (length.wrapping_neg() & 7) as usize
}

/// The head of a section, given its length and the checksum of all its bytes.
#[must_use]
pub fn put_section_head(tag: Tag, crc: u32, length: u64) -> [u8; SECTION_HEAD] {
    let mut bytes = [0; SECTION_HEAD];
    bytes[..4].copy_from_slice(&tag.bytes());
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes[8..].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// One section of a dump. Its checksum is not compared until [`DumpSection::verified`].
#[derive(Clone, Copy, Debug)]
pub struct DumpSection<'a> {
    /// Which one it is, or none if this version does not know it.
    pub tag: Option<Tag>,
    /// Where its head begins in the file.
    pub offset: u64,
    crc: u32,
    bytes: &'a [u8],
}

impl<'a> DumpSection<'a> {
    /// The section whose head begins at this offset.
    pub fn at(dump: &'a [u8], offset: u64) -> Result<Self, FormatError> {
        let start = usize::try_from(offset).map_err(|_| FormatError::Cut)?;
        let mut fields = Cursor::new(dump.get(start..).ok_or(FormatError::Cut)?);
        let tag = Tag::of(fields.array()?);
        let crc = fields.u32()?;
        let length = usize::try_from(fields.u64()?).map_err(|_| FormatError::Cut)?;
        Ok(Self { tag, offset, crc, bytes: fields.bytes(length)? })
    }

    /// The section's bytes, if its checksum fits.
    pub fn verified(&self) -> Result<&'a [u8], FormatError> {
        if crc32fast::hash(self.bytes) == self.crc { Ok(self.bytes) } else { Err(FormatError::Checksum) }
    }

    /// The section's bytes, whatever the checksum is.
    #[must_use]
    pub fn unverified(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where the next section begins.
    #[must_use]
    pub fn end(&self) -> u64 {
        let length = self.bytes.len() as u64;
        self.offset + SECTION_HEAD as u64 + length + padding(length) as u64
    }
}

/// All sections of a dump from the first on. After an error it ends.
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    dump: &'a [u8],
    offset: u64,
    ended: bool,
}

impl<'a> Sections<'a> {
    /// The sections of a whole dump, which includes its head.
    #[must_use]
    pub fn of(dump: &'a [u8]) -> Self {
        Self { dump, offset: HEAD as u64, ended: false }
    }
}

impl<'a> Iterator for Sections<'a> {
    type Item = Result<DumpSection<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended || self.offset == self.dump.len() as u64 {
            return None;
        }
        let section = DumpSection::at(self.dump, self.offset);
        match &section {
            // The tail follows the foot: it is no section.
            Ok(found) if found.tag == Some(Tag::Foot) => self.ended = true,
            Ok(found) => self.offset = found.end(),
            Err(_) => self.ended = true,
        }
        Some(section)
    }
}
