//! Large memory without Python objects is left out of the clone, which makes the clone as quick as if it were not there.
//!
//! What that memory is, earlier walks have told: blocks that are full and that they have not touched. Should a walk
//! touch one all the same, because its addresses have been used anew, it ends there, and the next one sees everything.

use super::mappings::BLOCK;
use crate::cpython::arenas;

/// What is left out of clones.
#[derive(Debug, Default)]
pub(super) struct Apart {
    ranges: Vec<(usize, usize)>,
    /// Flights so far, and the one after which to look for more.
    flights: u32,
    next_look: u32,
}

/// At most so many ranges, the largest.
const MOST: usize = 32;

/// After a walk that ended in memory that it did not have, so many go without.
const CAUTION: u32 = 8;

/// Looks for more become rarer, down to one in so many flights.
const RAREST_LOOK: u32 = 16;

impl Apart {
    /// Whether the next flight should look for more.
    pub(super) fn looks(&self) -> bool {
        self.flights >= self.next_look
    }

    pub(super) fn ranges(&self) -> &[(usize, usize)] {
        &self.ranges
    }

    /// Sets the ranges apart until the guard is dropped. The thread that clones keeps what it stands on.
    pub(super) fn set(&mut self) -> Guard<'_> {
        let here = &raw const *self as usize;
        let stack = &raw const here as usize;
        // SAFETY: it has no preconditions; the descriptor lies where the thread's own variables are.
        let thread = unsafe { libc::pthread_self() } as usize;
        let is_ours = |(from, to): (usize, usize)| [here, stack, thread].iter().any(|it| (from..to).contains(it));
        // What is not all there any more is something else.
        self.ranges
            .retain(|range| !is_ours(*range) && !arenas::are_within(*range) && advise(*range, libc::MADV_DONTFORK));
        Guard { ranges: &self.ranges }
    }

    /// A flight has landed, and has looked, if it was asked to.
    pub(super) fn landed(&mut self, looked: bool, untouched: &[(usize, usize)]) {
        self.flights += 1;
        if looked {
            self.next_look = self.flights + (self.flights - 1).min(RAREST_LOOK - 1);
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
        self.next_look = self.flights + CAUTION;
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
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        for range in self.ranges {
            advise(*range, libc::MADV_DOFORK);
        }
    }
}

fn advise((from, to): (usize, usize), advice: libc::c_int) -> bool {
    // SAFETY: both kinds of advice leave the memory of this process as it is.
    let advised = unsafe { libc::madvise(from as *mut libc::c_void, to - from, advice) } == 0;
    if !advised && advice == libc::MADV_DONTFORK {
        // It may have been done for a part.
        advise((from, to), libc::MADV_DOFORK);
    }
    advised
}

#[cfg(test)]
mod tests {
    use super::super::system;
    use super::*;

    fn apart(ranges: &[(usize, usize)]) -> Apart {
        let mut apart = Apart::default();
        apart.landed(true, ranges);
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
        let memory = system::map(BLOCK) as usize;
        let mut apart = apart(&[(memory, memory + BLOCK)]);
        let guard = apart.set();
        assert!(flags(memory).contains(" dc"), "{}", flags(memory));
        drop(guard);
        assert!(!flags(memory).contains(" dc"), "{}", flags(memory));
        // SAFETY: the mapping is this test's own.
        unsafe { system::unmap(memory as *mut u8, BLOCK) };
        assert!(apart.set().ranges.is_empty(), "what is gone is forgotten");
    }

    #[test]
    fn the_thread_keeps_what_it_stands_on() {
        let here = 0_usize;
        let page = (&raw const here as usize) & !(BLOCK - 1);
        assert!(apart(&[(page, page + BLOCK)]).set().ranges.is_empty());
    }

    #[test]
    fn looks_become_rarer_and_a_crash_makes_cautious() {
        let mut apart = Apart::default();
        let looks: Vec<u32> = (0..60)
            .filter(|_: &u32| {
                let looks = apart.looks();
                apart.landed(looks, &[]);
                looks
            })
            .collect();
        assert_eq!(looks, [0, 1, 3, 7, 15, 31, 47]);
        apart.ranges.push((0, BLOCK));
        assert!(apart.crashed() && apart.ranges().is_empty() && !apart.looks());
        assert!(!apart.crashed());
    }
}
