//! What a programmer would call an object: its value, its own name, and the expression that leads to it.

mod code;
mod expression;
mod find;
mod steps;

use neurogc_ngch::{Kind, Slot, Value};

pub(crate) use expression::Expression;
pub use find::{FindError, HeapTarget};
pub use steps::PathStep;
pub(crate) use steps::{FieldName, field};

use crate::heap::Heap;

/// Characters of a string that are shown.
const SHOWN: usize = 60;

/// Characters of a string that are read. A dump has 64 at most, and may be damaged.
const LONGEST_TEXT: usize = 1024;

/// Elements of a tuple that are shown where it is a key.
const ELEMENTS: usize = 4;

/// References that are looked at to find out whether a dict is a module's.
const FIRST_KEYS: usize = 24;

/// Names of what is in a heap.
#[derive(Clone, Copy, Debug)]
pub struct Names<'h> {
    heap: &'h Heap,
}

impl<'h> Names<'h> {
    /// Names of this heap's objects.
    #[must_use]
    pub fn of(heap: &'h Heap) -> Self {
        Self { heap }
    }

    /// The text of a string as far as the dump has it, and whether that is all.
    #[must_use]
    pub fn text(&self, object: u32) -> Option<(String, bool)> {
        match self.heap.dump.value(object, self.heap.kind(object))? {
            Value::Text(text) if text.width > 0 => {
                let whole = text.hash.is_none() && text.length <= LONGEST_TEXT as u64;
                Some((text.characters().take(LONGEST_TEXT).collect(), whole))
            }
            _ => None,
        }
    }

    /// The whole text of a string: none if the dump has only a part of it.
    #[must_use]
    pub fn whole_text(&self, object: u32) -> Option<String> {
        self.text(object).filter(|(_, whole)| *whole).map(|(text, _)| text)
    }

    /// An object as it is written in Python, as far as that is short: a key of a dict, for instance.
    #[must_use]
    pub fn repr(&self, object: u32) -> String {
        self.repr_within(object, true)
    }

    fn repr_within(&self, object: u32, inside: bool) -> String {
        let of = self.heap.type_of(object);
        match of.kind {
            Kind::Str => match self.text(object) {
                Some((text, whole)) => quoted(&text, whole),
                None => "<str>".to_owned(),
            },
            Kind::Int => match self.heap.dump.value(object, Kind::Int) {
                Some(Value::Integer(Some(value))) if of.name == "bool" => {
                    if value != 0 {
                        "True".to_owned()
                    } else {
                        "False".to_owned()
                    }
                }
                Some(Value::Integer(Some(value))) => value.to_string(),
                _ => format!("<{}>", of.name),
            },
            Kind::Tuple if inside => {
                let elements = self.heap.graph.links.of(object);
                let mut shown: Vec<_> =
                    elements.iter().take(ELEMENTS).map(|element| self.repr_within(*element, false)).collect();
                if elements.len() > ELEMENTS {
                    shown.push("…".to_owned());
                }
                let comma = if elements.len() == 1 { "," } else { "" };
                format!("({}{comma})", shown.join(", "))
            }
            Kind::Type => self.class(object).unwrap_or_else(|| "<class>".to_owned()),
            _ if of.name == "NoneType" => "None".to_owned(),
            _ => format!("<{}>", of.name),
        }
    }

    /// What an object is, in a few words: its type, and its name if it has one.
    #[must_use]
    pub fn object(&self, object: u32) -> String {
        let of = self.heap.type_of(object);
        let named = |what: &str, name: Option<String>| match name {
            Some(name) => format!("{what} {name}"),
            None => of.name.clone(),
        };
        match of.kind {
            Kind::Str | Kind::Int => self.repr(object),
            Kind::Module => named("module", self.module(object)),
            Kind::Type => named("class", self.class(object)),
            Kind::Function => named("function", self.function(object)),
            Kind::Code => named("code of", self.code_name(object)),
            Kind::Generator => named(&of.name, self.generator(object)),
            Kind::Task => named("task", self.task(object)),
            Kind::Dict => named("globals of", self.globals_of(object)),
            _ => of.name.clone(),
        }
    }

