//! What consecutive reports of one process say about the time between them.

use std::collections::VecDeque;

use neurogc_wire::status::{Cause, Pauses, Stall, Status};

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
                    self.pause_us.push(micros(longest_pause(&before, &status)));
                }
            }
            _ => *self = Self::default(),
        }
        self.p99_us.push(micros(status.requests.p99_ms));
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

/// The longest pause between two reports, in milliseconds.
///
/// It is exact for a pause that is a record, that was alone in its generation, or that was long enough to be listed as
/// a stall. Otherwise the reports only hold sums, and the mean of the interval, a lower bound, stands in for it.
fn longest_pause(before: &Status, after: &Status) -> f64 {
    let by_kind = kinds(before).into_iter().zip(kinds(after)).map(|(before, after)| {
        let count = after.count.saturating_sub(before.count);
        if count == 0 {
            0.0
        } else if after.max_ms > before.max_ms {
            after.max_ms
        } else {
            (after.total_ms - before.total_ms).max(0.0) / count as f64
        }
    });
    // A pause that began before the first report ended after it, and was counted then.
    let ended_since = |stall: &&Stall| stall.cause == Cause::Gc && stall.at_s + stall.ms / 1000.0 > before.uptime_s;
    let as_stalls = after.stalls.recent.iter().filter(ended_since).map(|stall| stall.ms);
    by_kind.chain(as_stalls).fold(0.0, f64::max)
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
    fn a_record_pause_is_exact() {
        let after = later(1.0, |status| {
            status.gc.young.count += 10;
            status.gc.young.total_ms += 12.0;
            status.gc.young.max_ms = 9.0;
        });
        assert_eq!(longest_pause(&samples::service(), &after), 9.0);
    }

    #[test]
    fn a_lone_pause_is_exact() {
        let after = later(1.0, |status| {
            status.gc.full.count += 1;
            status.gc.full.total_ms += 77.0;
        });
        assert_eq!(longest_pause(&samples::service(), &after), 77.0);
    }

    #[test]
    fn a_pause_listed_as_a_stall_is_exact() {
        let after = later(1.0, |status| {
            status.gc.full.count += 2;
            status.gc.full.total_ms += 150.0;
            let at_s = status.uptime_s - 0.5;
            status.stalls.recent.push(Stall { at_s, ms: 140.0, cause: Cause::Gc, site: String::new() });
        });
        assert_eq!(longest_pause(&samples::service(), &after), 140.0);
    }

    #[test]
    fn no_collection_is_no_pause() {
        assert_eq!(longest_pause(&samples::service(), &later(1.0, |_| {})), 0.0);
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
