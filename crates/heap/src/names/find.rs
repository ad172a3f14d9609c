//! From what a person writes to objects: a type, an address, or an expression such as `app.cache["user:42"].items[3]`.

use neurogc_ngch::{Kind, RootKind, Slot, Value};
use thiserror::Error;

use super::{Names, PathStep};

/// What a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// One object.
    Object(u32),
    /// All objects of these types.
    Types(Vec<u32>),
}

/// Why a text names nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FindError {
    /// No object is there.
    #[error("the dump has no object at {0:#x}. Addresses are those of `id()` in the program")]
    NoAddress(u64),
    /// It cannot be read as an expression.
    #[error("`{0}` is no type of the dump, no address and no expression such as app.cache[\"key\"].items[3]")]
    Unreadable(String),
    /// It is no module and no type.
    #[error("the dump has no type and no module `{0}`{1}")]
    Unknown(String, String),
    /// A step leads nowhere.
    #[error("`{0}` has no {1}")]
    NoStep(String, String),
}

/// A step that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Written {
    Attribute(String),
    Text(String),
    Number(i64),
}

impl Written {
    fn shown(&self) -> String {
        match self {
            Self::Attribute(name) => format!("attribute `{name}`"),
            Self::Text(text) => format!("key {}", super::quoted(text, true)),
            Self::Number(number) => format!("[{number}]"),
        }
    }
}

impl Names<'_> {
    /// What a text names.
    ///
    /// # Errors
    ///
    /// If it names nothing.
    pub fn find(&self, text: &str) -> Result<Found, FindError> {
        let text = text.trim();
        let hexadecimal = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
        if let Some(Ok(address)) =
            hexadecimal.or_else(|| text.starts_with(|it: char| it.is_ascii_digit()).then(|| text.parse()))
        {
            return self.heap.dump.at_address(address).map(Found::Object).ok_or(FindError::NoAddress(address));
        }
        let types = self.types(text);
        if !types.is_empty() {
            return Ok(Found::Types(types));
        }
        self.evaluate(text).map(Found::Object)
    }

    /// The types of a name: those that have exactly this name, otherwise those that end with it behind a dot.
    fn types(&self, name: &str) -> Vec<u32> {
        let all = || self.heap.dump.tables.types.iter().enumerate();
        let exact: Vec<u32> = all().filter(|(_, it)| it.name == name).map(|(place, _)| place as u32).collect();
        if !exact.is_empty() {
            return exact;
        }
        let ends = |full: &str| full.strip_suffix(name).is_some_and(|front| front.ends_with('.'));
        all().filter(|(_, it)| ends(&it.name)).map(|(place, _)| place as u32).collect()
    }

    fn evaluate(&self, text: &str) -> Result<u32, FindError> {
        let (mut object, steps, mut shown) = match text.split_once("(): ") {
            Some((frame, rest)) => self.from_local(frame, rest)?,
            None => self.from_module(text)?,
        };
        for step in steps {
            object = self.follow(object, &step).ok_or_else(|| FindError::NoStep(shown.clone(), step.shown()))?;
            match step {
                Written::Attribute(name) => shown.push_str(&format!(".{name}")),
                Written::Text(key) => shown.push_str(&format!("[{}]", super::quoted(&key, true))),
                Written::Number(number) => shown.push_str(&format!("[{number}]")),
            }
        }
        Ok(object)
    }

    /// `app.db.pool`: the longest beginning that is a module, or an attribute of `__main__`.
    fn from_module(&self, text: &str) -> Result<(u32, Vec<Written>, String), FindError> {
        let steps = steps(text).ok_or_else(|| FindError::Unreadable(text.to_owned()))?;
        let modules = self.heap.dump.tables.roots.iter().find(|root| root.kind == RootKind::Modules);
        let modules = modules.map(|root| root.object).ok_or_else(|| FindError::Unreadable(text.to_owned()))?;
        let words: Vec<&str> = steps
            .iter()
            .map_while(|step| if let Written::Attribute(name) = step { Some(name.as_str()) } else { None })
            .collect();
        for length in (1..=words.len()).rev() {
            let name = words[..length].join(".");
            if let Some(module) = self.item(modules, &name) {
                return Ok((module, steps[length..].to_vec(), name));
            }
        }
        if words.first() == Some(&"sys") && words.get(1) == Some(&"modules") {
            return Ok((modules, steps[2..].to_vec(), "sys.modules".to_owned()));
        }
        let main = self.item(modules, "__main__");
        match main.filter(|main| words.first().is_some_and(|word| self.attribute(*main, word).is_some())) {
            Some(main) => Ok((main, steps, "__main__".to_owned())),
            None => Err(FindError::Unknown(words.first().copied().unwrap_or(text).to_owned(), self.near(text))),
        }
    }

    /// `worker-1 handler(): request`: a variable of a frame.
    fn from_local(&self, frame: &str, rest: &str) -> Result<(u32, Vec<Written>, String), FindError> {
        let steps = steps(rest).ok_or_else(|| FindError::Unreadable(rest.to_owned()))?;
        let Some(Written::Attribute(name)) = steps.first() else { return Err(FindError::Unreadable(rest.to_owned())) };
        let wanted = format!("{frame}()");
        let root = self.heap.dump.tables.roots.iter().find(|root| {
            root.kind == RootKind::Local
                && self.frame_with_thread(root.a) == wanted
                && self.local(root.a, root.b) == *name
        });
        let root = root.ok_or_else(|| FindError::NoStep(wanted.clone(), format!("variable `{name}`")))?;
        Ok((self.content(root.object), steps[1..].to_vec(), format!("{wanted}: {name}")))
    }

    /// What is in a cell; any other object is itself.
    fn content(&self, object: u32) -> u32 {
        match (self.heap.kind(object), self.heap.graph.links.of(object)) {
            (Kind::Cell, [content, ..]) => *content,
            _ => object,
        }
    }

    fn follow(&self, object: u32, step: &Written) -> Option<u32> {
        match step {
            Written::Attribute(name) => self.attribute(object, name),
            Written::Text(key) => self.item(object, key),
            Written::Number(number) => self.numbered(object, *number),
        }
    }

    /// An attribute of an object: in its slots, its fields or its dict.
    fn attribute(&self, object: u32, name: &str) -> Option<u32> {
        let mut found = None;
        self.heap.dump.each_reference(object, |reference| {
            if found.is_none()
                && matches!(reference.slot, Slot::Attribute(_) | Slot::Field(_) | Slot::Index(_))
                && matches!(
                    self.slot_step(object, reference.slot, reference.target),
                    PathStep::Attribute(it) | PathStep::Variable(it) if it == name
                )
            {
                found = Some(reference.target);
            }
        });
        if found.is_some() {
            return found;
        }
        let namespace = self.namespace(object)?;
        if name == "__dict__" { Some(namespace) } else { self.item(namespace, name) }
    }

    /// A position of a sequence, or an integer as a key.
    fn numbered(&self, object: u32, number: i64) -> Option<u32> {
        let mut found = None;
        self.heap.dump.each_reference(object, |reference| {
            let hit = match reference.slot {
                Slot::Index(place) => i64::try_from(place) == Ok(number),
                Slot::Value(key) if self.heap.kind(key) == Kind::Int => {
                    self.heap.dump.value(key, Kind::Int) == Some(Value::Integer(Some(number)))
                }
                _ => false,
            };
            if hit && found.is_none() {
                found = Some(reference.target);
            }
        });
        found
    }

    /// Types with a similar name, as a hint.
    fn near(&self, text: &str) -> String {
        let wanted = text.to_lowercase();
        let all = self.heap.dump.tables.types.iter().filter(|it| it.name.to_lowercase().contains(&wanted));
        let names: Vec<&str> = all.map(|it| it.name.as_str()).take(3).collect();
        if names.is_empty() { String::new() } else { format!(". Similar types: {}", names.join(", ")) }
    }
}

