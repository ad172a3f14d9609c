//! Blocks: up to 65 536 objects in columns. A block is read without any other.

use crate::{ByteSink, Cursor, FormatError};

/// The most objects that a block has.
pub const BLOCK_OBJECTS: u32 = 65_536;
/// How many columns a block has.
pub const COLUMNS: usize = 6;
const BLOCK_HEAD: usize = 40 + 8 * COLUMNS;

/// The columns of a block, in their order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DumpColumn {
    /// Distance of each object from the one before, in units of eight bytes.
    Addresses = 0,
    /// Number of the type, times two, plus one if the collector tracks the object.
    Types = 1,
    /// Bytes that the object takes by itself.
    Sizes = 2,
    /// Reference count, or zero if the object is immortal.
    Counts = 3,
    /// What the object refers to.
    References = 4,
    /// Values of strings and integers.
    Values = 5,
}

/// What a block's head says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BlockHead {
    /// How many objects the block describes.
    pub objects: u32,
    /// The number of the first.
    pub first: u32,
    /// How many references it has: labels and empty slots are not counted.
    pub references: u64,
    /// The address of the first object.
    pub address: u64,
    /// The sum of the sizes.
    pub bytes: u64,
    /// Whether the first object is the last one of the block before, and this block has more of its references.
    pub continues: bool,
    /// The lengths of the columns in bytes.
    pub lengths: [u64; COLUMNS],
}

impl BlockHead {
    /// Length of the head in bytes.
    pub const LENGTH: usize = BLOCK_HEAD;

    /// The head as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_HEAD] {
        let mut bytes = [0; BLOCK_HEAD];
        bytes[..4].copy_from_slice(&self.objects.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.first.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.references.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.address.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&u32::from(self.continues).to_le_bytes());
        for (i, length) in self.lengths.iter().enumerate() {
            bytes[40 + 8 * i..48 + 8 * i].copy_from_slice(&length.to_le_bytes());
        }
        bytes
    }
}

/// A block that is read.
#[derive(Clone, Copy, Debug)]
pub struct DumpBlock<'a> {
    /// What its head says.
    pub head: BlockHead,
    columns: [&'a [u8]; COLUMNS],
}

impl<'a> DumpBlock<'a> {
    /// The block in a section's bytes.
    pub fn decode(section: &'a [u8]) -> Result<Self, FormatError> {
        let mut fields = Cursor::new(section);
        let mut head = BlockHead {
            objects: fields.u32()?,
            first: fields.u32()?,
            references: fields.u64()?,
            address: fields.u64()?,
            bytes: fields.u64()?,
            continues: fields.u32()? & 1 != 0,
            lengths: [0; COLUMNS],
        };
        fields.u32()?;
        for length in &mut head.lengths {
            *length = fields.u64()?;
        }
        if head.objects == 0 || head.objects > BLOCK_OBJECTS || head.first.checked_add(head.objects).is_none() {
            return Err(FormatError::Damaged("a block has an impossible number of objects"));
        }
        let mut columns: [&[u8]; COLUMNS] = [&[]; COLUMNS];
        for (column, length) in columns.iter_mut().zip(head.lengths) {
            *column = fields.bytes(usize::try_from(length).map_err(|_| FormatError::Cut)?)?;
        }
        // Each reference takes a byte at least, so that a reader may reserve room for as many as the head says.
        if head.references > head.lengths[DumpColumn::References as usize] {
            return Err(FormatError::Damaged("a block has fewer references than its head says"));
        }
        Ok(Self { head, columns })
    }

    /// The bytes of a column.
    #[must_use]
    pub fn column(&self, column: DumpColumn) -> Cursor<'a> {
        Cursor::new(self.columns[column as usize])
    }

    /// The objects, without references and values.
    #[must_use]
    pub fn rows(&self) -> Rows<'a> {
        Rows {
            number: self.head.first,
            left: self.head.objects,
            address: self.head.address,
            addresses: self.column(DumpColumn::Addresses),
            types: self.column(DumpColumn::Types),
            sizes: self.column(DumpColumn::Sizes),
            counts: self.column(DumpColumn::Counts),
        }
    }
}

/// One object, without its references and its value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ObjectRow {
    /// The object's number.
    pub number: u32,
    /// Where it was.
    pub address: u64,
    /// The number of its type.
    pub class: u32,
    /// Whether the collector tracks it.
    pub tracked: bool,
    /// Bytes that it takes by itself.
    pub size: u64,
    /// Its reference count, or zero if it is immortal.
    pub count: u64,
}

impl ObjectRow {
    /// Appends the row to the first four columns, given the address of the object before.
    #[inline]
    pub fn encode(&self, before: u64, columns: &mut [impl ByteSink; COLUMNS]) {
        let [addresses, types, sizes, counts, ..] = columns;
        crate::put_varint(addresses, (self.address - before) >> 3);
        crate::put_varint(types, u64::from(self.class) << 1 | u64::from(self.tracked));
        crate::put_varint(sizes, self.size);
        crate::put_varint(counts, self.count);
    }
}

/// The objects of a block.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    number: u32,
    left: u32,
    address: u64,
    addresses: Cursor<'a>,
    types: Cursor<'a>,
    sizes: Cursor<'a>,
    counts: Cursor<'a>,
}

impl Rows<'_> {
    fn row(&mut self) -> Result<ObjectRow, FormatError> {
        self.address = self.address.wrapping_add(self.addresses.varint()? << 3);
        let class = self.types.varint()?;
        let row = ObjectRow {
            number: self.number,
            address: self.address,
            class: u32::try_from(class >> 1).map_err(|_| FormatError::Damaged("a type has an impossible number"))?,
            tracked: class & 1 != 0,
            size: self.sizes.varint()?,
            count: self.counts.varint()?,
        };
        self.number += 1;
        Ok(row)
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<ObjectRow, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let row = self.row();
        if row.is_err() {
            self.left = 0;
        }
        Some(row)
    }
}
