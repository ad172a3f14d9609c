//! The memory that small objects lie in. While a snapshot is out, arenas that CPython gives back stay mapped, so that
//! an address which held a small object can be read without a fault whatever has become of the object.
//!
//! CPython takes arenas and gives them back through a hook of its public API. Ours hands the pages of those that come
//! back to the kernel at once and their addresses only when the snapshot is over. New ones it puts into huge pages, if
//! it was told to and the program is not small. The hook stays when the agent goes: arenas of ours may be in use.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use super::allocators::is_pymalloc;
use super::gather::{GatherLimits, Gatherer};
use super::symbol;
use crate::sys::chunks::{ARENA, Chunks};
use crate::sys::wake::UPLINK;
use crate::sys::{huge, memory};

/// `PyObjectArenaAllocator`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Allocator {
    context: *mut c_void,
    alloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
}

type Exchange = unsafe extern "C" fn(*mut Allocator);

/// The allocator that was there before; written once, before ours is in place.
static CONTEXT: AtomicUsize = AtomicUsize::new(0);
static ALLOC: AtomicUsize = AtomicUsize::new(0);
static FREE: AtomicUsize = AtomicUsize::new(0);

/// Whether arenas are kept; looked at before the lock.
static KEEPING: AtomicBool = AtomicBool::new(false);

/// Whether an arena has been unmapped since keeping began, because it could not be kept.
static LOST: AtomicBool = AtomicBool::new(false);

/// Arenas that CPython has given back and that are still mapped.
static KEPT: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Arenas of which little is in use, in the order of addresses, as the last reading of all pools has found them.
static SPARSE: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Whether new arenas are put into huge pages.
static HUGE: AtomicBool = AtomicBool::new(false);

/// Those that are in huge pages.
static CHUNKS: Chunks = Chunks::new();

/// Bytes of arenas that were taken through the hook, less those that came back.
static IN_USE: AtomicIsize = AtomicIsize::new(0);

/// Whether a snapshot is out, be arenas kept or not.
static OUT: AtomicBool = AtomicBool::new(false);

/// Whether ordinary arenas have been put into huge pages, before a clone.
static GATHERED: AtomicBool = AtomicBool::new(false);

/// The first arenas are ordinary ones, so that a small program has no page that it does not fill.
const SMALL_PROGRAM: isize = 16 << 20;

/// Objects up to this size lie in arenas.
pub(crate) const SMALL: usize = 512;

/// Whether a small object may lie outside of arenas, because the allocation sampler has chosen its block: then the block is
/// a multiple of 512, and the object stands behind the collector's head, and behind its dictionary where it has one there.
pub(crate) fn may_be_elsewhere(object: usize) -> bool {
    matches!(object % 512, 16 | 32)
}

/// Keeps arenas mapped from now on. False where they cannot be kept or small objects do not lie in them. The caller
/// holds the GIL.
pub(crate) fn keep() -> bool {
    OUT.store(true, Ordering::Release);
    if !is_pymalloc() || !is_in_place(true) {
        return false;
    }
    LOST.store(false, Ordering::Relaxed);
    KEEPING.store(true, Ordering::Release);
    true
}

/// Whether every arena that was there when keeping began is still mapped. The caller holds the GIL.
pub(crate) fn all_are_kept() -> bool {
    KEEPING.load(Ordering::Acquire) && !LOST.load(Ordering::Relaxed) && is_in_place(false)
}

/// Gives back what was kept.
pub(crate) fn release() {
    KEEPING.store(false, Ordering::Release);
    CHUNKS.trim();
    CHUNKS.begin_mending();
    OUT.store(false, Ordering::Release);
    if CHUNKS.have_to_be_mended() {
        UPLINK.wake();
    }
    let kept = match KEPT.try_lock() {
        Ok(mut kept) => std::mem::take(&mut *kept),
        Err(TryLockError::Poisoned(kept)) => std::mem::take(&mut *kept.into_inner()),
        // A thread of another interpreter is adding an arena; a later call frees what is there now.
        Err(TryLockError::WouldBlock) => return,
    };
    for (address, size) in kept {
        // SAFETY: CPython has given this arena up, and it has been passed to no other allocator.
        unsafe { free_before(address as *mut c_void, size) };
    }
}

/// Pools, into which arenas are divided, begin at multiples of this.
pub(crate) const POOL: usize = 1 << 14;

/// `struct pool_header`, the same from 3.10 to 3.15.
#[repr(C)]
struct PoolHeader {
    count: usize,
    free: usize,
    next: usize,
    previous: usize,
    arena: u32,
    size_class: u32,
    next_offset: u32,
    largest_offset: u32,
}

