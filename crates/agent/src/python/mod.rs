//! Everything that Python code may call.

pub(crate) mod module;
pub(crate) mod prefork;
pub(crate) mod snapshots;