/// Reads `a.b["c"][3]`; none if it is nothing of the kind.
fn steps(text: &str) -> Option<Vec<Written>> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, left) = subscript(inside)?;
            steps.push(step);
            rest = left;
            continue;
        }
        if !steps.is_empty() {
            rest = rest.strip_prefix('.')?;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        // A class or a function within a function has a name with `<locals>`.
        if !super::is_identifier(&rest[..end]) {
            return None;
        }
        steps.push(Written::Attribute(rest[..end].to_owned()));
        rest = &rest[end..];
    }
    (!steps.is_empty()).then_some(steps)
}

/// Reads what follows `[`, and gives what follows `]`.
fn subscript(text: &str) -> Option<(Written, &str)> {
    if let Some(quote) = text.chars().next().filter(|it| matches!(it, '"' | '\'')) {
        let mut key = String::new();
        let mut letters = text[1..].char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => key.push(match letters.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                }),
                letter if letter == quote => return Some((Written::Text(key), text[1 + at + 1..].strip_prefix(']')?)),
                letter => key.push(letter),
            }
        }
        return None;
    }
    let (number, left) = text.split_once(']')?;
    Some((Written::Number(number.trim().parse().ok()?), left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_taken_apart() {
        let attribute = |name: &str| Written::Attribute(name.to_owned());
        assert_eq!(
            steps(r#"app.cache["user:4\"2"].items[3]['x'][-1]"#),
            Some(vec![
                attribute("app"),
                attribute("cache"),
                Written::Text("user:4\"2".to_owned()),
                attribute("items"),
                Written::Number(3),
                Written::Text("x".to_owned()),
                Written::Number(-1),
            ])
        );
        for wrong in ["", "a..b", "a[", "a[\"x", "a[x]", "a b", "[1]x", ".a"] {
            assert_eq!(steps(wrong), None, "{wrong}");
        }
    }
}
