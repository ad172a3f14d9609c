//! Exact counts of a section of a program, such as one test: every block that is allocated in it, the most that lived
//! at a time, and the lines that had allocated it.
//!
//! Sampling rests meanwhile. Each call is counted under a lock, so a section is slower than the rest of the program. No
//! hook is in place before and after it. A forked child does not count.

mod blocks;
mod hooks;
mod totals;

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use neurogc_wire::sites::AllocationMode;
use serde_json::{Value, json};

pub(super) use hooks::realloc as reallocate;

use super::sampler::{self, is_active, sampler};
use super::stacks::{NODES, ROOT, StackTree};
use blocks::{Blocks, CountedBlock};
use totals::{SectionTotals, StackCount};

/// Innermost frames of a stack that are told apart.
const DEPTH: usize = 12;

/// Whether blocks are counted now.
static COUNTING: AtomicBool = AtomicBool::new(false);

/// Whether a section goes on; it is not counted in the moment of a fork.
static OPEN: AtomicBool = AtomicBool::new(false);

/// Whether it is told apart which stacks allocate: to read them takes longer than all else.
static BY_STACK: AtomicBool = AtomicBool::new(false);

/// Whether blocks were sampled before the section.
static SAMPLED: AtomicBool = AtomicBool::new(false);

static SECTION: Mutex<Section> = Mutex::new(Section::new());

static STACKS: OnceLock<&'static StackTree> = OnceLock::new();

/// What is known of the section.
#[derive(Debug)]
struct Section {
    blocks: Blocks,
    totals: SectionTotals,
    /// By the number of a stack's node.
    stacks: Option<&'static mut [StackCount; NODES]>,
    lost: u64,
}

impl Section {
    const fn new() -> Self {
        Self { blocks: Blocks::new(), totals: SectionTotals::new(), stacks: None, lost: 0 }
    }

    fn add(&mut self, address: usize, block: CountedBlock) {
        let Some(stacks) = self.stacks.as_deref_mut() else { return };
        let of = |node: u32| node as usize % NODES;
        match self.blocks.insert(address, block) {
            Ok(before) => {
                if let Some(before) = before {
                    self.totals.correct(&mut stacks[of(before.node)], before.size);
                }
                self.totals.add(&mut stacks[of(block.node)], block.size);
            }
            Err(blocks::NoRoom) => self.lost += 1,
        }
    }

    fn remove(&mut self, address: usize) -> Option<CountedBlock> {
        let block = self.blocks.remove(address)?;
        if let Some(stacks) = self.stacks.as_deref_mut() {
            self.totals.remove(&mut stacks[block.node as usize % NODES], block.size);
        }
        Some(block)
    }
}

/// The section. The lock is held for a few instructions, in which nothing is allocated.
fn section() -> MutexGuard<'static, Section> {
    SECTION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether blocks are counted now.
pub(super) fn is_counting() -> bool {
    COUNTING.load(Acquire)
}

/// The node of the calling thread's stack.
fn node() -> u32 {
    let Some((sampler, stacks)) = sampler().zip(STACKS.get()).filter(|_| BY_STACK.load(Relaxed)) else { return ROOT };
    let mut places = [const { MaybeUninit::uninit() }; DEPTH];
    stacks.node(sampler.stack.read(&mut places), &sampler.stack)
}

/// Counts a block that was just allocated. One that is counted already was allocated by one allocator for another.
pub(super) fn note(block: *mut c_void, size: usize) {
    if is_counting() && !block.is_null() {
        let block_is = CountedBlock { size: size as u64, node: node() };
        section().add(block as usize, block_is);
    }
}

/// A block is about to be freed.
pub(super) fn forget(block: *mut c_void) {
    take(block);
}

fn take(block: *mut c_void) -> Option<CountedBlock> {
    if is_counting() && !block.is_null() { section().remove(block as usize) } else { None }
}

/// A block could not be reallocated, and is still what it was.
fn restore(block: *mut c_void, was: Option<CountedBlock>) {
    if let Some(was) = was {
        section().add(block as usize, was);
    }
}