impl PoolHeader {
    /// Whether this is the header of a pool of small objects, which it says in several ways.
    fn is_genuine(&self) -> bool {
        let block = 16 * (self.size_class.wrapping_add(1));
        self.size_class < (SMALL / 16) as u32
            && self.largest_offset == POOL as u32 - block
            && self.next_offset >= size_of::<Self>() as u32
            && self.next_offset <= POOL as u32
            && (self.next_offset - size_of::<Self>() as u32).is_multiple_of(block)
    }
}

/// Whether what begins here is a pool of small objects.
///
/// # Safety
/// It must be a multiple of `POOL` that can be read.
pub(crate) unsafe fn is_pool(address: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { &*(address as *const PoolHeader) }.is_genuine()
}

/// The same for many addresses, of which nothing is known: the kernel reads them.
pub(crate) fn are_pools(addresses: &[usize]) -> impl Iterator<Item = bool> {
    let is_genuine = |bytes: [u8; size_of::<PoolHeader>()]| {
        // SAFETY: a header is made of whole numbers, and any bytes make some.
        unsafe { std::mem::transmute::<[u8; size_of::<PoolHeader>()], PoolHeader>(bytes) }.is_genuine()
    };
    memory::copies(addresses).into_iter().map(move |bytes| bytes.is_some_and(is_genuine))
}

/// What a pool is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolUse {
    /// The number of its arena.
    pub(crate) arena: u32,
    /// The size of its blocks.
    pub(crate) block: usize,
    /// How many are in use.
    pub(crate) blocks: usize,
}

/// The length of a pool's header.
pub(crate) const POOL_HEADER: usize = size_of::<PoolHeader>();

/// What the pool with this header is used for; None where it is no such header.
pub(crate) fn pool_use(header: [u8; POOL_HEADER]) -> Option<PoolUse> {
    // SAFETY: a header is made of whole numbers, and any bytes make some.
    let header = unsafe { std::mem::transmute::<[u8; POOL_HEADER], PoolHeader>(header) };
    let block = 16 * (header.size_class as usize + 1);
    let fits = header.is_genuine() && header.count <= POOL / block;
    fits.then_some(PoolUse { arena: header.arena, block, blocks: header.count })
}

/// Whether pools of small objects begin at some places in a range, far enough apart to be quick.
///
/// # Safety
/// The range must begin at a multiple of `POOL`, and it must be possible to read it.
pub(crate) unsafe fn pools_in(from: usize, bytes: usize) -> impl Iterator<Item = bool> {
    /// Arenas are four times as large.
    const STEP: usize = ARENA / 4;
    // SAFETY: the caller's promise: these are multiples of a pool's size.
    (from..from + bytes).step_by(STEP).map(|pool| unsafe { is_pool(pool) })
}

/// How many bytes of a range are free in pools of small objects, or no such pools at all.
///
/// # Safety
/// The range must be of whole pools, and it must be possible to read it.
pub(crate) unsafe fn free_in(from: usize, bytes: usize) -> usize {
    let free = |pool: usize| {
        // SAFETY: the caller's promise; any bytes make a header.
        let used = pool_use(unsafe { *(pool as *const [u8; POOL_HEADER]) });
        used.map_or(POOL, |used| ((POOL - POOL_HEADER) / used.block).saturating_sub(used.blocks) * used.block)
    };
    (from..from + bytes).step_by(POOL).map(free).sum()
}

/// Notes which arenas are sparse, for the next census. None are noted where that is not worth knowing.
pub(crate) fn note_sparse(arenas: Vec<(usize, usize)>) {
    if let Ok(mut noted) = SPARSE.try_lock() {
        *noted = arenas;
    }
}

/// The arenas that were noted as sparse; none while they are being noted.
pub(crate) fn sparse() -> Vec<(usize, usize)> {
    SPARSE.try_lock().map(|noted| noted.clone()).unwrap_or_default()
}

/// Puts new arenas into huge pages from now on, or no longer. False where there can be none. The caller holds the GIL.
pub(crate) fn use_huge_pages(wanted: bool) -> bool {
    let can = wanted && is_pymalloc() && huge::are_possible() && is_in_place(true);
    HUGE.store(can, Ordering::Relaxed);
    if !can {
        CHUNKS.spare_nothing();
    }
    can
}

/// Whether a range has address space of ours in it: arenas may have come where something else was.
pub(crate) fn are_within((from, to): (usize, usize)) -> bool {
    CHUNKS.are_within(from, to)
}

/// The address space of ours that an address lies in. It is mapped, and stays so while arenas are kept.
pub(crate) fn region_of(address: usize) -> Option<Range<usize>> {
    CHUNKS.region_of(address)
}

