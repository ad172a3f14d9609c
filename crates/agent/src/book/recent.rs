//! The last five minutes: a ring of intervals whose memory has a limit. What happened before the program had started up
//! is not in it.

use std::sync::Arc;

use neurogc_wire::buckets::Buckets;
use neurogc_wire::status::{Cause, Latency};
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::Place;
use neurogc_wire::window::{StallSite, TimeByCause, Window, WindowGc, WindowRequests, WindowStalls};

use crate::sense::collections::Collection;
use crate::sense::requests::EndedRequest;
use crate::sense::spans::{Sum, ms, seconds};
use crate::sense::stall_log::{StopFacts, cut};
use crate::sense::stalls::EndedStall;

/// How long an interval is, and how many are kept: five minutes.
const INTERVAL_NS: u64 = 10_000_000_000;
const INTERVALS: u64 = 30;

/// The longest window there is.
pub(crate) const LONGEST_NS: u64 = INTERVAL_NS * INTERVALS;

/// A program without requests has started up after this long.
const START_UP_NS: u64 = 5_000_000_000;

/// Places that are told apart in one interval.
const SITES: usize = 16;

/// Places of each cause that are reported.
const REPORTED: usize = 10;

/// Stalls of one cause at one place in one interval.
#[derive(Clone, Debug)]
struct Site {
    cause: Cause,
    name: Arc<str>,
    sum: Sum,
    longest_at: u64,
    stop: Option<StopFacts>,
}

/// Sums by class of stops.
#[derive(Clone, Copy, Debug, Default)]
struct Stops {
    full: Sum,
    in_request: Sum,
    in_gap_arrivals: Sum,
    in_gap: Sum,
    forced: Sum,
}

/// One interval.
#[derive(Debug, Default)]
struct Interval {
    /// Its number since the agent was installed.
    number: u64,
    stalls: [Sum; Cause::ALL.len()],
    sites: Vec<Site>,
    stops: Stops,
    /// The total latency of requests, its wait and its service; the longest of each.
    requests: [Buckets; 3],
    longest: [u64; 3],
}

/// The last minutes.
#[derive(Debug)]
pub(crate) struct Recent {
    installed: u64,
    /// When start-up was over: what began before that does not count.
    since: u64,
    served: bool,
    ring: [Interval; INTERVALS as usize],
}

impl Recent {
    pub(crate) fn new(installed: u64) -> Self {
        let ring = std::array::from_fn(|_| Interval::default());
        Self { installed, since: installed + START_UP_NS, served: false, ring }
    }

    /// A request has begun. With the first one start-up is over, and what came before does not count.
    pub(crate) fn begins(&mut self, at: u64) {
        if !std::mem::replace(&mut self.served, true) {
            self.since = at;
            self.ring = std::array::from_fn(|_| Interval::default());
        }
    }

    /// A request has ended.
    pub(crate) fn request(&mut self, served: &EndedRequest) {
        let span = served.span();
        let parts = [span.1.saturating_sub(span.0), served.wait, served.ended.saturating_sub(served.began)];
        let Some(interval) = self.interval(served.began, served.ended) else { return };
        for (part, ns) in parts.into_iter().enumerate() {
            interval.requests[part].add(ns, 1);
            interval.longest[part] = interval.longest[part].max(ns);
        }
    }

    /// A stop has its place for good.
    pub(crate) fn stop(&mut self, stop: &Collection) {
        let Some(interval) = self.interval(stop.at, stop.at + stop.pause) else { return };
        let stops = &mut interval.stops;
        if stop.kind == StopKind::Full {
            stops.full.add(stop.pause);
        }
        let place = match stop.place {
            Place::InRequest => &mut stops.in_request,
            Place::InGapArrivals => &mut stops.in_gap_arrivals,
            Place::InGap => &mut stops.in_gap,
            Place::Forced => &mut stops.forced,
        };
        place.add(stop.pause);
    }

    /// The program was held up.
    pub(crate) fn stall(&mut self, verdict: &EndedStall, stop: Option<StopFacts>) {
        let &EndedStall { at, duration, cause, ref site, .. } = verdict;
        let Some(interval) = self.interval(at, at + duration) else { return };
        interval.stalls[cause as usize].add(duration);
        let name = cut(site);
        let known = interval.sites.iter_mut().find(|known| known.cause == cause && *known.name == *name);
        let found = match known {
            Some(known) => known,
            None => {
                // The sums above have what is given up here.
                let new = Site { cause, name: name.into(), sum: Sum::default(), longest_at: at, stop };
                let least = interval.sites.iter().enumerate().min_by_key(|(_, site)| site.sum.total_ns);
                let place = match least {
                    Some((place, least)) if interval.sites.len() == SITES => {
                        if least.sum.total_ns >= duration {
                            return;
                        }
                        interval.sites[place] = new;
                        place
                    }
                    _ => {
                        interval.sites.push(new);
                        interval.sites.len() - 1
                    }
                };
                &mut interval.sites[place]
            }
        };
        if duration >= found.sum.max_ns {
            (found.longest_at, found.stop) = (at, stop);
        }
        found.sum.add(duration);
    }

