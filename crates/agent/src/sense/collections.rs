//! Collections: how often, how long, what they freed, and where they fell.
//!
//! A stop in a gap may turn out to have held requests up: they begin after it and have waited since before its end. So
//! stops in gaps are settled a little later than others.

use std::collections::VecDeque;

use neurogc_wire::buckets::Distribution;
use neurogc_wire::status::Gc;
use neurogc_wire::stop::{ByStop, StopKind};
use neurogc_wire::trace::Place;

use super::slowest::overlap;
use super::spans::{DurationHistogram, Sum, ms};

/// How long after a stop in a gap requests may still turn out to have waited for it.
pub(crate) const SETTLE_NS: u64 = 300_000_000;

/// Requests that have waited that are remembered.
const WAITS: usize = 256;

/// Stops that are remembered.
const REMEMBERED: usize = 1024;

/// One collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collection {
    /// When it began, by `monotonic_ns`.
    pub(crate) at: u64,
    pub(crate) pause: u64,
    pub(crate) kind: StopKind,
    pub(crate) place: Place,
    pub(crate) collected: u32,
    pub(crate) uncollectable: u32,
    /// The order that led to it, or 0.
    pub(crate) order: u64,
}

impl Collection {
    fn span(&self) -> (u64, u64) {
        (self.at, self.at + self.pause)
    }
}

/// Sums by place.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    in_request: Sum,
    in_gap: Sum,
    in_gap_arrivals: Sum,
    forced: Sum,
}

impl Places {
    fn add(&mut self, collection: &Collection) {
        let place = match collection.place {
            Place::InRequest => &mut self.in_request,
            Place::InGap => &mut self.in_gap,
            Place::InGapArrivals => &mut self.in_gap_arrivals,
            Place::Forced => &mut self.forced,
        };
        place.add(collection.pause);
    }
}

/// All collections so far.
#[derive(Debug, Default)]
pub(crate) struct CollectionLog {
    kinds: ByStop<DurationHistogram>,
    places: Places,
    /// Requests that came during stops in gaps.
    arrivals: u64,
    collected: u64,
    uncollectable: u64,
    /// The longest pause of the latest two seconds in which there was one.
    longest: [(u64, u64); 2],
    /// The latest ones, oldest first.
    latest: VecDeque<Collection>,
    /// How many of them, from the newest on, are not settled.
    open: usize,
    /// When the latest requests began that have waited. A finalizer may let them begin before the end
    /// of its collection is told.
    waits: VecDeque<u64>,
}

impl CollectionLog {
    /// A collection ended `now_s` seconds after the agent was installed. It is settled later.
    pub(crate) fn add(&mut self, mut collection: Collection, now_s: u64) {
        if collection.place == Place::InGap {
            let (from, to) = collection.span();
            let arrived = self.waits.iter().filter(|began| (from..=to).contains(*began)).count() as u64;
            if arrived > 0 {
                collection.place = Place::InGapArrivals;
                self.arrivals += arrived;
            }
        }
        let longest = &mut self.longest[(now_s % 2) as usize];
        *longest = (now_s, if longest.0 == now_s { longest.1.max(collection.pause) } else { collection.pause });
        self.kinds[collection.kind].add(collection.pause);
        self.collected += u64::from(collection.collected);
        self.uncollectable += u64::from(collection.uncollectable);
        if self.latest.len() == REMEMBERED && self.open < REMEMBERED {
            self.latest.pop_front();
        }
        self.latest.push_back(collection);
        self.open += 1;
    }

    /// A request begins that has waited since `arrived`: stops in gaps meanwhile were not in gaps only.
    pub(crate) fn waited(&mut self, arrived: u64, began: u64) {
        let mut held_up = false;
        for stop in self.latest.iter_mut().rev().take(self.open) {
            if stop.at + stop.pause <= arrived {
                break;
            }
            if stop.at < began && matches!(stop.place, Place::InGap | Place::InGapArrivals) {
                stop.place = Place::InGapArrivals;
                held_up = true;
            }
        }
        self.arrivals += u64::from(held_up);
        if self.waits.len() == WAITS {
            self.waits.pop_front();
        }
        self.waits.push_back(began);
    }

    /// The next one whose place will not change any more, by the time `now`.
    pub(crate) fn settle(&mut self, now: u64) -> Option<Collection> {
        let oldest = *self.latest.get(self.latest.len() - self.open)?;
        let is_crowded = self.latest.len() > REMEMBERED;
        // One for which a request has waited may have held up more of them.
        let may_change = matches!(oldest.place, Place::InGap | Place::InGapArrivals);
        if may_change && !is_crowded && now < oldest.at + oldest.pause + SETTLE_NS {
            return None;
        }
        self.open -= 1;
        self.places.add(&oldest);
        if is_crowded {
            self.latest.pop_front();
        }
        Some(oldest)
    }

    /// Whether one is not settled yet.
    pub(crate) fn is_open(&self) -> bool {
        self.open > 0
    }

