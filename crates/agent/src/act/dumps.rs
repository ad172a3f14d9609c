//! Heap dumps that the process writes without being asked for: when they are due, and where they go.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use neurogc_settings::Settings;

/// After a dump, memory must have fallen so far below the share before the next one is due.
const BELOW: f64 = 0.95;

/// A process with less than this share of the cgroup's limit is small.
const SMALL: f64 = 0.05;

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

    /// Whether memory has come to the share of its limit at which a dump is wanted. `used` is the share that is in use.
    pub(crate) fn is_due(&self, settings: &Settings, used: Option<f64>) -> bool {
        let (Some(share), Some(used)) = (settings.heap_dump_on.limit, used) else { return false };
        if used < share * BELOW {
            self.above.store(false, Ordering::Relaxed);
        }
        used >= share && !self.above.swap(true, Ordering::Relaxed)
    }

    /// Where the next one goes, or nothing if there are enough. The place is kept: a file with the ending `.part` says that
    /// a dump is under way, so that workers that run out of memory together do not write more than allowed.
    pub(crate) fn next(&self, settings: &Settings) -> Option<PathBuf> {
        let (folder, most) = (&settings.heap_dump_folder, settings.heap_dump_files as usize);
        let _lock = lock(folder);
        remove_left_over(folder, self.since);
        if whole(folder) + under_way(folder).len() >= most {
            return None;
        }
        let name = |number| format!("heap-{}-{}-{number}.ngch", std::process::id(), self.since);
        let is_free = |name: &str| folder.join(name).symlink_metadata().is_err();
        let name = (1..=most).map(name).find(|name| is_free(name) && is_free(&format!("{name}{PART}")))?;
        // Where this fails, writing the dump fails too, and that is told.
        let part = folder.join(format!("{name}{PART}"));
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part);
        Some(folder.join(name))
    }

    /// The dump is not written.
    pub(crate) fn gives_up(path: &Path) {
        let mut part = path.as_os_str().to_owned();
        part.push(PART);
        let _ = fs::remove_file(part);
    }
}

/// What the name of a dump ends with until it is whole.
const PART: &str = ".part";

/// How often the lock of the folder is tried for, with a millisecond between.
const LOCK_TRIES: u32 = 50;

/// A dump is not under way any more if its file was not written to for this long, and its process has ended.
const ABANDONED: Duration = Duration::from_secs(600);

/// Lets one process after the other look at the folder. Nothing depends on it but the number of dumps, so after some tries
/// this process goes on without it.
fn lock(folder: &Path) -> Option<fs::File> {
    let file = fs::File::open(folder).ok()?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Some(file),
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            Err(fs::TryLockError::Error(_)) => return None,
        }
    }
    None
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).ok().into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).filter(|name| name.starts_with("heap-"))
}

/// How many dumps there are, of whichever process.
fn whole(folder: &Path) -> usize {
    names(folder).filter(|name| name.ends_with(".ngch")).count()
}

/// The names of those that processes write without being asked.
fn under_way(folder: &Path) -> Vec<String> {
    names(folder).filter(|name| writer(name).is_some()).collect()
}

/// The process that writes a dump without being asked, and since when it is one.
fn writer(name: &str) -> Option<(u32, u64)> {
    let mut numbers = name.strip_prefix("heap-")?.strip_suffix(PART)?.strip_suffix(".ngch")?.split('-');
    let writer = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    numbers.next()?.parse::<u32>().ok()?;
    numbers.next().is_none().then_some(writer)
}

/// Removes what processes have left that ended while they wrote. A process of another container may live unseen, so its
/// file must be old too; and in a container every program may have the same id.
fn remove_left_over(folder: &Path, since: u64) {
    let id = std::process::id();
    for name in under_way(folder) {
        let Some((writer, its_since)) = writer(&name) else { continue };
        let lives = if writer == id { its_since == since } else { Path::new(&format!("/proc/{writer}")).exists() };
        let path = folder.join(&name);
        let written = path.symlink_metadata().and_then(|file| file.modified()).ok();
        let is_old = written.and_then(|at| at.elapsed().ok()).is_some_and(|ago| ago >= ABANDONED);
        if !lives && is_old {
            let _ = fs::remove_file(path);
        }
    }
}

/// What a process has, and what limits it, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryInUse {
    pub(crate) resident: u64,
    /// The limit of the cgroup, and what this process could come to before the cgroup reaches it.
    pub(crate) limit: Option<u64>,
    pub(crate) ceiling: Option<u64>,
    /// What the settings allow this process.
    pub(crate) allowed: Option<u64>,
}

impl MemoryInUse {
    /// Which share of its limit is in use; of the nearer one, where there are two.
    pub(crate) fn share(self) -> Option<f64> {
        let of = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let cgroup = self.limit.zip(self.ceiling).map(|(limit, ceiling)| {
            let left = ceiling.saturating_sub(self.resident);
            // All processes of the cgroup have the limit in common. A small one, such as the master of a server, does not
            // hold what the others can free: it counts what it has against what it could still get.
            if of(self.resident, limit) >= SMALL {
                of(limit.saturating_sub(left), limit)
            } else {
                of(self.resident, ceiling)
            }
        });
        let own = self.allowed.map(|allowed| of(self.resident, allowed));
        cgroup.into_iter().chain(own).reduce(f64::max)
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
        let due = |used: u32| dumps.is_due(&settings, Some(f64::from(used) / 100.0));
        let seen: Vec<bool> = [10, 89, 90, 95, 88, 90, 80, 91, 99].into_iter().map(due).collect();
        assert_eq!(seen, [false, false, true, false, false, false, false, true, false]);
        assert!(!dumps.is_due(&settings, None) && !dumps.is_due(&Settings::default(), Some(0.99)));
    }

