//! What one listener has not been sent yet: of fixed size, and whatever finds no room is counted.

use neurogc_wire::report::{Report, Settled, encode};

use crate::agent::Agent;
use crate::news::Bulletin;
use crate::status;

/// Events in blocks that may wait for one listener.
const MOST: usize = 256 * 1024;

/// Time between figures.
const EVERY_NS: u64 = 1_000_000_000;

/// What waits for one listener.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    blocks: Vec<u8>,
    events: u64,
    missed: u64,
    figures_due: u64,
}

impl Backlog {
    /// Adds what has happened.
    pub(super) fn add(&mut self, bulletin: &Bulletin) {
        self.missed += bulletin.missed;
        if self.blocks.len() + bulletin.block.len() > MOST {
            self.missed += bulletin.events;
        } else {
            self.blocks.extend_from_slice(&bulletin.block);
            self.events += bulletin.events;
        }
    }

    /// Whether figures are due.
    pub(super) fn wants_figures(&self, now: u64) -> bool {
        now >= self.figures_due
    }

    /// The next frame, and how many events are in it, where there is something to tell.
    pub(super) fn frame(
        &mut self,
        agent: &Agent,
        host: &str,
        now: u64,
        answers: Vec<Settled>,
    ) -> Option<(Vec<u8>, u64)> {
        let figures = self.wants_figures(now);
        if !figures && self.blocks.is_empty() && answers.is_empty() {
            return None;
        }
        if figures {
            // Rounds come late by a little each time; figures come once a second all the same.
            let late = now - self.figures_due;
            self.figures_due = if late < EVERY_NS { self.figures_due + EVERY_NS } else { now + EVERY_NS };
        }
        let report = Report {
            host: host.to_owned(),
            pid: std::process::id(),
            started_unix_ms: agent.installed_unix_ns / 1_000_000,
            at_s: now.saturating_sub(agent.installed) as f64 / 1e9,
            missed: self.missed,
            sample: figures.then(|| Box::new(status::sample(agent))),
            answers,
        };
        let blocks = std::mem::take(&mut self.blocks);
        let events = std::mem::take(&mut self.events);
        match encode(&report, &blocks) {
            Ok(frame) => Some((frame, events)),
            Err(_) => {
                self.lost(events);
                None
            }
        }
    }

    /// Counts events of a frame that did not arrive.
    pub(super) fn lost(&mut self, events: u64) {
        self.missed += events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut backlog = Backlog::default();
        let bulletin = |size| Bulletin { block: vec![0; size], events: 10, missed: 1 };
        backlog.add(&bulletin(MOST));
        backlog.add(&bulletin(1));
        assert_eq!((backlog.blocks.len(), backlog.events, backlog.missed), (MOST, 10, 12));
    }
}