    /// The interval of something that began and ended then, if it counts.
    fn interval(&mut self, began: u64, ended: u64) -> Option<&mut Interval> {
        if began < self.since {
            return None;
        }
        let number = ended.saturating_sub(self.installed) / INTERVAL_NS;
        let interval = &mut self.ring[(number % INTERVALS) as usize];
        if interval.number != number {
            if interval.number > number {
                return None;
            }
            *interval = Interval { number, ..Interval::default() };
        }
        Some(interval)
    }

    /// The figures of the last `length` nanoseconds, or of as much as there is. Whole intervals count: it may be a little
    /// longer than was asked for.
    pub(crate) fn report(&self, now: u64, length: u64) -> Window {
        let current = now.saturating_sub(self.installed) / INTERVAL_NS;
        let first = now.saturating_sub(length.min(LONGEST_NS)).saturating_sub(self.installed) / INTERVAL_NS;
        let first = first.max((current + 1).saturating_sub(INTERVALS));
        let since = self.since.max(self.installed + first * INTERVAL_NS);
        if now <= since {
            return Window::default();
        }
        let wanted = |interval: &&Interval| (first..=current).contains(&interval.number);
        let intervals: Vec<_> = self.ring.iter().filter(wanted).collect();
        Window {
            seconds: seconds(now - since),
            stalls: stalls(&intervals, self.installed),
            gc: stops(&intervals),
            requests: requests(&intervals),
        }
    }
}

fn stalls(intervals: &[&Interval], installed: u64) -> WindowStalls {
    let mut report = WindowStalls::default();
    let mut times = TimeByCause::default();
    let mut sites: Vec<Site> = Vec::new();
    for cause in Cause::ALL {
        let sum = merged(intervals.iter().map(|interval| interval.stalls[cause as usize]));
        report.count += sum.count;
        *report.by_cause.of(cause) = sum.count;
        times.set(cause, ms(sum.total_ns));
    }
    for site in intervals.iter().flat_map(|interval| &interval.sites) {
        match sites.iter_mut().find(|known| known.cause == site.cause && known.name == site.name) {
            Some(known) => {
                if site.sum.max_ns > known.sum.max_ns {
                    (known.longest_at, known.stop) = (site.longest_at, site.stop);
                }
                known.sum = merged([known.sum, site.sum]);
            }
            None => sites.push(site.clone()),
        }
    }
    sites.sort_by_key(|site| std::cmp::Reverse(site.sum.total_ns));
    let mut taken = [0; Cause::ALL.len()];
    sites.retain(|site| {
        taken[site.cause as usize] += 1;
        taken[site.cause as usize] <= REPORTED
    });
    report.time_ms_by_cause = times;
    report.sites = sites.iter().map(|site| reported(site, installed)).collect();
    report
}

fn reported(site: &Site, installed: u64) -> StallSite {
    StallSite {
        cause: site.cause,
        site: site.name.to_string(),
        count: site.sum.count,
        total_ms: ms(site.sum.total_ns),
        max_ms: ms(site.sum.max_ns),
        at_s: seconds(site.longest_at.saturating_sub(installed)),
        stop: site.stop.map(|stop| stop.kind.name().to_owned()).unwrap_or_default(),
        objects: site.stop.map_or(0, |stop| stop.objects),
    }
}

fn stops(intervals: &[&Interval]) -> WindowGc {
    let of = |part: fn(&Stops) -> Sum| merged(intervals.iter().map(|interval| part(&interval.stops))).place();
    WindowGc {
        full: of(|stops| stops.full),
        in_request: of(|stops| stops.in_request),
        in_gap_arrivals: of(|stops| stops.in_gap_arrivals),
        in_gap: of(|stops| stops.in_gap),
        forced: of(|stops| stops.forced),
    }
}

fn requests(intervals: &[&Interval]) -> WindowRequests {
    let part = |part: usize| {
        let mut all = Buckets::default();
        intervals.iter().for_each(|interval| all.merge(&interval.requests[part]));
        let longest = intervals.iter().map(|interval| interval.longest[part]).max().unwrap_or(0);
        // A bucket may reach beyond the longest that is in it.
        let at = |share: f64| all.quantile_ms(share).unwrap_or(0.0).min(ms(longest));
        let (p50_ms, p95_ms, p99_ms, p999_ms) = (at(0.5), at(0.95), at(0.99), at(0.999));
        (all.count(), Latency { p50_ms, p95_ms, p99_ms, p999_ms, max_ms: ms(longest) })
    };
    let ((count, total), (_, wait), (_, service)) = (part(0), part(1), part(2));
    WindowRequests { count, total, wait, service }
}

