//! Memory of GPUs, as people are shown it.

pub(crate) mod listing;
