//! What is asked of a simulated program: requests, when they come, and what each of them takes.

use serde::Serialize;

/// One request. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Request {
    /// When it comes; with users who wait for their answer, how long its user thinks before.
    pub at: u64,
    /// How long it holds the interpreter.
    pub service: u64,
    /// How long it waits for others besides, the interpreter being free meanwhile.
    pub rest: u64,
    /// Net allocations of objects that the collector tracks.
    pub objects: f64,
    /// How long before that its client came: see `Workload::in_pieces`.
    pub waited: u64,
    /// Whether more of it follows.
    pub goes_on: bool,
}

/// A request that waits for others comes back to the interpreter about so often.
const PIECES: u64 = 3;

/// Who sends requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Pace {
    /// Clients that do not wait for each other: each request comes at its time.
    #[default]
    Open,
    /// So many users, each of whom waits for an answer, thinks, and asks again.
    Closed(u32),
}

/// The heap when the simulation begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Start {
    /// When it begins, since the program did; policies treat the first seconds differently.
    pub at: u64,
    /// Objects that the last full collection left.
    pub tenured: f64,
    /// Objects that have become old since.
    pub pending: f64,
}

/// Everything that is asked of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Workload {
    /// The requests, in the order in which they come.
    pub requests: Vec<Request>,
    /// Who sends them.
    pub pace: Pace,
    /// The heap at the beginning.
    pub start: Start,
    /// From when on figures count: before that the program warms up.
    pub counted_from: u64,
    /// The thresholds that the program's collector has, where no policy sets others.
    pub thresholds: [u32; 3],
}

/// When an excerpt begins, since its program did, and how long it has to settle before the first request.
const STARTED: u64 = 2_000_000_000;
const SETTLING: u64 = 1_000_000_000;

/// CPython's thresholds up to 3.13.
pub(crate) const CPYTHON_THRESHOLDS: [u32; 3] = [700, 10, 10];

impl Workload {
    /// An empty one.
    #[must_use]
    pub fn new(start: Start) -> Self {
        Self { start, counted_from: start.at, thresholds: CPYTHON_THRESHOLDS, ..Self::default() }
    }

    /// The same, with each request that waits for others in pieces: it comes back to the interpreter after each wait, and
    /// has to queue again. Pieces come when they would if nobody stood in their way.
    #[must_use]
    pub fn in_pieces(&self) -> Self {
        let mut workload = Self { requests: Vec::with_capacity(self.requests.len()), ..self.clone() };
        for request in &self.requests {
            if request.rest == 0 || self.pace != Pace::Open {
                workload.requests.push(*request);
                continue;
            }
            let (service, wait) = (request.service / PIECES, request.rest / (PIECES - 1));
            workload.requests.extend((0..PIECES).map(|piece| {
                let waited = piece * (service + wait);
                Request {
                    at: request.at + waited,
                    service,
                    rest: 0,
                    objects: request.objects / PIECES as f64,
                    waited,
                    goes_on: piece + 1 < PIECES,
                }
            }));
        }
        workload.requests.sort_by_key(|request| request.at);
        workload
    }

    /// How long requests come, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let ends = self.requests.first().zip(self.requests.last());
        ends.map_or(0.0, |(first, last)| (last.at - first.at) as f64 / 1e9)
    }

    /// Excerpts of a part of it, given as shares of its time: evenly spread, of a length, and of so long together at most.
    /// Each is like a program that has just started up: it has a moment to settle before its first request.
    #[must_use]
    pub fn excerpts(&self, (from, to): (f64, f64), length: u64, total: u64) -> Vec<Self> {
        let (Some(first), Some(last)) = (self.requests.first(), self.requests.last()) else { return Vec::new() };
        let whole = (last.at - first.at) as f64;
        let (from, to) = (first.at + (whole * from) as u64, first.at + (whole * to) as u64);
        let count = ((to - from).min(total) / length).max(1);
        let apart = (to - from) / count;
        let excerpt = |index: u64| self.excerpt(from + index * apart, from + index * apart + length.min(apart));
        (0..count).map(excerpt).filter(|excerpt| !excerpt.requests.is_empty()).collect()
    }

    fn excerpt(&self, from: u64, to: u64) -> Self {
        let start = Start { at: STARTED, pending: 0.0, ..self.start };
        let mut excerpt = Self::new(start);
        excerpt.thresholds = self.thresholds;
        excerpt.pace = self.pace;
        let inside = self.requests.iter().filter(|request| (from..to).contains(&request.at));
        let moved = |at: u64| at - from + STARTED + SETTLING;
        excerpt.requests = inside.map(|request| Request { at: moved(request.at), ..*request }).collect();
        excerpt.counted_from = STARTED + SETTLING;
        excerpt
    }

    /// Whether the answer of a request counts that comes at a time.
    pub(crate) fn counts(&self, request: &Request, at: u64) -> bool {
        !request.goes_on && at - request.waited >= self.counted_from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_as_long_as_the_whole() {
        let mut workload = Workload::new(Start::default());
        let request = Request { at: 100, service: 30, rest: 20, objects: 9.0, ..Request::default() };
        workload.requests = vec![request, Request { at: 105, service: 7, ..Request::default() }];
        let pieces = workload.in_pieces().requests;
        assert_eq!(pieces.iter().map(|piece| piece.at).collect::<Vec<_>>(), [100, 105, 120, 140]);
        assert_eq!(pieces.iter().map(|piece| piece.service).sum::<u64>(), 37);
        assert_eq!(pieces.iter().filter(|piece| !piece.goes_on).count(), 2);
        assert_eq!(pieces[3].at + pieces[3].service - pieces[3].waited, 110, "the last one knows when its client came");
    }
}
