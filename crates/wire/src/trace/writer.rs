//! From records to blocks.

use super::record::Record;
use super::{BLOCK_MAGIC, Header, MAGIC, VERSION};

/// A block this long is closed by its writer; a reader refuses longer ones.
pub const MAX_BLOCK: usize = 1024 * 1024;

const BLOCK_HEADER: usize = 12;

/// The bytes that a trace begins with.
#[must_use]
pub fn encode_header(header: &Header) -> Vec<u8> {
    let json = serde_json::to_vec(header).unwrap_or_default();
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&json).to_le_bytes());
    bytes.extend_from_slice(&json);
    bytes
}

/// A whole trace.
#[must_use]
pub fn encode<'r>(header: &Header, records: impl IntoIterator<Item = &'r Record>) -> Vec<u8> {
    let mut bytes = encode_header(header);
    let mut block = BlockWriter::new();
    for record in records {
        block.push(record);
        if block.is_full() {
            bytes.extend(block.take());
        }
    }
    bytes.extend(block.take());
    bytes
}

/// Gathers records into one block at a time.
#[derive(Debug)]
pub struct BlockWriter {
    bytes: Vec<u8>,
    previous: u64,
}

impl Default for BlockWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl BlockWriter {
    /// An empty block.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: vec![0; BLOCK_HEADER], previous: 0 }
    }

    /// Adds a record.
    pub fn push(&mut self, record: &Record) {
        record.encode(&mut self.bytes, self.previous);
        self.previous = record.at();
    }

    /// Whether nothing was added since the last block was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == BLOCK_HEADER
    }

    /// How long the block has become.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the block should be taken before more is added.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() > MAX_BLOCK / 2
    }

    /// Closes the block, hands out its bytes and starts the next one.
    pub fn take(&mut self) -> Vec<u8> {
        let mut next = Self::new();
        next.bytes.reserve(self.bytes.len());
        let mut block = std::mem::replace(self, next).bytes;
        let (head, payload) = block.split_at_mut(BLOCK_HEADER);
        head[..4].copy_from_slice(BLOCK_MAGIC);
        head[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[8..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        block
    }
}
