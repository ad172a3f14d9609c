//! The processes below this one, with their memory.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::Mutex;

use neurogc_wire::status::Child;
use neurogc_wire::workers::{WorkerKind, WorkerMemory};

use super::process::kilobytes;
use super::seldom::Seldom;
use super::workers::{Rollup, WorkerFork, WorkerForks, as_worker};
use crate::sys::locks::{lock, try_lock};

/// A tree larger than this is cut.
const MOST: usize = 256;

/// What the kernel adds up page by page while it holds up the process.
#[derive(Clone, Copy, Debug, Default)]
struct Proportion {
    pss: Option<u64>,
    worker: Option<WorkerMemory>,
}

/// The proportions of processes that were looked at.
type Proportions = HashMap<u32, Seldom<Proportion>>;

/// Reads the processes below this one, and knows which of them are workers that it has forked.
#[derive(Debug, Default)]
pub(crate) struct ChildrenReader {
    /// What reports remember from one to the next, because it is dear to read.
    proportions: Mutex<Proportions>,
    /// The workers that were forked.
    forks: Mutex<WorkerForks>,
}

impl ChildrenReader {
    /// Everything below this process, with memory that is read rarely.
    pub(crate) fn read(&self) -> Vec<Child> {
        // A fork must not wait until `/proc` is read.
        let forks = lock(&self.forks).clone();
        children_of(std::process::id(), &mut lock(&self.proportions), &forks)
    }

    /// The same, with memory that is read now.
    pub(crate) fn read_anew(&self) -> Vec<Child> {
        lock(&self.proportions).clear();
        self.read()
    }

    /// A worker of a kind is forked next. The thread that forks waits for no other one.
    pub(crate) fn before_fork(&self, kind: WorkerKind) {
        let fork = WorkerFork::now(kind);
        if let (Some(fork), Some(mut forks)) = (fork, try_lock(&self.forks)) {
            forks.begin(fork);
        }
    }

    /// It has been forked.
    pub(crate) fn after_fork_in_parent(&self) {
        if let Some(mut forks) = try_lock(&self.forks) {
            forks.end();
        }
    }
}

/// Looks at the processes below one.
struct Look<'l> {
    pid: u32,
    proportions: &'l mut Proportions,
    forks: &'l WorkerForks,
}

/// All descendants of this process, parents before their children.
fn children_of(pid: u32, proportions: &mut Proportions, forks: &WorkerForks) -> Vec<Child> {
    let all = Look { pid, proportions, forks }.tree();
    proportions.retain(|pid, _| all.iter().any(|child| child.pid == *pid));
    all
}

impl Look<'_> {
    fn tree(&mut self) -> Vec<Child> {
        let mut all: Vec<Child> = Vec::new();
        let mut known = HashSet::from([self.pid]);
        let mut parents = vec![self.pid];
        while let Some(parent) = parents.pop() {
            for child in direct_children(parent) {
                if all.len() == MOST {
                    return all;
                }
                if known.insert(child)
                    && let Some(child) = self.look_at(child, parent)
                {
                    parents.push(child.pid);
                    all.push(child);
                }
            }
        }
        all
    }

    fn look_at(&mut self, pid: u32, ppid: u32) -> Option<Child> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let command = status.lines().find_map(|line| line.strip_prefix("Name:")).map_or("", str::trim).to_owned();
        // A zombie has no memory.
        let rss = kilobytes(&status, "VmRSS:").unwrap_or(0);
        let forks = (ppid == self.pid).then_some(self.forks);
        let Proportion { pss, worker } = self.proportions.entry(pid).or_default().get(|_| {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
            let rollup = text.and_then(|text| Rollup::parse(&text));
            let worker = rollup.zip(forks).and_then(|(rollup, forks)| as_worker(pid, rollup, forks));
            Proportion { pss: rollup.map(|rollup| rollup.pss), worker }
        });
        Some(Child { pid, ppid, command, rss, pss, worker })
    }
}

/// How many children a process has itself, those that have ended and were not waited for among them.
pub(crate) fn count_children(pid: u32) -> usize {
    direct_children(pid).len()
}

fn direct_children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_child_and_its_child_are_found() {
        let mut shell = std::process::Command::new("sh").args(["-c", "sleep 30 & wait"]).spawn().unwrap();
        let found = loop {
            let found = children_of(shell.id(), &mut Proportions::new(), &WorkerForks::default());
            if found.iter().any(|child| child.command == "sleep") {
                break found;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let sleep = found.iter().find(|child| child.command == "sleep").unwrap();
        assert_eq!((sleep.ppid, sleep.rss > 0), (shell.id(), true));
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(sleep.pid as i32), nix::sys::signal::SIGKILL);
        shell.wait().unwrap();
    }
}
