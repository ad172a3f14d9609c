//! Asking the policy what to do.

pub(crate) mod attend;
pub(crate) mod director;
mod long_clones;
pub(crate) mod models;
