//! Everything that measures, for the time that the agent is installed. Readers that the uplink feeds outlive its thread, which
//! every fork ends.

use std::sync::Mutex;

use neurogc_wire::breakdown::MemoryReport;

use super::breakdown::{self, BreakdownReader};
use super::children::ChildrenReader;
use super::frozen::Frozen;
use super::gpu::GpuBook;
use super::hooks::Hooks;
use super::process::ProcessReader;
use crate::alloc::{AllocationSites, Sampling};
use crate::sys::locks::lock;
use crate::sys::native::monotonic_ns;

/// What measures.
#[derive(Debug)]
pub(crate) struct Sensors {
    pub(crate) hooks: Hooks,
    /// Where the program allocates.
    pub(crate) sites: AllocationSites,
    /// The process as the kernel sees it.
    pub(crate) process: Mutex<ProcessReader>,
    /// Where its memory is.
    pub(crate) breakdown: Mutex<BreakdownReader>,
    /// The processes below it.
    pub(crate) children: ChildrenReader,
    pub(crate) frozen: Mutex<Frozen>,
    /// Memory of GPUs.
    pub(crate) gpu: Mutex<GpuBook>,
}

impl Sensors {
    /// They have measured nothing yet.
    pub(crate) fn new(installed: u64, sampling: Sampling) -> Self {
        Self {
            hooks: Hooks::default(),
            sites: AllocationSites::new(sampling),
            process: Mutex::new(ProcessReader::new()),
            breakdown: Mutex::new(BreakdownReader::new(installed)),
            children: ChildrenReader::default(),
            frozen: Mutex::default(),
            gpu: Mutex::default(),
        }
    }

    /// Reads where the resident memory is, until `enough`. It takes a while, but the program goes on.
    pub(crate) fn read_memory(&self, enough: impl Fn() -> bool) -> Option<MemoryReport> {
        let now = monotonic_ns();
        let (report, took) = breakdown::read(enough)?;
        Some(lock(&self.breakdown).keep(report, now, took))
    }
}
