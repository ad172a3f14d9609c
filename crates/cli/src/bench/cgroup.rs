//! A memory cgroup for one trial, of version 1 or 2: made, limited, asked what it has seen, and removed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// How the files of a version are called.
#[derive(Debug)]
struct Names {
    limit: &'static str,
    /// The limit of memory and swap together (version 1) or of swap alone (version 2); not every kernel has it.
    swap_limit: &'static str,
    peak: &'static str,
    /// The file with a line `oom_kill N`.
    events: &'static str,
    /// The lines of `memory.stat` with memory that processes have mapped: their own, and what they share without a file.
    mapped: [&'static str; 2],
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    swap_limit: "memory.memsw.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
    events: "memory.oom_control",
    mapped: ["total_rss", "total_shmem"],
};
const VERSION_2: Names = Names {
    limit: "memory.max",
    swap_limit: "memory.swap.max",
    peak: "memory.peak",
    events: "memory.events",
    mapped: ["anon", "shmem"],
};

/// How often a group that still has processes is tried to remove.
const TRIES: u32 = 50;

/// A memory cgroup of our own. It is removed when it is dropped; its processes must have ended by then.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    names: &'static Names,
}

impl Group {
    /// Makes a group with a limit in bytes, or without one. `root` is `/` outside of tests.
    pub(crate) fn make(root: &Path, limit: Option<u64>) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = Self::below(&homes(root), &format!("neurogc-bench-{}-{number}", std::process::id()))?;
        if let Some(limit) = limit {
            group.limit(limit)?;
        }
        Ok(group)
    }

    /// The first of the homes in which a group can be made.
    fn below(homes: &[(PathBuf, &'static Names)], name: &str) -> Result<Self, String> {
        let mut reason = "this machine has no memory cgroups".to_owned();
        for (home, names) in homes {
            // In version 2 children have no memory files before their parent says so; in version 1 there is no such file.
            let switch = home.join("cgroup.subtree_control");
            if switch.exists() {
                let _ = fs::write(&switch, "+memory");
            }
            let folder = home.join(name);
            match fs::create_dir(&folder) {
                Ok(()) => {}
                // Only in tests is it there before it is made.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    reason = format!("cannot make a memory cgroup in {}: {error}", home.display());
                    continue;
                }
            }
            let group = Self { folder, names };
            if group.path(names.limit).exists() {
                return Ok(group);
            }
            reason = format!("cgroups in {} have no memory limit", home.display());
        }
        Err(format!(
            "{reason}. The scenario needs a cgroup that it may limit: run it as root, or in a delegated cgroup"
        ))
    }

    fn limit(&self, bytes: u64) -> Result<(), String> {
        let path = self.path(self.names.limit);
        fs::write(&path, bytes.to_string()).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        // What would be swapped out would hide what is too much.
        let swap = self.path(self.names.swap_limit);
        if swap.exists() {
            let _ = fs::write(swap, if self.names.limit == VERSION_1.limit { bytes } else { 0 }.to_string());
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The file that takes the number of a process that is to be in the group.
    pub(crate) fn door(&self) -> PathBuf {
        self.path("cgroup.procs")
    }

    /// What its processes have mapped now, in bytes, each page counted once: no files that they have read, and no parts of
    /// huge pages that no process maps any more, which the kernel takes back when memory is short.
    pub(crate) fn mapped(&self) -> Option<u64> {
        let text = fs::read_to_string(self.path("memory.stat")).ok()?;
        let line = |wanted: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(wanted)?.strip_prefix(' '));
            value.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let [own, shared] = self.names.mapped;
        Some(line(own)? + line(shared)?)
    }

    /// The most that it has used; `None` where the kernel keeps no record of it.
    pub(crate) fn peak(&self) -> Option<u64> {
        number(&self.path(self.names.peak))
    }

    /// How many of its processes the kernel has killed because memory ran out.
    pub(crate) fn kills(&self) -> u64 {
        let events = fs::read_to_string(self.path(self.names.events)).unwrap_or_default();
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
        kills.unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            if fs::remove_dir(&self.folder).err().is_none_or(|error| error.kind() != ErrorKind::ResourceBusy) {
                return;
            }
            // Processes that were killed leave their group a moment later.
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The folders in which a group may be made, the best first: our own cgroup, and those above it. In version 2 a cgroup
/// that has processes can have no limited children, unless it is the root.
fn homes(root: &Path) -> Vec<(PathBuf, &'static Names)> {
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (membership, mounts) = (text("proc/self/cgroup"), text("proc/self/mountinfo"));
    let mut found = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(own)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (kind, option, names) = if number == "0" {
            ("cgroup2", None, &VERSION_2)
        } else if controllers.split(',').any(|name| name == "memory") {
            ("cgroup", Some("memory"), &VERSION_1)
        } else {
            continue;
        };
        let Some((part, point)) = mount(&mounts, kind, option) else { continue };
        // In a container the path may be that of the host while only its own part is mounted.
        let below = Path::new(own).strip_prefix(&part).unwrap_or(Path::new(""));
        let top = root.join(point.strip_prefix("/").unwrap_or(&point));
        let homes = below.ancestors().map(|above| top.join(above.strip_prefix("/").unwrap_or(above)));
        found.extend(homes.filter(|home| home.is_dir()).map(|home| (home, names)));
    }
    found
}

/// Which part of a hierarchy is mounted where.
fn mount(mounts: &str, kind: &str, option: Option<&str>) -> Option<(PathBuf, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (found, options) = (after.next()?, after.nth(1)?);
        let mut before = before.split(' ').skip(3);
        let (part, point) = (before.next()?, before.next()?);
        let wanted = option.is_none_or(|option| options.split(',').any(|it| it == option));
        (found == kind && wanted).then(|| (part.into(), point.into()))
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const MOUNTS_1: &str = "30 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                            31 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    const MOUNTS_2: &str = "30 25 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    /// A machine in a folder, with files by their paths.
    fn machine(cgroup: &str, mounts: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [("proc/self/cgroup", cgroup), ("proc/self/mountinfo", mounts)].iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn read(root: &tempfile::TempDir, path: &str) -> String {
        fs::read_to_string(root.path().join(path)).unwrap()
    }

    #[test]
    fn a_group_of_version_1_is_limited_and_read() {
        let files = [
            ("sys/fs/cgroup/memory/a/g/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/a/g/memory.memsw.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/a/g/memory.stat", "rss 8\ntotal_rss 600\ntotal_rss_huge 5\ntotal_shmem 400\n"),
            ("sys/fs/cgroup/memory/a/g/memory.max_usage_in_bytes", "2000\n"),
            ("sys/fs/cgroup/memory/a/g/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        ];
        let root = machine("4:cpu:/\n3:memory:/a\n0::/\n", MOUNTS_1, &files);
        let group = Group::below(&homes(root.path()), "g").unwrap();
        group.limit(5000).unwrap();
        assert_eq!((group.mapped(), group.peak(), group.kills()), (Some(1000), Some(2000), 3));
        assert_eq!(group.door(), root.path().join("sys/fs/cgroup/memory/a/g/cgroup.procs"));
        assert_eq!(read(&root, files[0].0), "5000");
        assert_eq!(read(&root, files[1].0), "5000", "memory and swap together");
    }

    #[test]
    fn a_group_of_version_2_is_made_beside_us_where_it_cannot_be_below() {
        let files = [
            ("sys/fs/cgroup/user/cgroup.subtree_control", ""),
            ("sys/fs/cgroup/user/us/cgroup.subtree_control", ""),
            ("sys/fs/cgroup/user/g/memory.max", "max\n"),
            ("sys/fs/cgroup/user/g/memory.swap.max", "max\n"),
            ("sys/fs/cgroup/user/g/memory.stat", "anon 700\nfile 5\nanon_thp 6\nshmem 300\n"),
            ("sys/fs/cgroup/user/g/memory.events", "low 0\noom 1\noom_kill 1\noom_group_kill 0\n"),
        ];
        let root = machine("0::/user/us\n", MOUNTS_2, &files);
        let group = Group::below(&homes(root.path()), "g").unwrap();
        group.limit(5000).unwrap();
        assert_eq!(group.door(), root.path().join("sys/fs/cgroup/user/g/cgroup.procs"));
        assert_eq!((group.mapped(), group.peak(), group.kills()), (Some(1000), None, 1));
        assert_eq!(read(&root, "sys/fs/cgroup/user/g/memory.max"), "5000");
        assert_eq!(read(&root, "sys/fs/cgroup/user/g/memory.swap.max"), "0");
        assert_eq!(read(&root, "sys/fs/cgroup/user/cgroup.subtree_control"), "+memory");
        assert!(!root.path().join("sys/fs/cgroup/user/us/g").exists(), "what could not be used is not left behind");
    }

    #[test]
    fn a_container_that_sees_only_its_part_is_found() {
        let mounts = "31 25 0:28 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let files = [("sys/fs/cgroup/memory/g/memory.limit_in_bytes", "1")];
        let root = machine("3:memory:/docker/x\n", mounts, &files);
        assert!(Group::below(&homes(root.path()), "g").is_ok());
    }

    #[test]
    fn without_cgroups_it_says_what_is_missing() {
        let root = machine("", "", &[]);
        let error = Group::make(root.path(), Some(1)).unwrap_err();
        assert!(error.contains("has no memory cgroups") && error.contains("as root"), "{error}");
    }
}
