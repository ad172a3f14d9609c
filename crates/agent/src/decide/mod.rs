//! Asking the policy what to do.

pub(crate) mod attend;
pub(crate) mod director;
pub(crate) mod models;
