//! Durations, counted in a histogram that keeps three digits from a microsecond to many minutes.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Durations of one kind.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

/// The figures that people read, in milliseconds; zero beside a count of zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LatencyFigures {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// None yet.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "three digits are within what the histogram allows")]
    pub fn new() -> Self {
        // It grows by itself, so that no duration is too long for it.
        Self(Histogram::new(3).expect("three digits are allowed"))
    }

    /// Counts one.
    pub fn record(&mut self, lasted: Duration) {
        let nanoseconds = u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX / 2).clamp(1, u64::MAX / 2);
        // It cannot fail: the histogram grows by itself.
        let _ = self.0.record(nanoseconds);
    }

    /// Counts those of another one too.
    pub fn add(&mut self, other: &Self) {
        // It cannot fail where both grow by themselves.
        let _ = self.0.add(&other.0);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration that a share of all do not exceed, in milliseconds.
    #[must_use]
    pub fn at_ms(&self, share: f64) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.value_at_quantile(share) as f64 / 1e6 }
    }

    /// The usual figures.
    #[must_use]
    pub fn figures(&self) -> LatencyFigures {
        LatencyFigures {
            count: self.count(),
            mean_ms: if self.0.is_empty() { 0.0 } else { self.0.mean() / 1e6 },
            p50_ms: self.at_ms(0.5),
            p95_ms: self.at_ms(0.95),
            p99_ms: self.at_ms(0.99),
            p999_ms: self.at_ms(0.999),
            max_ms: if self.0.is_empty() { 0.0 } else { self.0.max() as f64 / 1e6 },
        }
    }

    /// Points of the curve from share to duration, denser towards the slow end: 0, 50 %, 90 %, 99 % and between them.
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        let mut above = 1.0;
        while above * self.count() as f64 >= 1.0 {
            points.push((1.0 - above, self.at_ms(1.0 - above)));
            // Eight steps for every factor of ten.
            above *= 0.749_894_209;
        }
        if self.count() > 0 {
            points.push((1.0, self.figures().max_ms));
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(milliseconds: impl IntoIterator<Item = f64>) -> Latencies {
        let mut latencies = Latencies::new();
        for each in milliseconds {
            latencies.record(Duration::from_secs_f64(each / 1000.0));
        }
        latencies
    }

    #[test]
    fn figures_are_within_three_digits() {
        let figures = of((1..=1000).map(f64::from)).figures();
        for (found, expect) in [
            (figures.p50_ms, 500.0),
            (figures.p95_ms, 950.0),
            (figures.p99_ms, 990.0),
            (figures.p999_ms, 999.0),
            (figures.max_ms, 1000.0),
            (figures.mean_ms, 500.5),
        ] {
            assert!((found / expect - 1.0).abs() < 0.002, "{found} for {expect}");
        }
    }

    #[test]
    fn nothing_is_zero_and_long_ones_fit() {
        assert_eq!(Latencies::new().figures(), LatencyFigures::default());
        assert!(Latencies::new().curve().is_empty());
        assert!((of([3_600_000.0]).figures().max_ms / 3_600_000.0 - 1.0).abs() < 0.002);
    }

    proptest! {
        #[test]
        fn quantiles_never_leave_the_order_and_merging_is_adding(
            left in prop::collection::vec(0.001_f64..10_000.0, 1..200),
            right in prop::collection::vec(0.001_f64..10_000.0, 1..200),
        ) {
            let mut together = of(left.iter().copied());
            together.add(&of(right.iter().copied()));
            let all = of(left.iter().chain(&right).copied());
            prop_assert_eq!(together.figures(), all.figures());
            let figures = all.figures();
            prop_assert!(figures.p50_ms <= figures.p95_ms && figures.p95_ms <= figures.p99_ms);
            prop_assert!(figures.p99_ms <= figures.p999_ms && figures.p999_ms <= figures.max_ms * 1.002);
            let curve = all.curve();
            prop_assert!(curve.windows(2).all(|pair| pair[0].1 <= pair[1].1 * 1.002 && pair[0].0 <= pair[1].0));
        }
    }
}
