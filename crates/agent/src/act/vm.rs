//! CPython as the acting half sees it: everything that orders need of an interpreter, behind one trait. The real one is
//! in `this_process`; tests have one whose threads, finalizers and forks they schedule.
//!
//! Every call is made by a thread of the program that holds the GIL. Only `collect`, `reap` and `let_others_run` may
//! let go of it.

use std::time::Duration;

use neurogc_policy::Thresholds;
use neurogc_wire::gpu::GpuReport;

use crate::cpython::gather::GatheredArenas;
use crate::snapshot::{HeapErrand, HeapReport, Latest, Launched, Reaped, SnapshotFailure, SnapshotProgress, Sortie};

/// An interpreter.
pub(crate) trait Vm {
    /// The monotonic clock, in nanoseconds.
    fn now(&self) -> u64;

    /// The processor time that the calling thread has used, in nanoseconds.
    fn processor_time(&self) -> u64;

    /// The calling thread.
    fn thread(&self) -> usize;

    /// Whether automatic collection is on.
    fn is_enabled(&self) -> bool;

    /// Whether a collection is running, in whichever thread.
    fn is_collecting(&self) -> bool;

    /// Sets the flag by which CPython keeps a second collection from beginning.
    fn set_collecting(&self, collecting: bool);

    /// The collector's counters by generation.
    fn counts(&self) -> [u32; 3];

    /// Objects that the last full collection left.
    fn tenured(&self) -> u64;

    /// Objects that have become old since then, as CPython counts them.
    fn pending(&self) -> u64;

    /// About how many objects are tracked.
    fn tracked_estimate(&self) -> u64;

    /// Collects a generation and the younger ones; gives what was found unreachable.
    fn collect(&self, generation: u8) -> Result<u64, String>;

    /// Freezes everything that is tracked.
    fn freeze(&self) -> Result<(), String>;

    /// Thaws it.
    fn unfreeze(&self) -> Result<(), String>;

    /// How many objects are frozen.
    fn frozen(&self) -> u64;

    /// The thresholds that CPython runs with.
    fn thresholds(&self) -> Result<Thresholds, String>;

    /// Sets them.
    fn set_thresholds(&self, thresholds: Thresholds) -> Result<(), String>;

    /// Clones the process, which makes all young objects old.
    fn launch(&self, sortie: Sortie) -> Result<Launched, SnapshotFailure>;

    /// Clones the process for a count or a dump, and gives the number of that flight.
    fn launch_heap(&self, errand: HeapErrand) -> Result<u64, SnapshotFailure>;

    /// Makes all young objects old without a look at them, as a launch does, and gives how many there were.
    fn make_all_old(&self) -> u32;

    /// What has become of such a flight; nothing while it is out, and where another thread has the snapshot at this instant.
    fn heap_told(&self, number: u64) -> Option<Result<HeapReport, SnapshotFailure>>;

    /// Asks the uplink to put small pages together, so that a clone is short, and gives a number for that.
    fn gather(&self) -> u64;

    /// What has become of that; nothing while it is under way, which it is for a few seconds at most.
    fn gathered(&self, number: u64) -> Option<GatheredArenas>;

    /// How the snapshot stands.
    fn look(&self) -> SnapshotProgress;

    /// The latest flight that landed; nothing where another thread has the snapshot at this instant.
    fn latest(&self) -> Option<Latest>;

    /// Takes note that a failure has been seen.
    fn forget_failure(&self);

    /// Counts a snapshot that was not even tried, unless another thread has the snapshot at this instant.
    fn refuse(&self, failure: &SnapshotFailure);

    /// Frees a slice of what the snapshot found; nothing where there is none to be freed, or another thread has it.
    fn reap(&self, budget: Duration, whole: bool) -> Option<Reaped>;

    /// Lets go of the GIL for so long.
    fn let_others_run(&self, pause: Duration);

    /// Resident memory of this process.
    fn resident(&self) -> Option<u64>;

    /// What holds the memory of GPUs.
    fn explain_gpu(&self) -> Result<GpuReport, String>;

    /// Whether there is memory for this share of so many resident bytes once more.
    fn has_room(&self, resident: u64, share: f64) -> bool;
}