    #[test]
    fn workers_beside_it_use_up_the_limit_of_the_cgroup() {
        let in_use = |resident, ceiling, allowed| {
            MemoryInUse { resident, limit: Some(1000), ceiling: Some(ceiling), allowed }.share().unwrap()
        };
        // Alone, and one of four that have come to 900 together: 100 are left for each of them.
        assert_eq!(in_use(900, 1000, None), 0.9);
        assert_eq!(in_use(225, 325, None), 0.9);
        // The master of these four, and one of forty small workers that have nearly everything.
        assert!(in_use(20, 120, None) < 0.2);
        assert!(in_use(24, 25, None) > 0.9);
        // What the settings allow counts where it is nearer.
        assert_eq!(in_use(300, 1000, Some(400)), 0.75);
        assert_eq!(in_use(225, 325, Some(400)), 0.9);
        let unlimited = MemoryInUse { resident: 50, limit: None, ceiling: None, allowed: None };
        assert_eq!(unlimited.share(), None);
        assert_eq!(MemoryInUse { allowed: Some(100), ..unlimited }.share(), Some(0.5));
    }

    #[test]
    fn there_are_never_more_than_allowed() {
        let folder = std::env::temp_dir().join(format!("neurogc-dumps-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let dumps = OwnDumps::new();
        let settings = Settings { heap_dump_files: 2, heap_dump_folder: folder.clone(), ..Settings::default() };
        // One that is under way keeps its place; one that is not written is not counted.
        let (first, second) = (dumps.next(&settings).unwrap(), dumps.next(&settings).unwrap());
        assert!(first != second && dumps.next(&settings).is_none());
        OwnDumps::gives_up(&first);
        OwnDumps::gives_up(&second);
        assert_eq!(dumps.next(&settings), Some(first.clone()));
        OwnDumps::gives_up(&first);
        for _ in 0..2 {
            let path = dumps.next(&settings).unwrap();
            fs::write(&path, "").unwrap();
            OwnDumps::gives_up(&path);
        }
        assert_eq!(dumps.next(&settings), None);
        // A process that came before has left them: one that is started again and again does not fill the disk.
        let again = OwnDumps { since: dumps.since + 1, above: AtomicBool::new(false) };
        assert_eq!(again.next(&settings), None);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn workers_that_write_at_the_same_time_share_what_is_allowed() {
        let folder = std::env::temp_dir().join(format!("neurogc-dumps-together-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let settings = Settings { heap_dump_files: 2, heap_dump_folder: folder.clone(), ..Settings::default() };
        // The starts of this process stand for several processes. They have the same id, so their files must be young.
        let workers = (1..=4).map(|since| OwnDumps { since, above: AtomicBool::new(false) });
        let paths: Vec<_> = workers.filter_map(|worker| worker.next(&settings)).collect();
        assert_eq!(paths.len(), 2);
        // One of them was written, the other one was not.
        fs::write(&paths[0], "").unwrap();
        paths.iter().for_each(|path| OwnDumps::gives_up(path));
        let next = OwnDumps::new().next(&settings).unwrap();
        assert!(next.starts_with(&folder) && !paths.contains(&next));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_dead_processes_left_is_removed_when_it_is_old() {
        let folder = std::env::temp_dir().join(format!("neurogc-dumps-left-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let dumps = OwnDumps::new();
        let (id, before) = (std::process::id(), dumps.since - 1);
        let (old, young) = (SystemTime::now() - 2 * ABANDONED, SystemTime::now());
        let left = |name: &str, written: SystemTime| {
            let file = fs::File::create(folder.join(name)).unwrap();
            file.set_modified(written).unwrap();
        };
        // No process has such a number. The parent lives; this process has an id that an earlier one had.
        left("heap-4294967295-1-1.ngch.part", old);
        left(&format!("heap-{id}-{before}-1.ngch.part"), old);
        left("heap-4294967295-2-1.ngch.part", young);
        left(&format!("heap-{}-1-1.ngch.part", nix::unistd::getppid()), old);
        left("heap-4294967295.ngch.part", old);
        left("another-4294967295-1-1.ngch.part", old);
        remove_left_over(&folder, dumps.since);
        let mut there: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        there.sort();
        let kept = [
            "another-4294967295-1-1.ngch.part".to_owned(),
            format!("heap-{}-1-1.ngch.part", nix::unistd::getppid()),
            "heap-4294967295-2-1.ngch.part".to_owned(),
            "heap-4294967295.ngch.part".to_owned(),
        ];
        let mut kept = kept.map(std::ffi::OsString::from);
        kept.sort();
        assert_eq!(there, kept);
        fs::remove_dir_all(&folder).unwrap();
    }
}
