//! A snapshot in what a pickle holds: segments, blocks, events, settings. Every number may be wrong.

use thiserror::Error;

use crate::pickle::{Pickle, PickleContents, PickleError, PickleValue, PickleValues};

/// Keys of a foreign dict that a message names.
const NAMED_KEYS: usize = 6;

/// Why a file is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// It is of another kind, which is known.
    #[error("this is {0}. A snapshot is written by torch.cuda.memory._dump_snapshot(FILE)")]
    Foreign(&'static str),
    /// It is no pickle, or nothing of it can be read.
    #[error("this is no snapshot of PyTorch's allocator, or nothing of it can be read: {0}")]
    Unreadable(PickleError),
    /// It is another pickle.
    #[error("this is a pickle, but no snapshot of PyTorch's allocator: {0}")]
    Other(String),
}

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Allocated,
    /// Freed by the program, and another stream may still use it.
    Pending,
    Free,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuBlock {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// What was asked for; the rest is rounding.
    pub(crate) requested: u64,
    pub(crate) state: BlockState,
    pub(crate) frames: PickleValue,
}

/// What the allocator has taken from a device by one call.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) device: u32,
    pub(crate) stream: u64,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_expandable: bool,
    /// It is of a pool of its own, such as that of a CUDA graph.
    pub(crate) is_private: bool,
    pub(crate) blocks: Vec<GpuBlock>,
}

impl Segment {
    pub(crate) fn sum(&self, state: BlockState) -> u64 {
        let blocks = self.blocks.iter().filter(|block| block.state == state);
        blocks.fold(0, |sum, block| sum.saturating_add(block.size))
    }

    /// Whether no block of it is in use.
    pub(crate) fn is_free(&self) -> bool {
        self.blocks.iter().all(|block| block.state == BlockState::Free)
    }
}

/// What the allocator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocatorAction {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    OutOfMemory,
    Snapshot,
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocatorEvent {
    pub(crate) action: AllocatorAction,
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// What was free on the device at an error.
    pub(crate) device_free: u64,
    /// 0 where it is not recorded.
    pub(crate) time_us: u64,
    pub(crate) frames: PickleValue,
}

/// A snapshot. Events stay in the pickle and are read one by one: there may be millions.
#[derive(Debug)]
pub(crate) struct AllocatorSnapshot<'p> {
    pub(crate) values: &'p PickleValues,
    names: Names,
    pub(crate) segments: Vec<Segment>,
    /// The events of each device, by its number.
    traces: Vec<&'p [PickleValue]>,
    pub(crate) settings: Vec<(String, String)>,
    /// Segments and blocks that cannot be read.
    pub(crate) unreadable: u64,
}

impl<'p> AllocatorSnapshot<'p> {
    /// Finds the snapshot in a pickle.
    pub(crate) fn find(bytes: &[u8], file: &'p Pickle) -> Result<Self, SnapshotError> {
        let values = &file.values;
        let names = Names::of(values);
        let part = |name: &str| field(values, file.root, values.number(name)).unwrap_or(PickleValue::None);
        // `torch.cuda.memory_snapshot()` gives the list of segments alone.
        let is_segment = |value: PickleValue| field(values, value, names.blocks).is_some();
        let alone = values.list(file.root).first().is_some_and(|first| is_segment(*first));
        let segments = if alone { file.root } else { part("segments") };
        if !matches!(values.contents(segments), Some(PickleContents::List(_))) {
            return Err(refusal(bytes, file));
        }
        let mut snapshot = AllocatorSnapshot {
            values,
            names,
            segments: Vec::new(),
            traces: values.list(part("device_traces")).iter().map(|trace| values.list(*trace)).collect(),
            settings: settings(values, part("allocator_settings")),
            unreadable: 0,
        };
        for value in values.list(segments) {
            match snapshot.segment(*value) {
                Some(segment) => snapshot.segments.push(segment),
                None => snapshot.unreadable += 1,
            }
        }
        Ok(snapshot)
    }

