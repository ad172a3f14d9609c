//! What the allocator did before a snapshot: how much was in use over the events, errors, and what stayed.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::report::{SiteLine, by_site};
use crate::snapshot::{AllocatorAction, AllocatorEvent, AllocatorSnapshot, BlockState};
use crate::stacks::{Stacks, own_frame};

/// Points of a course, and errors and sites that are told.
const POINTS: usize = 600;
const OOMS: usize = 10;
const SITES: usize = 10;

/// The events of one device. Sizes are as they were asked for, before rounding.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceHistory {
    /// PyTorch's number for the device.
    pub device: u32,
    /// How many events there are.
    pub events: u64,
    /// Seconds from the first to the last; 0 where the times are not recorded.
    pub seconds: f64,
    /// Blocks that the program got.
    pub allocs: u64,
    /// Blocks that it freed.
    pub frees: u64,
    /// How often memory was taken from the device.
    pub segment_allocs: u64,
    /// How often memory was given back to it.
    pub segment_frees: u64,
    /// Errors "CUDA out of memory".
    pub ooms: u64,
    /// In use before the first event.
    pub start_bytes: u64,
    /// In use after the last.
    pub end_bytes: u64,
    /// The most that was in use, and after how many events.
    pub peak_bytes: u64,
    /// See `peak_bytes`.
    pub peak_event: u64,
    /// Whether sizes are known from what is in use at the end; otherwise they count from the lowest.
    pub anchored: bool,
    /// In use and reserved over the events.
    pub course: Vec<CoursePoint>,
    /// The first errors.
    pub errors: Vec<OutOfMemory>,
    /// What had been allocated since the first event and was in use at the peak, by call stack.
    pub at_peak: Vec<SiteLine>,
    /// The same at the end.
    pub at_end: Vec<SiteLine>,
}

/// A moment. Of the events that it stands for, the one with the most in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CoursePoint {
    /// The number of the event, from 1.
    pub event: u64,
    /// Seconds since the first event.
    pub at_s: f64,
    /// In use after it.
    pub allocated_bytes: u64,
    /// Taken from the device after it.
    pub reserved_bytes: u64,
}

/// An error "CUDA out of memory".
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OutOfMemory {
    /// The number of the event, from 1.
    pub event: u64,
    /// Seconds since the first event.
    pub at_s: f64,
    /// What was asked for.
    pub asked_bytes: u64,
    /// What was free on the device.
    pub device_free_bytes: u64,
    /// What was in use.
    pub allocated_bytes: u64,
    /// The line of the program that asked; empty where it is not recorded.
    pub site: String,
    /// All frames, the innermost first.
    pub frames: Vec<String>,
}

/// In use and reserved, as differences from the beginning.
#[derive(Clone, Copy, Default)]
struct Levels {
    allocated: i128,
    reserved: i128,
}

/// Follows events. A block is freed when that is asked for, or when it is done where the request was not recorded.
#[derive(Default)]
struct Follower {
    levels: Levels,
    lowest: Levels,
    pending: FxHashSet<u64>,
    live: FxHashMap<u64, Live>,
}

#[derive(Clone, Copy)]
struct Live {
    size: u64,
    stack: u32,
}

impl Follower {
    fn take(&mut self, event: &AllocatorEvent, stack: u32) {
        let size = i128::from(event.size);
        match event.action {
            AllocatorAction::Alloc => {
                self.levels.allocated += size;
                self.pending.remove(&event.address);
                self.live.insert(event.address, Live { size: event.size, stack });
            }
            AllocatorAction::FreeRequested => {
                self.pending.insert(event.address);
                self.freed(event);
            }
            AllocatorAction::FreeCompleted if !self.pending.remove(&event.address) => self.freed(event),
            AllocatorAction::SegmentAlloc => self.levels.reserved += size,
            AllocatorAction::SegmentFree => self.levels.reserved -= size,
            _ => {}
        }
        self.lowest.allocated = self.lowest.allocated.min(self.levels.allocated);
        self.lowest.reserved = self.lowest.reserved.min(self.levels.reserved);
    }

    fn freed(&mut self, event: &AllocatorEvent) {
        self.levels.allocated -= i128::from(event.size);
        self.live.remove(&event.address);
    }
}