    /// The name of a class, if it is the type of an object or has a name of its own.
    fn class(&self, object: u32) -> Option<String> {
        let known = self.heap.dump.tables.types.iter().find(|it| it.object == Some(object));
        known.map(|it| it.name.clone()).or_else(|| self.whole_text(self.member(object, "__qualname__")?))
    }

    /// The name of a module.
    fn module(&self, object: u32) -> Option<String> {
        let namespace = self.namespace(object)?;
        self.whole_text(self.item(namespace, "__name__")?)
    }

    fn function(&self, object: u32) -> Option<String> {
        let own = self.member(object, "__qualname__").or_else(|| self.member(object, "__name__"));
        own.and_then(|name| self.whole_text(name)).or_else(|| self.code_name(self.member(object, "__code__")?))
    }

    /// The module whose globals a dict is, by the keys that every module has.
    pub(crate) fn globals_of(&self, object: u32) -> Option<String> {
        let (mut name, mut loader) = (None, false);
        let mut left = FIRST_KEYS;
        self.heap.dump.each_reference(object, |reference| {
            let Slot::Value(key) = reference.slot else { return };
            if left == 0 || (name.is_some() && loader) {
                return;
            }
            left -= 1;
            match self.whole_text(key).as_deref() {
                Some("__name__") => name = self.whole_text(reference.target),
                Some("__loader__" | "__builtins__") => loader = true,
                _ => {}
            }
        });
        name.filter(|_| loader)
    }

    fn task(&self, object: u32) -> Option<String> {
        let row = self.heap.dump.tables.tasks.iter().find(|task| task.object == object)?;
        row.name.map(|name| match self.repr(name) {
            number if self.heap.kind(name) == Kind::Int => format!("Task-{number}"),
            text => text.trim_matches('"').to_owned(),
        })
    }

    /// The value of a key of a dict that is a string.
    fn item(&self, dict: u32, wanted: &str) -> Option<u32> {
        let mut found = None;
        self.heap.dump.each_reference(dict, |reference| {
            if found.is_none() && self.key_text(reference.slot).as_deref() == Some(wanted) {
                found = Some(reference.target);
            }
        });
        found
    }

    /// The key of a reference, if it is a string.
    fn key_text(&self, slot: Slot) -> Option<String> {
        match slot {
            Slot::Value(key) => self.whole_text(key),
            Slot::Shared { shape, attribute } => self.shape_name(shape, attribute),
            _ => None,
        }
    }

    /// The name of a slot of a shape.
    fn shape_name(&self, shape: u32, attribute: u64) -> Option<String> {
        let names = self.heap.dump.tables.shapes.get(shape as usize)?;
        self.whole_text((*names.get(usize::try_from(attribute).ok()?)?)?)
    }

    /// The object that a field of an object refers to, by the field's name.
    fn member(&self, object: u32, wanted: &str) -> Option<u32> {
        let of = self.heap.type_of(object);
        let mut found = None;
        self.heap.dump.each_reference(object, |reference| {
            if let Slot::Field(word) = reference.slot
                && found.is_none()
                && field_name(of, word) == Some(wanted)
            {
                found = Some(reference.target);
            }
        });
        found
    }
}

/// The name of a word of an object, from the table of types.
pub(crate) fn field_name(of: &crate::reader::HeapType, word: u64) -> Option<&str> {
    let place = of.members.binary_search_by_key(&word, |(word, _)| *word).ok()?;
    Some(&of.members[place].1)
}

/// A string in quotes, with what is not printable escaped, and cut.
pub(crate) fn quoted(text: &str, whole: bool) -> String {
    let mut shown = String::from("\"");
    let mut letters = text.chars();
    for letter in letters.by_ref().take(SHOWN) {
        match letter {
            '"' | '\\' => shown.extend(['\\', letter]),
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            control if control.is_control() => shown.push_str(&format!("\\x{:02x}", control as u32)),
            other => shown.push(other),
        }
    }
    if !whole || letters.next().is_some() {
        shown.push('…');
    }
    shown.push('"');
    shown
}

/// Whether a text can stand behind a dot.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
}
