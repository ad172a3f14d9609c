//! The format of heap dumps, `.ngch`: docs/heap-format.md describes it byte by byte.
//!
//! Encoders write to a [`ByteSink`] and allocate nothing, because the clone of a process uses them. Decoders borrow from the
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

pub use block::{BLOCK_OBJECTS, BlockHead, COLUMNS, DumpBlock, DumpColumn, ObjectRow, Rows};
pub use error::FormatError;
pub use foot::{Foot, PASSES, Pass, TAIL, Totals, foot_offset, put_tail};
pub use head::{DumpHead, HEAD, MAGIC, TEXTS, VERSION};
pub use kinds::{FramePart, InterpreterPart, Kind, RootKind, TaskState, TypeFlags};
pub use references::{Predicted, Reference, References, RunKind, Slot};
pub use section::{DumpSection, SECTION_HEAD, Sections, Tag, padding, put_section_head};
pub use tables::{
    FrameRow, ImageRow, Members, RootRow, Row, ShapeRow, TableRows, TaskRow, ThreadRow, TypeMember, TypeRow, put_text,
};
pub use values::{Text, Value, hash, put_integer, put_text_head, put_withheld};
pub use varint::{ByteSink, Cursor, put_varint, unzigzag, zigzag};
