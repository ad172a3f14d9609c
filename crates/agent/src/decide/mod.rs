//! Asking the policy what to do.

pub(crate) mod director;
pub(crate) mod models;
