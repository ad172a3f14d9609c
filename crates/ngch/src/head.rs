//! The first 64 bytes of a dump.

use crate::{Cursor, FormatError};

/// What a dump begins with.
pub const MAGIC: [u8; 4] = *b"NGCH";
/// The version of the format that this crate writes and reads.
pub const VERSION: u16 = 1;
/// Length of the head in bytes.
pub const HEAD: usize = 64;
/// Flag: values of strings and integers are in the dump. Without it only those of names are.
pub const TEXTS: u32 = 1;

/// What the head says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DumpHead {
    /// CPython's version, as `PY_VERSION_HEX`.
    pub python: u32,
    /// [`TEXTS`], or zero.
    pub flags: u32,
    /// How many code units of a string are kept.
    pub text_limit: u32,
    /// The process that was dumped.
    pub pid: u32,
    /// When the program began, in nanoseconds since 1970, or zero.
    pub started_ns: u64,
    /// When the clone was made, in nanoseconds since 1970.
    pub taken_ns: u64,
    /// How many objects the dump describes if it is complete.
    pub objects: u64,
    /// Resident memory of the process in bytes, or zero.
    pub resident: u64,
}

impl DumpHead {
    /// The head as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&(HEAD as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.python.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.flags.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.text_limit.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.pid.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.started_ns.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.taken_ns.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.objects.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.resident.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the head from the beginning of a dump.
    pub fn decode(dump: &[u8]) -> Result<Self, FormatError> {
        if dump.get(..4) != Some(&MAGIC) {
            return Err(FormatError::NotADump);
        }
        let head = dump.get(..HEAD).ok_or(FormatError::Cut)?;
        let version = u16::from_le_bytes([head[4], head[5]]);
        if version != VERSION {
            return Err(FormatError::Newer(version));
        }
        let mut fields = Cursor::new(&head[8..]);
        let decoded = Self {
            python: fields.u32()?,
            flags: fields.u32()?,
            text_limit: fields.u32()?,
            pid: fields.u32()?,
            started_ns: fields.u64()?,
            taken_ns: fields.u64()?,
            objects: fields.u64()?,
            resident: fields.u64()?,
        };
        fields.bytes(4)?;
        if crc32fast::hash(&head[..60]) != fields.u32()? {
            return Err(FormatError::Checksum);
        }
        Ok(decoded)
    }
}
