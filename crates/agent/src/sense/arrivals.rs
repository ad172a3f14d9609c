//! When a request arrived: what the kernel, a proxy or a stop tells about the time before the application saw it.

use crate::sys::sockets::LastData;

/// A header of a proxy that says more than this is not believed: a wrong clock, or a stranger.
const LONGEST_QUEUE_NS: u64 = 60_000_000_000;

/// A thread that has sent its answer waits for the GIL for so many ticks at the most.
const MOST_TICKS_SINCE_SENT: u64 = 8;

/// A stop shorter than this holds no request up that matters.
const SHORTEST_STOP_NS: u64 = 1_000_000;

/// A program that does nothing for this long has no requests waiting.
const PAUSE_NS: u64 = 2_000_000;

/// A thread that worked for longer than this before a request did something else than accept and parse it.
const LONGEST_PREPARATION_NS: u64 = 1_000_000;

/// A thread that slept for less than this between two requests may as well have been kept from running.
const SHORTEST_SLEEP_NS: u64 = 200_000;

/// What lately means for the rate of requests.
const LATELY_NS: f64 = 10e9;

/// Requests whose imputed wait is remembered until they end.
const MOST_OPEN: usize = 1024;

/// How the wait of a request is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ArrivalSource {
    /// It came from no network: the program marked it by hand, and there was no wait.
    #[default]
    Inside,
    /// It came by a way that tells nothing.
    Unknown,
    /// The kernel said when its data came.
    Socket,
    /// A proxy said when it sent it.
    Proxy,
}

/// What is known about a request when the application sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// How long it has waited, in nanoseconds.
    pub(crate) wait: u64,
    /// How that is known.
    pub(crate) known: ArrivalSource,
    /// The W3C trace id; zero for none.
    pub(crate) trace: [u8; 16],
}

/// What the program's threads were doing lately.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lately {
    /// The GIL was held nearly all the time.
    pub(crate) crowded: bool,
    /// From when to when the program was stopped last.
    pub(crate) stop: (u64, u64),
    /// What the thread of the request did before.
    pub(crate) before: Before,
}

/// What a thread did before a request began in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// From when to when it served the request before this one.
    pub(crate) request: (u64, u64),
    /// Processor time that it has used since then.
    pub(crate) worked: u64,
}

impl Before {
    /// How long it took to accept and parse a request that begins now; zero where that cannot be told.
    fn preparation(&self) -> u64 {
        if self.worked <= LONGEST_PREPARATION_NS { self.worked } else { 0 }
    }

    /// The request before, where the thread has not slept since: the one that begins now was already there when it ended.
    fn without_sleep(&self, now: u64) -> Option<(u64, u64)> {
        (now.saturating_sub(self.request.1) <= self.preparation() + SHORTEST_SLEEP_NS).then_some(self.request)
    }
}

/// How long a request has waited whose data came in a tick of the kernel's clock that is known.
///
/// In a crowded program, or from the second tick on, the arrival is put into the middle of the tick. Otherwise it is put
/// into a stop, or into the request that the same thread served until now, where that fits. Where neither fits, it is put
/// as late in the tick as the time for accepting and parsing allows, so that no wait is told where there was none.
pub(crate) fn wait_of(told: LastData, lately: Lately) -> u64 {
    let LastData { ticks, tick_ns, tick_began, now } = told;
    let (earliest, latest) = match ticks.checked_sub(1) {
        None => (tick_began, now),
        Some(whole) => (
            tick_began.saturating_sub((whole + 1).saturating_mul(tick_ns)),
            tick_began.saturating_sub(whole.saturating_mul(tick_ns)),
        ),
    };
    let within = |(from, to): (u64, u64)| {
        let (from, to) = (earliest.max(from), latest.min(to));
        (from < to).then(|| from.midpoint(to))
    };
    let arrived = if ticks >= 2 || lately.crowded {
        earliest.midpoint(latest)
    } else {
        within(lately.stop)
            .or_else(|| lately.before.without_sleep(now).and_then(within))
            .unwrap_or_else(|| latest.min(now.saturating_sub(lately.before.preparation())).max(earliest))
    };
    now.saturating_sub(arrived)
}

/// How long ago the last byte of an answer was sent, in a crowded program, where that was during the request and not long
/// ago. Otherwise it has not been sent yet.
pub(crate) fn since_sent(told: LastData, served: u64) -> u64 {
    if !(1..=MOST_TICKS_SINCE_SENT).contains(&told.ticks) {
        return 0;
    }
    let since = wait_of(told, Lately { crowded: true, ..Lately::default() });
    if since < served { since } else { 0 }
}

