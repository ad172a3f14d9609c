//! Made-up snapshots: what is told of them, whole, cut off and damaged.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use neurogc_gpu::sample::{self, Plain};
use neurogc_gpu::{GpuSnapshot, ReadLimits, SnapshotError, read};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn told(bytes: &[u8]) -> Result<GpuSnapshot, SnapshotError> {
    read(bytes, ReadLimits::default())
}

#[test]
fn a_training_loop_is_told_by_device_stream_site_and_event() {
    let report = told(&sample::training().pickle()).unwrap();
    assert!(report.complete && report.remarks.is_empty() && report.protocol == 2);
    assert_eq!(report.settings["expandable_segments"], "false");
    let [first, second] = &report.devices[..] else { panic!("{:?}", report.devices) };
    assert_eq!((first.segments, first.reserved_bytes, first.blocks), (2, 84 * MIB, 7));
    assert_eq!((first.allocated_bytes, first.active_bytes, first.pending_bytes), (40 * MIB, 42 * MIB, 2 * MIB));
    assert_eq!((first.inactive_bytes, first.cached_bytes, first.requested_bytes), (42 * MIB, 0, 40 * MIB - 100));
    assert_eq!((first.free_blocks, first.largest_free_bytes), (7, 18 * MIB));
    assert!((first.fragmentation - 24.0 / 42.0).abs() < 1e-9);
    assert_eq!(
        first.streams.iter().map(|it| (it.stream, it.allocated_bytes)).collect::<Vec<_>>(),
        [(0, 40 * MIB), (0x5566_7788, 0)]
    );
    assert_eq!((second.device, second.cached_bytes, second.inactive_bytes), (1, 2 * MIB, 0));
    // Frames of installed packages are not where the program asked.
    let site = &report.sites[0];
    assert_eq!((site.bytes, site.blocks, site.site.as_str()), (24 * MIB, 6, "/srv/train.py:40 in step"));
    assert_eq!(site.frames.len(), 3);
    assert_eq!((report.largest[0].bytes, report.largest[0].requested_bytes), (16 * MIB, 16 * MIB - 100));
    let [history] = &report.history[..] else { panic!("{:?}", report.history) };
    assert_eq!((history.events, history.allocs, history.frees, history.ooms), (27, 12, 6, 1));
    assert_eq!((history.start_bytes, history.end_bytes), (16 * MIB - 100, 40 * MIB - 100));
    assert_eq!((history.peak_bytes, history.peak_event), (43 * MIB - 100, 23));
    assert!(history.anchored && (history.seconds - 0.07).abs() < 1e-9);
    assert_eq!((history.course.len(), history.course[0].reserved_bytes), (27, 84 * MIB));
    let error = &history.errors[0];
    assert_eq!(
        (error.asked_bytes, error.device_free_bytes, error.allocated_bytes),
        (32 * MIB, 5 * MIB, 40 * MIB - 100)
    );
    assert_eq!(error.site, "/srv/data.py:7 in load");
    let sums = |sites: &[neurogc_gpu::SiteLine]| sites.iter().map(|it| it.bytes).sum::<u64>();
    assert_eq!((sums(&history.at_peak), sums(&history.at_end)), (27 * MIB, 24 * MIB));
    assert_eq!(report.map.segments.len(), 3);
    assert_eq!(report.map.segments[0].blocks[1].offset, 16 * MIB);
    assert_eq!(report.map.stacks[report.map.segments[0].blocks[1].stack.unwrap() as usize].len(), 3);
}

#[test]
fn the_list_of_segments_alone_is_a_snapshot_too() {
    let Plain::Dict(mut parts) = sample::training() else { panic!() };
    let report = told(&parts.remove(0).1.pickle()).unwrap();
    assert_eq!((report.devices.len(), report.history.len()), (2, 0));
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    let said = |bytes: &[u8]| told(bytes).unwrap_err().to_string();
    assert!(said(b"PK\x03\x04....").starts_with("this is a ZIP archive, as torch.save writes."));
    assert!(said(b"{\"segments\": []}").starts_with("this is JSON or text."));
    assert!(said(b"NGCH\x01").contains("neurogc heap show"));
    assert!(said(b"").contains("it is cut off at byte 0"));
    assert!(said(b"\x7fELF").contains("byte 0 (0x7f) is no instruction of a pickle"));
    assert!(said(&Plain::Dict(vec![("weights", 1_u64.into())]).pickle()).ends_with("its keys are weights"));
    assert!(said(&Plain::List(vec![1_u64.into()]).pickle()).ends_with("something else than segments"));
    assert!(said(b"cos\nsystem\n(S'id'\ntR.").ends_with("it is a single value"));
}

#[test]
fn a_file_that_was_cut_off_gives_what_comes_before() {
    let bytes = sample::training().pickle();
    let mut blocks = 0;
    for length in (0..bytes.len()).step_by(7) {
        let Ok(report) = told(&bytes[..length]) else {
            assert!(length < 60, "nothing is read of the first {length} bytes");
            continue;
        };
        assert!(
            !report.complete && report.remarks[0].contains(&format!("cut off at byte {length}")),
            "{:?}",
            report.remarks
        );
        let now: u64 = report.devices.iter().map(|it| it.blocks).sum();
        assert!(now >= blocks, "more bytes give no less");
        blocks = now;
    }
    assert_eq!(blocks, 7);
    // Without the end of the events, sizes count from the lowest.
    let report = told(&bytes[..bytes.len() - 1500]).unwrap();
    assert!(!report.history[0].anchored && report.history[0].events < 27 && report.history[0].start_bytes == 0);
}

