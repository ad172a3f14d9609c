//! The memory limit that the cgroup sets, and what is left of it, for versions 1 and 2 and for the mix of both.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

/// Above this a version-1 limit means "none".
const NO_LIMIT: u64 = 1 << 60;

/// The smallest limit from this process's cgroup up to the root. `root` is `/` outside of tests.
pub(crate) fn memory_limit(root: &Path) -> Option<u64> {
    limits(root)?.into_iter().map(|limit| limit.bytes).min()
}

/// How long limits count as known. To find them the kernel writes a list of all mounts.
const KNOWN_FOR: Duration = Duration::from_secs(5);

/// The limits that were found last, and when.
static KNOWN: Mutex<Option<(Instant, Vec<Limit>)>> = Mutex::new(None);

/// What is left below the limits of this process. It may not know a limit that was set less than `KNOWN_FOR` ago.
pub(crate) fn memory_left_here() -> Option<u64> {
    let root = Path::new("/");
    let mut known = match KNOWN.try_lock() {
        Ok(known) => known,
        Err(TryLockError::Poisoned(known)) => known.into_inner(),
        // Another thread looks at this moment, or did when this process was forked.
        Err(TryLockError::WouldBlock) => return memory_left(&limits(root)?),
    };
    if known.as_ref().is_none_or(|(since, _)| since.elapsed() >= KNOWN_FOR) {
        *known = Some((Instant::now(), limits(root)?));
    }
    known.as_ref().and_then(|(_, limits)| memory_left(limits))
}

/// What is left below these limits. What the kernel takes back by itself when memory is short counts as free: cached files
/// that were not used lately, and parts of huge pages that no process maps any more. A snapshot leaves such parts behind
/// wherever the program has copied some of a huge page.
fn memory_left(limits: &[Limit]) -> Option<u64> {
    let left = |limit: &Limit| {
        let number = |name: &str| fs::read_to_string(limit.folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let names = limit.names;
        let used = number(names.usage)?;
        let stat = fs::read_to_string(limit.folder.join("memory.stat")).unwrap_or_default();
        let field = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        let kernel = if names.kernel.ends_with(' ') { field(names.kernel) } else { number(names.kernel) };
        let mapped = [kernel, field(names.anonymous), field(names.files)].into_iter().sum::<Option<u64>>();
        // Buffers of sockets are in none of these in version 2. In version 1 they are not in the usage.
        let mapped = mapped.map(|mapped| mapped + field("sock ").unwrap_or(0));
        let unmapped = mapped.map_or(0, |mapped| used.saturating_sub(mapped));
        let free = field(names.cached).unwrap_or(0) + unmapped;
        Some(limit.bytes.saturating_sub(used.saturating_sub(free)))
    };
    limits.iter().filter_map(left).min()
}

/// A limit and where it is set.
#[derive(Debug)]
struct Limit {
    bytes: u64,
    folder: PathBuf,
    names: &'static Names,
}

/// How the files of a version are called.
#[derive(Debug)]
struct Names {
    limit: &'static str,
    usage: &'static str,
    cached: &'static str,
    anonymous: &'static str,
    files: &'static str,
    /// A field of the statistics where it ends with a space, else a file.
    kernel: &'static str,
}

const VERSION_2: Names = Names {
    limit: "memory.max",
    usage: "memory.current",
    cached: "inactive_file ",
    anonymous: "anon ",
    files: "file ",
    kernel: "kernel ",
};
const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cached: "total_inactive_file ",
    anonymous: "total_rss ",
    files: "total_cache ",
    kernel: "memory.kmem.usage_in_bytes",
};

/// All limits from this process's cgroup up to the root.
fn limits(root: &Path) -> Option<Vec<Limit>> {
    let membership = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let limits = membership.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (mount, names) = if number == "0" {
            (find_mount(&mounts, |kind, _| kind == "cgroup2")?, &VERSION_2)
        } else if controllers.split(',').any(|name| name == "memory") {
            (find_mount(&mounts, |kind, options| kind == "cgroup" && has_option(options, "memory"))?, &VERSION_1)
        } else {
            return None;
        };
        limits_above(root, &mount, path, names)
    });
    Some(limits.flatten().collect())
}

/// A cgroup file system: which part of the hierarchy is mounted where.
struct Mount {
    part: PathBuf,
    point: PathBuf,
}

