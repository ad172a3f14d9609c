//! The name of the reference by which each object's holder refers to it, in four bytes an object.

use std::io;

use neurogc_ngch::{Reference, Slot};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::array::Numbers;
use crate::heap::Heap;
use crate::names::{FieldName, Names, field};

/// Blocks whose references are decoded before the names are written to their objects.
const AT_ONCE: usize = 16;

const BITS: u32 = 29;
const MOST: u32 = (1 << BITS) - 1;

/// What the reference to an object is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeLabel {
    /// The holder does not refer to it itself.
    None,
    /// A position.
    Index,
    /// The value of a key, which is an object.
    Value(u32),
    /// A name, by its place in the list of names.
    Name(u32),
    /// The dict of attributes.
    Namespace,
    /// A key, a member of a set, or a word without a name.
    Plain,
    /// A variable of a generator, by its position.
    Variable(u32),
}

impl EdgeLabel {
    fn pack(self) -> u32 {
        let (tag, payload) = match self {
            Self::None => (0, 0),
            Self::Index => (1, 0),
            Self::Value(key) if key > MOST => (1, 0),
            Self::Value(key) => (2, key),
            Self::Name(name) => (3, name),
            Self::Namespace => (4, 0),
            Self::Plain => (5, 0),
            Self::Variable(place) => (6, place.min(MOST)),
        };
        tag << BITS | payload
    }

    fn unpack(packed: u32) -> Self {
        let payload = packed & MOST;
        match packed >> BITS {
            1 => Self::Index,
            2 => Self::Value(payload),
            3 => Self::Name(payload),
            4 => Self::Namespace,
            5 => Self::Plain,
            6 => Self::Variable(payload),
            _ => Self::None,
        }
    }
}

/// Labels of all objects.
#[derive(Debug)]
pub(crate) struct EdgeLabels {
    packed: Numbers<u32>,
    pub(crate) names: Vec<String>,
}

/// The names that shapes and members have, each once.
struct NameTable {
    names: Vec<String>,
    known: FxHashMap<String, u32>,
    /// For each shape the names of its slots.
    shapes: Vec<Vec<u32>>,
}

impl NameTable {
    fn of(heap: &Heap) -> Self {
        let mut table = Self { names: Vec::new(), known: FxHashMap::default(), shapes: Vec::new() };
        let names = Names::of(heap);
        for shape in &heap.dump.tables.shapes {
            let text = |name: &Option<u32>| name.and_then(|it| names.whole_text(it)).unwrap_or_else(|| "?".to_owned());
            let slots = shape.iter().map(|name| table.add(&text(name))).collect();
            table.shapes.push(slots);
        }
        heap.dump.tables.types.iter().flat_map(|it| &it.members).for_each(|(_, name)| {
            table.add(name);
        });
        table.add("cell_contents");
        table
    }

    fn add(&mut self, name: &str) -> u32 {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        self.names.push(name.to_owned());
        let place = self.names.len() as u32 - 1;
        self.known.insert(name.to_owned(), place);
        place
    }

    fn name(&self, name: &str) -> EdgeLabel {
        self.known.get(name).map_or(EdgeLabel::Plain, |it| EdgeLabel::Name(*it))
    }

    fn slot(&self, shape: Option<u32>, attribute: u64) -> EdgeLabel {
        let names = shape.and_then(|shape| self.shapes.get(shape as usize));
        let name = names.and_then(|names| names.get(usize::try_from(attribute).ok()?));
        name.map_or(EdgeLabel::Plain, |name| EdgeLabel::Name(*name))
    }

    fn label(&self, heap: &Heap, from: u32, reference: Reference) -> EdgeLabel {
        let of = heap.type_of(from);
        match reference.slot {
            Slot::Plain | Slot::Key => EdgeLabel::Plain,
            Slot::Index(_) => EdgeLabel::Index,
            Slot::Value(key) => EdgeLabel::Value(key),
            Slot::Attribute(attribute) => self.slot(of.shape, attribute),
            Slot::Shared { shape, attribute } => self.slot(Some(shape), attribute),
            Slot::Field(word) => match field(of, word, heap.kind(reference.target)) {
                FieldName::Namespace => EdgeLabel::Namespace,
                FieldName::Cell => self.name("cell_contents"),
                FieldName::Name(name) => self.name(name),
                FieldName::Variable(place) => EdgeLabel::Variable(u32::try_from(place).unwrap_or(MOST)),
                FieldName::Member | FieldName::Word => EdgeLabel::Plain,
            },
        }
    }
}

impl EdgeLabels {
    /// Decodes all references once more, this time with their names.
    pub(crate) fn of(heap: &Heap) -> io::Result<Self> {
        let table = NameTable::of(heap);
        let mut packed = Numbers::<u32>::zeroed(heap.graph.objects())?;
        let holders: &[u32] = &heap.tree.holders;
        let blocks: Vec<usize> = (0..heap.dump.block_count()).collect();
        for some in blocks.chunks(AT_ONCE) {
            let found: Vec<Vec<(u32, u32)>> = some
                .par_iter()
                .map(|block| {
                    let mut labels = Vec::new();
                    heap.dump.each_reference_of_block(*block, |from, reference| {
                        // The root above all has no references: what it holds has none of these labels.
                        if holders[reference.target as usize] == from {
                            labels.push((reference.target, table.label(heap, from, reference).pack()));
                        }
                    });
                    labels
                })
                .collect();
            let all: &mut [u32] = &mut packed;
            for (target, label) in found.into_iter().flatten() {
                let place = &mut all[target as usize];
                // Of several references the first with a name counts.
                if *place == 0 || (EdgeLabel::unpack(*place) == EdgeLabel::Plain && label != *place) {
                    *place = label;
                }
            }
        }
        Ok(Self { packed, names: table.names })
    }

    /// The label of an object.
    pub(crate) fn label(&self, object: u32) -> EdgeLabel {
        EdgeLabel::unpack(self.packed[object as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_fit_into_four_bytes() {
        let all = [
            EdgeLabel::None,
            EdgeLabel::Index,
            EdgeLabel::Value(MOST),
            EdgeLabel::Name(7),
            EdgeLabel::Namespace,
            EdgeLabel::Plain,
            EdgeLabel::Variable(3),
        ];
        for label in all {
            assert_eq!(EdgeLabel::unpack(label.pack()), label);
        }
        assert_eq!(EdgeLabel::unpack(EdgeLabel::Value(MOST + 1).pack()), EdgeLabel::Index);
    }
}
