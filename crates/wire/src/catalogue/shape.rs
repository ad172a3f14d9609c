//! The shape of a message: which fields it has and of which types, found by asking its type to be read.
//!
//! Nothing is written by hand for it: a field that is added to a message is in its shape.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};

/// The type of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FieldType {
    /// Not known.
    #[default]
    Unknown,
    /// A number without a fraction.
    Integer,
    /// A number.
    Number,
    /// A text.
    Text,
    /// True or false.
    Switch,
    /// It may be missing.
    Optional(Box<FieldType>),
    /// Several of the same type.
    List(Box<FieldType>),
    /// Fields by name.
    Object {
        /// The name of the type.
        name: &'static str,
        /// The fields.
        fields: Vec<(&'static str, FieldType)>,
    },
    /// One of these texts.
    Choice {
        /// The name of the type.
        name: &'static str,
        /// The texts.
        variants: &'static [&'static str],
    },
}

impl FieldType {
    /// The shape of a type; what of it cannot be told is `Unknown`.
    #[must_use]
    pub fn of<T: DeserializeOwned>() -> Self {
        let mut shape = Self::Unknown;
        // A made-up value that the type refuses would leave the rest unknown, and the tests would say so.
        let _ = T::deserialize(Tracer(&mut shape));
        shape
    }

    /// The paths of all fields that hold a value, and of all lists: `gc.young.count`, `children`, `children[].rss`.
    #[must_use]
    pub fn paths(&self) -> Vec<(String, &Self)> {
        let mut paths = Vec::new();
        self.gather(String::new(), &mut paths);
        paths
    }

    fn gather<'s>(&'s self, path: String, to: &mut Vec<(String, &'s Self)>) {
        match self {
            Self::Object { fields, .. } => {
                let dot = if path.is_empty() { "" } else { "." };
                fields.iter().for_each(|(name, shape)| shape.gather(format!("{path}{dot}{name}"), to));
            }
            Self::Optional(inner) if matches!(**inner, Self::Object { .. }) => inner.gather(path, to),
            Self::List(inner) if matches!(**inner, Self::Object { .. }) => {
                to.push((path.clone(), self));
                inner.gather(format!("{path}[]"), to);
            }
            _ => to.push((path, self)),
        }
    }
}

/// A type that cannot be described.
#[derive(Debug)]
struct Unsupported;

impl fmt::Display for Unsupported {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a type that has no shape")
    }
}

impl std::error::Error for Unsupported {}

impl de::Error for Unsupported {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// Gives each type what it asks for, every list with one element, and writes down what was asked.
struct Tracer<'s>(&'s mut FieldType);

macro_rules! simple {
    ($($method:ident $shape:ident $visit:ident $value:expr;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsupported> {
            *self.0 = FieldType::$shape;
            visitor.$visit($value)
        })*
    };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Unsupported;

    simple! {
        deserialize_u8 Integer visit_u8 0;
        deserialize_u16 Integer visit_u16 0;
        deserialize_u32 Integer visit_u32 0;
        deserialize_u64 Integer visit_u64 0;
        deserialize_i8 Integer visit_i8 0;
        deserialize_i16 Integer visit_i16 0;
        deserialize_i32 Integer visit_i32 0;
        deserialize_i64 Integer visit_i64 0;
        deserialize_f32 Number visit_f32 0.0;
        deserialize_f64 Number visit_f64 0.0;
        deserialize_bool Switch visit_bool false;
        deserialize_str Text visit_str "";
        deserialize_string Text visit_str "";
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsupported> {
        let mut inner = FieldType::Unknown;
        let value = visitor.visit_some(Tracer(&mut inner));
        *self.0 = FieldType::Optional(Box::new(inner));
        value
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsupported> {
        let mut inner = FieldType::Unknown;
        let value = visitor.visit_seq(One(Some(&mut inner)));
        *self.0 = FieldType::List(Box::new(inner));
        value
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unsupported> {
        let mut seen = Vec::new();
        let value = visitor.visit_map(Fields { left: fields, seen: &mut seen });
        *self.0 = FieldType::Object { name, fields: seen };
        value
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unsupported> {
        *self.0 = FieldType::Choice { name, variants };
        let first: StrDeserializer<'_, Unsupported> = variants.first().copied().unwrap_or_default().into_deserializer();
        visitor.visit_enum(first)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Unsupported> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Unsupported> {
        Err(Unsupported)
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct map identifier ignored_any
    }
}

/// A list of one element.
struct One<'s>(Option<&'s mut FieldType>);

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Unsupported;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Unsupported> {
        self.0.take().map(|shape| seed.deserialize(Tracer(shape))).transpose()
    }
}

/// The fields of a type, one after the other.
struct Fields<'s> {
    left: &'static [&'static str],
    seen: &'s mut Vec<(&'static str, FieldType)>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Unsupported;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Unsupported> {
        let Some((name, left)) = self.left.split_first() else { return Ok(None) };
        self.left = left;
        self.seen.push((name, FieldType::Unknown));
        let name: StrDeserializer<'_, Unsupported> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unsupported> {
        let (_, shape) = self.seen.last_mut().ok_or(Unsupported)?;
        seed.deserialize(Tracer(shape))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is asked for")]
    struct Outer {
        number: f64,
        inner: Vec<Inner>,
        texts: Vec<String>,
        maybe: Option<Inner>,
        cause: crate::status::Cause,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is asked for")]
    struct Inner {
        count: Option<u64>,
    }

    #[test]
    fn lists_and_parts_that_may_be_missing_are_described() {
        let shape = FieldType::of::<Outer>();
        let paths: Vec<_> = shape.paths().into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["number", "inner", "inner[].count", "texts", "maybe.count", "cause"]);
        let paths = shape.paths();
        assert_eq!(*paths[3].1, FieldType::List(Box::new(FieldType::Text)));
        assert!(matches!(paths[5].1, FieldType::Choice { variants, .. } if variants.contains(&"gil_native")));
    }
}
