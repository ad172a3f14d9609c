//! Segments and blocks for a drawing: of a bounded number, small neighbours put together.

use serde::Serialize;

use crate::snapshot::{AllocatorSnapshot, BlockState, GpuBlock, Segment};
use crate::stacks::{NO_STACK, Stacks};

/// Segments and blocks that are drawn.
const SEGMENTS: usize = 300;
const BLOCKS: usize = 3000;

/// What a page draws.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SegmentMap {
    /// The largest segments, by device, stream and address.
    pub segments: Vec<MapSegment>,
    /// How many others there are, and what they take.
    pub left_out: u64,
    /// See `left_out`.
    pub left_out_bytes: u64,
    /// Call stacks that blocks refer to, the innermost frame first.
    pub stacks: Vec<Vec<String>>,
}

/// One segment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MapSegment {
    /// PyTorch's number for the device.
    pub device: u32,
    /// The stream that it is for.
    pub stream: u64,
    /// Its address, in hexadecimal: it may be larger than a page's numbers.
    pub address: String,
    /// Its size.
    pub bytes: u64,
    /// Its blocks, in their order.
    pub blocks: Vec<MapBlock>,
}

/// A block, or several small ones beside each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MapBlock {
    /// Where it begins in its segment.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// What is in use of it.
    pub used_bytes: u64,
    /// What another stream may still use of it.
    pub pending_bytes: u64,
    /// How many blocks it is.
    pub blocks: u64,
    /// Where it was allocated, as a number in `stacks`; `None` for several, or where that is not recorded.
    pub stack: Option<u32>,
}

pub(crate) fn of(snapshot: &AllocatorSnapshot<'_>, stacks: &mut Stacks<'_>) -> SegmentMap {
    let mut by_size: Vec<&Segment> = snapshot.segments.iter().collect();
    by_size.sort_by_key(|segment| std::cmp::Reverse(segment.size));
    let (shown, rest) = by_size.split_at(by_size.len().min(SEGMENTS));
    let mut shown = shown.to_vec();
    shown.sort_by_key(|segment| (segment.device, segment.stream, segment.address));
    let mut sizes: Vec<u64> = shown.iter().flat_map(|segment| &segment.blocks).map(|block| block.size).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let least = sizes.get(BLOCKS).map_or(0, |size| size.saturating_add(1));
    let mut map = SegmentMap {
        left_out: rest.len() as u64,
        left_out_bytes: rest.iter().fold(0, |sum, segment| sum.saturating_add(segment.size)),
        ..SegmentMap::default()
    };
    let mut numbers = rustc_hash::FxHashMap::default();
    for segment in shown {
        let blocks = merged(segment, least, |block| {
            let number = stacks.number(block.frames);
            if number == NO_STACK {
                return None;
            }
            Some(*numbers.entry(number).or_insert_with(|| {
                map.stacks.push(stacks.frames(number).to_vec());
                map.stacks.len() as u32 - 1
            }))
        });
        map.segments.push(MapSegment {
            device: segment.device,
            stream: segment.stream,
            address: format!("{:#x}", segment.address),
            bytes: segment.size,
            blocks,
        });
    }
    map
}

/// The blocks of a segment; those below a size are put together with neighbours that are, too.
fn merged(segment: &Segment, least: u64, mut stack: impl FnMut(&GpuBlock) -> Option<u32>) -> Vec<MapBlock> {
    let mut found: Vec<MapBlock> = Vec::new();
    let mut is_open = false;
    for block in &segment.blocks {
        let in_state = |state: BlockState| if block.state == state { block.size } else { 0 };
        let one = MapBlock {
            offset: block.address.saturating_sub(segment.address),
            bytes: block.size,
            used_bytes: in_state(BlockState::Allocated),
            pending_bytes: in_state(BlockState::Pending),
            blocks: 1,
            stack: None,
        };
        let is_small = block.size < least;
        if let Some(last) = found.last_mut().filter(|_| is_open && is_small) {
            last.bytes = last.bytes.saturating_add(one.bytes);
            last.used_bytes = last.used_bytes.saturating_add(one.used_bytes);
            last.pending_bytes = last.pending_bytes.saturating_add(one.pending_bytes);
            (last.blocks, last.stack) = (last.blocks + 1, None);
        } else {
            let stack = if is_small || block.state == BlockState::Free { None } else { stack(block) };
            found.push(MapBlock { stack, ..one });
        }
        is_open = is_small;
    }
    found
}
