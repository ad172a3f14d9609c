//! Requests: latency from arrival to last byte, the wait and the service apart, and the rate; by route, and the slowest.

use std::collections::VecDeque;

use neurogc_wire::buckets::Distribution;
use neurogc_wire::status::{Cause, Latency, Requests, Waits};

use super::arrivals::ArrivalSource;
use super::routes::{RouteId, RouteNames, Routes};
use super::slowest::{Causes, Slow, Slowest, overlap};
use super::spans::DurationHistogram;

const WINDOW_S: u64 = 10;

/// Requests that have ended, and stalls, that are remembered: the one is matched with the other, whichever is known first.
const REMEMBERED: usize = 256;

/// A request that has ended. Times are `monotonic_ns`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EndedRequest {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    /// How long it had waited before it began.
    pub(crate) wait: u64,
    pub(crate) known: ArrivalSource,
    /// How long collections stopped the program meanwhile.
    pub(crate) gc: u64,
    pub(crate) route: RouteId,
    pub(crate) trace: [u8; 16],
}

impl EndedRequest {
    /// From its arrival to its end.
    pub(crate) fn span(&self) -> (u64, u64) {
        (self.began.saturating_sub(self.wait), self.ended)
    }
}

/// All requests so far.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    total: DurationHistogram,
    wait: DurationHistogram,
    service: DurationHistogram,
    waits: Waits,
    /// Requests ended in each of the last seconds, by second modulo the window.
    ended: [(u64, u64); WINDOW_S as usize + 1],
    /// The latencies of this window and of the one before it.
    recent: [(u64, DurationHistogram); 2],
    routes: Routes,
    slowest: Slowest,
    latest: VecDeque<((u64, u64), RouteId)>,
    stalls: VecDeque<((u64, u64), Cause)>,
}

impl RequestLog {
    /// A request ended `now_s` seconds after the agent was installed.
    pub(crate) fn add(&mut self, served: &EndedRequest, now_s: u64) {
        let span = served.span();
        let total = span.1.saturating_sub(span.0);
        self.total.add(total);
        self.wait.add(served.wait);
        self.service.add(served.ended.saturating_sub(served.began));
        match served.known {
            ArrivalSource::Inside => {}
            ArrivalSource::Socket | ArrivalSource::Proxy => self.waits.measured += 1,
            ArrivalSource::Unknown if served.wait > 0 => self.waits.estimated += 1,
            ArrivalSource::Unknown => self.waits.unknown += 1,
        }
        self.count(total, now_s);
        let mut stalls = Causes::default();
        for (stall, cause) in &self.stalls {
            stalls[*cause as usize] += overlap(*stall, span);
        }
        self.routes.add(served.route, total, served.wait, served.gc, stalls.iter().sum());
        let &EndedRequest { wait, gc, route, trace, .. } = served;
        self.slowest.add(Slow { arrived: span.0, ended: span.1, wait, gc, stalls, route, trace }, now_s);
        remember(&mut self.latest, (span, route));
    }

    /// The program was held up by something else than a collection.
    pub(crate) fn stalled(&mut self, span: (u64, u64), cause: Cause) {
        for (request, route) in &self.latest {
            self.routes.stalled(*route, overlap(span, *request));
        }
        self.slowest.stalled(span, cause);
        remember(&mut self.stalls, (span, cause));
    }

    /// The program was stopped by a collection: requests may have ended before its end was told, where a finalizer let
    /// them run.
    pub(crate) fn collected(&mut self, span: (u64, u64)) {
        let within = self.latest.iter().rev().take_while(|(request, _)| request.1 > span.0);
        for (request, route) in within {
            self.routes.collected(*route, overlap(span, *request));
        }
        if self.latest.back().is_some_and(|(request, _)| request.1 > span.0) {
            self.slowest.collected(span);
        }
    }

    fn count(&mut self, total: u64, now_s: u64) {
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
        recent.add(total);
    }

    /// How long they took from arrival to last byte, and the two parts of that: wait and service.
    pub(crate) fn distributions(&self) -> [Distribution; 3] {
        [&self.total, &self.wait, &self.service].map(DurationHistogram::distribution)
    }

