//! One step of a path: what the reference from one object to the next is called.

use neurogc_ngch::{Kind, Slot, TypeFlags};

use super::{Names, field_name};
use crate::reader::HeapType;

/// What the first word of the variables of a generator or frame is called.
const LOCALS: &str = "<locals>";

/// What leads from an object to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathStep {
    /// `.name`.
    Attribute(String),
    /// The dict that holds an object's attributes; it is not written.
    Namespace,
    /// `[3]`.
    Index(u64),
    /// `["key"]`, as it is written in Python; the text if the key is a string.
    Item(String, Option<String>),
    /// The object is a key of the dict.
    Key(String),
    /// A variable of a generator or coroutine.
    Variable(String),
    /// The coroutine of a task, with the name of its function.
    Coroutine(String),
    /// The content of a cell.
    Cell,
    /// A member of a set, or a reference without a name.
    Member,
    /// A word of the object that has no name.
    Word(u64),
}

/// What a word of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldName<'t> {
    /// The dict of its attributes.
    Namespace,
    /// The content of a cell.
    Cell,
    /// A field with a name.
    Name(&'t str),
    /// A variable of a generator or frame, by its number.
    Variable(u64),
    /// It is not in the object itself.
    Member,
    /// A word without a name.
    Word,
}

/// What a word of an object of this type is, given what it refers to.
pub(crate) fn field(of: &HeapType, word: u64, to: Kind) -> FieldName<'_> {
    let leads_to_dict = to == Kind::Dict;
    if matches!(of.kind, Kind::Generator | Kind::Frame)
        && let Some((first, _)) = of.members.iter().find(|(_, name)| name == LOCALS)
        && word >= *first
    {
        return FieldName::Variable(word - first);
    }
    match (of.kind, field_name(of, word)) {
        (Kind::Cell, _) => FieldName::Cell,
        (_, Some("__dict__")) if leads_to_dict => FieldName::Namespace,
        // The dict of an instance may stand before the object, which is no word of it.
        (_, None) if word == 0 && leads_to_dict && of.flags.has(TypeFlags::HEAP) => FieldName::Namespace,
        (_, Some(name)) => FieldName::Name(name),
        (_, None) if word == 0 => FieldName::Member,
        (_, None) => FieldName::Word,
    }
}

impl Names<'_> {
    /// The step from one object to the next. It is [`PathStep::Member`] if the first has no reference to the second.
    #[must_use]
    pub fn step(&self, from: u32, to: u32) -> PathStep {
        self.heap.dump.slot(from, to).map_or(PathStep::Member, |slot| self.slot_step(from, slot, to))
    }

    /// What a reference is called.
    pub(crate) fn slot_step(&self, from: u32, slot: Slot, to: u32) -> PathStep {
        let of = self.heap.type_of(from);
        if of.kind == Kind::Task && self.heap.kind(to) == Kind::Generator {
            return PathStep::Coroutine(self.generator(to).unwrap_or_else(|| "coroutine".to_owned()));
        }
        match slot {
            Slot::Plain => PathStep::Member,
            Slot::Index(place) => PathStep::Index(place),
            Slot::Key => PathStep::Key(self.repr(to)),
            Slot::Value(key) => PathStep::Item(self.repr(key), self.whole_text(key)),
            Slot::Shared { shape, attribute } => match self.shape_name(shape, attribute) {
                Some(name) => PathStep::Item(super::quoted(&name, true), Some(name)),
                None => PathStep::Item("…".to_owned(), None),
            },
            Slot::Attribute(attribute) => {
                let name = of.shape.and_then(|shape| self.shape_name(shape, attribute));
                PathStep::Attribute(name.unwrap_or_else(|| format!("<attribute {attribute}>")))
            }
            Slot::Field(word) => self.field_step(from, word, to),
        }
    }

    fn field_step(&self, from: u32, word: u64, to: u32) -> PathStep {
        match field(self.heap.type_of(from), word, self.heap.kind(to)) {
            FieldName::Namespace => PathStep::Namespace,
            FieldName::Cell => PathStep::Cell,
            FieldName::Name(name) => PathStep::Attribute(name.to_owned()),
            FieldName::Member => PathStep::Member,
            FieldName::Variable(place) => match self.generator_variable(from, place) {
                Some(name) => PathStep::Variable(name),
                None => PathStep::Word(word),
            },
            FieldName::Word => PathStep::Word(word),
        }
    }

    /// The dict that holds an object's attributes.
    pub(crate) fn namespace(&self, object: u32) -> Option<u32> {
        let mut found = None;
        self.heap.dump.each_reference(object, |reference| {
            if found.is_none()
                && matches!(reference.slot, Slot::Field(_))
                && self.slot_step(object, reference.slot, reference.target) == PathStep::Namespace
            {
                found = Some(reference.target);
            }
        });
        found
    }
}
