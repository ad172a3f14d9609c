//! A process and all that it has started, read from `/proc`.

use std::fs;
use std::time::{Duration, Instant};

/// A look at memory that nothing shares is that many times rarer than it takes: the kernel goes through all pages for it.
const RARITY: u32 = 100;
const AT_MOST_EVERY: Duration = Duration::from_millis(250);

/// Processes that are looked at.
const MOST: usize = 1000;

/// One process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LookedAt {
    pub(crate) pid: u32,
    /// Its command, without its path.
    pub(crate) name: String,
    /// The resident set in bytes, and the highest that the kernel has seen.
    pub(crate) rss: u64,
    pub(crate) highest: u64,
}

/// The tree below one process.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    root: u32,
    /// When memory that nothing shares is read again.
    due: Instant,
}

impl ProcessTree {
    pub(crate) fn of(root: u32) -> Self {
        Self { root, due: Instant::now() }
    }

    /// Looks at all processes; with memory that nothing shares where it is time for it.
    pub(crate) fn look(&mut self) -> (Vec<LookedAt>, Option<u64>) {
        let mut pids = vec![self.root];
        let mut next = 0;
        while next < pids.len() && pids.len() < MOST {
            pids.extend(children(pids[next]));
            next += 1;
        }
        let looked: Vec<_> = pids.iter().filter_map(|pid| look_at(*pid)).collect();
        let began = Instant::now();
        if began < self.due || looked.is_empty() {
            return (looked, None);
        }
        let uss = looked.iter().map(|it| private(it.pid)).sum();
        self.due = Instant::now() + (began.elapsed() * RARITY).max(AT_MOST_EVERY);
        (looked, uss)
    }
}

/// What a process has started, with any of its threads.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let texts = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

fn look_at(pid: u32) -> Option<LookedAt> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let (rss, highest) = (kilobytes(&status, "VmRSS:")?, kilobytes(&status, "VmHWM:")?);
    let name = status.lines().next()?.strip_prefix("Name:")?.trim().to_owned();
    Some(LookedAt { pid, name, rss, highest })
}

fn private(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(kilobytes(&text, "Private_Clean:")? + kilobytes(&text, "Private_Dirty:")?)
}

/// A field of a file of the kernel's, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_and_its_child_are_found() {
        let Ok(mut child) = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn() else { return };
        let mut tree = ProcessTree::of(std::process::id());
        let deadline = Instant::now() + Duration::from_secs(10);
        let found = loop {
            let (looked, uss) = tree.look();
            let found = looked.iter().any(|it| it.pid == child.id() && it.name == "sleep" && it.rss > 0);
            assert!(looked[0].pid == std::process::id() && looked[0].highest >= looked[0].rss);
            if found || Instant::now() > deadline {
                break found.then_some(uss);
            }
        };
        let ended = child.kill().and_then(|()| child.wait());
        assert!(found.is_some() && ended.is_ok());
    }

    #[test]
    fn memory_that_nothing_shares_is_read_rarely() {
        let mut tree = ProcessTree::of(std::process::id());
        assert!(tree.look().1.is_some_and(|uss| uss > 0));
        assert_eq!(tree.look().1, None);
    }

    #[test]
    fn kernel_threads_and_strange_files_are_passed_over() {
        assert_eq!(kilobytes("VmRSS:\t  12 kB\n", "VmRSS:"), Some(12288));
        assert_eq!(kilobytes("Name:\tx\n", "VmRSS:"), None);
        assert_eq!(look_at(u32::MAX - 1), None);
    }
}
