//! Numbers of variable length: seven bits a byte, the lowest first, the top bit set in all but the last byte.

use crate::FormatError;

/// Where encoders write to.
pub trait ByteSink {
    /// Appends one byte.
    fn push(&mut self, byte: u8);
    /// Appends bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl ByteSink for Vec<u8> {
    fn push(&mut self, byte: u8) {
        Self::push(self, byte);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Appends a number.
#[inline]
pub fn put_varint(to: &mut impl ByteSink, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// A signed number as one that is small where the signed one is near zero: 0, −1, 1, −2 … become 0, 1, 2, 3 ….
#[inline]
#[must_use]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The reverse of [`zigzag`].
#[inline]
#[must_use]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Reads from these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What is not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything is read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next number of variable length.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, FormatError> {
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, FormatError> {
        let mut value = 0_u64;
        for (i, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if *byte < 0x80 {
                if i == 9 && *byte > 1 {
                    return Err(FormatError::Damaged("a number is longer than 64 bits"));
                }
                self.rest = &self.rest[i + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 {
            FormatError::Cut
        } else {
            FormatError::Damaged("a number is longer than 64 bits")
        })
    }

    /// The next number, which must fit into 32 bits.
    #[inline]
    pub fn varint32(&mut self) -> Result<u32, FormatError> {
        u32::try_from(self.varint()?).map_err(|_| FormatError::Damaged("a number is larger than 32 bits"))
    }

    /// The next bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], FormatError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(FormatError::Cut)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next bytes, as many as the number before them says.
    pub fn text(&mut self) -> Result<&'a [u8], FormatError> {
        let length = self.varint()?;
        self.bytes(usize::try_from(length).map_err(|_| FormatError::Cut)?)
    }

    /// The next bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(FormatError::Cut)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}