/// Begins a section, with or without its stacks. The caller holds the GIL.
pub(crate) fn begin(by_stack: bool) -> Result<(), String> {
    let sampler = sampler().ok_or("allocations cannot be counted: see `allocations` in neurogc.status()")?;
    if OPEN.load(Relaxed) {
        return Err("allocations are being counted already".to_owned());
    }
    let mut section = match SECTION.try_lock() {
        Ok(section) => section,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => return Err("allocations cannot be counted in this forked process".to_owned()),
    };
    let no_memory = "there is no memory to count allocations with";
    if STACKS.get().is_none() {
        // SAFETY: zeros are an empty tree, and the mapping stays.
        let _ = STACKS.set(unsafe { &*map::<StackTree>().ok_or(no_memory)? });
    }
    if section.stacks.is_none() {
        // SAFETY: zeros are counts of nothing; the mapping stays and is the section's alone.
        section.stacks = Some(unsafe { &mut *map::<[StackCount; NODES]>().ok_or(no_memory)? });
    }
    drop(section);
    SAMPLED.store(is_active(), Relaxed);
    sampler::deactivate();
    hooks::put_in(sampler);
    let mut section = self::section();
    if let Some(stacks) = STACKS.get() {
        // SAFETY: the mapping above, which reads as zeros afterwards: an empty tree.
        unsafe { wipe(std::ptr::from_ref(*stacks).cast_mut()) };
    }
    if let Some(stacks) = section.stacks.as_deref_mut() {
        // SAFETY: the other one.
        unsafe { wipe(std::ptr::from_mut(stacks)) };
    }
    section.blocks.clear();
    (section.totals, section.lost) = (SectionTotals::new(), 0);
    drop(section);
    BY_STACK.store(by_stack, Relaxed);
    OPEN.store(true, Relaxed);
    COUNTING.store(true, Release);
    Ok(())
}

/// Ends the section. What is known of it stays until the next one begins. The caller holds the GIL.
pub(crate) fn end() {
    if OPEN.swap(false, Relaxed) {
        COUNTING.store(false, Release);
        take_out();
    }
}

fn take_out() {
    if let Some(sampler) = sampler() {
        hooks::take_out(sampler);
    }
    if SAMPLED.swap(false, Relaxed) {
        sampler::resume();
    }
}

/// A thread of the program is about to fork: the child must not inherit a lock that another thread holds.
pub(crate) fn before_fork() {
    COUNTING.store(false, Release);
}

/// The parent goes on.
pub(crate) fn after_fork_in_parent() {
    COUNTING.store(OPEN.load(Relaxed), Release);
}

/// The child does not count.
pub(crate) fn after_fork_in_child() {
    if OPEN.swap(false, Relaxed) {
        take_out();
    }
}

/// Bytes that live now and the most that lived since the last call, or since the section began.
pub(crate) fn mark() -> (i64, i64) {
    let mut section = section();
    let figures = (section.totals.live, section.totals.peak);
    section.totals.begin_anew();
    figures
}

/// All figures, with so many of the stacks that hold the most, now or at the peak.
pub(crate) fn figures(most: usize) -> Value {
    let (totals, lost, live_blocks, mut stacks) = {
        let section = section();
        let mut found = Vec::new();
        if let Some(stacks) = section.stacks.as_deref() {
            for (node, stack) in stacks.iter().enumerate() {
                if stack.made_blocks > 0 {
                    found.push((node as u32, *stack));
                }
            }
        }
        (section.totals, section.lost, section.blocks.len(), found)
    };
    stacks.sort_by_key(|(_, stack)| std::cmp::Reverse(stack.live.max(stack.at_peak(&totals).0)));
    stacks.truncate(most);
    let sites: Vec<_> = stacks
        .into_iter()
        .map(|(node, stack)| {
            let (at_peak, blocks_at_peak) = stack.at_peak(&totals);
            json!({
                "stack": frames(node),
                "live": stack.live,
                "live_blocks": stack.live_blocks,
                "at_peak": at_peak,
                "blocks_at_peak": blocks_at_peak,
                "made": stack.made,
                "made_blocks": stack.made_blocks,
            })
        })
        .collect();
    json!({
        "native": is_native(),
        "live": totals.live,
        "live_blocks": live_blocks,
        "peak": totals.peak,
        "made": totals.made,
        "made_blocks": totals.made_blocks,
        "lost": lost,
        "sites": sites,
    })
}

/// Whether calls of `malloc` by native code are seen.
fn is_native() -> bool {
    sampler().is_some_and(|sampler| sampler.mode == AllocationMode::Native)
}

/// File, line and function of each frame, the innermost first.
fn frames(node: u32) -> Vec<(String, u32, String)> {
    let mut frames = Vec::new();
    let Some(stacks) = STACKS.get() else { return frames };
    let mut at = node;
    while let Some(facts) = (at != ROOT && frames.len() < DEPTH).then(|| stacks.facts(at)).flatten() {
        frames.push((stacks.texts.text(facts.file), facts.line, stacks.texts.text(facts.function)));
        at = facts.parent;
    }
    frames
}

/// Zeros for a value, which are never unmapped.
fn map<T>() -> Option<*mut T> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice touches no other.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<T>(), access, kind, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start.cast())
}

/// # Safety
/// It must be a mapping of `map`, and zeros must be valid for it at this moment.
unsafe fn wipe<T>(mapped: *mut T) {
    // SAFETY: the caller's promise; the pages of a private anonymous mapping read as zeros afterwards.
    unsafe { libc::madvise(mapped.cast(), size_of::<T>(), libc::MADV_DONTNEED) };
}
