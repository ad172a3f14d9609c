//! Memory of GPUs, as people are shown it.

pub(crate) mod listing;
pub(crate) mod page;
pub(crate) mod snapshot;
