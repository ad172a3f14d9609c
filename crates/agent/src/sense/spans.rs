//! Durations of one kind: how many, how long in total, the longest, and their distribution.

use neurogc_wire::buckets::{Buckets, Distribution};
use neurogc_wire::status::{PauseTotals, Pauses, Spans};

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

    pub(crate) fn place(&self) -> PauseTotals {
        PauseTotals { count: self.count, total_ms: ms(self.total_ns), max_ms: ms(self.max_ns) }
    }
}

/// Durations with their distribution, in the buckets that hubs and the command line have too: 16 KB at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct DurationHistogram {
    sum: Sum,
    buckets: Buckets,
}

impl DurationHistogram {
    pub(crate) fn add(&mut self, ns: u64) {
        self.sum.add(ns);
        self.buckets.add(ns, 1);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds what another has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sum.count += other.sum.count;
        self.sum.total_ns += other.sum.total_ns;
        self.sum.max_ns = self.sum.max_ns.max(other.sum.max_ns);
        self.buckets.merge(&other.buckets);
    }

    pub(crate) fn count(&self) -> u64 {
        self.sum.count
    }

    /// The duration that a share of all does not exceed, within 3 %.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let found = self.buckets.quantile_ms(share).unwrap_or(0.0);
        // To the nanosecond: a request may take less than a microsecond.
        ((found * 1e6).round() / 1e6).min(self.max_ms())
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

    /// All durations.
    pub(crate) fn distribution(&self) -> Distribution {
        Distribution { buckets: self.buckets.clone(), total_ms: ms(self.sum.total_ns) }
    }

    pub(crate) fn report(&self) -> Spans {
        Spans {
            count: self.sum.count,
            p50_ms: self.quantile_ms(0.5),
            p99_ms: self.quantile_ms(0.99),
            max_ms: self.max_ms(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_stay_within_what_was_added() {
        let mut spans = DurationHistogram::default();
        (1..=1000).for_each(|value| spans.add(value * 1_000_000));
        assert!((spans.quantile_ms(0.5) - 500.0).abs() < 15.0);
        assert!((spans.quantile_ms(0.99) - 990.0).abs() < 30.0);
        assert_eq!(spans.quantile_ms(1.0), spans.max_ms());
        assert_eq!((spans.max_ms(), spans.count()), (1000.0, 1000));
    }

    #[test]
    fn nothing_measured_is_zero() {
        assert_eq!(DurationHistogram::default().pauses(), Pauses::default());
    }

    #[test]
    fn odd_durations_are_kept() {
        let mut spans = DurationHistogram::default();
        spans.add(0);
        spans.add(u64::MAX / 4);
        assert_eq!(spans.count(), 2);
    }
}
