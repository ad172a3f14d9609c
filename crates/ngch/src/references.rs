//! References of one object: runs, each of a kind that gives its references their names.

use crate::{ByteSink, Cursor, FormatError, put_varint, unzigzag, zigzag};

/// The kinds of runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum RunKind {
    /// References without names: members of a set.
    Plain = 1,
    /// Slots from position 0 on, some of them empty.
    Index = 2,
    /// Keys and values of a dict, in turn.
    Pairs = 3,
    /// Slots with the attribute names of the type's shape.
    Attributes = 4,
    /// References with the word of the object that holds each.
    Fields = 5,
    /// Slots with the attribute names of a shape that the run names.
    Split = 6,
    /// Slots from a position on that the run names.
    More = 7,
}

impl RunKind {
    fn of(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Plain,
            2 => Self::Index,
            3 => Self::Pairs,
            4 => Self::Attributes,
            5 => Self::Fields,
            6 => Self::Split,
            7 => Self::More,
            _ => return None,
        })
    }

    /// Appends the head of a run of so many entries.
    #[inline]
    pub fn put(self, to: &mut impl ByteSink, entries: u64) {
        put_varint(to, entries << 3 | self as u64);
    }
}

/// What the next reference and the next key of an object are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Predicted {
    reference: u32,
    key: u32,
}

impl Predicted {
    /// At the first run of an object, and at the first of it in each block.
    #[inline]
    #[must_use]
    pub fn start(own: u32) -> Self {
        Self { reference: own, key: own }
    }

    /// Appends a reference.
    #[inline]
    pub fn put(&mut self, to: &mut impl ByteSink, target: u32) {
        put_varint(to, zigzag(i64::from(target) - i64::from(self.reference)));
        self.reference = target;
    }

    /// Appends the key of a pair.
    #[inline]
    pub fn put_key(&mut self, to: &mut impl ByteSink, target: u32) {
        put_varint(to, zigzag(i64::from(target) - i64::from(self.key)));
        self.key = target;
    }

    /// Appends a slot, which may be empty.
    #[inline]
    pub fn put_slot(&mut self, to: &mut impl ByteSink, target: Option<u32>) {
        match target {
            Some(target) => {
                put_varint(to, zigzag(i64::from(target) - i64::from(self.reference)) + 1);
                self.reference = target;
            }
            None => to.push(0),
        }
    }

    /// Ends the references of an object.
    #[inline]
    pub fn end(to: &mut impl ByteSink) {
        to.push(0);
    }

    fn moved(from: u32, delta: u64) -> Result<u32, FormatError> {
        i64::from(from)
            .checked_add(unzigzag(delta))
            .and_then(|target| u32::try_from(target).ok())
            .ok_or(FormatError::Damaged("a reference leads to no object"))
    }
}

/// What names a reference.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Slot {
    /// Nothing.
    Plain,
    /// The position in a list, tuple, deque or array.
    Index(u64),
    /// It is a key of a dict.
    Key,
    /// It is the value of this key, which is an object.
    Value(u32),
    /// The attribute with this number in the shape of the object's type.
    Attribute(u64),
    /// The word of the object that holds the reference, or zero if it is not in the object itself.
    Field(u64),
    /// The attribute with this number in a shape.
    Shared {
        /// The shape.
        shape: u32,
        /// The number of the attribute.
        attribute: u64,
    },
}

/// One reference.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reference {
    /// The object that is referred to.
    pub target: u32,
    /// By what name.
    pub slot: Slot,
}

/// Reads references of one object after the other from a block's column.
#[derive(Clone, Copy, Debug)]
pub struct References<'a> {
    column: Cursor<'a>,
    objects: u64,
}

impl<'a> References<'a> {
    /// Reads this column of a dump with so many objects.
    #[must_use]
    pub fn new(column: Cursor<'a>, objects: u64) -> Self {
        Self { column, objects }
    }

    /// How many bytes of the column are not read yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.column.rest().len()
    }

    /// Gives each reference of the next object, whose number is `own`, to `each`.
    #[inline]
    pub fn object(&mut self, own: u32, mut each: impl FnMut(Reference)) -> Result<(), FormatError> {
        let mut predicted = Predicted::start(own);
        loop {
            let head = self.column.varint()?;
            if head == 0 {
                return Ok(());
            }
            let kind = RunKind::of(head & 7).ok_or(FormatError::Damaged("a run of references has an unknown kind"))?;
            let shape = if kind == RunKind::Split { self.column.varint32()? } else { 0 };
            let start = if kind == RunKind::More { self.column.varint()? } else { 0 };
            for i in 0..head >> 3 {
                let slot = match kind {
                    RunKind::Plain => Slot::Plain,
                    RunKind::Fields => Slot::Field(self.column.varint()?),
                    RunKind::Pairs => {
                        let delta = self.column.varint()?;
                        predicted.key = self.within(Predicted::moved(predicted.key, delta)?)?;
                        each(Reference { target: predicted.key, slot: Slot::Key });
                        Slot::Value(predicted.key)
                    }
                    RunKind::Index | RunKind::More => Slot::Index(start.wrapping_add(i)),
                    RunKind::Attributes => Slot::Attribute(i),
                    RunKind::Split => Slot::Shared { shape, attribute: i },
                };
                let mut delta = self.column.varint()?;
                if matches!(kind, RunKind::Index | RunKind::More | RunKind::Attributes | RunKind::Split) {
                    match delta.checked_sub(1) {
                        Some(full) => delta = full,
                        None => continue,
                    }
                }
                predicted.reference = self.within(Predicted::moved(predicted.reference, delta)?)?;
                each(Reference { target: predicted.reference, slot });
            }
        }
    }

    #[inline]
    fn within(&self, target: u32) -> Result<u32, FormatError> {
        if u64::from(target) < self.objects {
            Ok(target)
        } else {
            Err(FormatError::Damaged("a reference leads to no object"))
        }
    }
}