    /// How long collections stopped the program within a span.
    pub(crate) fn during(&self, span: (u64, u64)) -> u64 {
        let recent = self.latest.iter().rev().map(Collection::span).take_while(|stop| stop.1 > span.0);
        recent.map(|stop| overlap(stop, span)).sum()
    }

    /// Whether a span is that of a collection.
    pub(crate) fn is_one(&self, at: u64, pause: u64) -> bool {
        self.latest.iter().rev().any(|stop| (stop.at, stop.pause) == (at, pause))
    }

    /// How long they took.
    pub(crate) fn distributions(&self) -> ByStop<Distribution> {
        ByStop::from_fn(|kind| self.kinds[kind].distribution())
    }

    /// The figures. Sums by place that never fall have settled stops only.
    /// Collections, those of everything, and objects that could not be freed.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let of = |kind: StopKind| self.kinds[kind].count();
        // A clone may be for a census alone, which frees nothing.
        let fulls = of(StopKind::Full) + of(StopKind::Reap);
        (of(StopKind::Young) + of(StopKind::Middle) + fulls, fulls, self.uncollectable)
    }

    pub(crate) fn report(&self, now_s: u64, settled_only: bool) -> Gc {
        let recent = self.longest.iter().filter(|(second, _)| second + 1 >= now_s).map(|(_, pause)| *pause).max();
        let pauses = |kind| self.kinds[kind].pauses();
        let mut places = self.places;
        if !settled_only {
            self.latest.iter().rev().take(self.open).for_each(|stop| places.add(stop));
        }
        Gc {
            young: pauses(StopKind::Young),
            middle: pauses(StopKind::Middle),
            full: pauses(StopKind::Full),
            reap: pauses(StopKind::Reap),
            in_request: places.in_request.place(),
            in_gap: places.in_gap.place(),
            in_gap_arrivals: places.in_gap_arrivals.place(),
            arrivals: self.arrivals,
            forced: places.forced.place(),
            recent_max_ms: ms(recent.unwrap_or(0)),
            collected: self.collected,
            uncollectable: self.uncollectable,
            ..Gc::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stop(at_ms: u64, pause_ms: u64, place: Place) -> Collection {
        let (at, pause, kind) = (at_ms * MS, pause_ms * MS, StopKind::Full);
        Collection { at, pause, kind, place, collected: 0, uncollectable: 0, order: 0 }
    }

    #[test]
    fn a_stop_in_a_gap_for_which_requests_waited_is_of_a_class_of_its_own() {
        let mut collections = CollectionLog::default();
        collections.add(stop(1_000, 50, Place::InGap), 1);
        collections.add(stop(2_000, 300, Place::InGap), 2);
        collections.add(stop(2_301, 5, Place::InRequest), 2);
        assert_eq!(collections.report(2, false).in_gap.count, 2);
        assert_eq!(collections.report(2, true).in_gap.count, 0, "nothing is settled");
        collections.waited(2_100 * MS, 2_300 * MS);
        assert_eq!(collections.settle(2_301 * MS).map(|stop| stop.at), Some(1_000 * MS), "only the first is settled");
        assert!(collections.settle(2_301 * MS).is_none(), "more requests may have waited");
        collections.waited(2_250 * MS, 2_302 * MS);
        collections.waited(2_400 * MS, 2_410 * MS);
        let report = collections.report(2, false);
        assert_eq!((report.in_gap.count, report.in_gap.max_ms), (1, 50.0));
        let held_up = report.in_gap_arrivals;
        assert_eq!((held_up.count, held_up.total_ms, held_up.max_ms, report.arrivals), (1, 300.0, 300.0, 2));
        let settled: Vec<_> = std::iter::from_fn(|| collections.settle(2_600 * MS)).map(|stop| stop.place).collect();
        assert_eq!(settled, [Place::InGapArrivals, Place::InRequest]);
        assert_eq!(collections.report(3, true), collections.report(3, false));
    }

    #[test]
    fn a_request_that_begins_before_the_end_is_told_has_waited_for_it() {
        let mut collections = CollectionLog::default();
        collections.waited(1_010 * MS, 1_290 * MS);
        collections.add(stop(1_000, 300, Place::InGap), 1);
        let report = collections.report(1, false);
        assert_eq!((report.in_gap.count, report.in_gap_arrivals.count, report.arrivals), (0, 1, 1));
    }

    #[test]
    fn a_young_stop_in_a_gap_is_not_settled_yet() {
        let mut collections = CollectionLog::default();
        collections.add(stop(1_000, 50, Place::InGap), 1);
        assert!(collections.settle(1_100 * MS).is_none() && collections.is_open());
        assert!(collections.settle(1_400 * MS).is_some() && !collections.is_open());
        assert_eq!(collections.during((1_020 * MS, 1_030 * MS)), 10 * MS);
    }

    #[test]
    fn memory_is_bounded() {
        let mut collections = CollectionLog::default();
        for at in 0..10_000 {
            collections.add(stop(at, 0, Place::InGap), 0);
            while collections.settle(0).is_some() {}
        }
        assert!(collections.latest.len() <= REMEMBERED + 1, "{}", collections.latest.len());
        assert_eq!(collections.report(0, false).in_gap.count, 10_000);
    }
}
