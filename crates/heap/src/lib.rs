//! Heap dumps, read and understood: the graph in memory, what holds what, how much each object retains, and what a
//! person would call it.
//!
//! The way of a dump: reader → graph → roots and reachability → dominators → retained sizes → names → views. There is
//! no Python here, no clock and no recursion, and the only unsafe code is the one that maps a file.

mod array;
mod dominators;
mod graph;
mod roots;
mod search;
mod tree;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

pub use array::Numbers;
pub use graph::{Graph, Links, NONE, Sizes};
pub use roots::{Claim, Reason};
pub use tree::{Tree, retained_by_type};
