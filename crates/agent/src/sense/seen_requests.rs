//! What is seen of requests for forecasts: how many have ended by route, the gaps between them, and the rhythm of these gaps.
//!
//! Threads of the program count, the sampler finds the rhythm, and the thread that asks the policy reads both.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use neurogc_policy::phase::{ForetoldGap, GapRhythm, LongGaps};

use super::hooks::{HookEvent, Hooks};
use super::routes::{MOST, RouteId};

/// Routes, with the one of all that found no room.
const ROUTES: usize = MOST + 1;

/// Counters that only grow, and the forecast.
#[derive(Debug)]
pub(crate) struct SeenRequests {
    ended: [AtomicU32; ROUTES],
    /// Times at which the last request in flight has ended.
    gaps: AtomicU64,
    /// The next long gap, packed; 0 for none.
    foretold: AtomicU64,
}

impl Default for SeenRequests {
    fn default() -> Self {
        Self { ended: std::array::from_fn(|_| AtomicU32::new(0)), gaps: AtomicU64::new(0), foretold: AtomicU64::new(0) }
    }
}

impl SeenRequests {
    /// A request of a route has ended, the last one in flight or not.
    pub(crate) fn end(&self, route: RouteId, last: bool) {
        if let Some(ended) = self.ended.get(usize::from(route.number())) {
            ended.fetch_add(1, Ordering::Relaxed);
        }
        if last {
            self.gaps.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Relaxed)
    }

    /// Where the program is in its rhythm.
    pub(crate) fn rhythm(&self) -> Option<GapRhythm> {
        let (foretold, gap) = (self.foretold.load(Ordering::Relaxed), self.gaps());
        ForetoldGap::unpacked(foretold, gap)?.seen_from(gap)
    }

    pub(crate) fn foretell(&self, foretold: Option<ForetoldGap>) {
        self.foretold.store(foretold.map_or(0, |foretold| foretold.packed()), Ordering::Relaxed);
    }
}

/// Who has counted the ends of requests up to some moment.
#[derive(Debug)]
pub(crate) struct EndedByRoute([u32; ROUTES]);

impl Default for EndedByRoute {
    fn default() -> Self {
        Self([0; ROUTES])
    }
}

impl EndedByRoute {
    /// Says for each route how many have ended since the last time, where that is any.
    pub(crate) fn since(&mut self, seen: &SeenRequests, mut tell: impl FnMut(u8, u32)) {
        for (route, (known, ended)) in self.0.iter_mut().zip(&seen.ended).enumerate() {
            let ended = ended.load(Ordering::Relaxed);
            let more = ended.wrapping_sub(*known);
            if more > 0 {
                *known = ended;
                tell(route as u8, more);
            }
        }
    }
}

/// Finds the rhythm of gaps in the events that the sampler takes from the queue.
#[derive(Debug, Default)]
pub(crate) struct GapWatch {
    long_gaps: LongGaps,
    /// Requests in flight, and the number of the last gap, as the events say; nothing where some of them were not seen.
    known: Option<(u64, u64)>,
    /// When the gap began that is open.
    began: Option<u64>,
    dropped: u64,
}

impl GapWatch {
    /// Something has happened.
    pub(crate) fn event(&mut self, event: &HookEvent) {
        let Some((in_flight, number)) = &mut self.known else { return };
        match event {
            HookEvent::Start { at, .. } => {
                *in_flight += 1;
                if let Some(began) = self.began.take() {
                    let lasted = Duration::from_nanos(at.saturating_sub(began));
                    self.long_gaps.gap(*number, Duration::from_nanos(began), lasted);
                }
            }
            HookEvent::End { at, .. } => {
                *in_flight = in_flight.saturating_sub(1);
                if *in_flight == 0 {
                    *number += 1;
                    self.began = Some(*at);
                }
            }
            HookEvent::Collection { .. } => {}
        }
    }

    /// The queue is empty: what is foretold is told, unless something was missed.
    pub(crate) fn settle(&mut self, hooks: &Hooks) {
        let dropped = hooks.dropped();
        if dropped != self.dropped {
            (self.dropped, self.known) = (dropped, None);
        }
        if let Some(gaps) = hooks.gaps_if_quiet()
            && self.known != Some((0, gaps))
        {
            self.lost();
            self.known = Some((0, gaps));
        }
        let foretold = self.known.and_then(|_| self.long_gaps.foretold());
        hooks.seen.foretell(foretold);
    }

