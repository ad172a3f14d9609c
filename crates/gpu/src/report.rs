//! What people and pages are shown of a snapshot.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::history::{self, DeviceHistory};
use crate::map::{self, SegmentMap};
use crate::pickle::Pickle;
use crate::snapshot::{AllocatorSnapshot, BlockState, GpuBlock, Segment};
use crate::stacks::{NO_STACK, Stacks, own_frame};

/// Sites and blocks in a report, and streams of a device.
const SITES: usize = 20;
const LARGEST: usize = 20;
const STREAMS: usize = 32;

/// A snapshot of PyTorch's allocator, summed up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GpuSnapshot {
    /// The size of the file.
    pub file_bytes: u64,
    /// The protocol of its pickle.
    pub protocol: u8,
    /// Whether all of it was read.
    pub complete: bool,
    /// What could not be read, and what is strange about the file.
    pub remarks: Vec<String>,
    /// Settings of the allocator.
    pub settings: BTreeMap<String, String>,
    /// The devices.
    pub devices: Vec<DeviceMemory>,
    /// Blocks in use by the call stack that allocated them, the largest sums first.
    pub sites: Vec<SiteLine>,
    /// The largest blocks in use.
    pub largest: Vec<BlockLine>,
    /// What the allocator did before, for each device with recorded events.
    pub history: Vec<DeviceHistory>,
    /// Segments and blocks for a drawing.
    pub map: SegmentMap,
}

/// The memory of one device. Allocated, pending, inactive and cached add up to reserved.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceMemory {
    /// PyTorch's number for it.
    pub device: u32,
    /// What the allocator has taken, in how many segments.
    pub reserved_bytes: u64,
    /// See `reserved_bytes`.
    pub segments: u64,
    /// Blocks in use.
    pub allocated_bytes: u64,
    /// How many.
    pub blocks: u64,
    /// What was asked for; the rest of the blocks in use is rounding.
    pub requested_bytes: u64,
    /// Blocks in use and those that another stream may still use.
    pub active_bytes: u64,
    /// Those that another stream may still use.
    pub pending_bytes: u64,
    /// Free pieces of segments that are in use in part.
    pub inactive_bytes: u64,
    /// Segments without a block in use: `torch.cuda.empty_cache()` gives them back.
    pub cached_bytes: u64,
    /// Free blocks, and the largest of them.
    pub free_blocks: u64,
    /// See `free_blocks`.
    pub largest_free_bytes: u64,
    /// The share of the free memory that is not in the largest free block, from 0 to 1.
    pub fragmentation: f64,
    /// Segments that can grow (`expandable_segments`), and bytes of pools of their own, such as those of CUDA graphs.
    pub expandable_segments: u64,
    /// See `expandable_segments`.
    pub private_bytes: u64,
    /// The same by stream, the largest first.
    pub streams: Vec<StreamMemory>,
}

/// The memory that is for one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamMemory {
    /// Its number; 0 is the default stream.
    pub stream: u64,
    /// See `DeviceMemory`.
    pub segments: u64,
    /// See `DeviceMemory`.
    pub reserved_bytes: u64,
    /// See `DeviceMemory`.
    pub allocated_bytes: u64,
    /// See `DeviceMemory`.
    pub active_bytes: u64,
    /// See `DeviceMemory`.
    pub inactive_bytes: u64,
    /// See `DeviceMemory`.
    pub cached_bytes: u64,
}

/// Blocks that one call stack allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteLine {
    /// Their bytes.
    pub bytes: u64,
    /// How many.
    pub blocks: u64,
    /// The line of the program that is nearest; empty where no stack was recorded.
    pub site: String,
    /// All frames, the innermost first.
    pub frames: Vec<String>,
}

/// One block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockLine {
    /// PyTorch's number for the device.
    pub device: u32,
    /// The stream that it is for.
    pub stream: u64,
    /// Its address, in hexadecimal.
    pub address: String,
    /// Its size.
    pub bytes: u64,
    /// What was asked for.
    pub requested_bytes: u64,
    /// Whether the program has freed it, and another stream may still use it.
    pub pending: bool,
    /// The line of the program that is nearest; empty where no stack was recorded.
    pub site: String,
    /// All frames, the innermost first.
    pub frames: Vec<String>,
}

pub(crate) fn of(file_bytes: usize, file: &Pickle, snapshot: &AllocatorSnapshot<'_>) -> GpuSnapshot {
    let mut stacks = Stacks::new(&file.values);
    let active = |block: &&GpuBlock| block.state == BlockState::Allocated;
    let in_use: Vec<(u32, u64)> = {
        let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks).filter(active);
        blocks.map(|block| (stacks.number(block.frames), block.size)).collect()
    };
    let traced: Vec<u32> = snapshot.traced().collect();
    let is_whole = file.error.is_none();
    let history = traced.into_iter().map(|device| history::of(snapshot, device, is_whole, &mut stacks)).collect();
    GpuSnapshot {
        file_bytes: file_bytes as u64,
        protocol: file.protocol,
        complete: is_whole && snapshot.unreadable == 0,
        remarks: remarks(file_bytes, file, snapshot),
        settings: snapshot.settings.iter().cloned().collect(),
        devices: devices(snapshot),
        sites: by_site(in_use.into_iter(), &stacks, SITES),
        largest: largest(snapshot, &mut stacks),
        history,
        map: map::of(snapshot, &mut stacks),
    }
}