/// Where the code is that CPython itself takes arenas with.
pub(crate) fn taken_by() -> Option<usize> {
    let before = ALLOC.load(Ordering::Acquire);
    if before != 0 {
        return Some(before);
    }
    let get = symbol(c"PyObject_GetArenaAllocator")?;
    let mut now = Allocator { context: std::ptr::null_mut(), alloc, free };
    // SAFETY: the symbol is this function of CPython's API, and the struct is laid out as its own.
    unsafe { std::mem::transmute::<*mut c_void, Exchange>(get)(&raw mut now) };
    Some(now.alloc as *const () as usize)
}

/// Whether a snapshot is out, or something that it has found is left.
pub(crate) fn is_snapshot_out() -> bool {
    OUT.load(Ordering::Acquire)
}

/// Ordinary arenas lie in huge pages from now on.
pub(crate) fn note_gathered() {
    GATHERED.store(true, Ordering::Relaxed);
}

/// The program is about to fork.
pub(crate) fn before_fork() {
    CHUNKS.share_all();
}

/// What is done for huge pages from time to time, by one thread. No GIL is needed.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    prepared: Option<Instant>,
    given_back: Option<Instant>,
    thinned: Option<Instant>,
    /// There was more to do than the last round had time for.
    unfinished: bool,
    /// Whether the process had room to spare at the last look.
    has_room: bool,
    gatherer: Gatherer,
}

impl Upkeep {
    /// It is done a little at a time, with pauses: a thread that touches a page meanwhile waits.
    const BUDGET: Duration = Duration::from_micros(200);
    const PAUSE: Duration = Duration::from_millis(3);

    /// The shortest time between two looks at how many pages the program begins.
    const PREPARE: Duration = Duration::from_millis(200);

    /// How long an arena must have been out of use before its half of a page is given back.
    const THIN: Duration = Duration::from_secs(1);

    /// How long the memory of pages that are out of use is kept where the program does not need it.
    const UNNEEDED: Duration = Duration::from_secs(3);

    /// How long it rests where there is nothing to do.
    const QUIET: Duration = Duration::from_secs(4);

    /// Does a little of what is due, and says when there is more. The page that the program begins after a quiet time
    /// wakes the thread, and so does the end of a snapshot.
    ///
    /// A write to memory that is shared with a clone breaks a huge page up into 512 small ones, and the next clone would
    /// copy an entry for each: they are put back together. The next pages get their memory before the program needs
    /// them. Of pages of which only a half is in use, the other half is given back.
    ///
    /// Where the process has no room to spare, no memory is held ready, and no page is put together: that takes another
    /// one for a moment, and gives memory to parts that had none.
    ///
    /// What a clone that was asked for waits for comes first.
    pub(crate) fn round(&mut self, limits: impl Fn() -> GatherLimits) -> Duration {
        if OUT.load(Ordering::Acquire) {
            return Self::THIN;
        }
        if let Some(pause) = self.gatherer.round(&limits) {
            return pause;
        }
        if !CHUNKS.are_there() {
            return Self::QUIET;
        }
        let began = Instant::now();
        let is_due = |last: Option<Instant>, every: Duration| last.is_none_or(|last| began - last >= every);
        let huge = HUGE.load(Ordering::Relaxed);
        if huge && is_due(self.prepared, if CHUNKS.have_begun() { Self::PREPARE } else { Self::THIN }) {
            self.prepared = Some(began);
            self.has_room = limits().has_room;
            CHUNKS.prepare(self.has_room);
        }
        if is_due(self.given_back, Self::UNNEEDED) {
            self.given_back = Some(began);
            CHUNKS.give_back_unneeded();
        }
        if is_due(self.thinned, Self::THIN) {
            self.thinned = Some(began);
            CHUNKS.begin_thinning();
            self.unfinished = true;
        }
        if self.unfinished || CHUNKS.have_to_be_mended() {
            let enough = || began.elapsed() >= Self::BUDGET || OUT.load(Ordering::Acquire);
            self.unfinished = CHUNKS.thin(enough) || (self.has_room && CHUNKS.mend(enough));
        }
        match self.prepared {
            _ if self.unfinished => Self::PAUSE,
            Some(last) if huge && CHUNKS.have_begun() => (last + Self::PREPARE).saturating_duration_since(began),
            _ => Self::QUIET,
        }
    }
}

/// Whether our hook is the one that CPython calls; where none of ours was ever set, it may be set now.
fn is_in_place(may_set: bool) -> bool {
    let (Some(get), Some(set)) = (symbol(c"PyObject_GetArenaAllocator"), symbol(c"PyObject_SetArenaAllocator")) else {
        return false;
    };
    let mut now = Allocator { context: std::ptr::null_mut(), alloc, free };
    // SAFETY: the symbols are these functions of CPython's API, and the struct is laid out as theirs.
    unsafe {
        let (get, set) =
            (std::mem::transmute::<*mut c_void, Exchange>(get), std::mem::transmute::<*mut c_void, Exchange>(set));
        get(&raw mut now);
        if now.free as usize == free as *const () as usize {
            return true;
        }
        // If it were set twice, it would call itself through an allocator that has wrapped it.
        if !may_set || FREE.load(Ordering::Acquire) != 0 {
            return false;
        }
        CONTEXT.store(now.context as usize, Ordering::Relaxed);
        ALLOC.store(now.alloc as *const () as usize, Ordering::Relaxed);
        FREE.store(now.free as *const () as usize, Ordering::Release);
        let mut ours = Allocator { context: std::ptr::null_mut(), alloc, free };
        set(&raw mut ours);
    }
    true
}

