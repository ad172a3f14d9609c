//! What the agent does to the program, in the program's own threads.

pub(crate) mod acting;
pub(crate) mod actor;
pub(crate) mod census;
pub(crate) mod chosen_policy;
pub(crate) mod drive;
pub(crate) mod dumps;
#[cfg(test)]
mod fake;
pub(crate) mod gpu_calls;
pub(crate) mod loans;
pub(crate) mod main_thread;
pub(crate) mod remote;
mod room;
#[cfg(test)]
mod schedules;
pub(crate) mod this_process;
pub(crate) mod trim;
pub(crate) mod vm;
