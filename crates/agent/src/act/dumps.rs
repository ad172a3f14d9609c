//! Heap dumps that the process writes without being asked for: when they are due, and how many there were.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use neurogc_settings::Settings;

/// After a dump, memory must have fallen so far below the share before the next one is due.
const BELOW: f64 = 0.95;

/// The dumps of one process.
#[derive(Debug, Default)]
pub(crate) struct OwnDumps {
    written: AtomicU32,
    /// Memory is above the share, and that was told.
    above: AtomicBool,
}

impl OwnDumps {
    /// Whether memory has come to the share of its limit at which a dump is wanted.
    pub(crate) fn is_due(&self, settings: &Settings, resident: u64, limit: Option<u64>) -> bool {
        let (Some(share), Some(limit)) = (settings.heap_dump_on.limit, limit) else { return false };
        let used = resident as f64 / limit.max(1) as f64;
        if used < share * BELOW {
            self.above.store(false, Ordering::Relaxed);
        }
        used >= share && !self.above.swap(true, Ordering::Relaxed)
    }

    /// Where the next one goes, or nothing if there are enough.
    pub(crate) fn next(&self, settings: &Settings) -> Option<PathBuf> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        if number >= settings.heap_dump_files {
            self.written.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let name = format!("heap-{}-{}.ngch", std::process::id(), number + 1);
        Some(settings.heap_dump_folder.join(name))
    }
}

#[cfg(test)]
mod tests {
    use neurogc_settings::HeapDumpOn;

    use super::*;

    #[test]
    fn a_dump_is_due_once_each_time_that_memory_comes_near_its_limit() {
        let settings =
            Settings { heap_dump_on: HeapDumpOn { limit: Some(0.9), ..HeapDumpOn::default() }, ..Settings::default() };
        let dumps = OwnDumps::default();
        let due = |used: u64| dumps.is_due(&settings, used, Some(100));
        let seen: Vec<bool> = [10, 89, 90, 95, 88, 90, 80, 91, 99].into_iter().map(due).collect();
        assert_eq!(seen, [false, false, true, false, false, false, false, true, false]);
        assert!(!dumps.is_due(&settings, 99, None) && !dumps.is_due(&Settings::default(), 99, Some(100)));
    }

    #[test]
    fn there_are_never_more_than_allowed() {
        let dumps = OwnDumps::default();
        let settings = Settings { heap_dump_files: 2, ..Settings::default() };
        let names: Vec<_> = (0..4).map(|_| dumps.next(&settings).is_some()).collect();
        assert_eq!(names, [true, true, false, false]);
    }
}
