//! One installed agent from install to uninstall: its threads, forks and the end of the program.

pub(crate) mod agent;