    fn recent_p99_ms(&self, window: u64) -> f64 {
        let [even, odd] = &self.recent;
        let current = |(kept, spans): &'_ (u64, DurationHistogram)| -> Option<DurationHistogram> {
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

    /// Requests ended per second, over the last ten seconds.
    pub(crate) fn rps(&self, now_s: u64) -> f64 {
        // The running second is not over, so only whole ones count; a younger agent divides by its age.
        let whole = now_s.min(WINDOW_S);
        let recent = |second: u64| second < now_s && second + WINDOW_S >= now_s;
        let ended: u64 = self.ended.iter().filter(|(second, _)| recent(*second)).map(|(_, count)| count).sum();
        if whole == 0 { 0.0 } else { ended as f64 / whole as f64 }
    }

    pub(crate) fn report(&self, names: &RouteNames, in_flight: u64, installed: u64, now_s: u64) -> Requests {
        let Latency { p50_ms, p95_ms, p99_ms, p999_ms, max_ms } = latency(&self.total);
        Requests {
            count: self.total.count(),
            in_flight,
            recent_p99_ms: self.recent_p99_ms(now_s / WINDOW_S),
            rps: self.rps(now_s),
            p50_ms,
            p95_ms,
            p99_ms,
            p999_ms,
            max_ms,
            wait: latency(&self.wait),
            service: latency(&self.service),
            waits: self.waits,
            routes: self.routes.report(names),
            slowest: self.slowest.report(names, installed, now_s),
        }
    }
}

fn latency(spans: &DurationHistogram) -> Latency {
    Latency {
        p50_ms: spans.quantile_ms(0.5),
        p95_ms: spans.quantile_ms(0.95),
        p99_ms: spans.quantile_ms(0.99),
        p999_ms: spans.quantile_ms(0.999),
        max_ms: spans.max_ms(),
    }
}

fn remember<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() == REMEMBERED {
        kept.pop_front();
    }
    kept.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn lasting(ns: u64) -> EndedRequest {
        EndedRequest { began: 50 * MS, ended: 50 * MS + ns, ..EndedRequest::default() }
    }

    fn report(requests: &RequestLog, in_flight: u64, now_s: u64) -> Requests {
        requests.report(&RouteNames::default(), in_flight, 0, now_s)
    }

    #[test]
    fn the_rate_is_that_of_the_last_ten_seconds() {
        let mut requests = RequestLog::default();
        for second in 0..30 {
            (0..second).for_each(|_| requests.add(&lasting(MS), second));
        }
        assert_eq!(report(&requests, 0, 30).rps, (20..30).sum::<u64>() as f64 / 10.0);
        assert_eq!(report(&requests, 0, 45).rps, 0.0);
    }

    #[test]
    fn the_recent_percentile_forgets() {
        let mut requests = RequestLog::default();
        (0..5).for_each(|second| requests.add(&lasting(900 * MS), second));
        assert!(report(&requests, 0, 3).recent_p99_ms > 800.0);
        (20..40).for_each(|second| requests.add(&lasting(MS), second));
        assert!((report(&requests, 0, 40).recent_p99_ms - 1.0).abs() < 0.1);
        assert_eq!(report(&requests, 0, 100).recent_p99_ms, 0.0);
    }

    #[test]
    fn a_young_agent_divides_by_its_age() {
        let mut requests = RequestLog::default();
        (0..40).for_each(|index| requests.add(&lasting(1), index / 20));
        assert_eq!(report(&requests, 1, 2).rps, 20.0);
        assert_eq!(report(&requests, 1, 0).rps, 0.0);
    }

    #[test]
    fn the_total_is_the_wait_and_the_service() {
        let mut requests = RequestLog::default();
        requests.add(&EndedRequest { wait: 40 * MS, known: ArrivalSource::Socket, ..lasting(2 * MS) }, 0);
        requests.add(&EndedRequest { known: ArrivalSource::Unknown, ..lasting(2 * MS) }, 0);
        requests.add(&EndedRequest { wait: MS, known: ArrivalSource::Unknown, ..lasting(2 * MS) }, 0);
        let report = report(&requests, 0, 1);
        assert_eq!((report.max_ms, report.wait.max_ms, report.service.max_ms), (42.0, 40.0, 2.0));
        assert_eq!(report.waits, Waits { measured: 1, estimated: 1, unknown: 1 });
    }

    #[test]
    fn a_stall_and_a_request_are_matched_once_in_either_order() {
        let mut requests = RequestLog::default();
        requests.add(&lasting(10 * MS), 0);
        requests.stalled((55 * MS, 70 * MS), Cause::Python);
        requests.add(&lasting(30 * MS), 0);
        let report = report(&requests, 0, 1);
        assert_eq!(report.slowest.iter().map(|slow| slow.python_ms).collect::<Vec<_>>(), [15.0, 5.0]);
        assert_eq!(report.routes[0].stall_ms, 20.0);
    }
}
