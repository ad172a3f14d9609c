//! Waiting for a thread that works in rounds: until it has gone through a whole one since it was asked.
//!
//! No lock is taken, so a fork cannot leave one locked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The first and the longest pause between two looks at whether a round has ended.
const LOOK: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));

/// The rounds of one thread.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    asked: AtomicU64,
    answered: AtomicU64,
}

impl Rounds {
    /// Asks for a round. The caller must then wake the thread.
    pub(crate) fn ask(&self) -> Ticket {
        Ticket(self.asked.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Whether a round has been asked for that has not ended.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire) > self.answered.load(Ordering::Acquire)
    }

    /// The thread begins a round, which answers everything asked before.
    pub(crate) fn begin(&self) -> Ticket {
        Ticket(self.asked.load(Ordering::Acquire))
    }

    /// The thread ends it.
    pub(crate) fn end(&self, round: Ticket) {
        self.answered.fetch_max(round.0, Ordering::AcqRel);
    }

    /// Whether a round has ended that began after this ticket was given.
    pub(crate) fn has_answered(&self, ticket: Ticket) -> bool {
        self.answered.load(Ordering::Acquire) >= ticket.0
    }
}

/// What a thread has been asked for up to some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

/// Waits until something is so, or for so long, with pauses that grow.
pub(crate) fn wait_until(is_so: impl Fn() -> bool, patience: Duration) {
    let until = Instant::now() + patience;
    let mut pause = LOOK.0;
    while !is_so() && Instant::now() < until {
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOK.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_has_begun_before_answers_nothing() {
        let rounds = Rounds::default();
        let running = rounds.begin();
        let ticket = rounds.ask();
        rounds.end(running);
        assert!(rounds.is_asked() && !rounds.has_answered(ticket));
        let next = rounds.begin();
        rounds.end(next);
        assert!(!rounds.is_asked() && rounds.has_answered(ticket));
    }

    #[test]
    fn a_wait_has_an_end() {
        let began = Instant::now();
        wait_until(|| false, Duration::from_millis(5));
        assert!(began.elapsed() >= Duration::from_millis(5));
    }
}
