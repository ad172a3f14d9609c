//! What a stop would cost those who wait, by what is expected of the next moments.
//!
//! Times are milliseconds, and so are costs: the delays of all requests together.

/// The shares that the quantiles of a forecast stand for.
const SHARES: [f64; 5] = [0.175, 0.2, 0.25, 0.2, 0.175];

/// Beyond this share of the time the length of a queue cannot be told.
const BUSIEST: f64 = 0.85;

/// The next moments, as expected.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outlook {
    /// Quantiles of what remains of the gap.
    pub(super) gap: [f64; 5],
    /// Requests in a millisecond, once they come.
    pub(super) rate: f64,
    /// The share of the time in which a thread runs.
    pub(super) busy: f64,
}

impl Outlook {
    /// How much longer each request waits that comes after a stop: it takes a queue that long to go away.
    fn queue(&self) -> f64 {
        1.0 / (1.0 - self.busy.min(BUSIEST))
    }

    /// The delay that a stop in this gap causes: of who comes first, and of those who come after, as far as it lasts
    /// beyond the gap.
    pub(super) fn delay(&self, stop: f64) -> f64 {
        let late = self.gap.iter().map(|gap| (stop - gap).max(0.0));
        late.zip(SHARES).map(|(late, share)| share * late * (1.0 + self.rate * late / 2.0)).sum::<f64>() * self.queue()
    }

    /// The delay that a stop causes in the middle of so many requests.
    pub(super) fn delay_in_requests(&self, stop: f64, requests: f64) -> f64 {
        stop * (requests.max(1.0) + self.rate * stop / 2.0) * self.queue()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Outlook = Outlook { gap: [5.0, 10.0, 20.0, 40.0, 80.0], rate: 0.05, busy: 0.1 };

    #[test]
    fn what_fits_into_the_gap_delays_nothing() {
        assert_eq!(CALM.delay(4.9), 0.0);
        assert!(CALM.delay(20.0) > 0.0);
    }

    #[test]
    fn a_long_stop_costs_more_than_as_many_short_ones() {
        assert!(CALM.delay(100.0) > 4.0 * CALM.delay(25.0));
        let short = CALM.delay_in_requests(1.0, 1.0);
        assert!(CALM.delay_in_requests(10.0, 1.0) > 10.0 * short);
    }

    #[test]
    fn everything_costs_more_where_many_wait() {
        let crowd = Outlook { busy: 0.8, ..CALM };
        assert!(crowd.delay(30.0) > 4.0 * CALM.delay(30.0));
        let more = Outlook { busy: 1.0, ..CALM };
        assert!(more.delay(30.0).is_finite());
    }
}
