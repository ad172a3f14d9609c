//! Large memory without Python objects is left out of the clone, which makes the clone as quick as if it were not there.
//!
//! What that memory is, earlier walks have told: blocks that are full and that they have not touched. Should a walk
//! touch one all the same, because its addresses have been used anew, it ends there, and the next one sees everything.
//!
//! It is left out by `MADV_WIPEONFORK`, which gives a clone the mapping without what is in it. Programs that pin memory
//! use `MADV_DONTFORK` for their own ends, and what they have asked for with that is not ours to take back.

mod forks;

use forks::NoForks;

use super::look_plan::LookPlan;
use super::mappings::{BLOCK, large_mapping};
use crate::cpython::arenas;

/// What is left out of clones.
#[derive(Debug, Default)]
pub(super) struct Apart {
    ranges: Vec<(usize, usize)>,
    looks: LookPlan,
}

/// At most so many ranges, the largest.
const MOST: usize = 32;

/// After a walk that ended in memory that it did not have, so many go without.
const CAUTION: u32 = 8;

impl Apart {
    /// Whether the next flight should look for more.
    pub(super) fn is_look_due(&self) -> bool {
        self.looks.is_due()
    }

    /// Sets the ranges apart until the guard is dropped. The thread that clones keeps what it stands on.
    pub(super) fn set(&mut self) -> Guard<'_> {
        if self.ranges.is_empty() {
            return Guard { ranges: &[], _forks: None };
        }
        let here = &raw const *self as usize;
        let stack = &raw const here as usize;
        // SAFETY: it has no preconditions; the descriptor lies where the thread's own variables are.
        let thread = unsafe { libc::pthread_self() } as usize;
        let is_ours = |(from, to): (usize, usize)| [here, stack, thread].iter().any(|it| (from..to).contains(it));
        // What is not all there any more is something else.
        self.ranges = still_large(&self.ranges, &std::fs::read("/proc/self/maps").unwrap_or_default());
        let Some(forks) = NoForks::begin() else {
            // A thread is forking: this clone gets everything.
            return Guard { ranges: &[], _forks: None };
        };
        self.ranges
            .retain(|range| !is_ours(*range) && !arenas::are_within(*range) && advise(*range, libc::MADV_WIPEONFORK));
        Guard { ranges: &self.ranges, _forks: Some(forks) }
    }

    /// A flight has landed. If it has looked, these were untouched.
    pub(super) fn landed(&mut self, untouched: Option<&[(usize, usize)]>) {
        self.looks.landed(untouched.is_some());
        if let Some(untouched) = untouched {
            self.ranges.extend(untouched.iter().filter(|(from, to)| to - from >= BLOCK));
            self.ranges.sort_by_key(|(from, to)| std::cmp::Reverse(to - from));
            self.ranges.truncate(MOST);
        }
    }

    /// A walk has crashed. If that may be because something was missing, the next ones get everything, and this is true.
    pub(super) fn crashed(&mut self) -> bool {
        if self.ranges.is_empty() {
            return false;
        }
        self.ranges.clear();
        self.looks.rest(CAUTION);
        true
    }

    /// How many bytes are left out.
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(from, to)| (to - from) as u64).sum()
    }
}

/// Ranges that are set apart now.
pub(super) struct Guard<'a> {
    ranges: &'a [(usize, usize)],
    /// Forks go on when everything is as it was.
    _forks: Option<NoForks>,
}

impl Guard<'_> {
    /// What the clone does not get.
    pub(super) fn ranges(&self) -> &[(usize, usize)] {
        self.ranges
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        for range in self.ranges {
            advise(*range, libc::MADV_KEEPONFORK);
        }
    }
}

/// The parts of ranges that lie in one large mapping each, by the kernel's account of all mappings. Where advice was
/// given for a part of one, by the code that uses the addresses now, the kernel has divided it there, and small pieces
/// are left alone: a page that must not be copied to a child keeps what its owner has asked for.
fn still_large(ranges: &[(usize, usize)], account: &[u8]) -> Vec<(usize, usize)> {
    let mut large = Vec::with_capacity(ranges.len());
    for (from, to) in account.split(|byte| *byte == b'\n').filter_map(large_mapping) {
        let parts = ranges.iter().map(|range| (range.0.max(from), range.1.min(to)));
        large.extend(parts.filter(|(from, to)| to.saturating_sub(*from) >= BLOCK));
    }
    large
}

