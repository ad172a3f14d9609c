//! Spans in which a thread held the GIL and spans in which the GIL was free, as far as samples can tell.

use neurogc_wire::status::Gil;

use super::spans::{DurationHistogram, ms};

/// Processor time between two samples that is more than the agent's own.
const WORKED_NS: u64 = 1_000_000;

/// A busy span and the gap after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GapSpan {
    pub(crate) at: u64,
    pub(crate) busy: u64,
    pub(crate) idle: u64,
}

/// All spans so far.
#[derive(Debug, Default)]
pub(crate) struct GapLog {
    busy: DurationHistogram,
    idle: DurationHistogram,
    busy_ns: u64,
    idle_ns: u64,
    last: Option<(u64, bool)>,
    /// Where the running span began, and the busy one before it.
    since: u64,
    before: Option<(u64, u64)>,
}

impl GapLog {
    /// Takes a sample and gives the busy-idle pair that it closes. `used` is the processor time of the program since the
    /// last sample where samples are rare, as in a light program: the GIL was held for no longer than that since then.
    pub(crate) fn look(&mut self, at: u64, held: bool, used: Option<u64>) -> Option<GapSpan> {
        let Some((last_at, last_held)) = self.last.replace((at, held)) else {
            self.since = at;
            return None;
        };
        let step = at - last_at;
        if let Some(used) = used.filter(|used| !last_held && !held && (WORKED_NS..step).contains(used)) {
            return self.worked_between(last_at, at, used);
        }
        if last_held == held {
            *(if held { &mut self.busy_ns } else { &mut self.idle_ns }) += step;
            return None;
        }
        // The change fell somewhere between the two samples: in the middle, on average.
        let busy = used.map_or(step / 2, |used| used.min(step / 2));
        let change = if held { at - busy } else { last_at + busy };
        self.busy_ns += busy;
        self.idle_ns += step - busy;
        let length = change - self.since;
        let began = std::mem::replace(&mut self.since, change);
        if held {
            self.idle.add(length);
            self.before.take().map(|(at, busy)| GapSpan { at, busy, idle: length })
        } else {
            self.busy.add(length);
            self.before = Some((began, length));
            None
        }
    }

    /// Both samples found the GIL free, and it was held in between: in the middle, on average.
    fn worked_between(&mut self, last_at: u64, at: u64, used: u64) -> Option<GapSpan> {
        let began = last_at + (at - last_at - used) / 2;
        let idle = began - self.since;
        self.since = began + used;
        self.busy_ns += used;
        self.idle_ns += at - last_at - used;
        self.idle.add(idle);
        self.busy.add(used);
        self.before.replace((began, used)).map(|(at, busy)| GapSpan { at, busy, idle })
    }

    /// How long the GIL has been free.
    pub(crate) fn idle_for(&self) -> u64 {
        self.last.map_or(0, |(at, held)| if held { 0 } else { at - self.since })
    }

    /// For how long the GIL was held, and for how long it was free, in milliseconds.
    pub(crate) fn totals_ms(&self) -> (f64, f64) {
        (ms(self.busy_ns), ms(self.idle_ns))
    }

    pub(crate) fn report(&self) -> Gil {
        let total = self.busy_ns + self.idle_ns;
        let percent = if total == 0 { 0.0 } else { 100.0 * self.busy_ns as f64 / total as f64 };
        Gil { busy_percent: (percent * 100.0).round() / 100.0, busy: self.busy.report(), idle: self.idle.report() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternating_samples_become_spans() {
        let mut gaps = GapLog::default();
        let looks = [(0, false), (10, true), (20, true), (30, false), (50, false), (60, true)];
        let closed: Vec<_> = looks.iter().filter_map(|&(at, held)| gaps.look(at * 1_000_000, held, None)).collect();
        assert_eq!(closed, [GapSpan { at: 5_000_000, busy: 20_000_000, idle: 30_000_000 }]);
        let report = gaps.report();
        assert_eq!((report.busy.count, report.idle.count), (1, 2));
        assert_eq!(report.busy_percent, 41.67);
    }

    #[test]
    fn an_idle_program_shows_for_how_long() {
        let mut gaps = GapLog::default();
        gaps.look(0, true, None);
        gaps.look(10, false, None);
        gaps.look(100, false, None);
        assert_eq!(gaps.idle_for(), 95);
        gaps.look(110, true, None);
        assert_eq!(gaps.idle_for(), 0);
    }

    #[test]
    fn work_between_two_samples_ends_a_gap() {
        let mut gaps = GapLog::default();
        assert_eq!(gaps.look(0, false, None), None);
        assert_eq!(gaps.look(50_000_000, false, Some(10_000_000)), None);
        let gap = gaps.look(100_000_000, false, Some(4_000_000));
        assert_eq!(gap, Some(GapSpan { at: 20_000_000, busy: 10_000_000, idle: 43_000_000 }));
        assert_eq!((gaps.idle_for(), gaps.report().busy_percent), (23_000_000, 14.0));
    }

    /// A look at a light program comes when it has worked for a while, so it often finds the GIL held.
    #[test]
    fn the_gil_was_not_held_for_longer_than_the_program_worked() {
        let mut gaps = GapLog::default();
        for round in 0..10 {
            gaps.look(round * 100_000_000, false, None);
            gaps.look(round * 100_000_000 + 98_000_000, true, Some(8_000_000));
        }
        assert!((8.0..11.0).contains(&gaps.report().busy_percent), "{}", gaps.report().busy_percent);
    }
}