/// The history of a device. `is_whole` says that no event at the end is missing, so that the end is the snapshot.
pub(crate) fn of(
    snapshot: &AllocatorSnapshot<'_>,
    device: u32,
    is_whole: bool,
    stacks: &mut Stacks<'_>,
) -> DeviceHistory {
    let mut told = DeviceHistory { device, anchored: is_whole, ..DeviceHistory::default() };
    let base = base(snapshot, device, is_whole);
    let above = |from: i128, by: i128| u64::try_from((from + by).max(0)).unwrap_or(u64::MAX);
    let all = snapshot.events(device).count();
    let each = all.div_ceil(POINTS).max(1) as u64;
    let (mut first_us, mut last_us) = (0, 0);
    told.start_bytes = above(base.allocated, 0);
    told.peak_bytes = told.start_bytes;
    let mut follower = Follower::default();
    let mut point: Option<CoursePoint> = None;
    for event in snapshot.events(device) {
        told.events += 1;
        if event.time_us > 0 {
            first_us = if first_us == 0 { event.time_us } else { first_us };
            last_us = event.time_us.max(last_us);
        }
        let stack = if event.action == AllocatorAction::Alloc { stacks.number(event.frames) } else { 0 };
        let before = follower.levels.allocated;
        follower.take(&event, stack);
        match event.action {
            AllocatorAction::Alloc => told.allocs += 1,
            AllocatorAction::FreeRequested | AllocatorAction::FreeCompleted if follower.levels.allocated != before => {
                told.frees += 1
            }
            AllocatorAction::SegmentAlloc => told.segment_allocs += 1,
            AllocatorAction::SegmentFree => told.segment_frees += 1,
            AllocatorAction::OutOfMemory => told.ooms += 1,
            _ => {}
        }
        let now = CoursePoint {
            event: told.events,
            at_s: last_us.saturating_sub(first_us) as f64 / 1e6,
            allocated_bytes: above(base.allocated, follower.levels.allocated),
            reserved_bytes: above(base.reserved, follower.levels.reserved),
        };
        if now.allocated_bytes > told.peak_bytes {
            (told.peak_bytes, told.peak_event) = (now.allocated_bytes, now.event);
        }
        if event.action == AllocatorAction::OutOfMemory && told.errors.len() < OOMS {
            let number = stacks.number(event.frames);
            let frames = stacks.frames(number).to_vec();
            told.errors.push(OutOfMemory {
                event: now.event,
                at_s: now.at_s,
                asked_bytes: event.size,
                device_free_bytes: event.device_free,
                allocated_bytes: now.allocated_bytes,
                site: own_frame(&frames).cloned().unwrap_or_default(),
                frames,
            });
        }
        if point.is_none_or(|it| now.allocated_bytes >= it.allocated_bytes) {
            point = Some(now);
        }
        if told.events.is_multiple_of(each) {
            told.course.extend(point.take());
        }
        told.end_bytes = now.allocated_bytes;
    }
    told.course.extend(point);
    told.seconds = last_us.saturating_sub(first_us) as f64 / 1e6;
    let sites = |live: &FxHashMap<u64, Live>, stacks: &Stacks<'_>| {
        by_site(live.values().map(|it| (it.stack, it.size)), stacks, SITES)
    };
    told.at_end = sites(&follower.live, stacks);
    let mut until_peak = Follower::default();
    for event in snapshot.events(device).take(usize::try_from(told.peak_event).unwrap_or(0)) {
        let stack = if event.action == AllocatorAction::Alloc { stacks.number(event.frames) } else { 0 };
        until_peak.take(&event, stack);
    }
    told.at_peak = sites(&until_peak.live, stacks);
    told
}

/// What was in use and reserved before the first event.
fn base(snapshot: &AllocatorSnapshot<'_>, device: u32, is_whole: bool) -> Levels {
    let mut follower = Follower::default();
    snapshot.events(device).for_each(|event| follower.take(&event, 0));
    let least = Levels { allocated: -follower.lowest.allocated, reserved: -follower.lowest.reserved };
    if !is_whole {
        return least;
    }
    let mut end = Levels::default();
    for segment in snapshot.segments.iter().filter(|segment| segment.device == device) {
        end.reserved += i128::from(segment.size);
        let in_use = segment.blocks.iter().filter(|block| block.state == BlockState::Allocated);
        end.allocated += in_use.map(|block| i128::from(block.requested)).sum::<i128>();
    }
    // Nothing can ever have been below zero.
    Levels {
        allocated: (end.allocated - follower.levels.allocated).max(least.allocated),
        reserved: (end.reserved - follower.levels.reserved).max(least.reserved),
    }
}
