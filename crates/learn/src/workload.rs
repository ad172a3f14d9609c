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

/// CPython's thresholds up to 3.13.
pub(crate) const CPYTHON_THRESHOLDS: [u32; 3] = [700, 10, 10];

impl Workload {
    /// An empty one.
    #[must_use]
    pub fn new(start: Start) -> Self {
        Self { start, counted_from: start.at, thresholds: CPYTHON_THRESHOLDS, ..Self::default() }
    }

    /// The same with requests that come once, and then wait for everything that they wait for: what the oracle can plan.
    #[must_use]
    pub fn undivided(&self) -> Self {
        let requests = self.requests.iter().map(|request| Request { visits: 1, ..*request }).collect();
        Self { requests, ..self.clone() }
    }

    /// Whether the answer to somebody counts who comes at a time.
    pub(crate) fn counts(&self, at: u64) -> bool {
        at >= self.counted_from
    }
}
