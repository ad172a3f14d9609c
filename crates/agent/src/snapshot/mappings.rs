//! Which large memory a walk does not touch, found out in the clone: it is locked away in blocks before the walk, and
//! when the walk touches a block, the fault handler unlocks it and notes that.
//!
//! The marks that the processor leaves on used pages would do, too, but others read and wipe those.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::control::{MOST_UNTOUCHED, SharedControl};
use super::system;
use crate::cpython::arenas;
use crate::sys::page::page_size;

/// Blocks begin at multiples of this, and are as large.
pub(super) const BLOCK: usize = 64 << 20;

/// More blocks are not looked at; this is a quarter of a terabyte.
const MOST_BLOCKS: usize = 4096;

/// Room for the kernel's account of all mappings; a process with more of them goes without.
const ACCOUNT: usize = 64 << 20;

/// The blocks that are locked away, as addresses in their order, and how many they are. One that was touched is marked by
/// its lowest bit. Only the clone ever writes here.
static BLOCKS: AtomicPtr<usize> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

const TOUCHED: usize = 1;

/// Locks large mappings away, in whole blocks. False where there are none, or it cannot be done.
pub(super) fn lock_away() -> bool {
    let Some(account) = Account::read(c"/proc/self/maps") else { return false };
    let blocks: *mut usize = system::map(MOST_BLOCKS * size_of::<usize>()).cast();
    if blocks.is_null() {
        return false;
    }
    let mut count = 0;
    // SAFETY: it has no preconditions.
    let thread = unsafe { libc::pthread_self() } as usize;
    let stack = &raw const count as usize;
    for (from, to) in account.lines().filter_map(large_mapping) {
        let mut block = from.next_multiple_of(BLOCK);
        while block + BLOCK <= to && count < MOST_BLOCKS {
            // What this process stands on cannot be had back from below.
            if ![stack, thread].iter().any(|it| (block..block + BLOCK).contains(it)) {
                // SAFETY: there is room for so many.
                unsafe { *blocks.add(count) = block };
                count += 1;
            }
            block += BLOCK;
        }
    }
    BLOCKS.store(blocks, Ordering::Relaxed);
    COUNT.store(count, Ordering::Relaxed);
    if count == 0 || !catch_faults() {
        return false;
    }
    for number in 0..count {
        // SAFETY: as above. When the walk touches the block, `give_back` unlocks it.
        unsafe { protect(*blocks.add(number), libc::PROT_NONE) };
    }
    true
}

/// Writes down the blocks that are full of memory and that the walk has not touched.
pub(super) fn tell_untouched(control: &SharedControl) {
    let (blocks, count) = (BLOCKS.load(Ordering::Relaxed), COUNT.load(Ordering::Relaxed));
    let residency = system::map(BLOCK / page_size());
    if residency.is_null() {
        return;
    }
    let mut told = 0;
    for number in 0..count {
        // SAFETY: the table has so many; the block is a mapping of this process's own.
        unsafe {
            let block = *blocks.add(number);
            if block & TOUCHED == 0 && is_full(block, residency) {
                protect(block, libc::PROT_READ);
                if !holds_small_objects(block) {
                    told = add(control, told, block, block + BLOCK);
                }
            }
        }
    }
    control.untouched_count.store(told as u64, Ordering::Release);
}

/// Whether at least half of a block's pages are there: less is not worth the while.
unsafe fn is_full(block: usize, residency: *mut u8) -> bool {
    // SAFETY: the caller has room for a byte for each page.
    unsafe {
        if libc::syscall(libc::SYS_mincore, block, BLOCK, residency) != 0 {
            return false;
        }
        let pages = std::slice::from_raw_parts(residency, BLOCK / page_size());
        pages.iter().filter(|page| **page & 1 != 0).count() >= BLOCK / page_size() / 2
    }
}

/// Whether some of it is an arena of CPython's: one that has only numbers and texts in it may have others soon.
unsafe fn holds_small_objects(block: usize) -> bool {
    /// Arenas are four times as large, at least.
    const STEP: usize = 256 << 10;
    // SAFETY: the caller's promise: the block can be read. These are multiples of a pool's size.
    (block..block + BLOCK).step_by(STEP).any(|pool| unsafe { arenas::is_pool(pool) })
}

