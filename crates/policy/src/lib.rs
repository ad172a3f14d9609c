//! When to collect: policies turn observations into decisions.
//!
//! No Python, no clock, no files, no threads: time and randomness are arguments, so that the same code runs in the
//! agent, in a simulator and in tests. So far there are the policies that only watch; those that act come with the
//! conductor.

#![forbid(unsafe_code)]

mod name;
mod near;

pub use name::{Name, NameError};
pub use near::suggestion;
