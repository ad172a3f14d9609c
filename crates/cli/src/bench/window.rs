//! What the kernel saw of a process while figures counted: processor time, memory, and waits for a core.

use std::time::{Duration, Instant};

use super::census::{Watcher, processor_time};
use super::cgroup::Group;
use super::course::{Courses, trend};
use super::record::FiguresByName;

/// A window that is still open.
pub(crate) struct MeasuredWindow<'g> {
    pid: u32,
    watcher: Watcher<'g>,
    processor: Duration,
    waited: Duration,
    began: Instant,
}

/// What was seen through it.
#[derive(Debug, Default)]
pub(crate) struct WindowFigures {
    pub(crate) figures: FiguresByName,
    /// Memory over time, with as few points as are kept.
    pub(crate) courses: Courses,
    /// Processor time of the whole tree.
    pub(crate) busy: Duration,
    /// The share of the time in which the program wanted a core and had none.
    pub(crate) core_wait: f64,
    /// For how long it was open.
    pub(crate) span: Duration,
}

impl<'g> MeasuredWindow<'g> {
    /// From now on. `group` is the process's cgroup, where it has one of its own.
    pub(crate) fn open(pid: u32, group: Option<&'g Group>) -> Self {
        Self {
            pid,
            watcher: Watcher::new(pid, group),
            processor: processor_time(pid),
            waited: core_wait(pid),
            began: Instant::now(),
        }
    }

    /// Looks at the memory, where it is time to.
    pub(crate) fn look(&mut self) {
        self.watcher.look();
    }

    /// Resident memory now.
    pub(crate) fn rss_now(&self) -> u64 {
        self.watcher.rss_now()
    }

    /// Everything that was seen.
    pub(crate) fn close(self) -> WindowFigures {
        let span = self.began.elapsed();
        let busy = processor_time(self.pid).saturating_sub(self.processor);
        let memory = self.watcher.memory();
        let courses = self.watcher.courses();
        let percent = busy.as_secs_f64() / span.as_secs_f64() * 100.0;
        let figures = [
            ("cpu_percent", Some(percent)),
            ("rss_peak", Some(memory.rss_peak as f64)),
            ("rss_mean", Some(memory.rss_mean as f64)),
            ("rss_trend", trend(&courses.rss)),
            ("all_peak", memory.all_peak.map(|bytes| bytes as f64)),
            ("all_mean", memory.all_mean.map(|bytes| bytes as f64)),
        ];
        let named = |(name, value): (&str, Option<f64>)| Some((name.to_owned(), value?));
        WindowFigures {
            figures: figures.into_iter().filter_map(named).collect(),
            courses: courses.thinned(),
            busy,
            core_wait: core_wait(self.pid).saturating_sub(self.waited).as_secs_f64() / span.as_secs_f64(),
            span,
        }
    }
}

/// How long the main thread of a process has waited for a core so far.
fn core_wait(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().nth(1).and_then(|waited| waited.parse().ok()).unwrap_or(0))
}