    /// The devices that have events.
    pub(crate) fn traced(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).zip(&self.traces).filter(|(_, trace)| !trace.is_empty()).map(|(device, _)| device)
    }

    /// The events of a device, the oldest first. What cannot be read is left out.
    pub(crate) fn events(&self, device: u32) -> impl Iterator<Item = AllocatorEvent> + '_ {
        let trace = self.traces.get(device as usize).copied().unwrap_or_default();
        trace.iter().filter_map(|value| self.event(*value))
    }

    fn segment(&mut self, value: PickleValue) -> Option<Segment> {
        let (values, names) = (self.values, self.names);
        let get = |key: Option<u32>| field(values, value, key);
        let number = |key: Option<u32>| get(key).and_then(whole);
        let blocks = get(names.blocks)?;
        let (address, size) = (number(names.address)?, number(names.total_size)?);
        let pool = values.list(get(names.segment_pool_id).unwrap_or(PickleValue::None));
        let mut segment = Segment {
            device: number(names.device).and_then(|it| u32::try_from(it).ok()).unwrap_or(0),
            stream: number(names.stream).unwrap_or(0),
            address,
            size,
            is_expandable: get(names.is_expandable) == Some(PickleValue::Bool(true)),
            is_private: pool.iter().any(|it| !matches!(it, PickleValue::Integer(0))),
            blocks: Vec::with_capacity(values.list(blocks).len()),
        };
        let mut at = address;
        for block in values.list(blocks) {
            match self.block(*block, at) {
                Some(block) => {
                    at = block.address.saturating_add(block.size);
                    segment.blocks.push(block);
                }
                None => self.unreadable += 1,
            }
        }
        Some(segment)
    }

    fn block(&self, value: PickleValue, at: u64) -> Option<GpuBlock> {
        let names = &self.names;
        let get = |key: Option<u32>| field(self.values, value, key);
        let size = get(names.size).and_then(whole)?;
        let state = match self.values.said(get(names.state)?)? {
            "active_allocated" => BlockState::Allocated,
            "inactive" => BlockState::Free,
            // PyTorch writes `active_pending_free` and documents `active_awaiting_free`.
            state if state.starts_with("active") => BlockState::Pending,
            _ => return None,
        };
        // Older versions give neither the address of a block nor what was asked for.
        let address = get(names.address).and_then(whole).unwrap_or(at);
        let requested = get(names.requested_size).and_then(whole).unwrap_or(size).min(size);
        Some(GpuBlock { address, size, requested, state, frames: get(names.frames).unwrap_or(PickleValue::None) })
    }

    fn event(&self, value: PickleValue) -> Option<AllocatorEvent> {
        let (mut action, mut frames) = (None, PickleValue::None);
        let (mut address, mut size, mut device_free, mut time_us) = (0, 0, 0, 0);
        let names = &self.names;
        for (key, value) in self.values.dict(value) {
            let PickleValue::Text(key) = key else { continue };
            let number = || whole(*value).unwrap_or(0);
            match Some(*key) {
                key if key == names.action => action = self.values.said(*value),
                key if key == names.addr => address = number(),
                key if key == names.size => size = number(),
                key if key == names.device_free => device_free = number(),
                key if key == names.time_us => time_us = number(),
                key if key == names.frames => frames = *value,
                _ => {}
            }
        }
        let action = match action? {
            "alloc" => AllocatorAction::Alloc,
            "free_requested" => AllocatorAction::FreeRequested,
            "free_completed" | "free" => AllocatorAction::FreeCompleted,
            "segment_alloc" | "segment_map" => AllocatorAction::SegmentAlloc,
            "segment_free" | "segment_unmap" => AllocatorAction::SegmentFree,
            "oom" => AllocatorAction::OutOfMemory,
            "snapshot" => AllocatorAction::Snapshot,
            _ => AllocatorAction::Other,
        };
        Some(AllocatorEvent { action, address, size, device_free, time_us, frames })
    }
}

