//! Heap dumps that the process writes without being asked for: when they are due, and where they go.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use neurogc_settings::Settings;

/// After a dump, memory must have fallen so far below the share before the next one is due.
const BELOW: f64 = 0.95;

/// The dumps of one process.
#[derive(Debug)]
pub(crate) struct OwnDumps {
    /// Seconds since 1970: in containers that share a folder, processes may have the same id.
    since: u64,
    /// Memory is above the share, and that was told.
    above: AtomicBool,
}

impl OwnDumps {
    pub(crate) fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { since, above: AtomicBool::new(false) }
    }

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
        let path = |number| {
            let name = format!("heap-{}-{}-{number}.ngch", std::process::id(), self.since);
            settings.heap_dump_folder.join(name)
        };
        (1..=settings.heap_dump_files).map(path).find(|path| path.symlink_metadata().is_err())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use neurogc_settings::HeapDumpOn;

    use super::*;

    #[test]
    fn a_dump_is_due_once_each_time_that_memory_comes_near_its_limit() {
        let settings =
            Settings { heap_dump_on: HeapDumpOn { limit: Some(0.9), ..HeapDumpOn::default() }, ..Settings::default() };
        let dumps = OwnDumps::new();
        let due = |used: u64| dumps.is_due(&settings, used, Some(100));
        let seen: Vec<bool> = [10, 89, 90, 95, 88, 90, 80, 91, 99].into_iter().map(due).collect();
        assert_eq!(seen, [false, false, true, false, false, false, false, true, false]);
        assert!(!dumps.is_due(&settings, 99, None) && !dumps.is_due(&Settings::default(), 99, Some(100)));
    }

    #[test]
    fn there_are_never_more_than_allowed() {
        let folder = std::env::temp_dir().join(format!("neurogc-dumps-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let dumps = OwnDumps::new();
        let settings = Settings { heap_dump_files: 2, heap_dump_folder: folder.clone(), ..Settings::default() };
        // One that was not written is not counted.
        assert_eq!(dumps.next(&settings), dumps.next(&settings));
        for _ in 0..2 {
            std::fs::write(dumps.next(&settings).unwrap(), "").unwrap();
        }
        assert_eq!(dumps.next(&settings), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