    /// The policy does not ask for it any more.
    pub(crate) fn stop(&mut self, hooks: &Hooks) {
        if self.known.take().is_some() {
            self.lost();
            hooks.seen.foretell(None);
        }
    }

    fn lost(&mut self) {
        self.long_gaps.lost();
        self.began = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sense::arrivals::Arrival;
    use crate::sense::hooks::Open;

    const MS: u64 = 1_000_000;

    /// Requests of 2 ms, each followed by a gap of 15 ms, the tenth by one of 60 ms; gives the gap that is open at the end.
    fn steps(watch: &mut GapWatch, hooks: &Hooks, from: u64, count: u64) {
        let mut at = (from + 1) * 1_000 * MS;
        for step in from..from + count {
            let route = RouteId::default();
            hooks.end(hooks.begin(Arrival::default()), route, None);
            while hooks.take().is_some() {}
            let open = Open { id: step, began: at, arrival: Arrival::default() };
            watch.event(&HookEvent::Start { at, id: step, wait: 0, known: open.arrival.known });
            at += 2 * MS;
            watch.event(&HookEvent::End { at, open, route });
            at += if step % 10 == 9 { 60 } else { 15 } * MS;
            watch.settle(hooks);
        }
    }

    #[test]
    fn a_thread_of_the_program_knows_which_gap_it_is_in() {
        let (mut watch, hooks) = (GapWatch::default(), Hooks::default());
        watch.settle(&hooks);
        steps(&mut watch, &hooks, 0, 505);
        let rhythm = hooks.seen.rhythm().unwrap_or_default();
        assert_eq!((rhythm.gaps, rhythm.period, rhythm.length.as_millis()), (5, 10, 60), "{rhythm:?}");
        assert_eq!(rhythm.every.as_millis(), 9 * 17 + 62);
        // The sampler sleeps, and the thread counts on.
        (0..5).for_each(|_| hooks.end(hooks.begin(Arrival::default()), RouteId::default(), None));
        assert_eq!(hooks.seen.rhythm().map(|rhythm| rhythm.gaps), Some(0));
        hooks.end(hooks.begin(Arrival::default()), RouteId::default(), None);
        assert_eq!(hooks.seen.rhythm().map(|rhythm| rhythm.gaps), Some(9));
    }

    #[test]
    fn what_was_dropped_ends_the_rhythm_until_it_is_found_again() {
        let (mut watch, hooks) = (GapWatch::default(), Hooks::default());
        watch.settle(&hooks);
        steps(&mut watch, &hooks, 0, 505);
        assert!(hooks.seen.rhythm().is_some());
        (0..2_000).for_each(|_| hooks.end(hooks.begin(Arrival::default()), RouteId::default(), None));
        assert!(hooks.dropped() > 0);
        while hooks.take().is_some() {}
        watch.settle(&hooks);
        assert_eq!(hooks.seen.rhythm(), None);
        steps(&mut watch, &hooks, 510, 200);
        assert!(hooks.seen.rhythm().is_some());
        watch.stop(&hooks);
        assert_eq!(hooks.seen.rhythm(), None);
    }

    #[test]
    fn requests_that_overlap_have_no_gap_between_them() {
        let hooks = Hooks::default();
        let (one, other) = (hooks.begin(Arrival::default()), hooks.begin(Arrival::default()));
        hooks.end(one, RouteId::default(), None);
        assert_eq!((hooks.seen.gaps(), hooks.gaps_if_quiet()), (0, None));
        hooks.end(other, RouteId::default(), None);
        assert_eq!((hooks.seen.gaps(), hooks.gaps_if_quiet()), (1, None), "events wait");
        while hooks.take().is_some() {}
        assert_eq!(hooks.gaps_if_quiet(), Some(1));
    }

    #[test]
    fn ends_are_told_once_by_route() {
        let (seen, mut ended, mut told) = (SeenRequests::default(), EndedByRoute::default(), Vec::new());
        let routes = [3, 64, 3, 0].map(RouteId::from_number);
        routes.into_iter().for_each(|route| seen.end(route, false));
        ended.since(&seen, |route, count| told.push((route, count)));
        ended.since(&seen, |_, _| panic!("they have been told"));
        assert_eq!(told, [(0, 1), (3, 2), (64, 1)]);
    }
}
