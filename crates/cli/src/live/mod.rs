//! The live view: what it remembers, how keys change it, and how it is drawn.

pub(crate) mod draw;
pub(crate) mod history;
pub(crate) mod poller;
pub(crate) mod screen;
