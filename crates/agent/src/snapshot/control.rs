//! What the program and the process that walks its snapshot say to each other: a few words and the candidates, in
//! memory that both share.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::system;

/// What the control words take at the beginning of the shared memory.
const HEAD: usize = 16 << 10;

/// The first pages of the shared memory.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct SharedControl {
    /// Whether the walk is done; everything else may be read then.
    done: AtomicU32,
    /// Why it was given up, as a `WalkTrouble`.
    trouble: AtomicU32,
    /// The program does not want it any more.
    stop: AtomicU32,
    pub(super) tracked: AtomicU64,
    pub(super) frozen: AtomicU64,
    pub(super) candidates: AtomicU64,
    pub(super) components: AtomicU64,
    pub(super) largest: AtomicU64,
    /// Reachable objects that are no longer new.
    pub(super) older: AtomicU64,
    /// Garbage that found no room.
    pub(super) left_out: AtomicU64,
    /// Memory that the walk took for itself.
    pub(super) own_bytes: AtomicU64,
    /// Processor time that it used.
    pub(super) worked_ns: AtomicU64,
    /// How long the program stood still for the clone. The program writes it, soon after the walk has begun.
    pub(super) pause_ns: AtomicU64,
    /// Objects that a dump has, and bytes of it that are written.
    pub(super) objects: AtomicU64,
    pub(super) written: AtomicU64,
    /// When each step was over.
    pub(super) ended: [AtomicU64; STEPS],
    /// What the walk has touched and did not have, before it crashed.
    pub(super) missed: AtomicU64,
    /// Memory that the walk has looked for and not touched, from and to.
    pub(super) untouched_count: AtomicU64,
    pub(super) untouched: [(AtomicU64, AtomicU64); MOST_UNTOUCHED],
}

/// More ranges are not told of.
pub(super) const MOST_UNTOUCHED: usize = 512;

/// The steps of a walk: enlist, subtract, mark, group.
pub(super) const STEPS: usize = 4;

/// Why a walk was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum WalkTrouble {
    NoMemory = 1,
    Stopped = 2,
    Orphaned = 3,
    Late = 4,
    Lost = 5,
    TooMany = 6,
    NoRoom = 7,
    NotRead = 8,
}

impl WalkTrouble {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NoMemory => "the snapshot found no memory for its tables",
            Self::Stopped => "the snapshot was called off",
            Self::Orphaned => "the snapshot's program is gone",
            Self::Late => "the snapshot took too long",
            Self::Lost => "the snapshot did not find where new objects begin",
            Self::TooMany => "the heap has more objects or types than a dump can number",
            Self::NoRoom => "there is no room for the heap dump where it is written to",
            Self::NotRead => "the heap dump was no longer read, or could not be written",
        }
    }
}

impl SharedControl {
    pub(super) fn say_done(&self) {
        self.done.store(1, Ordering::Release);
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == 1
    }

    pub(super) fn say_trouble(&self, trouble: WalkTrouble) {
        self.trouble.store(trouble as u32, Ordering::Release);
    }

    pub(super) fn trouble(&self) -> Option<WalkTrouble> {
        match self.trouble.load(Ordering::Acquire) {
            1 => Some(WalkTrouble::NoMemory),
            2 => Some(WalkTrouble::Stopped),
            3 => Some(WalkTrouble::Orphaned),
            4 => Some(WalkTrouble::Late),
            5 => Some(WalkTrouble::Lost),
            6 => Some(WalkTrouble::TooMany),
            7 => Some(WalkTrouble::NoRoom),
            8 => Some(WalkTrouble::NotRead),
            _ => None,
        }
    }

    pub(super) fn say_stop(&self) {
        self.stop.store(1, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != 0
    }
}

/// An object that was unreachable in the snapshot.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Where it is. Objects lie at multiples of 16, so the low bit is free to say that it is no small one.
    tagged: usize,
    /// What it is an instance of.
    pub(super) kind: usize,
}

const NOT_SMALL: usize = 1;

impl Candidate {
    pub(super) fn new(object: usize, kind: usize, small: bool) -> Self {
        Self { tagged: if small { object } else { object | NOT_SMALL }, kind }
    }

    pub(super) fn object(self) -> usize {
        self.tagged & !NOT_SMALL
    }

    /// Whether it lies in one of CPython's arenas.
    pub(super) fn is_small(self) -> bool {
        self.tagged & NOT_SMALL == 0
    }
}

/// The shared memory: the control page, the candidates component by component, and the components' sizes.
#[derive(Debug)]
pub(super) struct Shared {
    at: *mut u8,
    capacity: usize,
}

// SAFETY: the memory is reached through atomics, and through the candidates once the other process has ended.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Room for so many candidates. Only what is used takes memory.
    pub(super) fn new(capacity: usize) -> Option<Self> {
        let at = system::map_shared(Self::bytes(capacity));
        // Lazily: one that was never mapped must not be dropped.
        (!at.is_null()).then(|| Self { at, capacity })
    }

    fn bytes(capacity: usize) -> usize {
        HEAD + capacity * (size_of::<Candidate>() + size_of::<u32>())
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn control(&self) -> &SharedControl {
        // SAFETY: the mapping begins with a page that is zeroed, which is a valid `SharedControl`, and lives as long as this.
        unsafe { &*self.at.cast() }
    }

    /// Where the candidates are.
    pub(super) fn candidates(&self) -> *mut Candidate {
        self.at.wrapping_add(HEAD).cast()
    }

    /// Where the sizes of the components are.
    pub(super) fn sizes(&self) -> *mut u32 {
        self.at.wrapping_add(HEAD + self.capacity * size_of::<Candidate>()).cast()
    }

    /// The candidates, after the other process has ended.
    pub(super) fn found(&self) -> (&[Candidate], &[u32]) {
        let control = self.control();
        let most = self.capacity as u64;
        let candidates = control.candidates.load(Ordering::Acquire).min(most) as usize;
        let components = control.components.load(Ordering::Acquire).min(most) as usize;
        // SAFETY: both lie inside the mapping, any bytes are valid, and the clone no longer writes to them.
        unsafe {
            (
                std::slice::from_raw_parts(self.candidates(), candidates),
                std::slice::from_raw_parts(self.sizes(), components),
            )
        }
    }
}

impl Shared {
    /// Memory that the walk has looked for and not touched.
    pub(super) fn untouched(&self) -> Vec<(usize, usize)> {
        let control = self.control();
        let count = control.untouched_count.load(Ordering::Acquire) as usize;
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed) as usize;
        control.untouched.iter().take(count).map(|(from, to)| (read(from), read(to))).collect()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is this struct's own.
        unsafe { system::unmap(self.at, Self::bytes(self.capacity)) };
    }
}

const _: () = assert!(size_of::<SharedControl>() <= HEAD && size_of::<Candidate>() == 16);
