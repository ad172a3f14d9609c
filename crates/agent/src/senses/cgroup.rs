//! The memory limit that the cgroup sets, for versions 1 and 2 and for the mix of both.

use std::fs;
use std::path::{Path, PathBuf};

/// Above this a version-1 limit means "none".
const NO_LIMIT: u64 = 1 << 60;

/// The smallest limit from this process's cgroup up to the root. `root` is `/` outside of tests.
pub(crate) fn memory_limit(root: &Path) -> Option<u64> {
    let membership = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let limits = membership.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (mount, file) = if number == "0" {
            (find_mount(&mounts, |kind, _| kind == "cgroup2")?, "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (
                find_mount(&mounts, |kind, options| kind == "cgroup" && has_option(options, "memory"))?,
                "memory.limit_in_bytes",
            )
        } else {
            return None;
        };
        smallest_limit(root, &mount, path, file)
    });
    limits.min()
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

fn smallest_limit(root: &Path, mount: &Mount, path: &str, file: &str) -> Option<u64> {
    // In a container the path may be that of the host while only its own part is mounted.
    let below = Path::new(path).strip_prefix(&mount.part).unwrap_or(Path::new(""));
    let top = root.join(mount.point.strip_prefix("/").ok()?);
    below
        .ancestors()
        .filter_map(|folder| fs::read_to_string(top.join(folder.strip_prefix("/").unwrap_or(folder)).join(file)).ok())
        .filter_map(|text| text.trim().parse::<u64>().ok())
        .filter(|limit| *limit < NO_LIMIT)
        .min()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn check(name: &str, cgroup: &str, mountinfo: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = std::env::temp_dir().join(format!("neurogc-cgroup-{}-{name}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", cgroup);
        write("proc/self/mountinfo", mountinfo);
        files.iter().for_each(|(path, text)| write(path, text));
        let limit = memory_limit(&root);
        fs::remove_dir_all(&root).unwrap();
        limit
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
}