/// The numbers of the keys, so that texts are compared once.
#[derive(Clone, Copy, Debug)]
struct Names {
    action: Option<u32>,
    addr: Option<u32>,
    address: Option<u32>,
    blocks: Option<u32>,
    device: Option<u32>,
    device_free: Option<u32>,
    frames: Option<u32>,
    is_expandable: Option<u32>,
    requested_size: Option<u32>,
    segment_pool_id: Option<u32>,
    size: Option<u32>,
    state: Option<u32>,
    stream: Option<u32>,
    time_us: Option<u32>,
    total_size: Option<u32>,
}

impl Names {
    fn of(values: &PickleValues) -> Self {
        Self {
            action: values.number("action"),
            addr: values.number("addr"),
            address: values.number("address"),
            blocks: values.number("blocks"),
            device: values.number("device"),
            device_free: values.number("device_free"),
            frames: values.number("frames"),
            is_expandable: values.number("is_expandable"),
            requested_size: values.number("requested_size"),
            segment_pool_id: values.number("segment_pool_id"),
            size: values.number("size"),
            state: values.number("state"),
            stream: values.number("stream"),
            time_us: values.number("time_us"),
            total_size: values.number("total_size"),
        }
    }
}

/// The value of a key, which is a text by its number. Of a key that is there twice, the last.
pub(crate) fn field(values: &PickleValues, dict: PickleValue, key: Option<u32>) -> Option<PickleValue> {
    let key = PickleValue::Text(key?);
    values.dict(dict).iter().rev().find(|(name, _)| *name == key).map(|(_, value)| *value)
}

/// A number that is not negative.
pub(crate) fn whole(value: PickleValue) -> Option<u64> {
    match value {
        PickleValue::Integer(number) => u64::try_from(number).ok(),
        _ => None,
    }
}

fn settings(values: &PickleValues, all: PickleValue) -> Vec<(String, String)> {
    let plain = |value: PickleValue| match value {
        PickleValue::Bool(it) => Some(it.to_string()),
        PickleValue::Integer(it) => Some(it.to_string()),
        PickleValue::Float(it) => Some(it.to_string()),
        PickleValue::Text(it) => Some(values.text(it).chars().take(300).collect()),
        _ => None,
    };
    let pairs = values.dict(all).iter().take(40);
    pairs.filter_map(|(key, value)| Some((values.said(*key)?.to_owned(), plain(*value)?))).collect()
}

/// Why there is no snapshot.
fn refusal(bytes: &[u8], file: &Pickle) -> SnapshotError {
    let kinds: [(&[u8], &str); 6] = [
        (b"PK\x03\x04", "a ZIP archive, as torch.save writes"),
        (b"\x1f\x8b", "compressed by gzip: unpack it first"),
        (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it first"),
        (b"NGCH", "a heap dump: `neurogc heap show` reads it"),
        (b"NGCT", "a trace: `neurogc trace show` reads it"),
        (b"{", "JSON or text"),
    ];
    if let Some((_, kind)) = kinds.iter().find(|(start, _)| bytes.starts_with(start)) {
        return SnapshotError::Foreign(kind);
    }
    if let Some(error) = &file.error {
        return SnapshotError::Unreadable(error.clone());
    }
    let values = &file.values;
    let keys = values.dict(file.root).iter().filter_map(|(key, _)| values.said(*key));
    let keys: Vec<_> = keys.take(NAMED_KEYS).map(|key| key.chars().take(40).collect::<String>()).collect();
    SnapshotError::Other(match values.contents(file.root) {
        Some(PickleContents::Dict(_)) => {
            format!("it is a dict without a list of segments; its keys are {}", keys.join(", "))
        }
        Some(PickleContents::List(_)) => "it is a list of something else than segments".to_owned(),
        None => "it is a single value".to_owned(),
    })
}
