//! The foot: totals and the offset of every section. A dump without it is cut off.

use crate::{ByteSink, Cursor, FormatError, SECTION_HEAD, put_varint};

/// Length of what stands at the very end: the offset of the foot and a magic number.
pub const TAIL: usize = 16;
const TAIL_MAGIC: [u8; 8] = *b"NGCHFOOT";

/// How many passes the clone makes.
pub const PASSES: usize = 5;

/// What the clone does, one after the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pass {
    /// It follows the collector's lists.
    Lists = 0,
    /// It walks every object for objects that no list has.
    Discover = 1,
    /// It numbers the objects.
    Rank = 2,
    /// It writes the tables.
    Tables = 3,
    /// It writes the objects.
    Emit = 4,
}

/// Figures about a whole dump.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Objects.
    pub objects: u64,
    /// Objects that the collector tracks.
    pub tracked: u64,
    /// References.
    pub references: u64,
    /// Sum of all sizes.
    pub bytes: u64,
    /// What each pass took, in nanoseconds.
    pub passes_ns: [u64; PASSES],
    /// How long the program stood still for the clone, in nanoseconds, or zero if the writer does not know.
    pub pause_ns: u64,
}

/// The foot of a dump that is read.
#[derive(Clone, Copy, Debug)]
pub struct Foot<'a> {
    /// The figures.
    pub totals: Totals,
    offsets: Cursor<'a>,
    left: u64,
}

impl<'a> Foot<'a> {
    /// Appends the figures and the number of sections; the offset of each follows, as the distance from the one before.
    pub fn put(totals: &Totals, sections: u64, to: &mut impl ByteSink) {
        for figure in [totals.objects, totals.tracked, totals.references, totals.bytes, totals.pause_ns] {
            put_varint(to, figure);
        }
        put_varint(to, PASSES as u64);
        for pass in totals.passes_ns {
            put_varint(to, pass);
        }
        put_varint(to, sections);
    }

    /// Reads the foot from its section's bytes.
    pub fn decode(section: &'a [u8]) -> Result<Self, FormatError> {
        let mut from = Cursor::new(section);
        let mut totals = Totals {
            objects: from.varint()?,
            tracked: from.varint()?,
            references: from.varint()?,
            bytes: from.varint()?,
            pause_ns: from.varint()?,
            passes_ns: [0; PASSES],
        };
        for i in 0..from.varint()? {
            let pass = from.varint()?;
            if let Some(known) = usize::try_from(i).ok().and_then(|i| totals.passes_ns.get_mut(i)) {
                *known = pass;
            }
        }
        let left = from.varint()?;
        if left > from.rest().len() as u64 {
            return Err(FormatError::Cut);
        }
        Ok(Self { totals, offsets: from, left })
    }

    /// Where each section begins, in the order of the file.
    pub fn offsets(&self) -> impl Iterator<Item = Result<u64, FormatError>> + use<'a> {
        let mut from = self.offsets;
        let mut at = 0_u64;
        (0..self.left).map(move |_| {
            at = at.wrapping_add(from.varint()?);
            Ok(at)
        })
    }
}

/// The last bytes of a dump.
#[must_use]
pub fn put_tail(foot: u64) -> [u8; TAIL] {
    let mut bytes = [0; TAIL];
    bytes[..8].copy_from_slice(&foot.to_le_bytes());
    bytes[8..].copy_from_slice(&TAIL_MAGIC);
    bytes
}

/// Where the foot's section begins, if the dump has one.
#[must_use]
pub fn foot_offset(dump: &[u8]) -> Option<u64> {
    let (rest, tail) = dump.split_last_chunk::<TAIL>()?;
    let (offset, magic) = tail.split_first_chunk::<8>()?;
    let offset = u64::from_le_bytes(*offset);
    (*magic == TAIL_MAGIC && offset.saturating_add(SECTION_HEAD as u64) <= rest.len() as u64).then_some(offset)
}
