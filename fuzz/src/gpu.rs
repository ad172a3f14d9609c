//! What must hold for any bytes that are read as a snapshot of PyTorch's allocator.

use neurogc_gpu::sample::{self, Plain};
use neurogc_gpu::{ReadLimits, pickle, read};

/// Memory for one input.
const MEMORY: usize = 8 << 20;

/// A snapshot file: it is refused, or its figures are within what its segments have, and everything is bounded.
pub fn check_gpu(bytes: &[u8]) {
    let file = pickle::read(bytes, MEMORY);
    assert!(file.named.len() <= 20 && file.rest <= bytes.len());
    let Ok(report) = read(bytes, ReadLimits { memory: MEMORY }) else { return };
    assert_eq!(report.file_bytes, bytes.len() as u64);
    assert!(report.complete || !report.remarks.is_empty(), "what is missing is told");
    for device in &report.devices {
        assert!((0.0..=1.0).contains(&device.fragmentation));
        assert!(device.active_bytes >= device.allocated_bytes && device.requested_bytes <= device.allocated_bytes);
        assert!(
            device.streams.len() <= 32
                && device.largest_free_bytes <= device.inactive_bytes.saturating_add(device.cached_bytes)
        );
    }
    for history in &report.history {
        assert!(history.course.len() <= 601 && history.errors.len() <= 10);
        assert!(history.peak_bytes >= history.start_bytes && history.peak_bytes >= history.end_bytes);
        assert!(history.peak_event <= history.events && history.ooms >= history.errors.len() as u64);
        assert!(history.course.iter().all(|point| point.allocated_bytes <= history.peak_bytes));
    }
    let stacks = report.map.stacks.len() as u32;
    assert!(report.map.segments.len() <= 300);
    let drawn = report.map.segments.iter().flat_map(|segment| &segment.blocks);
    assert!(drawn.clone().count() <= 2 * 3000 + 300 && drawn.filter_map(|it| it.stack).all(|it| it < stacks));
    assert!(report.sites.len() <= 20 && report.largest.len() <= 20);
}

/// Small snapshots: whole, of segments alone, and with what PyTorch does not write.
pub(crate) fn gpu_seeds() -> Vec<Vec<u8>> {
    let whole = sample::training().pickle();
    let mut hostile = whole.clone();
    hostile.splice(2..2, b"cposix\nsystem\n(S'id'\ntR0".iter().copied());
    let Plain::Dict(mut parts) = sample::training() else { return Vec::new() };
    let alone = parts.swap_remove(0).1.pickle();
    // The same value in protocols 0 and 4: texts by lines, frames, and values that are remembered.
    let old = b"(dp0\nVsegments\np1\n(lp2\n(dp3\nVaddress\nL123L\nsVtotal_size\nI8\nsVblocks\n(lp4\n(dp5\nVsize\nI8\nsVstate\nVinactive\nsasas.".to_vec();
    let new = b"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94\x8c\x08segments\x94]\x94}\x94(\x8c\x07address\x94K\x07\x8c\ntotal_size\x94K\x08\x8c\x06blocks\x94]\x94uas.".to_vec();
    vec![whole, hostile, alone, old, new]
}
