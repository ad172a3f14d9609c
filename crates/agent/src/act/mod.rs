//! What the agent does to the program.

pub(crate) mod hand;
pub(crate) mod remote;
pub(crate) mod stage;
pub(crate) mod takeover;
