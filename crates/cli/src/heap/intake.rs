//! A dump on its way from the clone of a process to a file: one thread reads the pipe into memory, another writes the file,
//! so that a slow disk does not keep the clone waiting.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use neurogc_wire::control;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::{Uid, fchown, mkfifo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::stream::DumpStream;

/// What is read at a time, and how much of it waits in memory for the disk at most: 1 GiB.
const PIECE: usize = 1 << 20;
const PIECES: usize = 1024;

/// A pipe that the clone of a process writes to. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) name: String,
    path: PathBuf,
    file: File,
}

impl Intake {
    /// Makes a pipe beside the socket of a process, which that process's user may write to.
    pub(crate) fn make(socket: &Path, pid: u32) -> io::Result<Self> {
        let folder = socket.parent().unwrap_or(Path::new("/"));
        let (name, path) = control::dump_pipe(folder, pid, std::process::id());
        let _ = std::fs::remove_file(&path);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW;
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&path)?;
        // The folder is another user's, who may have put something else in its place meanwhile.
        let (found, own) = (file.metadata()?, nix::unistd::geteuid().as_raw());
        if !found.file_type().is_fifo() || found.uid() != own {
            return Err(io::Error::other(format!("{} was replaced by something else", path.display())));
        }
        let owner = std::fs::metadata(folder)?.uid();
        if owner != own {
            fchown(&file, Some(Uid::from_raw(owner)), None)?;
        }
        // Less to and fro between the two processes; the kernel may allow less.
        let _ = fcntl(&file, FcntlArg::F_SETPIPE_SZ(PIECE as i32));
        Ok(Self { name, path, file })
    }

    /// Reads what is there, after a short wait if that is nothing. Nothing, if nothing came or the other end is closed.
    fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut polled = [PollFd::new(&self.file, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 }))?;
        into.resize(PIECE, 0);
        let mut filled = 0;
        while filled < PIECE {
            match self.file.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        into.truncate(filled);
        Ok(filled)
    }

    /// Takes in a whole dump. `look` is asked now and then whether to wait on: its error ends this, and so does a dump
    /// that is complete. Gives how far it came.
    pub(crate) fn copy_to(
        &mut self,
        to: File,
        mut look: impl FnMut(&DumpStream) -> Result<bool, String>,
    ) -> (DumpStream, Result<(), String>) {
        let mut stream = DumpStream::default();
        let (pieces, waiting) = sync_channel(PIECES);
        let outcome = std::thread::scope(|scope| {
            let writer = scope.spawn(move || write_all(to, &waiting));
            let read = self.read_all(&pieces, &mut stream, &mut look);
            drop(pieces);
            let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the thread that writes has ended")));
            written.map_err(|error| format!("the file could not be written: {error}")).and(read)
        });
        (stream, outcome)
    }

    fn read_all(
        &mut self,
        to: &SyncSender<Vec<u8>>,
        stream: &mut DumpStream,
        look: &mut impl FnMut(&DumpStream) -> Result<bool, String>,
    ) -> Result<(), String> {
        while !stream.is_complete() {
            let mut piece = Vec::new();
            let count = self.read(&mut piece).map_err(|error| format!("the pipe could not be read: {error}"))?;
            if count == 0 {
                if !look(stream)? {
                    return Ok(());
                }
                continue;
            }
            stream.take(&piece);
            while let Err(TrySendError::Full(back)) = to.try_send(piece) {
                piece = back;
                std::thread::sleep(Duration::from_millis(5));
            }
            look(stream)?;
        }
        Ok(())
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn write_all(mut to: File, pieces: &Receiver<Vec<u8>>) -> io::Result<()> {
    // After an error the rest is dropped, so that the other thread never waits.
    let mut outcome = Ok(());
    for piece in pieces {
        if outcome.is_ok() {
            outcome = to.write_all(&piece);
        }
    }
    outcome?;
    to.flush()
}
