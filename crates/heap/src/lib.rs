//! Heap dumps, read and understood: the graph in memory, what holds what, how much each object retains, and what a
//! person would call it.
//!
//! The way of a dump: reader → graph → roots and reachability → dominators → retained sizes → names → views. There is
//! no Python here, no clock and no recursion, and the only unsafe code is the one that maps a file. `intake` brings a dump
//! from a process to a file.

#![deny(unsafe_code)]

mod array;
mod dominators;
mod graph;
mod heap;
mod intake;
mod names;
mod paths;
mod places;
mod reader;
mod roots;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod search;
mod tree;
pub mod views;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

pub use array::Numbers;
pub use graph::{Graph, Links, NONE, ShallowSizes};
pub use heap::{Heap, HeapProgress, HeapStep};
pub use intake::{DumpStream, Intake};
pub use names::{FindError, HeapTarget, Names, PathStep};
pub use neurogc_ngch::RootKind;
pub use paths::{PathStart, Paths};
pub use places::{HeapPlace, HeapPlaces, TOP};
pub use reader::{
    Dump, DumpError, DumpTables, HeapDamage, HeapFrame, HeapImage, HeapTask, HeapThread, HeapType, Loaded,
};
pub use roots::{Claim, Reason};
pub use tree::{HolderTree, retained_by_type};
