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
    /// How often it comes to the interpreter, with waits between and its work shared out evenly; none is one.
    pub visits: u32,
}

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

    /// How long requests come, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let times = self.times();
        times.first().zip(times.last()).map_or(0.0, |(first, last)| (last - first) as f64 / 1e9)
    }

    /// When each request comes, as far as that is known: those of users who wait for their answers come when all before
    /// them have been served.
    fn times(&self) -> Vec<u64> {
        let mut clock = self.start.at;
        let users = match self.pace {
            Pace::Open => return self.requests.iter().map(|request| request.at).collect(),
            Pace::Closed(users) => u64::from(users.max(1)),
        };
        let next = |request: &Request| {
            clock += (request.at + request.service + request.rest) / users;
            clock
        };
        self.requests.iter().map(next).collect()
    }

    /// Excerpts of a part of it, given as shares of its time: evenly spread, of a length, and of so long together at most.
    /// Each is like a program that has just started up: it has a moment to settle before its first request.
    #[must_use]
    pub fn excerpts(&self, (from, to): (f64, f64), length: u64, total: u64) -> Vec<Self> {
        let times = self.times();
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
        let whole = (last - first) as f64;
        let (from, to) = (first + (whole * from) as u64, first + (whole * to) as u64);
        let count = ((to - from).min(total) / length).max(1);
        let apart = (to - from) / count;
        let excerpt = |index: u64| self.excerpt(&times, from + index * apart, from + index * apart + length.min(apart));
        (0..count).map(excerpt).filter(|excerpt| !excerpt.requests.is_empty()).collect()
    }

    fn excerpt(&self, times: &[u64], from: u64, to: u64) -> Self {
        let start = Start { at: STARTED, pending: 0.0, ..self.start };
        let mut excerpt = Self::new(start);
        excerpt.thresholds = self.thresholds;
        excerpt.pace = self.pace;
        let inside = self.requests.iter().zip(times).filter(|(_, time)| (from..to).contains(time));
        let moved = |request: &Request| match self.pace {
            Pace::Open => request.at - from + STARTED + SETTLING,
            Pace::Closed(_) => request.at,
        };
        excerpt.requests = inside.map(|(request, _)| Request { at: moved(request), ..*request }).collect();
        excerpt.counted_from = STARTED + SETTLING;
        excerpt
    }

    /// Whether a request that comes at this time counts.
    pub(crate) fn counts(&self, at: u64) -> bool {
        at >= self.counted_from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_of_a_loop_are_steps_of_it() {
        let mut workload = Workload { pace: Pace::Closed(1), ..Workload::new(Start::default()) };
        workload.requests = vec![Request { at: 17, service: 3, ..Request::default() }; 100];
        let excerpts = workload.excerpts((0.5, 1.0), 200, 400);
        assert_eq!(excerpts.iter().map(|excerpt| excerpt.requests.len()).collect::<Vec<_>>(), [10, 10]);
        assert!(excerpts.iter().flat_map(|excerpt| &excerpt.requests).all(|request| request.at == 17));
    }
}
