//! Who sends next, and when: arrivals that nothing can hold up, or users who wait for their answers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::arrivals::{ArrivalTimes, Arrivals};
use crate::chance::Chance;

/// After a failure a user waits at least this long, so that a dead service is not asked a million times.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

/// Users as locust has them: each asks, waits for the answer, thinks, and asks again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Users {
    /// How many there are in the end.
    pub count: u32,
    /// How many join in a second; infinity for all at once.
    pub per_second: f64,
    /// The shortest and the longest time to think.
    pub think: (Duration, Duration),
}

impl Users {
    /// A closed loop: so many, all at once, without a thought.
    #[must_use]
    pub fn closed(count: u32) -> Self {
        Self { count, per_second: f64::INFINITY, think: (Duration::ZERO, Duration::ZERO) }
    }
}

/// How requests are made.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// At moments that do not depend on the service.
    Open(Arrivals),
    /// By users who wait for their answers.
    Users(Users),
}

/// One request that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Errand {
    /// When it is meant to be sent, since the start.
    pub(crate) at: Duration,
    /// The user of a closed loop that sends it; not used in an open loop.
    pub(crate) user: u32,
}

/// Errands in the order of their moments.
#[derive(Debug)]
pub(crate) struct Errands {
    schedule: Option<ArrivalTimes>,
    next: Option<Errand>,
    waiting: BinaryHeap<Reverse<Errand>>,
    users: Option<Users>,
    chance: Chance,
    until: Duration,
}

impl Errands {
    pub(crate) fn new(load: &Load, until: Duration, seed: u64) -> Self {
        let mut errands = Self {
            schedule: None,
            next: None,
            waiting: BinaryHeap::new(),
            users: None,
            chance: Chance::new(!seed),
            until,
        };
        match load {
            Load::Open(arrivals) => errands.schedule = Some(arrivals.schedule(until, seed)),
            Load::Users(users) => {
                errands.users = Some(*users);
                for user in 0..users.count {
                    let at = Duration::try_from_secs_f64(f64::from(user) / users.per_second).unwrap_or(until);
                    errands.wait(Errand { at, user });
                }
            }
        }
        errands.draw();
        errands
    }

    fn draw(&mut self) {
        self.next = match &mut self.schedule {
            Some(schedule) => schedule.next().map(|at| Errand { at, user: 0 }),
            None => self.waiting.pop().map(|Reverse(errand)| errand),
        };
    }

    fn wait(&mut self, errand: Errand) {
        if errand.at < self.until {
            self.waiting.push(Reverse(errand));
        }
    }

    /// The moment of the next errand; none where none is left, or all users wait for answers.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.next.map(|errand| errand.at)
    }

    /// The next errand, where its moment has come.
    pub(crate) fn due(&mut self, now: Duration) -> Option<Errand> {
        let due = self.next.filter(|errand| errand.at <= now)?;
        self.draw();
        Some(due)
    }

    /// An errand is over. Its user thinks and asks again.
    pub(crate) fn over(&mut self, user: u32, now: Duration, failed: bool) {
        let Some(users) = self.users else { return };
        let (least, most) = users.think;
        let mut think = least + most.saturating_sub(least).mul_f64(self.chance.share());
        if failed {
            think = think.max(AFTER_FAILURE);
        }
        // The one that was drawn may be later than this one.
        if let Some(drawn) = self.next.take() {
            self.wait(drawn);
        }
        self.wait(Errand { at: now + think, user });
        self.draw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn users_join_at_their_rate_and_ask_again_after_thinking() {
        let think = (Duration::from_millis(100), Duration::from_millis(300));
        let users = Users { count: 30, per_second: 10.0, think };
        let mut errands = Errands::new(&Load::Users(users), 10 * SECOND, 1);
        let joined: Vec<_> = std::iter::from_fn(|| errands.due(SECOND)).collect();
        assert_eq!(joined.len(), 11, "one at the start and one every tenth of a second");
        errands.over(3, SECOND, false);
        let again = std::iter::from_fn(|| errands.due(2 * SECOND)).find(|errand| errand.user == 3).map(|it| it.at);
        assert!(again.is_some_and(|at| (SECOND + think.0..=SECOND + think.1).contains(&at)), "{again:?}");
    }

    #[test]
    fn a_closed_loop_asks_at_once_and_slower_after_failures() {
        let mut errands = Errands::new(&Load::Users(Users::closed(2)), SECOND, 1);
        assert_eq!(std::iter::from_fn(|| errands.due(Duration::ZERO)).count(), 2);
        assert_eq!(errands.next_at(), None, "all wait for their answers");
        errands.over(0, Duration::from_millis(5), false);
        errands.over(1, Duration::from_millis(5), true);
        assert_eq!(errands.next_at(), Some(Duration::from_millis(5)));
        assert!(errands.due(Duration::from_millis(5)).is_some());
        assert_eq!(errands.next_at(), Some(Duration::from_millis(5) + AFTER_FAILURE));
        errands.over(0, 2 * SECOND, false);
        assert_eq!(std::iter::from_fn(|| errands.due(3 * SECOND)).count(), 1, "nothing is sent after the end");
    }
}
