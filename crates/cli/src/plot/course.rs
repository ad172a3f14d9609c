//! The memory of processes over time, in memory of a fixed size: when it is full, every two moments become one.

use std::time::Duration;

use serde::Serialize;

use super::tree::LookedAt;

/// Moments that are kept at most, and processes that have a course of their own.
const MOST_MOMENTS: usize = 4000;
const MOST_PROCESSES: usize = 64;

/// The distance of looks at first. It doubles whenever there is no room.
const FIRST_STEP: Duration = Duration::from_millis(20);

/// The courses of all processes.
#[derive(Debug, Serialize)]
pub(crate) struct PlotCourse {
    /// The distance of looks now.
    pub(crate) step_ms: f64,
    /// The moments, in seconds.
    at: Vec<f64>,
    /// Those that began first come first; what has no room is in the last one.
    processes: Vec<ProcessCourse>,
    /// Memory that no other process shares, of all processes, where it was read.
    uss: Vec<Option<u64>>,
}

/// One process: its resident set at each moment, 0 where it was not there.
#[derive(Debug, Serialize)]
struct ProcessCourse {
    pid: u32,
    name: String,
    rss: Vec<u64>,
    /// The highest resident set that the kernel has seen.
    #[serde(skip)]
    highest: u64,
    /// Whether it was there at the last moment: its number may come again.
    #[serde(skip)]
    there: bool,
}

impl PlotCourse {
    pub(crate) fn new() -> Self {
        Self { step_ms: FIRST_STEP.as_secs_f64() * 1e3, at: Vec::new(), processes: Vec::new(), uss: Vec::new() }
    }

    /// How long to wait until the next look.
    pub(crate) fn step(&self) -> Duration {
        Duration::from_secs_f64(self.step_ms / 1e3)
    }

    /// Adds a moment.
    pub(crate) fn push(&mut self, at_s: f64, looked: &[LookedAt], uss: Option<u64>) {
        if self.at.len() >= MOST_MOMENTS {
            self.halve();
        }
        for process in &mut self.processes {
            process.rss.push(0);
        }
        let moment = self.at.len();
        let mut there = vec![false; self.processes.len()];
        for it in looked {
            let slot = self.slot(it, moment);
            there.resize(self.processes.len(), false);
            there[slot] = true;
            let process = &mut self.processes[slot];
            // A peak between two looks is not seen, but the kernel keeps the highest value.
            let value = if it.highest > process.highest && process.pid == it.pid { it.highest } else { it.rss };
            process.highest = process.highest.max(it.highest);
            process.rss[moment] += value;
        }
        for (process, there) in self.processes.iter_mut().zip(there) {
            process.there = there;
        }
        self.at.push(at_s);
        self.uss.push(uss);
    }

    /// The place of a process, which is made where there is none.
    fn slot(&mut self, it: &LookedAt, moment: usize) -> usize {
        let known = self
            .processes
            .iter()
            .position(|process| process.pid == it.pid && (process.there || process.rss[moment] == 0));
        if let Some(slot) = known {
            let process = &mut self.processes[slot];
            // A command that a process has become counts for more than that of the moment of its fork.
            if !it.name.is_empty() && process.name != it.name {
                process.name.clone_from(&it.name);
            }
            return slot;
        }
        if self.processes.len() < MOST_PROCESSES {
            let (pid, name, rss) = (it.pid, it.name.clone(), vec![0; moment + 1]);
            self.processes.push(ProcessCourse { pid, name, rss, highest: 0, there: true });
        } else if self.processes.len() == MOST_PROCESSES {
            let rss = vec![0; moment + 1];
            self.processes.push(ProcessCourse {
                pid: 0,
                name: "further processes".to_owned(),
                rss,
                highest: 0,
                there: true,
            });
        }
        self.processes.len() - 1
    }

    fn halve(&mut self) {
        let pairs = |values: &[u64]| values.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
        for process in &mut self.processes {
            process.rss = pairs(&process.rss);
        }
        self.at = self.at.chunks(2).map(|pair| pair[0]).collect();
        self.uss = self.uss.chunks(2).map(|pair| pair.iter().copied().flatten().max()).collect();
        self.step_ms *= 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pid: u32, rss: u64, highest: u64) -> LookedAt {
        LookedAt { pid, name: format!("p{pid}"), rss, highest }
    }

    #[test]
    fn children_come_and_go() {
        let mut course = PlotCourse::new();
        course.push(0.0, &[one(1, 10, 10)], None);
        course.push(0.1, &[one(1, 11, 11), one(2, 5, 5)], Some(12));
        course.push(0.2, &[one(1, 12, 12)], None);
        let rss: Vec<_> = course.processes.iter().map(|process| process.rss.clone()).collect();
        assert_eq!(rss, [vec![10, 11, 12], vec![0, 5, 0]]);
        assert_eq!(course.uss, [None, Some(12), None]);
    }

    #[test]
    fn a_peak_between_two_looks_is_that_of_the_kernel() {
        let mut course = PlotCourse::new();
        course.push(0.0, &[one(1, 10, 10)], None);
        course.push(0.1, &[one(1, 10, 99)], None);
        course.push(0.2, &[one(1, 10, 99)], None);
        assert_eq!(course.processes[0].rss, [10, 99, 10]);
    }

    #[test]
    fn its_size_is_fixed_and_peaks_stay() {
        let mut course = PlotCourse::new();
        for moment in 0..20_000_u32 {
            let pids = (0..3).map(|index| one(if index == 0 { 1 } else { moment * 3 + index }, 7, 7));
            let mut looked: Vec<_> = pids.collect();
            looked[0].rss = if moment == 12_345 { 1000 } else { 7 };
            course.push(f64::from(moment), &looked, None);
        }
        assert!(course.at.len() <= MOST_MOMENTS && course.processes.len() == MOST_PROCESSES + 1);
        assert_eq!(course.processes[0].rss.iter().max(), Some(&1000));
        assert!(course.processes.iter().all(|process| process.rss.len() == course.at.len()));
        assert!(course.step() > FIRST_STEP);
    }
}
