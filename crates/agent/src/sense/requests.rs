//! Requests: latency from start to last byte, and the rate.

use neurogc_wire::buckets::Distribution;
use neurogc_wire::status::Requests as Report;

use super::spans::Spans;

const WINDOW_S: u64 = 10;

/// All requests so far.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    latency: Spans,
    /// Requests ended in each of the last seconds, by second modulo the window.
    ended: [(u64, u64); WINDOW_S as usize + 1],
    /// The latencies of this window and of the one before it.
    recent: [(u64, Spans); 2],
}

impl Requests {
    /// A request ended `now_s` seconds after the agent was installed.
    pub(crate) fn add(&mut self, latency_ns: u64, now_s: u64) {
        self.latency.add(latency_ns);
        let slot = &mut self.ended[(now_s % (WINDOW_S + 1)) as usize];
        if slot.0 != now_s {
            *slot = (now_s, 0);
        }
        slot.1 += 1;
        let window = now_s / WINDOW_S;
        let (kept, recent) = &mut self.recent[(window % 2) as usize];
        if *kept != window {
            *kept = window;
            recent.clear();
        }
        recent.add(latency_ns);
    }

    /// How long they took.
    pub(crate) fn distribution(&self) -> Distribution {
        self.latency.distribution()
    }

    fn recent_p99_ms(&self, window: u64) -> f64 {
        let [even, odd] = &self.recent;
        let current = |(kept, spans): &'_ (u64, Spans)| -> Option<Spans> {
            (kept + 1 >= window && spans.count() > 0).then(|| spans.clone())
        };
        match (current(even), current(odd)) {
            (Some(mut even), Some(odd)) => {
                even.merge(&odd);
                even.quantile_ms(0.99)
            }
            (Some(one), None) | (None, Some(one)) => one.quantile_ms(0.99),
            (None, None) => 0.0,
        }
    }

    pub(crate) fn report(&self, in_flight: u64, now_s: u64) -> Report {
        // The running second is not over, so only whole ones count; a younger agent divides by its age.
        let whole = now_s.min(WINDOW_S);
        let recent = |second: u64| second < now_s && second + WINDOW_S >= now_s;
        let ended: u64 = self.ended.iter().filter(|(second, _)| recent(*second)).map(|(_, count)| count).sum();
        Report {
            count: self.latency.count(),
            in_flight,
            recent_p99_ms: self.recent_p99_ms(now_s / WINDOW_S),
            rps: if whole == 0 { 0.0 } else { ended as f64 / whole as f64 },
            p50_ms: self.latency.quantile_ms(0.5),
            p95_ms: self.latency.quantile_ms(0.95),
            p99_ms: self.latency.quantile_ms(0.99),
            p999_ms: self.latency.quantile_ms(0.999),
            max_ms: self.latency.max_ms(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_ten_seconds() {
        let mut requests = Requests::default();
        for second in 0..30 {
            (0..second).for_each(|_| requests.add(1_000_000, second));
        }
        assert_eq!(requests.report(0, 30).rps, (20..30).sum::<u64>() as f64 / 10.0);
        assert_eq!(requests.report(0, 45).rps, 0.0);
    }

    #[test]
    fn the_recent_percentile_forgets() {
        let mut requests = Requests::default();
        (0..5).for_each(|second| requests.add(900_000_000, second));
        assert!(requests.report(0, 3).recent_p99_ms > 800.0);
        (20..40).for_each(|second| requests.add(1_000_000, second));
        assert!((requests.report(0, 40).recent_p99_ms - 1.0).abs() < 0.1);
        assert_eq!(requests.report(0, 100).recent_p99_ms, 0.0);
    }

    #[test]
    fn a_young_agent_divides_by_its_age() {
        let mut requests = Requests::default();
        (0..40).for_each(|index| requests.add(1, index / 20));
        assert_eq!(requests.report(1, 2).rps, 20.0);
        assert_eq!(requests.report(1, 0).rps, 0.0);
    }
}
