//! The values of a pickle: small ones as they are, texts and containers by their numbers in one store.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

/// A value. Containers may be part of themselves, so that nothing may follow them without a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PickleValue {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number. One that is beyond 64 bits is the nearest.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// A text, by its number: equal texts have the same.
    Text(u32),
    /// A list, tuple, set or dict, by its number.
    Container(u32),
    /// Something that is not read: bytes, a class, an object. The number is that of its name as a text.
    Opaque(u32),
}

/// What a container has.
#[derive(Clone, Debug, PartialEq)]
pub enum PickleContents {
    /// A list, tuple or set.
    List(Vec<PickleValue>),
    /// A dict: pairs in their order. A key may be there twice; the last counts.
    Dict(Vec<(PickleValue, PickleValue)>),
}

/// All texts and containers.
#[derive(Debug, Default)]
pub struct PickleValues {
    texts: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, u32>,
    containers: Vec<PickleContents>,
}

/// What a text takes beside its letters, twice: it is a key, too.
pub(super) const OF_TEXT: usize = 64;

impl PickleValues {
    /// The number of a text that is there.
    #[must_use]
    pub fn number(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    /// A text by its number.
    #[must_use]
    pub fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }

    /// What a value says, if it is a text.
    #[must_use]
    pub fn said(&self, value: PickleValue) -> Option<&str> {
        match value {
            PickleValue::Text(number) => Some(self.text(number)),
            _ => None,
        }
    }

    /// What a list, tuple or set has; nothing for other values.
    #[must_use]
    pub fn list(&self, value: PickleValue) -> &[PickleValue] {
        match self.contents(value) {
            Some(PickleContents::List(list)) => list,
            _ => &[],
        }
    }

    /// The pairs of a dict; nothing for other values.
    #[must_use]
    pub fn dict(&self, value: PickleValue) -> &[(PickleValue, PickleValue)] {
        match self.contents(value) {
            Some(PickleContents::Dict(pairs)) => pairs,
            _ => &[],
        }
    }

    /// What a container has.
    #[must_use]
    pub fn contents(&self, value: PickleValue) -> Option<&PickleContents> {
        match value {
            PickleValue::Container(number) => self.containers.get(number as usize),
            _ => None,
        }
    }

    pub(super) fn contents_mut(&mut self, value: PickleValue) -> Option<&mut PickleContents> {
        match value {
            PickleValue::Container(number) => self.containers.get_mut(number as usize),
            _ => None,
        }
    }

    /// Adds a text, and gives its number and how many bytes it takes.
    pub(super) fn add_text(&mut self, text: &str) -> (u32, usize) {
        let next = self.texts.len() as u32;
        match self.numbers.entry(text.into()) {
            Entry::Occupied(known) => (*known.get(), 0),
            Entry::Vacant(place) => {
                place.insert(next);
                self.texts.push(text.into());
                (next, 2 * text.len() + OF_TEXT)
            }
        }
    }

    pub(super) fn add(&mut self, contents: PickleContents) -> PickleValue {
        self.containers.push(contents);
        PickleValue::Container(self.containers.len() as u32 - 1)
    }
}
