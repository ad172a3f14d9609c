//! Heap dumps, read and understood: the graph in memory, what holds what, how much each object retains, and what a
//! person would call it.
//!
//! The way of a dump: reader → graph → roots and reachability → dominators → retained sizes → names → views. There is
//! no Python here, no clock and no recursion, and the only unsafe code is the one that maps a file.

#![deny(unsafe_code)]

mod array;
mod dominators;
mod graph;
mod heap;
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
pub use graph::{Graph, Links, NONE, Sizes};
pub use heap::{Heap, HeapProgress, HeapStep};
pub use names::{FindError, Found, Names, PathStep};
pub use neurogc_ngch::RootKind;
pub use paths::{PathStart, Paths};
pub use places::{HeapPlace, Places, TOP};
pub use reader::{Dump, DumpError, HeapDamage, HeapFrame, HeapImage, HeapTask, HeapThread, HeapType, Loaded, Tables};
pub use roots::{Claim, Reason};
pub use tree::{Tree, retained_by_type};
