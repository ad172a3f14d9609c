//! The hubs that are told what happens here: those that follow, and the one that is pushed to.

use std::os::unix::net::UnixStream;

use nix::poll::PollFd;

use super::follower::Follower;
use super::push::Push;
use crate::book::hub_batch::{Bulletin, PendingRecords};
use crate::lifecycle::agent::Agent;
use crate::sys::native::monotonic_ns;

/// More do not get in: each costs a report a second.
const MOST: usize = 4;

/// What happens is kept for this long after the last one has left: around a fork all connections end, and the next ones
/// want to know what happened meanwhile.
const KEPT_NS: u64 = 5_000_000_000;

/// The shortest time between two looks at what has happened: a hub shows things as they happen, and not each by itself.
const TOLD_NS: u64 = 100_000_000;

/// All listeners of this process.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    host: String,
    followers: Vec<Follower>,
    push: Option<Push>,
    heard: u64,
    /// When they were last told what has happened, and whether there was anything.
    told: u64,
    stirred: bool,
}

impl Listeners {
    /// At first only the hub that the settings name.
    pub(super) fn new(agent: &Agent) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        let push = agent.settings.hub.as_ref().map(|hub| Push::new(hub, &agent.settings.hub_token));
        Self { host, followers: Vec::new(), push, heard: monotonic_ns(), told: 0, stirred: false }
    }

    /// Lets one more listen.
    pub(super) fn add(&mut self, agent: &Agent, stream: UnixStream) {
        if self.followers.len() < MOST
            && let Ok(follower) = Follower::new(stream, monotonic_ns())
        {
            self.followers.push(follower);
            agent.ledger().news.get_or_insert_default();
        }
    }

    /// Whether there is a hub or a follower.
    pub(super) fn are_there(&self) -> bool {
        self.push.is_some() || !self.followers.is_empty()
    }

    /// Whether a hub or a follower is to get figures now.
    pub(super) fn want_figures(&self, now: u64) -> bool {
        let backlogs = self.followers.iter().map(|follower| &follower.backlog);
        backlogs.chain(self.push.iter().map(|push| &push.backlog)).any(|backlog| backlog.wants_figures(now))
    }

    /// Sends each hub and follower what there is to send, without blocking.
    pub(super) fn round(&mut self, agent: &Agent, now: u64) {
        if !self.are_there() {
            if now > self.heard + KEPT_NS && agent.ledger().news.take().is_some() {
                self.stirred = false;
            }
            return;
        }
        self.heard = now;
        let bulletin = if now >= self.told + TOLD_NS {
            let bulletin = agent.ledger().news.get_or_insert_with(PendingRecords::default).take();
            (self.told, self.stirred) = (now, !bulletin.is_empty());
            bulletin
        } else {
            self.stirred |= agent.ledger().news.as_ref().is_some_and(|news| !news.is_empty());
            Bulletin::default()
        };
        self.followers.retain_mut(|follower| follower.round(agent, &self.host, now, &bulletin).is_ok());
        if let Some(push) = &mut self.push {
            push.round(agent, &self.host, now, &bulletin);
        }
    }

    /// When something is to be done for them, whether they move or not. While things happen they are looked at often;
    /// the first one after a quiet time wakes the uplink.
    pub(super) fn due(&self, now: u64) -> Option<u64> {
        let followers = self.followers.iter().map(Follower::due);
        let due = followers.chain(self.push.iter().map(|push| push.due(now))).min()?;
        Some(if self.stirred { due.min(self.told + TOLD_NS) } else { due })
    }

    /// What to wait for.
    pub(super) fn poll_on<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) {
        polled.extend(self.followers.iter().map(Follower::poll_on));
        polled.extend(self.push.iter().filter_map(Push::poll_on));
    }
}
