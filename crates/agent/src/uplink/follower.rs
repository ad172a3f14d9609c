//! A hub on this machine that has connected to the control socket to be told from then on.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::backlog::Backlog;
use crate::book::hub_batch::Bulletin;
use crate::book::status::ReportSources;

/// One that takes nothing for this long is left.
const PATIENCE_NS: u64 = 10_000_000_000;

/// One that has taken nothing for this long makes room for another.
pub(super) const STUCK_NS: u64 = 2_000_000_000;

/// One that follows.
#[derive(Debug)]
pub(super) struct Follower {
    stream: UnixStream,
    /// The process of the hub, where the kernel shows it.
    pub(super) hub: Option<i32>,
    /// Whether it came by a socket that is not served any more.
    pub(super) former: bool,
    pub(super) backlog: Backlog,
    /// The frame on its way, and how much of it has gone.
    frame: Vec<u8>,
    gone: usize,
    /// When something was last taken.
    pub(super) taken: u64,
}

impl Follower {
    /// Never waits for it from now on.
    pub(super) fn new(stream: UnixStream, now: u64) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // A hub in another container has no number here.
        let hub = getsockopt(&stream, PeerCredentials).ok().map(|peer| peer.pid()).filter(|pid| *pid != 0);
        let backlog = Backlog::default();
        Ok(Self { stream, hub, former: false, backlog, frame: Vec::new(), gone: 0, taken: now })
    }

    /// Whether the newcomer is the same hub, which has found the socket that is served now.
    pub(super) fn is_replaced_by(&self, newcomer: &Self) -> bool {
        self.former && self.hub.is_some() && self.hub == newcomer.hub
    }

    /// Whether it has not taken anything lately of what it is sent.
    pub(super) fn is_stuck(&self, now: u64) -> bool {
        self.is_sending() && now >= self.taken + STUCK_NS
    }

    /// Tells what there is to tell. An error means that it is not there any more.
    pub(super) fn round(
        &mut self,
        sources: ReportSources<'_>,
        machine: &str,
        now: u64,
        bulletin: &Bulletin,
    ) -> io::Result<()> {
        self.backlog.add(bulletin);
        self.listen()?;
        self.send(now)?;
        if self.gone == self.frame.len()
            && let Some((frame, _)) = self.backlog.frame(sources, machine, now, Vec::new())
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
    pub(super) fn listen(&mut self) -> io::Result<()> {
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
impl Follower {
    /// Gives it more than its socket holds.
    pub(super) fn fill(&mut self, now: u64) {
        self.frame = vec![0; 4 << 20];
        self.send(now).unwrap();
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
        follower.fill(6);
        assert!(follower.is_sending() && follower.due() == 6 + PATIENCE_NS);
        follower.send(5 + PATIENCE_NS).unwrap();
        assert!(follower.send(6 + PATIENCE_NS).is_err());
    }
}
