//! A hub on this machine that has connected to the control socket to be told from then on.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags};

use super::backlog::Backlog;
use crate::book::hub_batch::Bulletin;
use crate::lifecycle::agent::Agent;

/// One that takes nothing for this long is left.
const PATIENCE_NS: u64 = 10_000_000_000;

/// One that follows.
#[derive(Debug)]
pub(super) struct Follower {
    stream: UnixStream,
    pub(super) backlog: Backlog,
    /// The frame on its way, and how much of it has gone.
    frame: Vec<u8>,
    gone: usize,
    /// When something was last taken.
    taken: u64,
}

impl Follower {
    /// Never waits for it from now on.
    pub(super) fn new(stream: UnixStream, now: u64) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, backlog: Backlog::default(), frame: Vec::new(), gone: 0, taken: now })
    }

    /// Tells what there is to tell. An error means that it is not there any more.
    pub(super) fn round(&mut self, agent: &Agent, host: &str, now: u64, bulletin: &Bulletin) -> io::Result<()> {
        self.backlog.add(bulletin);
        self.listen()?;
        self.send(now)?;
        if self.gone == self.frame.len()
            && let Some((frame, _)) = self.backlog.frame(agent, host, now, Vec::new())
        {
            (self.frame, self.gone) = (frame, 0);
            self.send(now)?;
        }
        Ok(())
    }

    /// When something is to be done for it, whether it moves or not.
    pub(super) fn due(&self) -> u64 {
        if self.is_sending() { self.taken + PATIENCE_NS } else { self.backlog.due() }
    }

    /// What to wait for: room for what is on its way, and in any case its end, which the kernel always tells.
    pub(super) fn poll_on(&self) -> PollFd<'_> {
        let wanted = if self.is_sending() { PollFlags::POLLOUT } else { PollFlags::empty() };
        PollFd::new(self.stream.as_fd(), wanted)
    }

    fn is_sending(&self) -> bool {
        self.gone < self.frame.len()
    }

    /// Sees whether it has left. It has nothing to say, and what it says all the same is thrown away.
    fn listen(&mut self) -> io::Result<()> {
        // More than a socket holds.
        const MOST_READS: usize = 256;
        for _ in 0..MOST_READS {
            match self.stream.read(&mut [0; 4096]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    fn send(&mut self, now: u64) -> io::Result<()> {
        while self.gone < self.frame.len() {
            match self.stream.write(&self.frame[self.gone..]) {
                Ok(count) => {
                    self.gone += count;
                    self.taken = now;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && now < self.taken + PATIENCE_NS => break,
                Err(error) => return Err(error),
            }
        }
        if self.gone == self.frame.len() {
            self.taken = now;
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_left_is_seen_without_anything_to_send() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut follower = Follower::new(near, 0).unwrap();
        far.write_all(b"what it says is of no interest").unwrap();
        assert!(follower.listen().is_ok());
        drop(far);
        assert!(follower.listen().is_err());
    }

    #[test]
    fn one_that_takes_nothing_is_left_when_its_time_is_over() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut follower = Follower::new(near, 5).unwrap();
        follower.frame = vec![0; 4 << 20];
        follower.send(6).unwrap();
        assert!(follower.is_sending() && follower.due() == 6 + PATIENCE_NS);
        follower.send(5 + PATIENCE_NS).unwrap();
        assert!(follower.send(6 + PATIENCE_NS).is_err());
    }
}
