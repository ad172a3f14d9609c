//! A hub on this machine that has connected to the control socket to be told from then on.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

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
        self.send(now)?;
        if self.gone == self.frame.len()
            && let Some((frame, _)) = self.backlog.frame(agent, host, now, Vec::new())
        {
            (self.frame, self.gone) = (frame, 0);
            self.send(now)?;
        }
        Ok(())
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