/// How long ago a proxy sent a request, by `X-Request-Start` or `X-Queue-Start`: seconds, milliseconds, microseconds or
/// nanoseconds since 1970, with or without `t=` and a fraction.
pub(crate) fn queued(header: &[u8], unix_ns: u64) -> Option<u64> {
    let text = std::str::from_utf8(header).ok()?.trim();
    let text = text.strip_prefix("t=").unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let number: u64 = whole.parse().ok()?;
    let unit = match whole.len() {
        9..=11 => 1_000_000_000,
        12..=14 => 1_000_000,
        15..=17 => 1_000,
        18..=19 => 1,
        _ => return None,
    };
    let digits = &fraction[..fraction.len().min(9)];
    let part = if digits.is_empty() { 0 } else { digits.parse::<u64>().ok()? };
    let sent = number.checked_mul(unit)?.checked_add(part * unit / 10_u64.pow(digits.len() as u32))?;
    unix_ns.checked_sub(sent).filter(|ago| *ago <= LONGEST_QUEUE_NS)
}

/// The trace id of a `traceparent` header.
pub(crate) fn trace_id(header: &[u8]) -> Option<[u8; 16]> {
    let digits = header.get(3..35).filter(|_| header.get(2) == Some(&b'-') && header.get(35) == Some(&b'-'))?;
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    (id != [0; 16]).then_some(id)
}

/// Waits of requests that could not be measured, from the stops that they came after.
///
/// As many requests as usually come in the time of a stop have come during it, evenly, and begin in their order after it.
#[derive(Debug, Default)]
pub(crate) struct Imputation {
    stop: (u64, u64),
    /// When the program was last seen to do something.
    active: u64,
    /// How many requests have begun after the stop.
    turn: u32,
    rate: Rate,
    open: Vec<(u64, u64)>,
}

/// How many requests come in a second, lately.
#[derive(Debug, Default)]
struct Rate {
    since: u64,
    latest: u64,
    count: f64,
}

impl Rate {
    fn count(&mut self, at: u64) {
        if self.since == 0 {
            self.since = at;
        }
        self.count = self.count * (-(at.saturating_sub(self.latest) as f64) / LATELY_NS).exp() + 1.0;
        self.latest = at;
    }

    fn within(&self, span: u64) -> f64 {
        let observed = (self.latest.saturating_sub(self.since) as f64).clamp(span as f64, LATELY_NS);
        self.count * span as f64 / observed
    }
}

impl Imputation {
    /// The program was stopped.
    pub(crate) fn stopped(&mut self, began: u64, ended: u64) {
        if ended.saturating_sub(began) >= SHORTEST_STOP_NS {
            (self.stop, self.turn) = ((began, ended), 0);
        }
        self.active = self.active.max(ended);
    }

    /// A request begins; the wait that is imputed to it where its own is not known.
    pub(crate) fn begins(&mut self, at: u64, id: u64, unknown: bool) -> Option<u64> {
        let idle = at.saturating_sub(self.active);
        self.active = self.active.max(at);
        let (began, ended) = self.stop;
        let expected = self.rate.within(ended - began).max(1.0);
        self.rate.count(at);
        if idle > PAUSE_NS || f64::from(self.turn) >= expected {
            self.stop = (0, 0);
        }
        if !unknown || self.stop.1 == 0 || self.open.len() == MOST_OPEN {
            return None;
        }
        let after = (f64::from(self.turn) + 0.5) / expected;
        self.turn += 1;
        let wait = at.saturating_sub(ended) + ((1.0 - after).max(0.0) * (ended - began) as f64) as u64;
        self.open.push((id, wait));
        Some(wait)
    }

