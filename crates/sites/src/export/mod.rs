//! Tables in formats that other tools read.

pub mod collapsed;
pub mod page;
pub mod pprof;
mod profile;
pub mod speedscope;