fn merged(sums: impl IntoIterator<Item = Sum>) -> Sum {
    sums.into_iter().fold(Sum::default(), |one, other| Sum {
        count: one.count + other.count,
        total_ns: one.total_ns + other.total_ns,
        max_ns: one.max_ns.max(other.max_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sense::stall_log::LONGEST_SITE;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;
    const FULL: Option<StopFacts> = Some(StopFacts { kind: StopKind::Full, objects: 980_000 });

    fn stall(at: u64, duration: u64, cause: Cause, site: &str) -> EndedStall {
        EndedStall { at, duration, cause, site: site.to_owned(), callers: Vec::new() }
    }

    #[test]
    fn start_up_is_not_in_the_window() {
        let mut recent = Recent::new(S);
        recent.stall(&stall(2 * S, 900 * MS, Cause::Gc, "models.py:1"), FULL);
        assert_eq!(recent.report(4 * S, LONGEST_NS), Window::default(), "nothing counts yet");
        recent.stall(&stall(8 * S, 300 * MS, Cause::Python, "load.py:1"), None);
        let report = recent.report(9 * S, LONGEST_NS);
        assert_eq!((report.seconds, report.stalls.count), (3.0, 1), "five seconds without a request are over");
        recent.begins(20 * S);
        recent.stall(&stall(19 * S, 300 * MS, Cause::Gc, ""), FULL);
        assert_eq!(recent.report(21 * S, LONGEST_NS), Window { seconds: 1.0, ..Window::default() });
        recent.begins(22 * S);
        assert_eq!(recent.report(24 * S, LONGEST_NS).seconds, 4.0, "only the first request counts");
    }

    #[test]
    fn five_minutes_are_kept_and_less_can_be_asked_for() {
        let mut recent = Recent::new(0);
        recent.begins(1);
        for second in 1..=600 {
            recent.stall(&stall(second * S, (second + 5) * MS, Cause::Python, "app.py:35 in slow"), None);
            recent.stall(&stall(second * S, 7 * MS, Cause::Gc, "app.py:9"), FULL);
        }
        let report = recent.report(600 * S + 900 * MS, LONGEST_NS);
        assert_eq!(report.seconds, 290.9);
        let site = &report.stalls.sites[0];
        assert_eq!((site.count, site.max_ms, site.at_s), (291, 605.0, 600.0));
        assert_eq!((report.stalls.sites[1].objects, &*report.stalls.sites[1].stop), (980_000, "full"));
        assert_eq!((report.stalls.by_cause.python, report.stalls.time_ms_by_cause.gc), (291, 2037.0));
        let report = recent.report(600 * S, 60 * S);
        assert_eq!((report.seconds, report.stalls.by_cause.gc), (60.0, 61));
        assert_eq!(recent.report(2_000 * S, LONGEST_NS).stalls.count, 0, "it forgets without being told anything");
    }

    #[test]
    fn stops_have_their_class_and_requests_their_parts() {
        let mut recent = Recent::new(0);
        recent.begins(S);
        let stop = |at, pause, place| Collection {
            at,
            pause,
            kind: StopKind::Full,
            place,
            collected: 0,
            uncollectable: 0,
            order: 0,
        };
        recent.stop(&stop(2 * S, 40 * MS, Place::InRequest));
        recent.stop(&stop(12 * S, 60 * MS, Place::InRequest));
        recent.stop(&stop(13 * S, 5 * MS, Place::InGap));
        for number in 0..100 {
            let began = 2 * S + number * MS;
            recent.request(&EndedRequest { began, ended: began + 4 * MS, wait: 30 * MS, ..EndedRequest::default() });
        }
        let report = recent.report(15 * S, LONGEST_NS);
        assert_eq!((report.gc.in_request.count, report.gc.in_request.total_ms), (2, 100.0));
        assert_eq!((report.gc.in_gap.max_ms, report.gc.full.count), (5.0, 3));
        let requests = report.requests;
        assert_eq!((requests.count, requests.total.max_ms, requests.wait.max_ms), (100, 34.0, 30.0));
        assert!((requests.service.p99_ms - 4.0).abs() < 0.2, "{requests:?}");
    }

    #[test]
    fn many_places_take_no_more_memory_than_few() {
        let mut recent = Recent::new(0);
        recent.begins(0);
        for number in 0..10_000_u64 {
            let site = format!("{}.py:{number}", "x".repeat(500));
            recent.stall(&stall(number * MS, 6 * MS + number, Cause::Python, &site), None);
        }
        let most = recent.ring.iter().map(|interval| interval.sites.len()).max();
        assert_eq!(most, Some(SITES));
        let report = recent.report(10 * S, LONGEST_NS);
        assert_eq!((report.stalls.by_cause.python, report.stalls.sites.len()), (10_000, REPORTED));
        assert!(report.stalls.sites.iter().all(|site| site.site.len() <= LONGEST_SITE));
    }
}
