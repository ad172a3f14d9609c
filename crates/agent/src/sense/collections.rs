//! Collections: how often, how long, what they freed, and where they fell.

use neurogc_wire::buckets::Distribution;
use neurogc_wire::status::Gc;
use neurogc_wire::stop::{ByStop, StopKind};
use neurogc_wire::trace::Place;

use super::spans::{Spans, Sum, ms};

/// One collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collection {
    pub(crate) pause: u64,
    pub(crate) kind: StopKind,
    pub(crate) place: Place,
    pub(crate) collected: u32,
    pub(crate) uncollectable: u32,
}

/// All collections so far.
#[derive(Debug, Default)]
pub(crate) struct Collections {
    kinds: ByStop<Spans>,
    in_request: Sum,
    in_gap: Sum,
    forced: Sum,
    collected: u64,
    uncollectable: u64,
    /// The longest pause of the latest two seconds in which there was one.
    longest: [(u64, u64); 2],
}

impl Collections {
    /// A collection ended `now_s` seconds after the agent was installed.
    pub(crate) fn add(&mut self, collection: Collection, now_s: u64) {
        let longest = &mut self.longest[(now_s % 2) as usize];
        *longest = (now_s, if longest.0 == now_s { longest.1.max(collection.pause) } else { collection.pause });
        self.kinds[collection.kind].add(collection.pause);
        let place = match collection.place {
            Place::InRequest => &mut self.in_request,
            Place::InGap => &mut self.in_gap,
            Place::Forced => &mut self.forced,
        };
        place.add(collection.pause);
        self.collected += u64::from(collection.collected);
        self.uncollectable += u64::from(collection.uncollectable);
    }

    /// How long they took.
    pub(crate) fn distributions(&self) -> ByStop<Distribution> {
        ByStop::from_fn(|kind| self.kinds[kind].distribution())
    }

    pub(crate) fn report(&self, now_s: u64) -> Gc {
        let recent = self.longest.iter().filter(|(second, _)| second + 1 >= now_s).map(|(_, pause)| *pause).max();
        let pauses = |kind| self.kinds[kind].pauses();
        Gc {
            young: pauses(StopKind::Young),
            middle: pauses(StopKind::Middle),
            full: pauses(StopKind::Full),
            reap: pauses(StopKind::Reap),
            in_request: self.in_request.place(),
            in_gap: self.in_gap.place(),
            forced: self.forced.place(),
            recent_max_ms: ms(recent.unwrap_or(0)),
            collected: self.collected,
            uncollectable: self.uncollectable,
            ..Gc::default()
        }
    }
}
