//! Durations of one kind: how many, how long in total, the longest, and their distribution.

use hdrhistogram::Histogram;
use neurogc_wire::buckets::{Buckets, Distribution};
use neurogc_wire::status::{Pauses, Place, Spans as SpanReport};

const SHORTEST_NS: u64 = 1_000;
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Nanoseconds as milliseconds, to the microsecond.
pub(crate) fn ms(ns: u64) -> f64 {
    (ns as f64 / 1_000.0).round() / 1_000.0
}

/// Nanoseconds as seconds, to the microsecond.
pub(crate) fn seconds(ns: u64) -> f64 {
    (ns as f64 / 1_000.0).round() / 1_000_000.0
}

/// Counted and summed durations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) total_ns: u64,
    pub(crate) max_ns: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn place(&self) -> Place {
        Place { count: self.count, total_ms: ms(self.total_ns), max_ms: ms(self.max_ns) }
    }
}

/// Durations with their distribution.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    sum: Sum,
    histogram: Histogram<u32>,
}

impl Spans {
    /// `digits` significant digits are kept: 2 take 15 KB, 3 take 100 KB.
    pub(crate) fn new(digits: u8) -> Self {
        let histogram = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, digits);
        Self { sum: Sum::default(), histogram: histogram.unwrap_or_else(|_| unreachable_bounds()) }
    }

    pub(crate) fn add(&mut self, ns: u64) {
        self.sum.add(ns);
        self.histogram.saturating_record(ns.max(SHORTEST_NS));
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.sum = Sum::default();
        self.histogram.reset();
    }

    /// Adds what another has counted, with the same precision.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sum.count += other.sum.count;
        self.sum.total_ns += other.sum.total_ns;
        self.sum.max_ns = self.sum.max_ns.max(other.sum.max_ns);
        let _ = self.histogram.add(&other.histogram);
    }

    pub(crate) fn count(&self) -> u64 {
        self.sum.count
    }

    /// The duration that a share of all does not exceed.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        if self.sum.count == 0 { 0.0 } else { ms(self.histogram.value_at_quantile(share).min(self.sum.max_ns)) }
    }

    pub(crate) fn max_ms(&self) -> f64 {
        ms(self.sum.max_ns)
    }

    pub(crate) fn pauses(&self) -> Pauses {
        Pauses {
            count: self.sum.count,
            total_ms: ms(self.sum.total_ns),
            p50_ms: self.quantile_ms(0.5),
            p99_ms: self.quantile_ms(0.99),
            max_ms: self.max_ms(),
        }
    }

    /// All durations, in the buckets that everybody has.
    pub(crate) fn distribution(&self) -> Distribution {
        let mut buckets = Buckets::default();
        for step in self.histogram.iter_recorded() {
            buckets.add(step.value_iterated_to(), step.count_at_value().into());
        }
        Distribution { buckets, total_ms: ms(self.sum.total_ns) }
    }

    pub(crate) fn report(&self) -> SpanReport {
        SpanReport {
            count: self.sum.count,
            p50_ms: self.quantile_ms(0.5),
            p99_ms: self.quantile_ms(0.99),
            max_ms: self.max_ms(),
        }
    }
}

/// The bounds above are valid, so this is never called; it keeps a panic out of the user's process all the same.
fn unreachable_bounds() -> Histogram<u32> {
    Histogram::new(1).unwrap_or_else(|_| unreachable!("one digit is a valid precision"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_stay_within_what_was_added() {
        let mut spans = Spans::new(3);
        (1..=1000).for_each(|value| spans.add(value * 1_000_000));
        assert!((spans.quantile_ms(0.5) - 500.0).abs() < 1.0);
        assert!((spans.quantile_ms(0.99) - 990.0).abs() < 1.0);
        assert_eq!((spans.max_ms(), spans.count()), (1000.0, 1000));
    }

    #[test]
    fn nothing_measured_is_zero() {
        assert_eq!(Spans::new(2).pauses(), Pauses::default());
    }

    #[test]
    fn odd_durations_are_kept() {
        let mut spans = Spans::new(2);
        spans.add(0);
        spans.add(u64::MAX / 4);
        assert_eq!(spans.count(), 2);
    }
}
