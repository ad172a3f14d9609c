//! What the agent does to the program, in the program's own threads.

pub(crate) mod actor;
pub(crate) mod drive;
pub(crate) mod loans;
pub(crate) mod remote;
pub(crate) mod vm;
