//! How much memory a value holds, near enough for a budget: counted by walking it as if it were to be serialized.

use std::fmt::Display;

use serde::ser::{self, Serialize};

/// What a text or a list takes beside its content.
const HEADER: usize = 32;

/// What a number takes.
const NUMBER: usize = 8;

/// Bytes of memory that a value holds, about.
pub(crate) fn weight<T: Serialize>(value: &T) -> usize {
    let mut scales = Scales { bytes: std::mem::size_of::<T>() };
    // It cannot fail: only a value that fails by itself could.
    match value.serialize(&mut scales) {
        Ok(()) => scales.bytes,
        Err(Broken) => usize::MAX,
    }
}

#[derive(Debug)]
struct Scales {
    bytes: usize,
}

impl Scales {
    fn add(&mut self, bytes: usize) -> Result<(), Broken> {
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }
}

/// A value that cannot be serialized.
#[derive(Debug)]
struct Broken;

impl Display for Broken {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("the value cannot be serialized")
    }
}

impl std::error::Error for Broken {}

impl ser::Error for Broken {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

macro_rules! numbers {
    ($($name:ident: $kind:ty),*) => {
        $(fn $name(self, _: $kind) -> Result<(), Broken> {
            self.add(NUMBER)
        })*
    };
}

macro_rules! parts {
    ($($of:ident, $add:ident);*) => {
        $(impl ser::$of for &mut Scales {
            type Ok = ();
            type Error = Broken;

            fn $add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Broken> {
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Broken> {
                Ok(())
            }
        })*
    };
}

macro_rules! fields {
    ($($of:ident),*) => {
        $(impl ser::$of for &mut Scales {
            type Ok = ();
            type Error = Broken;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), Broken> {
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Broken> {
                Ok(())
            }
        })*
    };
}

parts!(SerializeSeq, serialize_element; SerializeTuple, serialize_element; SerializeTupleStruct, serialize_field;
       SerializeTupleVariant, serialize_field);
fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for &mut Scales {
    type Ok = ();
    type Error = Broken;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Broken> {
        self.add(HEADER)?;
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Broken> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Broken> {
        Ok(())
    }
}

impl ser::Serializer for &mut Scales {
    type Ok = ();
    type Error = Broken;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    numbers!(serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
             serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_f32: f32,
             serialize_f64: f64, serialize_char: char);

    fn serialize_str(self, text: &str) -> Result<(), Broken> {
        self.add(HEADER + text.len())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Broken> {
        self.add(HEADER + bytes.len())
    }

    fn serialize_none(self) -> Result<(), Broken> {
        self.add(NUMBER)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Broken> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Broken> {
        self.add(NUMBER)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Broken> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Broken> {
        self.add(NUMBER)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Broken> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Broken> {
        self.add(NUMBER)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Broken> {
        self.add(HEADER)?;
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Broken> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Broken> {
        Ok(self)
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self, Broken> {
        self.add(NUMBER)?;
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Broken> {
        self.add(HEADER)?;
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Broken> {
        Ok(self)
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self, Broken> {
        self.add(NUMBER)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use neurogc_wire::report::Sample;

    use super::*;

    #[test]
    fn memory_that_a_report_can_blow_up_is_counted() {
        assert!(weight(&vec![""; 1000]) >= 1000 * std::mem::size_of::<String>());
        assert!(weight(&"x".repeat(5000)) >= 5000);
        let plain = weight(&Sample::default());
        assert!(plain >= std::mem::size_of::<Sample>() && plain < 16 << 10, "{plain}");
        let mut sample = Sample::default();
        (0..100).for_each(|power| sample.latency.buckets.add(1000 << (power % 40), 1));
        sample.status.degraded = vec!["y".repeat(300); 32];
        assert!(weight(&sample) > plain + 32 * 300);
    }
}
