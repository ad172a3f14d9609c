//! The sampler's state, and what is done with a block that a point has fallen into.
//!
//! Everything here runs in the program's threads, in the middle of an allocation: with or without the GIL, in any
//! interpreter, in threads that Python does not know. It allocates nothing, waits for nothing and cannot fail.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use neurogc_wire::sites::{AllocationDomain, AllocationMode};

use super::interface::{Entries, LARGE, MARK, MARKED, Real, SamplePoints};
use super::live::{BlockSample, SiteKey};
use super::points::weight;
use super::spares;
use super::stacks::Describe;
use super::tables::Tables;
use super::texts::LONGEST;
use crate::cpython::own_stack::{CodePlace, DEPTH, OwnStack};
use crate::sys::wake;

/// What was found when sampling began. It is never changed or taken back: sampled blocks outlive the agent.
#[derive(Debug)]
pub(super) struct Sampler {
    pub(super) tables: &'static Tables,
    pub(super) stack: OwnStack,
    pub(super) real: Real,
    pub(super) mode: AllocationMode,
    pub(super) seed: u64,
    /// Where the library keeps the functions that it passes calls on to.
    pub(super) entries: Option<Entries>,
    /// Gives the points of the calling thread, where the library is preloaded.
    pub(super) thread_points: Option<unsafe extern "C" fn() -> *const SamplePoints>,
    /// Code whose mappings are not the program's: the agent's own.
    pub(super) own_code: Range<usize>,
    /// Code whose mappings are handed on as blocks: CPython's arenas, and an allocator other than glibc's.
    pub(super) allocators: [Range<usize>; 2],
}

/// So many bytes are neither cleared nor copied for a sample.
const MANY: usize = 32 * 1024;

static SAMPLER: OnceLock<Sampler> = OnceLock::new();

/// Whether blocks are sampled now.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// The interval that sampling began with, in bytes.
static BASE: AtomicU64 = AtomicU64::new(32 * 1024);

/// The sampler, once there is one.
pub(super) fn sampler() -> Option<&'static Sampler> {
    SAMPLER.get()
}

/// Puts the sampler in place, once.
pub(super) fn publish(sampler: Sampler) -> Option<&'static Sampler> {
    SAMPLER.set(sampler).ok()?;
    SAMPLER.get()
}

/// Begins to sample at this interval, or goes on with it.
pub(super) fn activate(interval: u64) {
    BASE.store(interval.max(1), Relaxed);
    ACTIVE.store(true, Relaxed);
}

/// Goes on to sample at the interval from before.
pub(super) fn resume() {
    ACTIVE.store(true, Relaxed);
}

/// Samples no more blocks. Those that were sampled are still seen when they are freed.
pub(super) fn deactivate() {
    ACTIVE.store(false, Relaxed);
}

/// Whether blocks are sampled now.
pub(super) fn is_active() -> bool {
    ACTIVE.load(Relaxed)
}

impl Sampler {
    /// The interval in force.
    pub(super) fn interval(&self) -> u64 {
        self.tables.interval(BASE.load(Relaxed))
    }

    /// How many points lie in a block of this size that was counted down, in the stream of its thread. Where the
    /// stream begins with this block, the first point is drawn now.
    pub(super) fn met(&self, points: &SamplePoints, size: usize) -> u64 {
        let interval = self.interval();
        if points.begin(self.seed, interval) {
            let left = points.left.load(Relaxed);
            points.left.store(left.saturating_sub_unsigned(size as u64), Relaxed);
        }
        let met = points.met(interval);
        if ACTIVE.load(Relaxed) { met } else { 0 }
    }

    /// Whether a block is found again when it is freed or reallocated.
    pub(super) fn is_seen_again(&self, block: *mut c_void, size: usize) -> bool {
        block as usize & MARK == 0 || self.real.is_glibc && size >= LARGE
    }

