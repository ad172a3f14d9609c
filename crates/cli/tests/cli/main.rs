//! The real binary, driven in folders of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod bench;
mod doctor;
mod heap;
mod memory;
mod run;
mod scene;
mod simulate;
mod trace;
mod train;
