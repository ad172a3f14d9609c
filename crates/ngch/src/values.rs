//! Values of strings and integers: the last column of a block.

use crate::{ByteSink, Cursor, FormatError, Kind, put_varint, unzigzag, zigzag};

/// Appends the head of a string of `length` code units of `width` bytes (1, 2 or 4), of which `kept` follow. If not all
/// are kept, `hash` is the hash of all of them.
#[inline]
pub fn put_text_head(to: &mut impl ByteSink, kept: u64, length: u64, width: u8, hash: u64) {
    let cut = kept < length;
    put_varint(to, kept << 3 | u64::from(cut) << 2 | u64::from(width >> 1));
    if cut {
        put_varint(to, length);
        to.put_bytes(&hash.to_le_bytes());
    }
}

/// Appends, for a string, only how long it is.
#[inline]
pub fn put_withheld(to: &mut impl ByteSink, length: u64) {
    put_varint(to, length << 3 | 3);
}

/// Appends an integer, or that its value is not in the dump.
#[inline]
pub fn put_integer(to: &mut impl ByteSink, value: Option<i64>) {
    put_varint(to, value.map_or(0, |value| zigzag(value) + 1));
}

/// The hash of a long string's bytes: two strings with the same hash are taken for equal.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let mut state = (bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut chunks = bytes.chunks_exact(8);
    let mix = |state: u64, word: u64| {
        let mixed = (state ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 31
    };
    for chunk in &mut chunks {
        let word = chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        state = mix(state, word);
    }
    let last = chunks.remainder().iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    mix(mix(state, last), 0)
}

/// A string's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Text<'a> {
    /// How many code units the string has.
    pub length: u64,
    /// Bytes of a code unit: 1, 2 or 4, or 0 if the text is withheld.
    pub width: u8,
    /// The first code units, in the width, little-endian.
    pub units: &'a [u8],
    /// The hash of all units, if not all are here.
    pub hash: Option<u64>,
}

impl Text<'_> {
    /// The characters that are here.
    pub fn characters(&self) -> impl Iterator<Item = char> + '_ {
        self.units.chunks_exact(self.width.max(1).into()).map(|unit| {
            let point = unit.iter().rev().fold(0, |point, byte| point << 8 | u32::from(*byte));
            char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER)
        })
    }
}

/// The value of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Value<'a> {
    /// Of a string.
    Text(Text<'a>),
    /// Of an integer: none if it is large or withheld.
    Integer(Option<i64>),
}

impl<'a> Value<'a> {
    /// The value of the next object from a block's column. Objects of most kinds have none, and nothing is read.
    pub fn read(column: &mut Cursor<'a>, kind: Kind) -> Result<Option<Self>, FormatError> {
        match kind {
            Kind::Int => Ok(Some(Self::Integer(column.varint()?.checked_sub(1).map(unzigzag)))),
            Kind::Str => Self::text(column).map(Self::Text).map(Some),
            _ => Ok(None),
        }
    }

    fn text(column: &mut Cursor<'a>) -> Result<Text<'a>, FormatError> {
        let head = column.varint()?;
        let kept = head >> 3;
        if head & 3 == 3 {
            return Ok(Text { length: kept, width: 0, units: &[], hash: None });
        }
        let width = 1 << (head & 3);
        let (length, hash) =
            if head & 4 != 0 { (column.varint()?, Some(u64::from_le_bytes(column.array()?))) } else { (kept, None) };
        let bytes = kept.checked_mul(width.into()).and_then(|bytes| usize::try_from(bytes).ok());
        Ok(Text { length, width, units: column.bytes(bytes.ok_or(FormatError::Cut)?)?, hash })
    }
}
