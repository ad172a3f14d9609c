//! What is measured of one process over a while: how fast its memory grows, and the 99th percentile of its requests.

use std::collections::{BTreeMap, VecDeque};

use neurogc_wire::buckets::Buckets;

/// Fewer requests than this have no 99th percentile that is worth an alert.
const FEWEST_REQUESTS: u64 = 10;

/// A percentile of a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Percentile {
    /// Too few requests have come, and the process has not been watched for the whole while yet.
    TooEarly,
    /// There were too few requests.
    TooFew,
    /// So many milliseconds.
    Is(f64),
}

/// Windows of one process, by their lengths in milliseconds.
#[derive(Debug, Default)]
pub(super) struct ProcessMeasures {
    memory: BTreeMap<u64, MemoryWindow>,
    latency: BTreeMap<u64, LatencyWindow>,
}

impl ProcessMeasures {
    /// How fast memory grows, in bytes per hour, once the process has been watched for so long.
    pub(super) fn growth(&mut self, now_ms: u64, over_ms: u64, rss: u64) -> Option<f64> {
        self.memory.entry(over_ms).or_default().rate(now_ms, over_ms, rss as f64)
    }

    /// The 99th percentile of the requests of the last while.
    pub(super) fn p99(&mut self, now_ms: u64, over_ms: u64, latency: &Buckets) -> Percentile {
        self.latency.entry(over_ms).or_default().p99(now_ms, over_ms, latency)
    }
}

/// Points of a window: enough for a slope that one of them does not move.
const MEMORY_POINTS: u64 = 12;
const LATENCY_POINTS: u64 = 6;

#[derive(Debug, Default)]
struct MemoryWindow {
    points: VecDeque<(u64, f64)>,
}

impl MemoryWindow {
    fn rate(&mut self, now_ms: u64, over_ms: u64, rss: f64) -> Option<f64> {
        let step = over_ms / MEMORY_POINTS;
        if self.points.back().is_none_or(|(t, _)| now_ms >= t + step) {
            self.points.push_back((now_ms, rss));
        }
        while self.points.front().is_some_and(|(t, _)| t + over_ms + step < now_ms) {
            self.points.pop_front();
        }
        let (first, _) = self.points.front()?;
        if now_ms - first < over_ms {
            return None;
        }
        // The median of the slopes over a third of the window each: a single jump lies in fewer than half of them.
        let pairs = self.points.iter().zip(self.points.iter().skip(self.points.len() / 3));
        let mut slopes: Vec<_> = pairs
            .map(|((t, bytes), (u, more))| (more - bytes) / (u.saturating_sub(*t).max(1)) as f64 * 3600e3)
            .collect();
        slopes.sort_by(f64::total_cmp);
        slopes.get(slopes.len() / 2).copied()
    }
}

#[derive(Debug, Default)]
struct LatencyWindow {
    /// Counts since the start of the agent, as they were at some moments.
    counts: VecDeque<(u64, Buckets)>,
}

impl LatencyWindow {
    fn p99(&mut self, now_ms: u64, over_ms: u64, latency: &Buckets) -> Percentile {
        // The latest that is at least as old as the window is where it begins.
        while self.counts.get(1).is_some_and(|(t, _)| t + over_ms <= now_ms) {
            self.counts.pop_front();
        }
        if self.counts.back().is_none_or(|(t, _)| now_ms >= t + over_ms / LATENCY_POINTS) {
            self.counts.push_back((now_ms, latency.clone()));
        }
        let Some((first, counts)) = self.counts.front() else { return Percentile::TooEarly };
        let lately = latency.since(counts);
        match lately.quantile_ms(0.99).filter(|_| lately.count() >= FEWEST_REQUESTS) {
            Some(ms) => Percentile::Is(ms),
            None if now_ms < first + over_ms => Percentile::TooEarly,
            None => Percentile::TooFew,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    /// The rate at the end of so many minutes.
    fn rate(minutes: u64, rss: impl Fn(u64) -> u64) -> Option<f64> {
        let mut measures = ProcessMeasures::default();
        (0..=minutes * 30).map(|step| measures.growth(step * 2000, 30 * MINUTE, rss(step * 2000))).last().flatten()
    }

    #[test]
    fn growth_is_told_from_a_step_and_from_a_start() {
        let grows = rate(60, |t| 1_000_000 + t / 36).unwrap();
        assert!((grows / 100_000.0 - 1.0).abs() < 0.01, "{grows}");
        assert_eq!(rate(60, |t| if t > 45 * MINUTE { 9_000_000 } else { 1_000_000 }), Some(0.0));
        assert_eq!(rate(60, |_| 5), Some(0.0));
        assert!(rate(60, |t| 1_000_000_000 - t).unwrap() < 0.0);
        assert_eq!(rate(29, |t| t), None);
        assert!(rate(31, |t| t).is_some());
    }

    #[test]
    fn memory_of_windows_is_bounded() {
        let mut measures = ProcessMeasures::default();
        let mut latency = Buckets::default();
        for step in 0..10_000 {
            latency.add(1_000_000, 1);
            measures.growth(step * 2000, MINUTE, step);
            measures.p99(step * 2000, MINUTE, &latency);
        }
        assert!(measures.memory[&MINUTE].points.len() <= MEMORY_POINTS as usize + 3);
        assert!(measures.latency[&MINUTE].counts.len() <= LATENCY_POINTS as usize + 2);
    }

    #[test]
    fn a_percentile_is_that_of_the_last_while() {
        let mut measures = ProcessMeasures::default();
        let mut latency = Buckets::default();
        latency.add(900_000_000, 1000);
        assert_eq!(measures.p99(0, MINUTE, &latency), Percentile::TooEarly);
        latency.add(5_000_000, 9);
        assert_eq!(measures.p99(2000, MINUTE, &latency), Percentile::TooEarly);
        latency.add(5_000_000, 991);
        let p99 = measures.p99(4000, MINUTE, &latency);
        assert!(matches!(p99, Percentile::Is(4.5..5.5)), "{p99:?}");
        latency.add(300_000_000, 100);
        let p99 = measures.p99(20_000, MINUTE, &latency);
        assert!(matches!(p99, Percentile::Is(280.0..320.0)), "{p99:?}");
        // A minute later these requests are over, and there are no others.
        let later: Vec<_> = (11..=60).map(|step| measures.p99(step * 2000, MINUTE, &latency)).collect();
        assert_eq!(later.last().unwrap(), &Percentile::TooFew);
    }
}
