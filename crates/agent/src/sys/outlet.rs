//! Where a clone writes to: a pipe with a name, which another process reads, or a file.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};

/// Something that is opened for writing when it is needed.
#[derive(Debug)]
pub(crate) struct Outlet {
    path: PathBuf,
    /// The name that a file gets when it is whole.
    whole: Option<PathBuf>,
    open: Option<OwnedFd>,
}

impl Outlet {
    /// The pipe with this name in a folder. Nothing is opened yet.
    pub(crate) fn pipe(folder: &Path, name: &str) -> Result<Self, String> {
        if name.is_empty() || name.starts_with('.') || name.contains('/') || name.len() > 64 {
            return Err(format!("{name:?} is not the name of a pipe"));
        }
        Ok(Self { path: folder.join(name), whole: None, open: None })
    }

    /// A file that only this user can read. Nothing is opened yet.
    pub(crate) fn file(path: &Path) -> Self {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        Self { path: PathBuf::from(part), whole: Some(path.to_owned()), open: None }
    }

    /// Opens it, if it is not open, and gives the descriptor. This does not wait for a reader.
    pub(crate) fn open(&mut self) -> Result<i32, String> {
        if let Some(file) = &self.open {
            return Ok(file.as_raw_fd());
        }
        let is_pipe = self.whole.is_none();
        let mut flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        if !is_pipe {
            // Never into a file that was there before: in a shared folder it may be another user's.
            let _ = std::fs::remove_file(&self.path);
            flags |= OFlag::O_CREAT | OFlag::O_EXCL;
        }
        let file = open(&self.path, flags, Mode::S_IRUSR | Mode::S_IWUSR).map_err(|error| match error {
            Errno::ENXIO | Errno::ENOENT if is_pipe => "the command that asked for the dump has ended".to_owned(),
            error => format!("{} could not be opened: {error}", self.path.display()),
        })?;
        let kind = fstat(file.as_fd()).map_or(0, |found| found.st_mode) & SFlag::S_IFMT.bits();
        if is_pipe && kind != SFlag::S_IFIFO.bits() {
            return Err("what the dump should be written to is not a pipe".to_owned());
        }
        Ok(self.open.insert(file).as_raw_fd())
    }

    /// Closes it. Processes that were cloned meanwhile keep it open.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Everything was written, or not: a file gets its name, or goes.
    pub(crate) fn settle(&mut self, done: bool) {
        if let Some(whole) = &self.whole {
            let _ = if done { std::fs::rename(&self.path, whole) } else { std::fs::remove_file(&self.path) };
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_a_pipe_with_a_reader_is_opened() {
        let folder = std::env::temp_dir().join(format!("neurogc-pipes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        mkfifo(&folder.join("1.dump"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        let open_one = |name| Outlet::pipe(&folder, name).and_then(|mut outlet| outlet.open().map(drop));
        assert!(open_one("1.dump").unwrap_err().contains("has ended"));
        assert!(open_one("missing").unwrap_err().contains("has ended"));
        assert!(open_one("file").unwrap_err().contains("not a pipe"));
        assert!(open_one("../1.dump").unwrap_err().contains("not the name"));
        let _reader = open(&folder.join("1.dump"), OFlag::O_RDONLY | OFlag::O_NONBLOCK, Mode::empty()).unwrap();
        assert_eq!(open_one("1.dump"), Ok(()));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("neurogc-outlet-{}", std::process::id()));
        for done in [false, true] {
            let mut outlet = Outlet::file(&path);
            assert!(outlet.open().is_ok() && !path.exists());
            outlet.settle(done);
            assert_eq!(path.exists(), done);
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
    }
}
