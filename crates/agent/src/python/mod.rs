//! Everything that Python code may call.

pub(crate) mod counts;
mod current;
pub(crate) mod gc_functions;
pub(crate) mod gpu;
pub(crate) mod heap;
pub(crate) mod line_book;
pub(crate) mod mark;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod moments;
pub(crate) mod prefork;
pub(crate) mod snapshots;
pub(crate) mod training;