unsafe fn protect(block: usize, access: c_int) {
    // SAFETY: the caller's promise: the block is this process's own, and nothing of ours lies in it.
    unsafe { libc::syscall(libc::SYS_mprotect, block, BLOCK, access) };
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
    let (blocks, count) = (BLOCKS.load(Ordering::Relaxed), COUNT.load(Ordering::Relaxed));
    // SAFETY: the kernel passes the address that was touched; the table has so many blocks.
    unsafe {
        let wanted = (*info).si_addr() as usize & !(BLOCK - 1);
        for number in 0..count {
            let block = blocks.add(number);
            if *block == wanted {
                *block |= TOUCHED;
                protect(wanted, libc::PROT_READ | libc::PROT_WRITE);
                return;
            }
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
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

/// A file of the kernel's, whole.
struct Account {
    text: &'static [u8],
}

impl Account {
    fn read(path: &std::ffi::CStr) -> Option<Self> {
        let buffer = system::map(ACCOUNT);
        if buffer.is_null() {
            return None;
        }
        // SAFETY: the mapping is as long as said, and nothing else refers to it.
        let length = system::read_all(path, unsafe { std::slice::from_raw_parts_mut(buffer, ACCOUNT) })?;
        // SAFETY: so much has been filled, and it stays until this process ends.
        Some(Self { text: unsafe { std::slice::from_raw_parts(buffer, length) } })
    }

    fn lines(&self) -> impl Iterator<Item = &'static [u8]> {
        self.text.split(|byte| *byte == b'\n')
    }
}

/// The range of a mapping that is private, anonymous, writable and large.
pub(super) fn large_mapping(line: &[u8]) -> Option<(usize, usize)> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let mut range = words.next()?.split(|byte| *byte == b'-');
    let (from, to) = (hexadecimal(range.next()?)?, hexadecimal(range.next()?)?);
    let is_writable = words.next()? == b"rw-p";
    let is_anonymous = words.nth(2)? == b"0" && words.next().is_none_or(|name| name.starts_with(b"[anon"));
    (is_writable && is_anonymous && to.checked_sub(from)? >= BLOCK).then_some((from, to))
}

fn hexadecimal(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0_usize, |sum, digit| Some((sum << 4) | (*digit as char).to_digit(16)? as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_anonymous_mappings_are_told_from_others() {
        let check = |line: &str, large: bool| assert_eq!(large_mapping(line.as_bytes()).is_some(), large, "{line}");
        check("7f0000000000-7f0004000000 rw-p 00000000 00:00 0 ", true);
        check("7f0000000000-7f0004000000 rw-p 00000000 00:00 0                 [anon:cpython:obmalloc]", true);
        check("7f0000000000-7f0003fff000 rw-p 00000000 00:00 0 ", false);
        check("7f0000000000-7f0004000000 ---p 00000000 00:00 0 ", false);
        check("7f0000000000-7f0004000000 rw-s 00000000 00:01 7 /dev/zero (deleted)", false);
        check("7f0000000000-7f0004000000 rw-p 00000000 00:00 0                 [stack]", false);
        check("7f0000000000-7f0004000000 rw-p 00000000 fe:00 77 /usr/lib/x.so", false);
        check("Rss:                   4 kB", false);
        assert_eq!(large_mapping(b"10000000-20000000 rw-p 0 00:00 0"), Some((0x1000_0000, 0x2000_0000)));
    }

    #[test]
    fn ranges_beside_each_other_are_one() {
        let Some(shared) = super::super::control::Shared::new(1) else { panic!("no memory") };
        let mut count = 0;
        for (from, to) in [(0, 10), (10, 20), (30, 40)] {
            count = add(shared.control(), count, from, to);
        }
        shared.control().untouched_count.store(count as u64, Ordering::Relaxed);
        assert_eq!(shared.untouched(), [(0, 20), (30, 40)]);
        (0..200).for_each(|number| count = add(shared.control(), count, number * 2 + 100, number * 2 + 101));
        assert_eq!(count, MOST_UNTOUCHED);
    }
}
