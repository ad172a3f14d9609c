//! The hubs that are told what happens here: those that follow, and the one that is pushed to.

use std::os::unix::net::UnixStream;

use super::follower::Follower;
use super::push::Push;
use crate::book::hub_batch::News;
use crate::lifecycle::agent::Agent;
use crate::sys::native::monotonic_ns;

/// More do not get in: each costs a report a second.
const MOST: usize = 4;

/// What happens is kept for this long after the last one has left: around a fork all connections end, and the next ones
/// want to know what happened meanwhile.
const KEPT_NS: u64 = 5_000_000_000;

/// All listeners of this process.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    host: String,
    followers: Vec<Follower>,
    push: Option<Push>,
    heard: u64,
}

impl Listeners {
    /// Nobody but the hub that the settings name.
    pub(super) fn new(agent: &Agent) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        let push = agent.settings.hub.as_ref().map(|hub| Push::new(hub, &agent.settings.hub_token));
        Self { host, followers: Vec::new(), push, heard: monotonic_ns() }
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

    /// Whether there is anybody.
    pub(super) fn are_there(&self) -> bool {
        self.push.is_some() || !self.followers.is_empty()
    }

    /// Whether somebody is to get figures now.
    pub(super) fn want_figures(&self, now: u64) -> bool {
        let backlogs = self.followers.iter().map(|follower| &follower.backlog);
        backlogs.chain(self.push.iter().map(|push| &push.backlog)).any(|backlog| backlog.wants_figures(now))
    }

    /// Tells everybody what there is to tell, and waits for nobody.
    pub(super) fn round(&mut self, agent: &Agent, now: u64) {
        if !self.are_there() {
            if now > self.heard + KEPT_NS {
                agent.ledger().news = None;
            }
            return;
        }
        self.heard = now;
        let bulletin = agent.ledger().news.get_or_insert_with(News::default).take();
        self.followers.retain_mut(|follower| follower.round(agent, &self.host, now, &bulletin).is_ok());
        if let Some(push) = &mut self.push {
            push.round(agent, &self.host, now, &bulletin);
        }
    }
}