fn remarks(file_bytes: usize, file: &Pickle, snapshot: &AllocatorSnapshot<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(error) = &file.error {
        remarks.push(format!(
            "Not all of the file ({file_bytes} bytes) could be read: {error}. This is what comes before."
        ));
    }
    if snapshot.unreadable > 0 {
        remarks.push(format!("{} segments or blocks could not be read and are left out.", snapshot.unreadable));
    }
    if !file.named.is_empty() {
        let named = file.named.join(", ");
        remarks.push(format!(
            "The file refers to code ({named}), which snapshots of PyTorch do not. It was not run. Do not load the file with Python."
        ));
    }
    if file.rest > 0 {
        remarks.push(format!("{} bytes after the end of the snapshot were not read.", file.rest));
    }
    remarks
}

fn devices(snapshot: &AllocatorSnapshot<'_>) -> Vec<DeviceMemory> {
    let mut found: BTreeMap<u32, (DeviceMemory, BTreeMap<u64, StreamMemory>)> = BTreeMap::new();
    for segment in &snapshot.segments {
        let (device, streams) = found.entry(segment.device).or_default();
        let stream = streams.entry(segment.stream).or_default();
        (device.device, stream.stream) = (segment.device, segment.stream);
        add_to_stream(stream, segment);
        device.requested_bytes = segment
            .blocks
            .iter()
            .filter(|block| block.state == BlockState::Allocated)
            .fold(device.requested_bytes, |sum, block| sum.saturating_add(block.requested));
        for block in &segment.blocks {
            match block.state {
                BlockState::Allocated => device.blocks += 1,
                BlockState::Pending => device.pending_bytes = device.pending_bytes.saturating_add(block.size),
                BlockState::Free => {
                    device.free_blocks += 1;
                    device.largest_free_bytes = device.largest_free_bytes.max(block.size);
                }
            }
        }
        device.expandable_segments += u64::from(segment.is_expandable);
        if segment.is_private {
            device.private_bytes = device.private_bytes.saturating_add(segment.size);
        }
    }
    found.into_values().map(|(device, streams)| summed(device, streams)).collect()
}

fn add_to_stream(stream: &mut StreamMemory, segment: &Segment) {
    let add = |to: &mut u64, bytes: u64| *to = to.saturating_add(bytes);
    stream.segments += 1;
    add(&mut stream.reserved_bytes, segment.size);
    add(&mut stream.allocated_bytes, segment.sum(BlockState::Allocated));
    add(&mut stream.active_bytes, segment.sum(BlockState::Allocated).saturating_add(segment.sum(BlockState::Pending)));
    let free = segment.sum(BlockState::Free);
    add(if segment.is_free() { &mut stream.cached_bytes } else { &mut stream.inactive_bytes }, free);
}

fn summed(mut device: DeviceMemory, streams: BTreeMap<u64, StreamMemory>) -> DeviceMemory {
    let sum = |of: fn(&StreamMemory) -> u64| streams.values().fold(0_u64, |sum, stream| sum.saturating_add(of(stream)));
    device.segments = sum(|it| it.segments);
    device.reserved_bytes = sum(|it| it.reserved_bytes);
    device.allocated_bytes = sum(|it| it.allocated_bytes);
    device.active_bytes = sum(|it| it.active_bytes);
    device.inactive_bytes = sum(|it| it.inactive_bytes);
    device.cached_bytes = sum(|it| it.cached_bytes);
    let free = device.inactive_bytes.saturating_add(device.cached_bytes);
    if free > 0 {
        device.fragmentation = 1.0 - device.largest_free_bytes.min(free) as f64 / free as f64;
    }
    device.streams = streams.into_values().collect();
    device.streams.sort_by_key(|stream| std::cmp::Reverse(stream.reserved_bytes));
    device.streams.truncate(STREAMS);
    device
}

/// Sizes by their stacks, the largest sums first.
pub(crate) fn by_site(sizes: impl Iterator<Item = (u32, u64)>, stacks: &Stacks<'_>, most: usize) -> Vec<SiteLine> {
    let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for (stack, size) in sizes {
        let (bytes, blocks) = sums.entry(stack).or_default();
        (*bytes, *blocks) = (bytes.saturating_add(size), *blocks + 1);
    }
    let mut rows: Vec<(u32, u64, u64)> =
        sums.into_iter().map(|(stack, (bytes, blocks))| (stack, bytes, blocks)).collect();
    // Equal sums are in the order of the file.
    rows.sort_by_key(|(stack, bytes, _)| (std::cmp::Reverse(*bytes), *stack));
    rows.truncate(most);
    let line = |(stack, bytes, blocks): (u32, u64, u64)| {
        let frames = stacks.frames(stack).to_vec();
        SiteLine { bytes, blocks, site: own_frame(&frames).cloned().unwrap_or_default(), frames }
    };
    // Where no stack was recorded at all there is nothing to tell apart.
    if rows.iter().all(|(stack, ..)| *stack == NO_STACK) {
        return Vec::new();
    }
    rows.into_iter().map(line).collect()
}

fn largest(snapshot: &AllocatorSnapshot<'_>, stacks: &mut Stacks<'_>) -> Vec<BlockLine> {
    let all = snapshot.segments.iter().flat_map(|segment| segment.blocks.iter().map(move |block| (segment, block)));
    let mut rows: Vec<(&Segment, &GpuBlock)> = all.filter(|(_, block)| block.state != BlockState::Free).collect();
    rows.sort_by_key(|(segment, block)| (std::cmp::Reverse(block.size), segment.device, block.address));
    let line = |(segment, block): &(&Segment, &GpuBlock)| {
        let number = stacks.number(block.frames);
        let frames = stacks.frames(number).to_vec();
        BlockLine {
            device: segment.device,
            stream: segment.stream,
            address: format!("{:#x}", block.address),
            bytes: block.size,
            requested_bytes: block.requested,
            pending: block.state == BlockState::Pending,
            site: own_frame(&frames).cloned().unwrap_or_default(),
            frames,
        }
    };
    rows.iter().take(LARGEST).map(line).collect()
}
