//! A dump on its way from the clone of a process to a file: one thread reads the pipe into memory, another writes the file,
//! so that a slow disk does not keep the clone waiting.

mod stream;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, fchown, mkfifoat};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Uid, geteuid};

pub use stream::DumpStream;

/// What is read at a time.
const PIECE: usize = 1 << 20;

/// How long to wait where nothing comes: for the pipe, for the disk, and for a pipe whose writer has gone.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
const DISK: Duration = Duration::from_millis(5);
const GONE: Duration = Duration::from_millis(2);

/// A pipe that the clone of a process writes to. It is removed when dropped.
#[derive(Debug)]
pub struct Intake {
    path: PathBuf,
    file: File,
}

impl Intake {
    /// Makes a pipe that the owner of its folder may write to.
    ///
    /// # Errors
    ///
    /// If the folder does not allow it, or if another file takes the place of the pipe meanwhile.
    pub fn make(path: &Path) -> io::Result<Self> {
        // What an earlier reader with the same name has left.
        let _ = std::fs::remove_file(path);
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let intake = Self { path: path.to_owned(), file };
        // The owner of the folder may have put something else there: a file of others must not be given to that user.
        let (found, own) = (intake.file.metadata()?, geteuid().as_raw());
        if !found.file_type().is_fifo() || found.uid() != own || found.nlink() != 1 {
            return Err(io::Error::other("another file has taken the place of the pipe"));
        }
        let owner = std::fs::metadata(path.parent().unwrap_or(Path::new("/")))?.uid();
        if owner != own {
            fchown(&intake.file, Some(Uid::from_raw(owner)), None)?;
        }
        // Less to and fro between the two processes; the kernel may allow less.
        let _ = fcntl_setpipe_size(&intake.file, PIECE);
        Ok(intake)
    }

    /// Reads what is there, after a short wait if that is nothing. Nothing, if nothing came or the other end is closed.
    fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut polled = [PollFd::new(&self.file, PollFlags::IN)];
        if let Err(error) = poll(&mut polled, Some(&WAIT))
            && error != Errno::INTR
        {
            return Err(error.into());
        }
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
    /// that is complete. Up to `waiting` bytes wait in memory for the disk. Gives how far it came.
    ///
    /// # Errors
    ///
    /// The second value says why it ended early, in a sentence.
    pub fn copy_to(
        &mut self,
        to: File,
        waiting: usize,
        mut look: impl FnMut(&DumpStream) -> Result<bool, String>,
    ) -> (DumpStream, Result<(), String>) {
        let mut stream = DumpStream::default();
        let (pieces, to_write) = sync_channel((waiting / PIECE).max(1));
        let outcome = std::thread::scope(|scope| {
            let writer = scope.spawn(move || write_all(to, &to_write));
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
                std::thread::sleep(GONE);
                continue;
            }
            stream.take(&piece);
            while let Err(TrySendError::Full(back)) = to.try_send(piece) {
                piece = back;
                std::thread::sleep(DISK);
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::sample::HeapSample;

    /// Has a thread write to a pipe, and gives what became of it.
    fn taken(bytes: &'static [u8], look: impl FnMut(&DumpStream) -> Result<bool, String>) -> (Vec<u8>, bool, String) {
        let folder = std::env::temp_dir().join(format!("neurogc-intake-{}-{}", std::process::id(), bytes.len()));
        std::fs::create_dir_all(&folder).unwrap();
        let (pipe, to) = (folder.join("1.dump"), folder.join("to"));
        let mut intake = Intake::make(&pipe).unwrap();
        let mut writer = OpenOptions::new().write(true).open(&pipe).unwrap();
        // The end may come before all is written: the pipe is closed then.
        let writing = std::thread::spawn(move || writer.write_all(bytes));
        let (stream, outcome) = intake.copy_to(File::create(&to).unwrap(), 1 << 20, look);
        drop(intake);
        let _ = writing.join().unwrap();
        assert!(!pipe.exists());
        let came = std::fs::read(&to).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        (came, stream.is_complete(), outcome.err().unwrap_or_default())
    }

    #[test]
    fn a_dump_comes_whole_and_a_limit_ends_it() {
        let dump: &'static [u8] = HeapSample::new().encode().leak();
        assert_eq!(taken(dump, |_| Ok(true)), (dump.to_vec(), true, String::new()));
        let endless: &'static [u8] = vec![7; 9 << 20].leak();
        let limited = |stream: &DumpStream| if stream.bytes > 3 << 20 { Err("too long".to_owned()) } else { Ok(true) };
        let (came, complete, why) = taken(endless, limited);
        assert!(came.len() < 6 << 20 && !complete && why == "too long", "{} {why}", came.len());
    }
}