#[test]
fn code_in_a_file_is_named_and_not_run() {
    let mut bytes = sample::training().pickle();
    let folder = std::env::temp_dir().join(format!("neurogc-gpu-{}", std::process::id()));
    let call = format!("cposix\nsystem\n(S'touch {}'\ntR0", folder.display());
    bytes.splice(2..2, call.bytes());
    let report = told(&bytes).unwrap();
    assert!(!folder.exists() && report.devices.len() == 2);
    assert!(report.remarks[0].contains("posix.system") && report.remarks[0].contains("It was not run."));
}

#[test]
fn memory_is_bounded_and_what_fitted_is_told() {
    let bytes = sample::training().pickle();
    let report = read(&bytes, ReadLimits { memory: 6000 }).unwrap();
    assert!(report.remarks[0].contains("it needs more than 6000 bytes of memory"), "{:?}", report.remarks);
}

/// A segment full of blocks.
fn segments() -> impl Strategy<Value = Vec<(u64, Vec<(u64, u8)>)>> {
    prop::collection::vec((0_u64..3, prop::collection::vec((1_u64..1 << 30, 0_u8..3), 1..12)), 0..8)
}

proptest! {
    #[test]
    fn every_byte_is_told_once(segments in segments()) {
        let states = ["active_allocated", "active_pending_free", "inactive"];
        let mut expected = [0_u64; 3];
        let written = segments.iter().enumerate().map(|(number, (device, blocks))| {
            let base = (number as u64 + 1) << 40;
            let mut at = base;
            let blocks = blocks.iter().map(|(size, state)| {
                expected[usize::from(*state)] += size;
                let block = sample::block(at, *size, size / 2, states[usize::from(*state)], Plain::List(Vec::new()));
                at += size;
                block
            }).collect();
            sample::segment(*device, 0, base, at - base, blocks)
        }).collect();
        let report = told(&sample::snapshot(written, Vec::new()).pickle()).unwrap();
        let sum = |of: fn(&neurogc_gpu::DeviceMemory) -> u64| report.devices.iter().map(of).sum::<u64>();
        prop_assert_eq!([sum(|it| it.allocated_bytes), sum(|it| it.pending_bytes), sum(|it| it.inactive_bytes + it.cached_bytes)], expected);
        prop_assert_eq!(sum(|it| it.reserved_bytes), expected.iter().sum::<u64>());
        let drawn = report.map.segments.iter().flat_map(|it| &it.blocks);
        prop_assert_eq!(drawn.map(|it| it.bytes).sum::<u64>(), expected.iter().sum::<u64>());
        for device in &report.devices {
            prop_assert!((0.0..=1.0).contains(&device.fragmentation));
            prop_assert_eq!(device.reserved_bytes, device.streams.iter().map(|it| it.reserved_bytes).sum::<u64>());
        }
    }

    #[test]
    fn what_is_in_use_over_events_ends_at_the_snapshot(moves in prop::collection::vec((0_u64..20, 1_u64..1000), 0..200)) {
        // A block of each address at most: an address that is there is freed, another one is taken.
        let mut live = std::collections::BTreeMap::new();
        let (mut events, mut in_use, mut peak) = (Vec::new(), 0_u64, 0_u64);
        for (slot, size) in moves {
            let address = (slot + 1) << 20;
            if let Some(size) = live.remove(&address) {
                in_use -= size;
                events.push(sample::event("free_requested", address, size, 1, Plain::List(Vec::new())));
                events.push(sample::event("free_completed", address, size, 1, Plain::List(Vec::new())));
            } else {
                live.insert(address, size);
                in_use += size;
                peak = peak.max(in_use);
                events.push(sample::event("alloc", address, size, 1, Plain::List(Vec::new())));
            }
        }
        let before = 77;
        let mut blocks = vec![sample::block(0, 100, before, "active_allocated", Plain::List(Vec::new()))];
        blocks.extend(live.iter().map(|(at, size)| sample::block(*at, 2 * size, *size, "active_allocated", Plain::List(Vec::new()))));
        let whole = sample::snapshot(vec![sample::segment(0, 0, 0, 1 << 40, blocks)], vec![Plain::List(events.clone())]);
        let report = told(&whole.pickle()).unwrap();
        if let Some(history) = report.history.first() {
            prop_assert_eq!((history.start_bytes, history.end_bytes), (before, before + in_use));
            prop_assert_eq!(history.peak_bytes, before + peak);
            prop_assert!(history.course.len() <= 601);
        } else {
            prop_assert!(events.is_empty());
        }
    }

    #[test]
    fn damaged_bytes_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), more in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
        let mut bytes = sample::training().pickle();
        for (place, byte) in std::iter::once((at, byte)).chain(more) {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(report) = told(&bytes) {
            prop_assert!(serde_json::to_string(&report).is_ok());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes, ReadLimits { memory: 1 << 20 });
    }
}
