//! Blocks of memory that a walk probably does not need are locked away in the clone. When the walk touches one all the
//! same, the fault handler unlocks it and notes that. What is locked to the end is not needed.
//!
//! The marks that the processor leaves on used pages would do, too, but others read and wipe those.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::control::{MOST_UNTOUCHED, SharedControl};
use super::system;

/// More blocks are not looked at.
const MOST_BLOCKS: usize = 1 << 16;

/// The blocks that are locked away, as addresses in their order, how many they are, and the size of each. One that was
/// touched is marked by its lowest bit. Only the clone ever writes here.
static BLOCKS: AtomicPtr<usize> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(1);

/// Where an address is told that was touched and is not there.
static MISSED: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

const TOUCHED: usize = 1;

/// Blocks of one size, about to be locked away. A block begins at a multiple of the size, which is a power of two.
pub(super) struct LockedBlocks {
    blocks: *mut usize,
    count: usize,
    size: usize,
    /// What this process stands on, which cannot be had back from below.
    stands_on: [usize; 2],
}

impl LockedBlocks {
    /// Nothing where the kernel has no memory.
    pub(super) fn new(size: usize) -> Option<Self> {
        let blocks: *mut usize = system::map(MOST_BLOCKS * size_of::<usize>()).cast();
        // SAFETY: it has no preconditions.
        let thread = unsafe { libc::pthread_self() } as usize;
        let stack = &raw const thread as usize;
        (!blocks.is_null()).then_some(Self { blocks, count: 0, size, stands_on: [stack, thread] })
    }

    /// Adds a block, which lies behind those that were added before.
    pub(super) fn add(&mut self, block: usize) {
        if self.count < MOST_BLOCKS && !self.stands_on.iter().any(|it| (block..block + self.size).contains(it)) {
            // SAFETY: there is room for so many.
            unsafe { *self.blocks.add(self.count) = block };
            self.count += 1;
        }
    }

    /// Locks them away. False where there are none, or it cannot be done.
    pub(super) fn lock(self) -> bool {
        BLOCKS.store(self.blocks, Ordering::Relaxed);
        COUNT.store(self.count, Ordering::Relaxed);
        SIZE.store(self.size, Ordering::Relaxed);
        if self.count == 0 || !catch_faults() {
            return false;
        }
        // SAFETY: the blocks are mappings of this process's own. When the walk touches one, `give_back` unlocks it.
        table().iter().for_each(|block| unsafe { protect(*block, libc::PROT_NONE) });
        true
    }
}

/// The blocks that the walk has not touched so far.
pub(super) fn untouched() -> impl Iterator<Item = usize> {
    table().iter().copied().filter(|block| block & TOUCHED == 0)
}

/// Gives a block that was locked back its memory, to be read.
pub(super) fn unlock(block: usize) {
    // SAFETY: the block is a mapping of this process's own.
    unsafe { protect(block, libc::PROT_READ) };
}

/// Tells the program of blocks, in the order of their addresses.
pub(super) fn tell(control: &SharedControl, size: usize, blocks: impl Iterator<Item = usize>) {
    let told = blocks.fold(0, |told, block| add(control, told, block, block + size));
    control.untouched_count.store(told as u64, Ordering::Release);
}

/// Adds a range, to the one before it where they are neighbours.
fn add(control: &SharedControl, count: usize, from: usize, to: usize) -> usize {
    if let Some((_, end)) = count.checked_sub(1).and_then(|last| control.untouched.get(last))
        && end.load(Ordering::Relaxed) == from as u64
    {
        end.store(to as u64, Ordering::Relaxed);
        return count;
    }
    let Some((start, end)) = control.untouched.get(count).filter(|_| count < MOST_UNTOUCHED) else { return count };
    start.store(from as u64, Ordering::Relaxed);
    end.store(to as u64, Ordering::Relaxed);
    count + 1
}

fn table() -> &'static [usize] {
    let (blocks, count) = (BLOCKS.load(Ordering::Relaxed), COUNT.load(Ordering::Relaxed));
    if blocks.is_null() {
        return &[];
    }
    // SAFETY: the table has so many, and stays until this process ends. The handler marks one while no reference is in use
    // that could see it: the walk touches no block while it goes through the table.
    unsafe { std::slice::from_raw_parts(blocks, count) }
}

unsafe fn protect(block: usize, access: c_int) {
    // SAFETY: the caller's promise: the block is this process's own, and nothing of ours lies in it.
    unsafe { libc::syscall(libc::SYS_mprotect, block, SIZE.load(Ordering::Relaxed), access) };
}

/// Has the program told what this process has touched and does not have, before that ends it.
pub(super) fn tell_missed(control: &SharedControl) {
    MISSED.store((&raw const control.missed).cast_mut(), Ordering::Relaxed);
    catch_faults();
}

/// Has faults told to `give_back`. The signal is blocked, like all others, and let through here.
fn catch_faults() -> bool {
    // SAFETY: all-zero structs are valid here; the handler fits its flags, and this process has no other.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = give_back as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        let mut faults: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut faults);
        libc::sigaddset(&raw mut faults, libc::SIGSEGV);
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) == 0
            && libc::sigprocmask(libc::SIG_UNBLOCK, &raw const faults, std::ptr::null_mut()) == 0
    }
}

/// The fault handler: unlocks the block that was touched. Any other fault is a real one, and ends the process.
unsafe extern "C" fn give_back(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes the address that was touched.
    let touched = unsafe { (*info).si_addr() } as usize;
    let wanted = touched & !(SIZE.load(Ordering::Relaxed) - 1);
    // SAFETY: the index is one of the table, which is this process's own; the control page outlives it.
    unsafe {
        if let Ok(number) = table().binary_search_by_key(&wanted, |block| block & !TOUCHED) {
            let block = BLOCKS.load(Ordering::Relaxed).add(number);
            if *block & TOUCHED == 0 {
                *block |= TOUCHED;
                protect(wanted, libc::PROT_READ | libc::PROT_WRITE);
                return;
            }
        }
        if let Some(missed) = MISSED.load(Ordering::Relaxed).as_ref() {
            missed.store(touched as u64, Ordering::Relaxed);
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_beside_each_other_are_one() {
        let Some(shared) = super::super::control::Shared::new(1) else { panic!("no memory") };
        tell(shared.control(), 10, [0, 10, 30].into_iter());
        assert_eq!(shared.untouched(), [(0, 20), (30, 40)]);
        tell(shared.control(), 1, (0..2 * MOST_UNTOUCHED).map(|number| 2 * number));
        assert_eq!(shared.untouched().len(), MOST_UNTOUCHED);
    }
}
