//! What the kernel says about a process and everything below it: processor time and memory, snapshot children included.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::cgroup::Group;
use super::course::{Courses, MemoryCourse};

/// From one look at the resident memory to the next.
const RSS_EVERY: Duration = Duration::from_millis(50);
/// From one point of the courses to the next, and from one look at the proportional memory to the next.
const POINT_EVERY: Duration = Duration::from_millis(150);
/// Proportional memory costs the kernel a walk through all mappings, during which the process cannot change them: it is
/// looked at for a twentieth of the time at most.
const PSS_SHARE: u32 = 20;

/// A process and all its descendants.
pub(crate) fn tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while at < all.len() {
        let tasks = fs::read_dir(format!("/proc/{}/task", all[at])).into_iter().flatten().flatten();
        // The kernel keeps children by the thread that made them.
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().flat_map(str::parse::<u32>));
        }
        at += 1;
    }
    all
}

/// Processor time of a process and everything below it, also of children that have ended since.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let ticks: u64 =
        tree(pid).iter().filter_map(|pid| ticks_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// User and system time, its own and that of children that were waited for.
fn ticks_of(stat: &str) -> Option<u64> {
    // The name may hold spaces and brackets; the last bracket ends it.
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    fields.skip(11).take(4).map(str::parse::<u64>).sum::<Result<u64, _>>().ok()
}

fn rss_of(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn pss_of(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let kib: u64 =
        rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Proportional memory of a process and everything below it. A child that came or went meanwhile would have its shared
/// pages counted twice or by half, so there is no figure then.
fn pss_of_tree(pid: u32) -> Option<u64> {
    let all = tree(pid);
    let own = pss_of(pid)?;
    let children: u64 = all[1..].iter().filter_map(|pid| pss_of(*pid)).sum();
    (tree(pid) == all).then_some(own + children)
}

/// Memory over time, in bytes: resident of the process itself, because a copy-on-write child shares nearly all of it,
/// and of the process with its children, where shared pages count once: what the cgroup's processes have mapped, or the
/// proportional memory of the tree where there is no cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemorySamples {
    pub(crate) rss_peak: u64,
    pub(crate) rss_mean: u64,
    /// `None` where the kernel refuses to tell.
    pub(crate) all_peak: Option<u64>,
    pub(crate) all_mean: Option<u64>,
}

/// Looks at the memory of a process and its tree again and again.
#[derive(Debug)]
pub(crate) struct Watcher<'g> {
    pid: u32,
    /// The cgroup of the process, where it has one of its own.
    group: Option<&'g Group>,
    began: Instant,
    rss: Samples,
    all: Samples,
    courses: Courses,
    next_rss: Instant,
    next_point: Instant,
    next_pss: Instant,
}

#[derive(Debug, Default)]
struct Samples {
    sum: u128,
    count: u64,
    peak: u64,
}

impl Samples {
    fn add(&mut self, value: u64) {
        self.sum += u128::from(value);
        self.count += 1;
        self.peak = self.peak.max(value);
    }

    fn mean(&self) -> Option<u64> {
        u64::try_from(self.sum / u128::from(self.count.max(1))).ok().filter(|_| self.count > 0)
    }
}

impl<'g> Watcher<'g> {
    /// Begins now. The kernel's own record of the peak starts anew where it allows that.
    pub(crate) fn new(pid: u32, group: Option<&'g Group>) -> Self {
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        let now = Instant::now();
        Self {
            pid,
            group,
            began: now,
            rss: Samples::default(),
            all: Samples::default(),
            courses: Courses::default(),
            next_rss: now,
            next_point: now,
            next_pss: now,
        }
    }

    /// Looks, where it is time to. A process that has ended is not looked at.
    pub(crate) fn look(&mut self) {
        let now = Instant::now();
        if now < self.next_rss {
            return;
        }
        self.next_rss = now + RSS_EVERY;
        let rss = rss_of(self.pid);
        if rss == 0 {
            return;
        }
        self.rss.add(rss);
        let at = now.duration_since(self.began).as_secs_f64();
        let add = |course: &mut MemoryCourse, value: u64| course.push((at, value as f64));
        let mapped = self.group.and_then(Group::mapped);
        if let Some(mapped) = mapped {
            self.all.add(mapped);
        }
        if now >= self.next_point {
            self.next_point = now + POINT_EVERY;
            add(&mut self.courses.rss, rss);
            if let Some(mapped) = mapped {
                add(&mut self.courses.tree, mapped);
            }
        }
        if mapped.is_none() && now >= self.next_pss {
            if let Some(all) = pss_of_tree(self.pid) {
                self.all.add(all);
                add(&mut self.courses.tree, all);
            }
            self.next_pss = now + POINT_EVERY.max(now.elapsed() * PSS_SHARE);
        }
    }

    /// Memory over time.
    pub(crate) fn courses(&self) -> &Courses {
        &self.courses
    }

    /// The resident memory at the last look.
    pub(crate) fn rss_now(&self) -> u64 {
        rss_of(self.pid)
    }

    /// All looks together.
    pub(crate) fn memory(&self) -> MemorySamples {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let highest = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let highest = highest.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024;
        MemorySamples {
            rss_peak: self.rss.peak.max(highest),
            rss_mean: self.rss.mean().unwrap_or(0),
            all_peak: Some(self.all.peak).filter(|_| self.all.count > 0),
            all_mean: self.all.mean(),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 1 0 100 0 0";
        assert_eq!(ticks_of(stat), Some(110));
        assert_eq!(ticks_of("nonsense"), None);
    }

    #[test]
    fn children_and_their_time_are_found() {
        // The inner shell burns time and ends; the outer one waits for it and lives on.
        let script = "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'; echo over; exec sleep 60";
        let mut child = Command::new("sh").args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let spent = processor_time(child.id());
        let mut watcher = Watcher::new(child.id(), None);
        watcher.look();
        let (memory, courses) = (watcher.memory(), watcher.courses().clone());
        let parent = tree(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(spent > Duration::from_millis(5), "{spent:?}");
        assert!(parent.contains(&child.id()));
        assert!(memory.rss_peak > 0 && memory.rss_mean > 0);
        assert_eq!(courses.rss.len(), 1);
    }
}