fn advise((from, to): (usize, usize), advice: libc::c_int) -> bool {
    // SAFETY: both kinds of advice leave the memory of this process as it is.
    let advised = unsafe { libc::madvise(from as *mut libc::c_void, to - from, advice) } == 0;
    if !advised && advice == libc::MADV_WIPEONFORK {
        // It may have been done for a part.
        advise((from, to), libc::MADV_KEEPONFORK);
    }
    advised
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::system;
    use super::*;
    use crate::sys::locks::lock;

    /// A process sets memory apart in one thread at a time.
    static TURN: Mutex<()> = Mutex::new(());

    fn apart(ranges: &[(usize, usize)]) -> Apart {
        let mut apart = Apart::default();
        apart.landed(Some(ranges));
        apart
    }

    fn flags(address: usize) -> String {
        let account = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let mut inside = false;
        for line in account.lines() {
            if let Some((from, to)) = line.split(' ').next().and_then(|range| range.split_once('-')) {
                let parse = |digits| usize::from_str_radix(digits, 16).unwrap_or(0);
                inside = (parse(from)..parse(to)).contains(&address);
            } else if inside && line.starts_with("VmFlags:") {
                return line.to_owned();
            }
        }
        String::new()
    }

    #[test]
    fn ranges_are_apart_as_long_as_the_guard_lives() {
        let _turn = lock(&TURN);
        let mapped = system::map(2 * BLOCK);
        let memory = (mapped as usize).next_multiple_of(BLOCK);
        let mut apart = apart(&[(memory, memory + BLOCK)]);
        let guard = apart.set();
        assert!(guard.ranges() == [(memory, memory + BLOCK)] && flags(memory).contains(" wf"), "{}", flags(memory));
        drop(guard);
        assert!(!flags(memory).contains(" wf"), "{}", flags(memory));
        // SAFETY: the mapping is this test's own.
        unsafe { system::unmap(mapped, 2 * BLOCK) };
        assert!(apart.set().ranges.is_empty(), "what is gone is forgotten");
    }

    #[test]
    fn what_the_program_keeps_from_forks_stays_kept_from_them() {
        let _turn = lock(&TURN);
        let memory = system::map(4 * BLOCK) as usize;
        let first = memory.next_multiple_of(BLOCK);
        let mut apart = apart(&[(first, first + 3 * BLOCK)]);
        let keep_from_forks = |from: usize, length| {
            // SAFETY: the mapping is this test's own.
            assert_eq!(unsafe { libc::madvise(from as *mut libc::c_void, length, libc::MADV_DONTFORK) }, 0);
        };
        // A page of the first block, and all of the last one.
        keep_from_forks(first + 4096, 4096);
        keep_from_forks(first + 2 * BLOCK, BLOCK);
        let guard = apart.set();
        assert_eq!(guard.ranges(), [(first + 8192, first + 2 * BLOCK), (first + 2 * BLOCK, first + 3 * BLOCK)]);
        drop(guard);
        for (address, kept) in [(first, false), (first + 4096, true), (first + 8192, false), (first + 2 * BLOCK, true)]
        {
            assert_eq!(flags(address).contains(" dc"), kept, "{address:#x}: {}", flags(address));
            assert!(!flags(address).contains(" wf"));
        }
        // SAFETY: the mapping is this test's own.
        unsafe { system::unmap(memory as *mut u8, 4 * BLOCK) };
    }

    #[test]
    fn a_native_fork_waits_until_nothing_is_set_apart() {
        let _turn = lock(&TURN);
        let memory = system::map(2 * BLOCK) as usize;
        let from = memory.next_multiple_of(BLOCK);
        // SAFETY: the mapping is this test's own.
        unsafe { *(from as *mut u8) = 7 };
        let mut apart = apart(&[(from, from + BLOCK)]);
        let guard = apart.set();
        assert_eq!(guard.ranges().len(), 1);
        let forked = std::thread::spawn(move || {
            // SAFETY: the child makes no call but the one that ends it.
            unsafe {
                match libc::fork() {
                    0 => libc::_exit(i32::from(*(from as *const u8))),
                    child => child,
                }
            }
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!forked.is_finished());
        drop(guard);
        let Ok(child) = forked.join() else { panic!("no fork") };
        let ended = std::iter::repeat_with(|| system::wait(child)).find(|ended| *ended != system::ChildEnd::No);
        assert_eq!(ended, Some(system::ChildEnd::Exit(7)));
        // SAFETY: the mapping is this test's own.
        unsafe { system::unmap(memory as *mut u8, 2 * BLOCK) };
    }

    #[test]
    fn the_thread_keeps_what_it_stands_on() {
        let _turn = lock(&TURN);
        let here = 0_usize;
        let page = (&raw const here as usize) & !(BLOCK - 1);
        assert!(apart(&[(page, page + BLOCK)]).set().ranges.is_empty());
    }

    #[test]
    fn a_crash_makes_cautious() {
        let mut apart = apart(&[(0, BLOCK)]);
        assert!(apart.crashed() && apart.ranges.is_empty() && !apart.is_look_due());
        assert!(!apart.crashed());
    }
}
