//! Processes in other namespaces: their numbers, users and files as they see them themselves.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// The folder in which the sockets of agents are.
const SHARED: &str = "/tmp";

/// How a process sees itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InnerIdentity {
    /// Its number in its own pid namespace.
    pub(crate) pid: u32,
    /// Its user in its own user namespace.
    pub(crate) uid: u32,
    /// Whether it has a number of its own there, or another `/tmp`.
    pub(crate) is_elsewhere: bool,
}

impl InnerIdentity {
    /// Of a process that has this number and user for us. What cannot be read is taken to be as for us.
    pub(crate) fn of(pid: u32, uid: u32) -> Self {
        let numbers = fs::read_to_string(format!("/proc/{pid}/status"))
            .ok()
            .map_or_else(Vec::new, |status| numbers_in_namespaces(&status));
        let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap_or_default();
        let sees_another = is_other_folder(&format!("/proc/{pid}/root{SHARED}"), SHARED);
        Self {
            pid: numbers.last().copied().unwrap_or(pid),
            uid: inner_user(&map, uid).unwrap_or(uid),
            is_elsewhere: numbers.len() > 1 || sees_another,
        }
    }
}

/// The numbers of a process, from our namespace inwards, as its `status` has them.
pub(crate) fn numbers_in_namespaces(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Which user a user of ours is inside, by a table of lines "inside outside count".
fn inner_user(map: &str, outer: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let place = outer.checked_sub(outside).filter(|place| *place < count)?;
        inside.checked_add(place)
    })
}

fn is_other_folder(theirs: &str, ours: &str) -> bool {
    match (fs::metadata(theirs), fs::metadata(ours)) {
        (Ok(theirs), Ok(ours)) => (theirs.dev(), theirs.ino()) != (ours.dev(), ours.ino()),
        _ => false,
    }
}

/// Opens the root of the file system that a process sees.
pub(crate) fn open_root(pid: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty())?)
}

/// Opens a folder of a process's file system. Links in it lead where they lead for the process, and never out of its root.
pub(crate) fn open_in(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(root, path, flags, Mode::empty(), resolve)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_in_the_table() {
        let map = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(inner_user(map, 1000), Some(0));
        assert_eq!(inner_user(map, 100_033), Some(34));
        assert_eq!(inner_user(map, 999), None);
        assert_eq!(inner_user("", 7), None);
    }

    #[test]
    fn this_process_is_here() {
        let own = std::process::id();
        let uid = crate::process::own_uid();
        let identity = InnerIdentity::of(own, uid);
        assert_eq!((identity.pid, identity.is_elsewhere), (own, false));
    }

    #[test]
    fn numbers_go_inwards() {
        assert_eq!(numbers_in_namespaces("Name:\tx\nNSpid:\t4242\t17\t1\n"), [4242, 17, 1]);
        assert_eq!(numbers_in_namespaces("Name:\tx\n"), Vec::<u32>::new());
    }
}
