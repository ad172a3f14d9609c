//! What surrounds a service in a trial: nothing, busy neighbours, one core only, or a memory limit.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where the service of a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Surroundings {
    /// Alone on the machine, as far as the runner can arrange that.
    Free,
    /// Beside so many busy loops of the usual priority.
    Busy(u32),
    /// With all its children on one core. The load generator is on another.
    OneCore,
    /// In a memory cgroup whose limit is this multiple of what CPython's default needs.
    Container(f64),
}

impl Surroundings {
    /// Whether a service that waits for a core is what the scenario is about.
    pub(crate) fn lack_cores(self) -> bool {
        matches!(self, Self::Busy(_) | Self::OneCore)
    }

    /// The multiple of CPython's own peak that is the limit, where there is one.
    pub(crate) fn limit(self) -> Option<f64> {
        match self {
            Self::Container(times) => Some(times),
            _ => None,
        }
    }
}

/// Busy loops, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct BusyLoops {
    enough: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyLoops {
    /// Starts so many.
    pub(crate) fn start(count: u32) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let busy = |enough: Arc<AtomicBool>| {
            let mut number = 0_u64;
            while !enough.load(Ordering::Relaxed) {
                number = black_box(number.wrapping_add(1));
            }
        };
        let threads = (0..count).map(|_| Arc::clone(&enough)).map(|enough| thread::spawn(move || busy(enough)));
        Self { threads: threads.collect(), enough }
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The calling thread on one core. What it starts meanwhile stays there; the thread itself is free again when this is
/// dropped.
#[derive(Debug)]
pub(crate) struct OnOneCore(CpuSet);

impl OnOneCore {
    /// On the first core that this process may use: the load generator takes the last.
    pub(crate) fn pin() -> Result<Self, String> {
        let usable = sched_getaffinity(None).map_err(|error| format!("the number of cores is not known: {error}"))?;
        if usable.count() < 2 {
            return Err("it needs two cores: one for the service, and one for the load generator".to_owned());
        }
        let mut first = CpuSet::new();
        if let Some(core) = (0..CpuSet::MAX_CPU).find(|core| usable.is_set(*core)) {
            first.set(core);
        }
        sched_setaffinity(None, &first).map_err(|error| format!("the service cannot be held on one core: {error}"))?;
        Ok(Self(usable))
    }
}

impl Drop for OnOneCore {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_stays_on_one_core_and_the_thread_does_not() {
        let before = sched_getaffinity(None).unwrap();
        let Ok(pinned) = OnOneCore::pin() else { return };
        let output = Command::new("grep").args(["Cpus_allowed_list", "/proc/self/status"]).output().unwrap();
        drop(pinned);
        let line = String::from_utf8(output.stdout).unwrap();
        assert!(line.trim().rsplit('\t').next().unwrap().parse::<u32>().is_ok(), "one core: {line}");
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn busy_loops_end_when_dropped() {
        let loops = BusyLoops::start(2);
        let enough = Arc::clone(&loops.enough);
        drop(loops);
        assert_eq!(Arc::strong_count(&enough), 1, "the threads are gone");
    }
}
