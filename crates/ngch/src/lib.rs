//! The format of heap dumps, `.ngch`: docs/heap-format.md describes it byte by byte.
//!
//! Encoders write to a [`Sink`] and allocate nothing, because the clone of a process uses them. Decoders borrow from the
//! bytes that they are given and trust no number in them.

#![forbid(unsafe_code)]

mod block;
mod error;
mod foot;
mod head;
mod kinds;
mod references;
mod section;
mod tables;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod values;
mod varint;

pub use block::{BLOCK_OBJECTS, Block, BlockHead, COLUMNS, Column, ObjectRow, Rows};
pub use error::FormatError;
pub use foot::{Foot, PASSES, Pass, TAIL, Totals, foot_offset, put_tail};
pub use head::{HEAD, Head, MAGIC, TEXTS, VERSION};
pub use kinds::{FramePart, InterpreterPart, Kind, RootKind, TaskState, TypeFlags};
pub use references::{Predicted, Reference, References, RunKind, Slot};
pub use section::{SECTION_HEAD, Section, Sections, Tag, padding, put_section_head};
pub use tables::{
    FrameRow, ImageRow, Member, Members, RootRow, Row, ShapeRow, TableRows, TaskRow, ThreadRow, TypeRow, put_text,
};
pub use values::{Text, Value, hash, put_integer, put_text_head, put_withheld};
pub use varint::{Cursor, Sink, put_varint, unzigzag, zigzag};
