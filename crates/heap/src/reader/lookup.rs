//! References with their names, values and addresses of single objects. The first look into a block notes where each of
//! its objects begins.

use neurogc_ngch::{Cursor, DumpColumn, FormatError, Kind, Reference, References, Slot, Value};

use super::{BlockPlace, Dump};
use crate::graph::NONE;

/// Where each object of a block begins in its columns.
#[derive(Debug)]
pub(super) struct BlockIndex {
    references: Vec<u32>,
    /// For objects with a value.
    values: Vec<u32>,
    addresses: Vec<u64>,
}

impl Dump {
    /// The references of an object with their names.
    #[must_use]
    pub fn references(&self, object: u32) -> Vec<Reference> {
        let mut all = Vec::new();
        self.each_reference(object, |reference| all.push(reference));
        all
    }

    /// Gives each reference of an object.
    pub fn each_reference(&self, object: u32, mut each: impl FnMut(Reference)) {
        for place in self.places(object) {
            let Some((index, at)) = self.entry(place, object) else { continue };
            let Ok(block) = self.block(place) else { continue };
            let column = block.column(DumpColumn::References).rest();
            let from = Cursor::new(column.get(index.references[at] as usize..).unwrap_or_default());
            // What cannot be read was told when the block was loaded.
            let mut references = References::new(from, self.head.objects);
            let _ = references.object(object, |it| self.known(it).into_iter().for_each(&mut each));
        }
    }

    /// A reference as far as it leads to objects that the dump has: one that is cut off has fewer than it names.
    fn known(&self, reference: Reference) -> Option<Reference> {
        let slot = match reference.slot {
            Slot::Value(key) if key >= self.objects => Slot::Plain,
            slot => slot,
        };
        (reference.target < self.objects).then_some(Reference { slot, ..reference })
    }

    /// The name of the first reference from one object to another.
    #[must_use]
    pub fn slot(&self, from: u32, to: u32) -> Option<Slot> {
        let mut found = None;
        let mut key = None;
        self.each_reference(from, |reference| {
            if reference.target == to && found.is_none() {
                // A value teaches more than that the object is also a key.
                match reference.slot {
                    Slot::Key => key = Some(Slot::Key),
                    slot => found = Some(slot),
                }
            }
        });
        found.or(key)
    }

    /// The value of a string or an integer.
    #[must_use]
    pub fn value(&self, object: u32, kind: Kind) -> Option<Value<'_>> {
        let place = self.places(object).next()?;
        let (index, at) = self.entry(place, object)?;
        let column = self.block(place).ok()?.column(DumpColumn::Values).rest();
        let from = index.values.get(at).filter(|from| **from != NONE)?;
        Value::read(&mut Cursor::new(column.get(*from as usize..)?), kind).ok()?
    }

    /// The address of an object, or zero.
    #[must_use]
    pub fn address(&self, object: u32) -> u64 {
        let entry = self.places(object).next().and_then(|place| self.entry(place, object));
        entry.map_or(0, |(index, at)| index.addresses[at])
    }

    /// The object at an address.
    #[must_use]
    pub fn at_address(&self, address: u64) -> Option<u32> {
        let after = self.blocks.partition_point(|place| place.head.address <= address);
        // A block that continues begins with the object of the one before.
        self.blocks[..after].iter().rev().take(2).find_map(|place| {
            let index = self.index(place)?;
            Some(place.head.first + index.addresses.binary_search(&address).ok()? as u32)
        })
    }

    /// The blocks that an object is in: one, and those in which its references go on.
    fn places(&self, object: u32) -> impl Iterator<Item = &BlockPlace> {
        let from = self.blocks.partition_point(|place| place.head.first + place.head.objects <= object);
        self.blocks[from..].iter().take_while(move |place| place.head.first <= object)
    }

    fn entry<'a>(&self, place: &'a BlockPlace, object: u32) -> Option<(&'a BlockIndex, usize)> {
        let at = (object - place.head.first) as usize;
        self.index(place).filter(|index| at < index.references.len()).map(|index| (index, at))
    }

    fn index<'a>(&self, place: &'a BlockPlace) -> Option<&'a BlockIndex> {
        place.index.get_or_init(|| self.build(place).ok()).as_ref()
    }

    fn build(&self, place: &BlockPlace) -> Result<BlockIndex, FormatError> {
        let block = self.block(place)?;
        let objects = block.head.objects as usize;
        let column = |column| block.column(column).rest().len();
        let (all, all_values) = (column(DumpColumn::References), column(DumpColumn::Values));
        let mut index = BlockIndex {
            references: Vec::with_capacity(objects),
            values: Vec::with_capacity(objects),
            addresses: Vec::with_capacity(objects),
        };
        let mut references = References::new(block.column(DumpColumn::References), self.head.objects);
        let mut values = block.column(DumpColumn::Values);
        let large = |at: usize| u32::try_from(at).map_err(|_| FormatError::Damaged("a block is larger than 4 GiB"));
        for row in block.rows() {
            let row = row?;
            index.addresses.push(row.address);
            index.references.push(large(all - references.left())?);
            references.object(row.number, |_| {})?;
            let at = large(all_values - values.rest().len())?;
            let kind = self.tables.types.get(row.class as usize).map_or(Kind::Other, |it| it.kind);
            let value = Value::read(&mut values, kind)?;
            index.values.push(if value.is_some() { at } else { NONE });
        }
        Ok(index)
    }
}

/// All references of a block, one object after the other.
impl Dump {
    /// How many blocks there are.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Gives each reference of each object of a block. It ends where the block is damaged.
    pub fn each_reference_of_block(&self, block: usize, mut each: impl FnMut(u32, Reference)) {
        let Some(Ok(block)) = self.blocks.get(block).map(|place| self.block(place)) else { return };
        let mut references = References::new(block.column(DumpColumn::References), self.head.objects);
        for own in block.head.first..block.head.first + block.head.objects {
            let mut give = |reference: Reference| self.known(reference).into_iter().for_each(|it| each(own, it));
            if references.object(own, &mut give).is_err() {
                return;
            }
        }
    }

    /// Gives the value of each object of a block that has one. It ends where the block is damaged.
    pub fn each_value_of_block<'a>(&'a self, block: usize, mut each: impl FnMut(u32, Value<'a>)) {
        let Some(Ok(block)) = self.blocks.get(block).map(|place| self.block(place)) else { return };
        let mut values = block.column(DumpColumn::Values);
        for row in block.rows().map_while(Result::ok) {
            let kind = self.tables.types.get(row.class as usize).map_or(Kind::Other, |it| it.kind);
            match Value::read(&mut values, kind) {
                Ok(Some(value)) => each(row.number, value),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }
}
