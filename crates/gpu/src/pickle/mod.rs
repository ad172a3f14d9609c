//! Pickles as plain data: numbers, texts, lists, tuples and dicts. What a pickle would run is named and never run.
//!
//! Protocols 0 to 5 are read. A pickle is a program for a machine with a stack; `machine` is that machine without the instructions
//! that import and call. A class or function becomes an opaque value, and so does what it would be called for.

mod fields;
mod machine;
mod values;

pub use values::{PickleContents, PickleValue, PickleValues};

use thiserror::Error;

/// Why reading ended early.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PickleError {
    /// The bytes end in the middle.
    #[error("it is cut off at byte {at}")]
    CutOff {
        /// How many bytes there are.
        at: usize,
    },
    /// There is no such instruction.
    #[error("byte {at} (0x{code:02x}) is no instruction of a pickle")]
    Unknown {
        /// Where.
        at: usize,
        /// The byte.
        code: u8,
    },
    /// An instruction finds something else than it needs.
    #[error("it is damaged at byte {at}: {what}")]
    Damaged {
        /// Where.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It would need more memory than it may use.
    #[error("it needs more than {limit} bytes of memory from byte {at} on")]
    TooLarge {
        /// Where the limit was reached.
        at: usize,
        /// The limit.
        limit: usize,
    },
}

/// What was read.
#[derive(Debug)]
pub struct Pickle {
    /// All values.
    pub values: PickleValues,
    /// The value of the whole; where reading ended early, the outermost one that had begun.
    pub root: PickleValue,
    /// Why reading ended early, if it did.
    pub error: Option<PickleError>,
    /// Bytes after the end of the pickle.
    pub rest: usize,
    /// The protocol that it says it is written in.
    pub protocol: u8,
    /// Classes and functions that it refers to, as `module.name`, each once; at most 20.
    pub named: Vec<String>,
}

/// Reads a pickle. `memory` bounds what is kept of it, in bytes. There is always a result: what could be read, and why not all.
#[must_use]
pub fn read(bytes: &[u8], memory: usize) -> Pickle {
    machine::Machine::new(bytes, memory).run()
}
