//! The entries of the catalogue, one file for each part of the report.

pub(super) mod conduct;
pub(super) mod gc;
pub(super) mod gpu;
pub(super) mod lately;
pub(super) mod memory;
pub(super) mod process;
pub(super) mod program;
