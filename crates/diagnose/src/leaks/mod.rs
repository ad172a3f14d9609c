//! The verdict on a process's memory: evidence in, findings out.
//!
//! A finding joins three things that are known from different sides: what grows (a container, a count, native memory), the
//! line of the program that allocates it, and the kind of mistake. [`evidence`] is what the verdict is made from,
//! [`judged`] what each series looks like, [`holders`] joins containers, sites and types, [`counts`] looks at things that
//! are counted, [`workers`] at forked
//! workers, [`joined`] sees to one finding for one cause, [`allocators`] at memory that no object has, [`calm`] at what looks like a leak and is none, and
//! [`verdict`] puts all in order.

mod allocators;
mod calm;
mod counts;
pub mod evidence;
mod holders;
mod joined;
mod judged;
mod kinds;
mod verdict;
mod workers;

pub use evidence::{
    ArenaPins, CollectorFacts, ContainerFacts, MemoryEvidence, ProcessFigure, SiteFacts, TypeFacts, WorkerFacts,
};
pub use kinds::{Teaching, teaching};
pub use verdict::diagnose_memory;

#[cfg(test)]
mod tests;