    /// A request ends; the wait that was imputed to it.
    pub(crate) fn ends(&mut self, at: u64, id: u64) -> Option<u64> {
        self.active = self.active.max(at);
        let found = self.open.iter().position(|(open, _)| *open == id)?;
        Some(self.open.swap_remove(found).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn check(ticks: u64, into_tick: u64, lately: Lately, expected_ms: f64) {
        let (tick_ns, tick_began) = (4 * MS, 1_000 * MS);
        let told = LastData { ticks, tick_ns, tick_began, now: tick_began + into_tick };
        assert_eq!(wait_of(told, lately) as f64 / MS as f64, expected_ms, "{ticks} ticks, {into_tick}, {lately:?}");
    }

    #[test]
    fn a_calm_program_has_no_waits_that_a_tick_made_up() {
        let calm = Lately::default();
        check(0, 3 * MS, calm, 0.0);
        check(1, MS / 10, calm, 0.1);
        check(3, 0, calm, 10.0);
        check(125, 2 * MS, calm, 500.0);
    }

    #[test]
    fn accepting_and_parsing_are_part_of_the_wait() {
        let after = |worked| Lately { before: Before { worked, ..Before::default() }, ..Lately::default() };
        check(0, 3 * MS, after(MS / 2), 0.5);
        check(0, MS / 4, after(MS / 2), 0.25);
        check(1, MS / 10, after(MS / 2), 0.5);
        check(1, MS, after(MS / 2), 1.0);
        check(0, 3 * MS, after(2 * MS), 0.0);
    }

    #[test]
    fn a_request_that_follows_another_without_sleep_came_during_it() {
        let after = |request, worked| Lately { before: Before { request, worked }, ..Lately::default() };
        check(1, MS, after((997 * MS, 1_001 * MS), MS / 10), 2.5);
        check(0, 3 * MS, after((999 * MS, 1_002 * MS), MS), 2.0);
        // It slept, or did something else, since then.
        check(0, 3 * MS, after((999 * MS, 1_002 * MS), MS / 10), 0.1);
        check(0, 3 * MS, after((990 * MS, 1_001 * MS), 2 * MS), 0.0);
    }

    #[test]
    fn in_a_crowded_program_the_middle_is_the_best_guess() {
        let crowded = Lately { crowded: true, ..Lately::default() };
        check(0, 3 * MS, crowded, 1.5);
        check(1, MS, crowded, 3.0);
    }

    #[test]
    fn a_stop_says_where_in_a_tick_a_request_came() {
        let stop = |from: u64, to: u64| Lately { stop: (from * MS, to * MS), ..Lately::default() };
        check(1, MS, stop(990, 998), 4.0);
        check(1, MS, stop(900, 990), 1.0);
        check(0, 3 * MS, stop(990, 1_002), 2.0);
    }

    #[test]
    fn an_answer_was_sent_during_its_request_or_not_yet() {
        let told = |ticks| LastData { ticks, tick_ns: 4 * MS, tick_began: 1_000 * MS, now: 1_001 * MS };
        assert_eq!([0, 1, 2, 100].map(|ticks| since_sent(told(ticks), 50 * MS) / MS), [0, 3, 7, 0]);
        assert_eq!(since_sent(told(2), 6 * MS), 0);
    }

    #[test]
    fn headers_of_proxies_come_in_four_units() {
        let now = 1_700_000_000_500_000_000;
        for text in
            ["t=1700000000.250", "1700000000.25", "1700000000250", "t=1700000000250000", " 1700000000250000000 "]
        {
            assert_eq!(queued(text.as_bytes(), now), Some(250 * MS), "{text}");
        }
        for text in ["", "t=", "x", "1700000001", "17", "1600000000", "1700000000.x", "99999999999999999999", "-5"] {
            assert_eq!(queued(text.as_bytes(), now), None, "{text}");
        }
    }

    #[test]
    fn trace_ids_are_those_of_the_standard() {
        let id = trace_id(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        assert_eq!(id.map(|id| (id[0], id[15])), Some((0x4b, 0x36)));
        for wrong in [
            "",
            "00-4bf9",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473x-0",
        ] {
            assert_eq!(trace_id(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn requests_right_after_a_stop_have_come_during_it() {
        let mut imputation = Imputation::default();
        (0..100).for_each(|id| _ = imputation.begins(id * 10 * MS, 100 + id, true));
        imputation.stopped(1_000 * MS, 1_100 * MS);
        let waits: Vec<_> = (0..20).filter_map(|id| imputation.begins((1_100 + id) * MS, id, true)).collect();
        let mean = waits.iter().sum::<u64>() / waits.len() as u64 / MS;
        assert!((9..=11).contains(&waits.len()) && (45..65).contains(&mean), "{waits:?}");
        assert!(waits.is_sorted_by(|one, next| one > next), "{waits:?}");
        imputation.stopped(1_120 * MS, 1_200 * MS);
        assert_eq!(imputation.begins(1_201 * MS, 20, false), None, "it is known by itself");
        assert_eq!(imputation.begins(1_220 * MS, 21, true), None, "the program had nothing to do meanwhile");
        assert_eq!(imputation.ends(1_221 * MS, 0), Some(waits[0]));
        assert_eq!(imputation.ends(1_221 * MS, 0), None);
    }
}
