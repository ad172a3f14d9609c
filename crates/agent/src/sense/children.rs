//! The processes below this one, with their memory.

use std::collections::{HashMap, HashSet};
use std::fs;

use neurogc_wire::status::Child;

use super::process::kilobytes;
use super::seldom::Seldom;

/// A tree larger than this is cut.
const MOST: usize = 256;

/// The proportional memory of processes, which the kernel adds up page by page while it holds up the process.
pub(crate) type Proportions = HashMap<u32, Seldom<Option<u64>>>;

/// All descendants of a process, parents before their children.
pub(crate) fn children_of(pid: u32, proportions: &mut Proportions) -> Vec<Child> {
    let all = tree_of(pid, proportions);
    proportions.retain(|pid, _| all.iter().any(|child| child.pid == *pid));
    all
}

fn tree_of(pid: u32, proportions: &mut Proportions) -> Vec<Child> {
    let mut all: Vec<Child> = Vec::new();
    let mut known = HashSet::from([pid]);
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for child in direct_children(parent) {
            if all.len() == MOST {
                return all;
            }
            if known.insert(child)
                && let Some(child) = look_at(child, parent, proportions)
            {
                parents.push(child.pid);
                all.push(child);
            }
        }
    }
    all
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

fn look_at(pid: u32, ppid: u32, proportions: &mut Proportions) -> Option<Child> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let command = status.lines().find_map(|line| line.strip_prefix("Name:")).map_or("", str::trim).to_owned();
    // A zombie has no memory.
    let rss = kilobytes(&status, "VmRSS:").unwrap_or(0);
    let pss = proportions
        .entry(pid)
        .or_default()
        .get(|_| kilobytes(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss:"));
    Some(Child { pid, ppid, command, rss, pss })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_child_and_its_child_are_found() {
        let mut shell = std::process::Command::new("sh").args(["-c", "sleep 30 & wait"]).spawn().unwrap();
        let found = loop {
            let found = children_of(shell.id(), &mut Proportions::new());
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
