//! What agents, the command line and files say to each other: status reports, control messages, reports
//! to a hub, and traces.
//!
//! Nothing here opens a socket, reads a clock or knows about Python.

#![forbid(unsafe_code)]

pub mod allocations;
pub mod breakdown;
pub mod buckets;
pub mod catalogue;
pub mod census;
pub mod control;
pub mod finding;
pub mod gpu;
pub mod memory;
pub mod memory_verdict;
pub mod report;
pub mod sites;
pub mod stacks;
pub mod status;
pub mod stop;
pub mod trace;
mod training;
mod varint;
pub mod window;
pub mod workers;
