//! Routes: a bounded list of their names, which the program's threads fill, and the figures of each.

use std::sync::OnceLock;

use neurogc_wire::buckets::Buckets;
use neurogc_wire::status::Route;

use super::spans::ms;

/// Routes that are told apart; all others are one.
pub(crate) const MOST: usize = 64;

/// What the others are called.
const OTHER: &str = "other";

/// Requests to which a framework has matched no route.
pub(crate) const NO_ROUTE: &str = "(no route)";

/// A longer name is cut.
const LONGEST: usize = 96;

/// What stands for a number or another identifier in a path.
const FOLDED: &[u8] = b"{id}";

/// The number of a route; zero is all those that found no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteId(u8);

impl RouteId {
    /// As a number, for an atomic.
    pub(crate) fn number(self) -> u8 {
        self.0
    }

    /// The route of a number that was given out.
    pub(crate) fn from_number(number: u8) -> Self {
        Self(number)
    }
}

/// A name without memory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    bytes: [u8; LONGEST],
    length: u8,
}

impl Name {
    fn new() -> Self {
        Self { bytes: [0; LONGEST], length: 0 }
    }

    fn push(&mut self, more: &[u8]) {
        let from = usize::from(self.length);
        let count = more.len().min(LONGEST - from);
        self.bytes[from..from + count].copy_from_slice(&more[..count]);
        self.length += count as u8;
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..usize::from(self.length)]).into_owned()
    }
}

/// The names. They are only ever added, without a lock and without an allocation.
#[derive(Debug)]
pub(crate) struct RouteNames {
    names: [OnceLock<Name>; MOST],
}

impl Default for RouteNames {
    fn default() -> Self {
        Self { names: std::array::from_fn(|_| OnceLock::new()) }
    }
}

impl RouteNames {
    /// The route that has this name.
    pub(crate) fn named(&self, name: &str) -> RouteId {
        let mut whole = Name::new();
        whole.push(name.as_bytes());
        self.find_or_add(&whole)
    }

    /// The route of a path that no framework has named: what looks like an identifier is folded.
    pub(crate) fn of_path(&self, path: &str) -> RouteId {
        let mut folded = Name::new();
        for (index, segment) in path.as_bytes().split(|byte| *byte == b'/').enumerate() {
            if index > 0 {
                folded.push(b"/");
            }
            folded.push(if is_identifier(segment) { FOLDED } else { segment });
        }
        self.find_or_add(&folded)
    }

    fn find_or_add(&self, wanted: &Name) -> RouteId {
        for (index, slot) in self.names.iter().enumerate() {
            if slot.get_or_init(|| *wanted) == wanted {
                return RouteId(index as u8 + 1);
            }
        }
        RouteId::default()
    }

    fn name(&self, index: usize) -> String {
        index.checked_sub(1).and_then(|index| self.names.get(index)?.get()).map_or_else(|| OTHER.to_owned(), Name::text)
    }
}

/// Whether a segment of a path is a number, a UUID or another long identifier.
fn is_identifier(segment: &[u8]) -> bool {
    let digits = segment.iter().filter(|byte| byte.is_ascii_digit()).count();
    let hexadecimal = segment.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    digits > 0
        && (digits == segment.len() || (hexadecimal && segment.len() >= 16) || (digits >= 4 && segment.len() >= 20))
}

/// The figures of one route.
#[derive(Clone, Debug, Default)]
struct Figures {
    totals: Buckets,
    waits: Buckets,
    max_ns: u64,
    gc_ns: u64,
    gc_requests: u64,
    stall_ns: u64,
}

/// The figures of all routes.
#[derive(Debug)]
pub(crate) struct Routes {
    figures: Vec<Figures>,
}

impl Default for Routes {
    fn default() -> Self {
        Self { figures: vec![Figures::default(); MOST + 1] }
    }
}

impl Routes {
    /// A request of a route has ended.
    pub(crate) fn add(&mut self, route: RouteId, total: u64, wait: u64, gc: u64, stalls: u64) {
        let figures = &mut self.figures[usize::from(route.0)];
        figures.totals.add(total, 1);
        figures.waits.add(wait, 1);
        figures.max_ns = figures.max_ns.max(total);
        figures.gc_ns += gc;
        figures.gc_requests += u64::from(gc > 0);
        figures.stall_ns += stalls;
    }

