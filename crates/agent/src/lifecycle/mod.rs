//! One installed agent from install to uninstall: its threads, forks and the end of the program.

pub(crate) mod agent;
pub(crate) mod identity;
pub(crate) mod rounds;
pub(crate) mod threads;
