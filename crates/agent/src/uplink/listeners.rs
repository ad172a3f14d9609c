//! The hubs that are told what happens here: those that follow, and the one that is pushed to.

use std::os::unix::net::UnixStream;

use neurogc_settings::Settings;
use nix::poll::PollFd;

use super::follower::Follower;
use super::push::Push;
use crate::book::books::Books;
use crate::book::hub_batch::{Bulletin, PendingRecords};
use crate::book::status::ReportSources;
use crate::sys::native::monotonic_ns;
use crate::threads::ThreadControl;

/// Followers at a time: each costs a report a second.
const MOST: usize = 8;

/// What happens is kept for this long after the last one has left: around a fork all connections end, and the next ones
/// want to know what happened meanwhile.
const KEPT_NS: u64 = 5_000_000_000;

/// The shortest time between two looks at what has happened: a hub shows things as they happen, and not each by itself.
const TOLD_NS: u64 = 100_000_000;

/// All listeners of this process.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    machine: String,
    followers: Vec<Follower>,
    push: Option<Push>,
    heard: u64,
    /// When they were last told what has happened, and whether there was anything.
    told: u64,
    stirred: bool,
}

impl Listeners {
    /// At first only the hub that the settings name.
    pub(super) fn new(settings: &Settings) -> Self {
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        let push = settings.hub.as_ref().map(|hub| Push::new(hub, &settings.hub_token));
        Self { machine, followers: Vec::new(), push, heard: monotonic_ns(), told: 0, stirred: false }
    }

    /// Lets one more listen.
    pub(super) fn add(&mut self, settings: &Settings, books: &Books, stream: UnixStream) {
        let now = monotonic_ns();
        let Ok(newcomer) = Follower::new(stream, now) else { return };
        let admitted = admit(&mut self.followers, newcomer, now);
        let mut ledger = books.ledger();
        if admitted {
            ledger.news.get_or_insert_with(|| PendingRecords::new(settings.hub_trace));
        } else {
            ledger.trouble(format!("one more hub wants to follow this process, which reports to {MOST} already"));
        }
    }

    /// The socket by which all followers came is not served any more: the process has become another user.
    pub(super) fn socket_changes(&mut self) {
        self.followers.iter_mut().for_each(|follower| follower.former = true);
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
    pub(super) fn round(&mut self, sources: ReportSources<'_>, threads: &ThreadControl, now: u64) {
        if !self.are_there() {
            if now > self.heard + KEPT_NS && sources.books.ledger().news.take().is_some() {
                self.stirred = false;
            }
            return;
        }
        self.heard = now;
        let bulletin = if now >= self.told + TOLD_NS {
            let begin = || PendingRecords::new(sources.host.settings.hub_trace);
            let bulletin = sources.books.ledger().news.get_or_insert_with(begin).take();
            (self.told, self.stirred) = (now, !bulletin.is_empty());
            bulletin
        } else {
            self.stirred |= sources.books.ledger().news.as_ref().is_some_and(|news| !news.is_empty());
            Bulletin::default()
        };
        self.followers.retain_mut(|follower| follower.round(sources, &self.machine, now, &bulletin).is_ok());
        if let Some(push) = &mut self.push {
            push.round(sources, threads, &self.machine, now, &bulletin);
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

/// Gives a newcomer a place, if there is one: without those that have left, without the connection that the same hub had by
/// a former socket, and if need be in place of one by a former socket, or of one that takes nothing.
fn admit(followers: &mut Vec<Follower>, newcomer: Follower, now: u64) -> bool {
    followers.retain_mut(|other| !other.is_replaced_by(&newcomer) && other.listen().is_ok());
    if followers.len() >= MOST {
        let spare = followers.iter().position(|other| other.former).or_else(|| {
            let stuck = followers.iter().enumerate().filter(|(_, other)| other.is_stuck(now));
            stuck.min_by_key(|(_, other)| other.taken).map(|(at, _)| at)
        });
        let Some(at) = spare else { return false };
        followers.remove(at);
    }
    followers.push(newcomer);
    true
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::follower::STUCK_NS;
    use super::*;

    /// A follower of a hub with this process id, and the hub's end.
    fn follower(hub: i32) -> (Follower, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let mut follower = Follower::new(near, 0).unwrap();
        follower.hub = Some(hub);
        (follower, far)
    }

    /// As many as there are places, of hubs 0, 1, 2 and so on.
    fn full() -> (Vec<Follower>, Vec<UnixStream>) {
        (0..MOST as i32).map(follower).unzip()
    }

    fn hubs(followers: &[Follower]) -> Vec<i32> {
        followers.iter().filter_map(|follower| follower.hub).collect()
    }

    #[test]
    fn a_follower_that_has_left_gives_its_place_to_the_next() {
        let (mut followers, mut ends) = full();
        assert!(!admit(&mut followers, follower(99).0, 0));
        drop(ends.remove(2));
        let (newcomer, _end) = follower(99);
        assert!(admit(&mut followers, newcomer, 0));
        assert_eq!(hubs(&followers), [0, 1, 3, 4, 5, 6, 7, 99]);
    }

    #[test]
    fn two_hubs_and_changes_of_user_do_not_fill_the_places() {
        let (mut followers, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..3 * MOST {
            followers.iter_mut().for_each(|follower: &mut Follower| follower.former = true);
            for hub in [1, 2] {
                let (newcomer, end) = follower(hub);
                assert!(admit(&mut followers, newcomer, 0));
                ends.push(end);
            }
            assert_eq!(hubs(&followers), [1, 2]);
        }
    }

    #[test]
    fn two_connections_of_one_hub_by_the_same_socket_do_not_replace_each_other() {
        let ((first, _a), (second, _b)) = (follower(1), follower(1));
        let mut followers = vec![first];
        assert!(admit(&mut followers, second, 0));
        assert_eq!(hubs(&followers), [1, 1]);
    }

    #[test]
    fn a_place_is_taken_from_a_former_socket_first_and_then_from_one_that_takes_nothing() {
        let (mut followers, _ends) = full();
        followers[4].former = true;
        followers[6].fill(1);
        let (newcomer, _end) = follower(98);
        assert!(admit(&mut followers, newcomer, STUCK_NS));
        assert_eq!(hubs(&followers), [0, 1, 2, 3, 5, 6, 7, 98]);
        let (newcomer, _other_end) = follower(99);
        assert!(admit(&mut followers, newcomer, 1 + STUCK_NS));
        assert_eq!(hubs(&followers), [0, 1, 2, 3, 5, 7, 98, 99]);
        assert!(!admit(&mut followers, follower(100).0, 2 + STUCK_NS), "all others take what they are sent");
    }
}
