//! What consecutive reports of one process say about the time between them.

use std::collections::VecDeque;

use neurogc_wire::status::{Pauses, Status};

/// Points that are kept: more than a wide terminal shows.
const KEPT: usize = 512;

/// The latest report and the course of its figures, one point a report.
#[derive(Debug, Default)]
pub(crate) struct History {
    latest: Option<Status>,
    /// The reported 99th percentile of latency, in microseconds.
    pub(crate) p99_us: Points,
    /// The longest collection pause of each interval, in microseconds.
    pub(crate) pause_us: Points,
    /// Resident set, in bytes.
    pub(crate) rss: Points,
    /// What happened since the report before the latest.
    pub(crate) rates: Rates,
}

/// A course of figures, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Points(VecDeque<u64>);

impl Points {
    fn push(&mut self, point: u64) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(point);
    }

    /// The latest points, as many as there is room for.
    pub(crate) fn last(&self, room: usize) -> Vec<u64> {
        self.0.iter().skip(self.0.len().saturating_sub(room)).copied().collect()
    }

    /// The newest point.
    pub(crate) fn newest(&self) -> u64 {
        self.0.back().copied().unwrap_or(0)
    }
}

/// Figures per second over the latest interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) requests: f64,
    pub(crate) collections: f64,
    /// Milliseconds of collection pauses in a second.
    pub(crate) paused_ms: f64,
    pub(crate) stalls: f64,
    pub(crate) read_bytes: f64,
    pub(crate) written_bytes: f64,
    pub(crate) received_bytes: f64,
    pub(crate) sent_bytes: f64,
}

impl History {
    /// The latest report.
    pub(crate) fn latest(&self) -> Option<&Status> {
        self.latest.as_ref()
    }

    /// Takes the next report. One of another process, or of a new agent in the same one, starts over.
    pub(crate) fn take(&mut self, status: Status) {
        let same = |before: &Status| before.pid == status.pid && before.uptime_s <= status.uptime_s;
        match self.latest.take() {
            Some(before) if same(&before) => {
                let seconds = status.uptime_s - before.uptime_s;
                if seconds > 0.0 {
                    self.rates = rates(&before, &status, seconds);
                }
            }
            _ => *self = Self::default(),
        }
        self.p99_us.push(micros(status.requests.recent_p99_ms));
        self.pause_us.push(micros(status.gc.recent_max_ms));
        self.rss.push(status.memory.rss);
        self.latest = Some(status);
    }
}

fn micros(ms: f64) -> u64 {
    (ms * 1000.0) as u64
}

fn kinds(status: &Status) -> [Pauses; 4] {
    [status.gc.young, status.gc.middle, status.gc.full, status.gc.reap]
}

fn rates(before: &Status, after: &Status, seconds: f64) -> Rates {
    let each = |of: fn(&Status) -> u64| of(after).saturating_sub(of(before)) as f64 / seconds;
    let paused = |status: &Status| kinds(status).iter().map(|kind| kind.total_ms).sum::<f64>();
    Rates {
        requests: each(|status| status.requests.count),
        collections: each(|status| kinds(status).iter().map(|kind| kind.count).fold(0, u64::saturating_add)),
        paused_ms: (paused(after) - paused(before)).max(0.0) / seconds,
        stalls: each(|status| status.stalls.count),
        read_bytes: each(|status| status.io.read_bytes),
        written_bytes: each(|status| status.io.write_bytes),
        received_bytes: each(|status| status.net.recv_bytes),
        sent_bytes: each(|status| status.net.sent_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    /// The sample a while later, changed as the test wants.
    fn later(seconds: f64, change: impl FnOnce(&mut Status)) -> Status {
        let mut status = samples::service();
        status.uptime_s += seconds;
        change(&mut status);
        status
    }

    #[test]
    fn rates_are_per_second_whatever_the_interval() {
        let mut history = History::default();
        history.take(samples::service());
        history.take(later(2.0, |status| {
            status.requests.count += 1000;
            status.gc.young.count += 4;
            status.gc.young.total_ms += 6.0;
            status.net.sent_bytes += 4096;
        }));
        let expect =
            Rates { requests: 500.0, collections: 2.0, paused_ms: 3.0, sent_bytes: 2048.0, ..Rates::default() };
        assert_eq!(history.rates, expect);
    }

    #[test]
    fn points_are_the_recent_figures() {
        let mut history = History::default();
        history.take(later(0.0, |status| status.gc.recent_max_ms = 9.5));
        history.take(later(1.0, |status| status.requests.recent_p99_ms = 7.0));
        assert_eq!(history.pause_us.last(2)[0], 9500);
        assert_eq!(history.p99_us.last(1), [7000]);
    }

    #[test]
    fn a_new_agent_starts_over() {
        let mut history = History::default();
        history.take(samples::service());
        history.take(later(1.0, |status| status.requests.count += 5));
        history.take(later(-100.0, |_| {}));
        assert_eq!(history.rss.last(10).len(), 1);
        assert_eq!(history.rates, Rates::default());
    }

    #[test]
    fn only_so_many_points_are_kept() {
        let mut points = Points::default();
        (0..1000).for_each(|point| points.push(point));
        assert_eq!(points.last(3), [997, 998, 999]);
        assert_eq!(points.last(5000).len(), KEPT);
    }
}
