//! A folder of ours in the file system that the target sees, which may be another one than ours.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, fstatvfs};

use super::facts::TargetFacts;
use crate::container::{open_in, open_root};

/// Where such folders may be.
const PLACES: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run"];

/// What their names begin with.
pub(crate) const PREFIX: &str = "neurogc-attach-";

/// A folder that only the target's user may enter. It stays until it is removed.
#[derive(Debug)]
pub(crate) struct TargetFolder {
    /// The place that it is in. It is open, so that no link of the target's can lead elsewhere afterwards.
    place: OwnedFd,
    name: String,
    /// Its path as the target sees it.
    pub(crate) inside: String,
    uid: u32,
    gid: u32,
}

impl TargetFolder {
    /// Makes one. With `executable`, libraries can be loaded from it.
    pub(crate) fn create(target: &TargetFacts, executable: bool) -> io::Result<Self> {
        let root = open_root(target.pid)?;
        let mut trouble = io::Error::from(io::ErrorKind::NotFound);
        for place in PLACES {
            let name = format!("{PREFIX}{}-{:08x}", target.inner_pid, salt() as u32);
            let made = open_in(&root, Path::new(place)).and_then(|opened| {
                if executable && fstatvfs(&opened)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
                    return Err(io::Error::other(format!("{place} is mounted noexec")));
                }
                let folder = Self {
                    place: opened,
                    inside: format!("{place}/{name}"),
                    name: name.clone(),
                    uid: target.uid,
                    gid: target.gid,
                };
                folder.make_folder(Path::new(""))?;
                Ok(folder)
            });
            match made {
                Ok(folder) => return Ok(folder),
                Err(error) => trouble = error,
            }
        }
        Err(trouble)
    }

    /// Its path as this command sees it.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{}", self.place.as_raw_fd(), self.name))
    }

    pub(crate) fn make_folder(&self, below: &Path) -> io::Result<()> {
        let path = self.path().join(below);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        self.hand_over(&path)
    }

    /// Writes a file for the target to read.
    pub(crate) fn write(&self, below: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let path = self.path().join(below);
        let mut file = self.create_file(&path)?;
        file.write_all(bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        self.hand_over(&path)
    }

    fn create_file(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    }

    fn hand_over(&self, path: &Path) -> io::Result<()> {
        if crate::process::own_uid() == self.uid { Ok(()) } else { chown(path, Some(self.uid), Some(self.gid)) }
    }

    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(self.path());
    }
}

/// Removes a folder that an earlier command made. Other paths are left alone.
pub(crate) fn remove_folder(pid: u32, inside: &str) -> io::Result<()> {
    let path = Path::new(inside);
    let (Some(place), Some(name)) = (path.parent().and_then(Path::to_str), path.file_name().and_then(|it| it.to_str()))
    else {
        return Ok(());
    };
    if !PLACES.contains(&place) || !name.starts_with(PREFIX) {
        return Ok(());
    }
    let place = open_in(&open_root(pid)?, Path::new(place))?;
    fs::remove_dir_all(format!("/proc/self/fd/{}/{name}", place.as_raw_fd()))
}

/// A number that differs from call to call.
pub(super) fn salt() -> u64 {
    use std::hash::{BuildHasher, RandomState};

    RandomState::new().hash_one(std::process::id())
}
