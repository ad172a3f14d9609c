//! What one listener has not been sent yet: of fixed size, and whatever finds no room is counted.

use neurogc_wire::report::{Report, Settled, encode};

use super::trace_file::header;
use crate::book::hub_batch::Bulletin;
use crate::book::status::ReportSources;

/// Events in blocks that may wait for one listener.
const MOST: usize = 256 * 1024;

/// Time between figures.
const EVERY_NS: u64 = 1_000_000_000;

/// What a frame holds beside figures.
#[derive(Debug, Default)]
pub(super) struct Content {
    blocks: Vec<u8>,
    events: u64,
    missed: u64,
}

/// What waits for one listener.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: Content,
    figures_due: u64,
}

impl Backlog {
    /// Adds what has happened.
    pub(super) fn add(&mut self, bulletin: &Bulletin) {
        self.waiting.missed += bulletin.missed;
        if self.waiting.blocks.len() + bulletin.block.len() > MOST {
            self.waiting.missed += bulletin.events;
        } else {
            self.waiting.blocks.extend_from_slice(&bulletin.block);
            self.waiting.events += bulletin.events;
        }
    }

    /// Whether figures are due.
    pub(super) fn wants_figures(&self, now: u64) -> bool {
        now >= self.figures_due
    }

    /// When the next frame is due: with what has happened at once, with figures in their time.
    pub(super) fn due(&self) -> u64 {
        if self.waiting.blocks.is_empty() { self.figures_due } else { 0 }
    }

    /// The next frame and what is in it, where there is something to tell.
    pub(super) fn frame(
        &mut self,
        sources: ReportSources<'_>,
        machine: &str,
        now: u64,
        answers: Vec<Settled>,
    ) -> Option<(Vec<u8>, Content)> {
        let figures = self.wants_figures(now);
        if !figures && self.waiting.blocks.is_empty() && answers.is_empty() {
            return None;
        }
        if figures {
            // Rounds come late by a little each time; figures come once a second all the same.
            let late = now - self.figures_due;
            self.figures_due = if late < EVERY_NS { self.figures_due + EVERY_NS } else { now + EVERY_NS };
        }
        let content = std::mem::take(&mut self.waiting);
        let host = sources.host;
        let report = Report {
            host: machine.to_owned(),
            pid: std::process::id(),
            key: host.report_key.clone(),
            started_unix_ms: host.installed_unix_ns / 1_000_000,
            at_s: now.saturating_sub(host.installed) as f64 / 1e9,
            missed: content.missed,
            sample: figures.then(|| Box::new(sources.sample())),
            answers,
            trace: (figures && host.settings.hub_trace)
                .then(|| Box::new(header(host, &sources.acting.policy.in_force()))),
        };
        match encode(&report, &content.blocks) {
            Ok(frame) => Some((frame, content)),
            Err(_) => {
                self.lost(&content);
                None
            }
        }
    }

    /// Counts the contents of a frame that was dropped, or that the hub did not confirm.
    pub(super) fn lost(&mut self, content: &Content) {
        self.waiting.missed += content.missed + content.events;
    }

    /// What was in a frame that has not arrived goes with the next one, where there is room.
    pub(super) fn take_back(&mut self, mut content: Content) {
        if content.blocks.len() + self.waiting.blocks.len() > MOST {
            return self.lost(&content);
        }
        content.blocks.append(&mut self.waiting.blocks);
        content.events += self.waiting.events;
        content.missed += self.waiting.missed;
        self.waiting = content;
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
        let Content { blocks, events, missed } = &backlog.waiting;
        assert_eq!((blocks.len(), *events, *missed), (MOST, 10, 12));
    }

    #[test]
    fn what_has_not_arrived_goes_with_the_next_or_is_counted_once() {
        let mut backlog = Backlog::default();
        let bulletin = |byte, size| Bulletin { block: vec![byte; size], events: 10, missed: 1 };
        backlog.add(&bulletin(1, 2));
        let content = std::mem::take(&mut backlog.waiting);
        backlog.add(&bulletin(2, 1));
        backlog.take_back(content);
        let Content { blocks, events, missed } = &backlog.waiting;
        assert_eq!((&blocks[..], *events, *missed), (&[1, 1, 2][..], 20, 2));
        let content = std::mem::take(&mut backlog.waiting);
        backlog.add(&bulletin(3, MOST));
        backlog.take_back(content);
        let Content { blocks, events, missed } = &backlog.waiting;
        assert_eq!((blocks.len(), *events, *missed), (MOST, 10, 23));
    }
}
