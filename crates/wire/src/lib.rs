//! What agents, the command line and files say to each other: status reports, control messages and traces.
//!
//! Nothing here opens a socket, reads a clock or knows about Python.

#![forbid(unsafe_code)]

pub mod control;
pub mod status;
pub mod trace;