unsafe extern "C" fn alloc(_: *mut c_void, size: usize) -> *mut c_void {
    let in_use = IN_USE.fetch_add(size as isize, Ordering::Relaxed);
    if size == ARENA
        && in_use >= SMALL_PROGRAM
        && HUGE.load(Ordering::Relaxed)
        && let Some(arena) = CHUNKS.alloc()
    {
        return arena as *mut c_void;
    }
    let (context, before) = (CONTEXT.load(Ordering::Relaxed), ALLOC.load(Ordering::Acquire));
    // SAFETY: `is_in_place` has stored the function that was there before, with its context.
    unsafe {
        let before = std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>(before);
        let arena = before(context as *mut c_void, size);
        if arena.is_null() {
            IN_USE.fetch_sub(size as isize, Ordering::Relaxed);
        }
        arena
    }
}

unsafe extern "C" fn free(_: *mut c_void, arena: *mut c_void, size: usize) {
    IN_USE.fetch_sub(size as isize, Ordering::Relaxed);
    let keeping = KEEPING.load(Ordering::Acquire);
    // What is in a huge page stays mapped anyhow.
    // SAFETY: CPython gives the arena up.
    if unsafe { CHUNKS.free(arena as usize, !keeping) } {
        if !HUGE.load(Ordering::Relaxed) {
            // The uplink no longer maintains the pages.
            CHUNKS.thin_at(arena as usize);
        }
        return;
    }
    if keeping {
        if let Ok(mut kept) = KEPT.try_lock()
            && kept.try_reserve(1).is_ok()
        {
            kept.push((arena as usize, size));
            // SAFETY: CPython no longer uses the arena; it reads as zeros from now on.
            unsafe { discard(arena as usize, size) };
            return;
        }
        LOST.store(true, Ordering::Relaxed);
    }
    if GATHERED.load(Ordering::Relaxed) {
        // What is unmapped of a huge page would stay with the rest of it.
        // SAFETY: CPython no longer uses the arena.
        unsafe { discard(arena as usize, size) };
    }
    // SAFETY: the arguments are passed on.
    unsafe { free_before(arena, size) };
}

/// Gives the memory of an arena back; the address stays.
///
/// # Safety
/// Its contents must no longer be needed.
unsafe fn discard(arena: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if GATHERED.load(Ordering::Relaxed) { huge::discard_part(arena, size) } else { huge::discard(arena, size) }
    }
}

/// # Safety
/// The arena must be CPython's to give back.
unsafe fn free_before(arena: *mut c_void, size: usize) {
    let (context, before) = (CONTEXT.load(Ordering::Relaxed), FREE.load(Ordering::Acquire));
    // SAFETY: as in `alloc`.
    unsafe {
        let before = std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void, *mut c_void, usize)>(before);
        before(context as *mut c_void, arena, size);
    }
}

/// Writes the header of a pool whose objects take 64 bytes each.
///
/// # Safety
/// It must be a multiple of `POOL` that can be written to.
#[cfg(test)]
pub(crate) unsafe fn make_pool(address: usize) {
    let header = address as *mut PoolHeader;
    // SAFETY: the caller's promise.
    unsafe {
        (*header).size_class = 3;
        (*header).largest_offset = POOL as u32 - 64;
        (*header).next_offset = 48 + 5 * 64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_known_by_its_header() {
        let mut memory = vec![0_u8; 3 * POOL];
        let address = (memory.as_mut_ptr() as usize).next_multiple_of(POOL);
        // SAFETY: the memory is long enough for two whole pools from its first multiple on.
        unsafe {
            assert!(!is_pool(address));
            make_pool(address);
            assert!(is_pool(address));
            assert_eq!(are_pools(&[address, 8, address + POOL]).collect::<Vec<_>>(), [true, false, false]);
            assert_eq!(free_in(address, 2 * POOL), POOL + (POOL - POOL_HEADER) / 64 * 64);
            (*(address as *mut PoolHeader)).count = 255;
            assert_eq!(free_in(address, POOL), 0);
            (*(address as *mut PoolHeader)).next_offset += 1;
            assert!(!is_pool(address));
            std::ptr::write_bytes(address as *mut u8, 1, POOL);
            assert!(!is_pool(address));
        }
    }
}
