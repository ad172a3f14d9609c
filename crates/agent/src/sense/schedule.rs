//! What the kernel's scheduler says about a thread: time on a processor, time waiting for one, and whether it sleeps.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::sys::native::Descriptors;

/// A thread's account, as in `/proc/self/task/TID/schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedStat {
    /// Time on a processor. The kernel adds to it at its timer ticks, so it may lag by some milliseconds.
    pub(crate) run_ns: u64,
    /// Time spent ready to run without a processor. Added when the thread gets one.
    pub(crate) wait_ns: u64,
    /// How often it was put on a processor.
    pub(crate) slices: u64,
}

/// Reads accounts, keeping the files of the latest threads open.
#[derive(Debug)]
pub(crate) struct Scheduler {
    open: Vec<(i32, File)>,
    kept: usize,
}

const KEPT: usize = 8;

impl Scheduler {
    /// Among descriptors that are shared with the program nothing is kept: it may close one and get the same number
    /// for a file of its own, which we would close in turn.
    pub(crate) fn new(descriptors: Descriptors) -> Self {
        Self { open: Vec::new(), kept: if descriptors == Descriptors::Private { KEPT } else { 0 } }
    }

    /// The account of a thread.
    pub(crate) fn schedule(&mut self, thread: i32) -> Option<SchedStat> {
        let mut text = [0; 96];
        let index = match self.open.iter().position(|(id, _)| *id == thread) {
            Some(index) => index,
            None => {
                let file = File::open(format!("/proc/self/task/{thread}/schedstat")).ok()?;
                self.open.push((thread, file));
                self.open.len() - 1
            }
        };
        let Ok(length) = self.open[index].1.read_at(&mut text, 0) else {
            // The thread is gone; its number may be given to another one.
            self.open.remove(index);
            return None;
        };
        if self.open.len() > self.kept {
            self.open.remove(0);
        }
        parse_schedule(std::str::from_utf8(&text[..length]).ok()?)
    }
}

/// How often a thread gave up its processor by itself, which it does when it blocks.
pub(crate) fn voluntary_switches(thread: i32) -> Option<u64> {
    parse_voluntary(&std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?)
}

/// The processor that a thread was last put on.
pub(crate) fn processor(thread: i32) -> Option<usize> {
    parse_processor(&std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?)
}

fn parse_processor(text: &str) -> Option<usize> {
    // The command may hold spaces and parentheses, so the rest begins after the last one.
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split_ascii_whitespace().nth(36)?.parse().ok()
}

fn parse_schedule(text: &str) -> Option<SchedStat> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
    Some(SchedStat { run_ns: numbers.next()??, wait_ns: numbers.next()??, slices: numbers.next()?? })
}

fn parse_voluntary(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read() {
        assert_eq!(parse_schedule("12 34 5\n"), Some(SchedStat { run_ns: 12, wait_ns: 34, slices: 5 }));
        assert_eq!(parse_schedule("12 34"), None);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t18\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(parse_voluntary(status), Some(18));
        let stat = format!("12 (a) b) S {} 3 0 0", ["1"; 35].join(" "));
        assert_eq!(parse_processor(&stat), Some(3));
    }

    #[test]
    fn this_thread_has_an_account() {
        let thread = nix::unistd::gettid().as_raw();
        let mut scheduler = Scheduler::new(Descriptors::Private);
        let before = scheduler.schedule(thread);
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = scheduler.schedule(thread);
        assert!(before.zip(after).is_some_and(|(before, after)| after.slices > before.slices));
        assert!(processor(thread).is_some());
        assert!(voluntary_switches(thread).is_some_and(|count| count > 0));
        assert_eq!((scheduler.schedule(-1), scheduler.open.len()), (None, 1));
        let mut guest = Scheduler::new(Descriptors::Shared);
        assert_eq!((guest.schedule(thread).is_some(), guest.open.len()), (true, 0));
    }
}