    /// A new block that is seen again when it is freed. Null where there is no memory.
    pub(super) fn marked_block(&self, align: usize, size: usize, zero: bool) -> *mut c_void {
        /// jemalloc's flags for that alignment, and for zeros.
        const ALIGNED_AND_ZERO: i32 = MARKED.trailing_zeros() as i32 | 0x40;
        let real = &self.real;
        // SAFETY: functions of the allocator below, with arguments that libc documents. The memory that is cleared is
        // the new block.
        unsafe {
            match (real.is_glibc && size >= LARGE, zero, real.mallocx) {
                (true, true, _) => (real.calloc)(1, size),
                (true, false, _) if align <= 16 => (real.malloc)(size),
                (true, false, _) => (real.memalign)(align, size),
                // Many zeros must come from the allocator itself: it knows which pages are zero anyhow.
                (false, true, Some(mallocx)) if size >= MANY => mallocx(size, ALIGNED_AND_ZERO),
                (false, true, None) if size >= MANY => (real.calloc)(1, size),
                _ => {
                    let block = (real.memalign)(align.max(MARKED), size);
                    if zero && !block.is_null() {
                        std::ptr::write_bytes(block as *mut u8, 0, size);
                    }
                    block
                }
            }
        }
    }

    /// Notes a sampled block.
    pub(super) fn note(
        &self,
        points: &SamplePoints,
        block: *mut c_void,
        size: usize,
        met: u64,
        domain: AllocationDomain,
    ) {
        let tables = self.tables;
        if !self.is_seen_again(block, size) {
            tables.live.lose();
            return;
        }
        let sample = BlockSample {
            weight: weight(size, met, self.interval()),
            size: u32::try_from(size).unwrap_or(u32::MAX),
            site: SiteKey::new(self.node(), domain),
        };
        tables.stacks.count(sample);
        tables.made.fetch_add(sample.weight, Relaxed);
        tables.live.add(block as usize, sample);
        if tables.is_time_to_wake() {
            wake::SAMPLER.wake();
        }
        let base = BASE.load(Relaxed);
        tables.keep_pace(base);
        tables.fit(base, points);
    }

    /// The node of the calling thread's stack.
    pub(super) fn node(&self) -> u32 {
        let mut places = [const { MaybeUninit::uninit() }; DEPTH];
        self.tables.stacks.node(self.stack.read(&mut places), &self.stack)
    }

    /// Takes a block out of the table that is about to be freed, and says whether it is kept as a spare one.
    pub(super) fn take_back(&self, block: *mut c_void) -> bool {
        let Some(sample) = self.forget(block) else { return false };
        if sample.site.domain() != AllocationDomain::Object || !self.real.is_glibc || !is_active() {
            return false;
        }
        // SAFETY: a block of glibc, which its owner gives up.
        match unsafe { spares::put(block, sample.size as usize) } {
            Some(other) if other == block => false,
            Some(other) => {
                // SAFETY: a spare block, which no other thread can get any more.
                unsafe { (self.real.free)(other) };
                true
            }
            None => true,
        }
    }

    /// Takes a block out of the table, whose owner is about to free it.
    pub(super) fn forget(&self, block: *mut c_void) -> Option<BlockSample> {
        self.tables.live.take(block as usize)
    }

    /// Reallocates a block by the function that it belongs to, and samples the result if points are in it.
    pub(super) fn reallocate(
        &self,
        points: &SamplePoints,
        block: *mut c_void,
        size: usize,
        met: u64,
        domain: AllocationDomain,
        realloc: impl Fn(*mut c_void, usize) -> *mut c_void,
    ) -> *mut c_void {
        // It goes before the block does: another thread may get the same address at once.
        let before = self.forget(block);
        let moved = realloc(block, size);
        if moved.is_null() {
            // The old block is still there, unless its size was to be zero.
            if let Some(before) = before.filter(|_| size != 0) {
                self.tables.live.add(block as usize, before);
            }
            return moved;
        }
        if met == 0 || size == 0 {
            return moved;
        }
        if self.is_seen_again(moved, size) || size >= MANY {
            // A large block that would not be seen again is lost rather than copied.
            self.note(points, moved, size, met, domain);
            return moved;
        }
        let marked = self.marked_block(0, size, false);
        if marked.is_null() {
            return moved;
        }
        // SAFETY: both blocks have at least this size, and are different ones. The first is not used any more.
        unsafe {
            std::ptr::copy_nonoverlapping(moved as *const u8, marked as *mut u8, size);
            (self.real.free)(moved);
        }
        self.note(points, marked, size, met, domain);
        marked
    }
}

impl Describe for OwnStack {
    fn line(&self, place: &CodePlace) -> u32 {
        Self::line(self, place)
    }

    fn text(&self, object: usize, to: &mut [u8; LONGEST]) -> usize {
        Self::text(self, object, to)
    }
}