fn find_mount(mounts: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<Mount> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let mut before = before.split(' ').skip(3);
        let (part, point) = (before.next()?, before.next()?);
        wanted(kind, options).then(|| Mount { part: part.into(), point: point.into() })
    })
}

fn has_option(options: &str, name: &str) -> bool {
    options.split(',').any(|option| option == name)
}

fn limits_above(root: &Path, mount: &Mount, path: &str, names: &'static Names) -> Option<Vec<Limit>> {
    // In a container the path may be that of the host while only its own part is mounted.
    let below = Path::new(path).strip_prefix(&mount.part).unwrap_or(Path::new(""));
    let top = root.join(mount.point.strip_prefix("/").ok()?);
    let limit = |folder: &Path| {
        let folder = top.join(folder.strip_prefix("/").unwrap_or(folder));
        let bytes = fs::read_to_string(folder.join(names.limit)).ok()?.trim().parse::<u64>().ok()?;
        (bytes < NO_LIMIT).then_some(Limit { bytes, folder, names })
    };
    Some(below.ancestors().filter_map(limit).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn check(name: &str, cgroup: &str, mountinfo: &str, files: &[(&str, &str)]) -> Option<u64> {
        check_by(memory_limit, name, cgroup, mountinfo, files)
    }

    fn check_by(
        look: fn(&Path) -> Option<u64>,
        name: &str,
        cgroup: &str,
        mountinfo: &str,
        files: &[(&str, &str)],
    ) -> Option<u64> {
        let root = std::env::temp_dir().join(format!("neurogc-cgroup-{}-{name}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", cgroup);
        write("proc/self/mountinfo", mountinfo);
        files.iter().for_each(|(path, text)| write(path, text));
        let found = look(&root);
        fs::remove_dir_all(&root).unwrap();
        found
    }

    const V2: &str = "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "40 30 0:36 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

    #[test]
    fn version_2_takes_the_smallest_on_the_way_up() {
        let files = [("sys/fs/cgroup/a/b/memory.max", "max\n"), ("sys/fs/cgroup/a/memory.max", "1000\n")];
        assert_eq!(check("v2", "0::/a/b\n", V2, &files), Some(1000));
        assert_eq!(check("v2none", "0::/a/b\n", V2, &files[..1]), None);
    }

    #[test]
    fn version_1_knows_its_own_infinity() {
        let files = [
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2000\n"),
        ];
        assert_eq!(check("v1", "4:memory:/job\n3:cpu:/\n", V1, &files), Some(2000));
        assert_eq!(check("v1none", "4:memory:/\n", V1, &files[..1]), None);
    }

    #[test]
    fn a_container_sees_only_its_own_part() {
        let mount = "40 30 0:36 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let files = [("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n")];
        assert_eq!(check("container", "4:memory:/docker/abc\n", mount, &files), Some(3000));
        assert_eq!(check("nested", "0::/../..\n", V2, &[("sys/fs/cgroup/memory.max", "4000")]), Some(4000));
    }

    #[test]
    fn parts_of_huge_pages_that_are_mapped_no_more_count_as_free() {
        let stat = "anon 300\nfile 150\nkernel 100\nsock 50\ninactive_file 150\n";
        let files = [
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/memory.current", "700\n"),
            ("sys/fs/cgroup/a/memory.stat", stat),
        ];
        let left = |root: &Path| memory_left(&limits(root)?);
        assert_eq!(check_by(left, "unmapped", "0::/a\n", V2, &files), Some(550));
        let files = [
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "700\n"),
            ("sys/fs/cgroup/memory/a/memory.kmem.usage_in_bytes", "100\n"),
            ("sys/fs/cgroup/memory/a/memory.stat", "total_cache 200\ntotal_rss 300\ntotal_inactive_file 150\n"),
        ];
        assert_eq!(check_by(left, "unmapped-1", "4:memory:/a\n", V1, &files), Some(550));
    }

    #[test]
    fn what_is_left_counts_idle_caches_as_free() {
        let files = [
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/memory.current", "700\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 300\ninactive_file 150\n"),
            ("sys/fs/cgroup/memory.max", "5000\n"),
            ("sys/fs/cgroup/memory.current", "4900\n"),
        ];
        let left = |root: &Path| memory_left(&limits(root)?);
        assert_eq!(check_by(left, "left", "0::/a\n", V2, &files[..3]), Some(450));
        assert_eq!(check_by(left, "above", "0::/a\n", V2, &files), Some(100));
    }
}