    /// A collection is told of only now that was during a request that has ended.
    pub(crate) fn collected(&mut self, route: RouteId, ns: u64) {
        self.figures[usize::from(route.0)].gc_ns += ns;
    }

    /// A stall has turned out to fall into a request that has ended.
    pub(crate) fn stalled(&mut self, route: RouteId, ns: u64) {
        self.figures[usize::from(route.0)].stall_ns += ns;
    }

    /// The name of a route.
    pub(crate) fn name(names: &RouteNames, route: RouteId) -> String {
        names.name(usize::from(route.0))
    }

    /// Those that were asked for, the most frequent first.
    pub(crate) fn report(&self, names: &RouteNames) -> Vec<Route> {
        let asked = self.figures.iter().enumerate().filter(|(_, figures)| figures.totals.count() > 0);
        let mut routes: Vec<_> = asked
            .map(|(index, figures)| {
                let quantile = |buckets: &Buckets, share| {
                    let found = buckets.quantile_ms(share).unwrap_or(0.0).min(ms(figures.max_ns));
                    (found * 1e3).round() / 1e3
                };
                Route {
                    route: names.name(index),
                    count: figures.totals.count(),
                    p50_ms: quantile(&figures.totals, 0.5),
                    p99_ms: quantile(&figures.totals, 0.99),
                    max_ms: ms(figures.max_ns),
                    wait_p50_ms: quantile(&figures.waits, 0.5),
                    wait_p99_ms: quantile(&figures.waits, 0.99),
                    gc_ms: ms(figures.gc_ns),
                    gc_requests: figures.gc_requests,
                    stall_ms: ms(figures.stall_ns),
                }
            })
            .collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.count));
        routes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &str) {
        let names = RouteNames::default();
        assert_eq!(Routes::name(&names, names.of_path(path)), expected);
    }

    #[test]
    fn identifiers_in_paths_are_folded() {
        check("/", "/");
        check("/item/42", "/item/{id}");
        check("/v1/users/7/posts/99/", "/v1/users/{id}/posts/{id}/");
        check("/o/4bf92f35-77b3-4da6-a3ce-929d0e0e4736", "/o/{id}");
        check("/blob/deadbeef00112233", "/blob/{id}");
        check("/s/user_1234567890abcdefghij", "/s/{id}");
        check("/cafe/face", "/cafe/face");
        assert_eq!(Routes::name(&RouteNames::default(), RouteId::default()), OTHER);
    }

    #[test]
    fn the_list_is_bounded() {
        let names = RouteNames::default();
        let mut routes = Routes::default();
        for number in 0..500 {
            let route = names.named(&format!("route-{}{}", number, "x".repeat(number)));
            routes.add(route, 1_000_000, 0, 0, 0);
        }
        assert_eq!(names.named("route-0"), RouteId(1));
        let report = routes.report(&names);
        assert_eq!((report.len(), report[0].route.as_str(), report[0].count), (MOST + 1, OTHER, 436));
        assert!(report.iter().all(|route| route.route.len() <= LONGEST));
    }

    #[test]
    fn figures_belong_to_their_route() {
        let names = RouteNames::default();
        let mut routes = Routes::default();
        let [slow, fast] = ["slow", "fast"].map(|name| names.named(name));
        (0..10).for_each(|_| routes.add(fast, 1_000_000, 0, 0, 0));
        routes.add(slow, 300_000_000, 200_000_000, 150_000_000, 0);
        routes.stalled(slow, 7_000_000);
        let report = routes.report(&names);
        assert_eq!((report[0].route.as_str(), report[0].count), ("fast", 10));
        assert_eq!((report[1].gc_ms, report[1].gc_requests, report[1].stall_ms), (150.0, 1, 7.0));
        assert!((report[1].wait_p99_ms - 200.0).abs() < 10.0 && report[1].p50_ms <= 300.0);
    }
}
