//! Snapshot files of PyTorch's allocator (`torch.cuda.memory._dump_snapshot`): read as plain data, and told as a report.
//!
//! `pickle` reads the bytes and runs nothing of them, `snapshot` finds segments, blocks and events in what was read, `history` and
//! `map` sum them up, and `report` is what people and pages are shown. Nothing here uses recursion, a clock, a file or a socket.

#![forbid(unsafe_code)]

mod history;
mod map;
pub mod pickle;
mod report;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod snapshot;
mod stacks;

pub use history::{CoursePoint, DeviceHistory, OutOfMemory};
pub use map::{MapBlock, MapSegment, SegmentMap};
pub use report::{BlockLine, DeviceMemory, GpuSnapshot, SiteLine, StreamMemory};
pub use snapshot::SnapshotError;

/// What reading a file may take.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Memory for what is read, in bytes.
    pub memory: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { memory: 4 << 30 }
    }
}

/// Reads a file and sums it up. A file that is cut off or damaged gives what could be read, with a remark.
///
/// # Errors
///
/// If it is no snapshot, or nothing of one can be read.
pub fn read(bytes: &[u8], limits: ReadLimits) -> Result<GpuSnapshot, SnapshotError> {
    let file = pickle::read(bytes, limits.memory);
    let snapshot = snapshot::AllocatorSnapshot::find(bytes, &file)?;
    Ok(report::of(bytes.len(), &file, &snapshot))
}
