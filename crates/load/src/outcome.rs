//! What came of a drive: latencies by part and by second, failures, and how well the generator itself kept up.

use std::time::Duration;

use crate::latencies::Latencies;

/// Sends that are later than this at the 99th percentile are the generator's fault, and its figures doubtful.
const LATE: f64 = 1.0;

/// Requests that were not answered as they should have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// No connection could be made.
    pub refused: u64,
    /// The connection broke or ended under the request.
    pub broken: u64,
    /// What came was no HTTP answer.
    pub garbage: u64,
    /// The answer's status was not 2xx or 3xx.
    pub status: u64,
}

impl Failures {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.refused + self.broken + self.garbage + self.status
    }
}

/// One part of a drive.
#[derive(Clone, Debug, Default)]
pub struct PartOutcome {
    /// What the plan calls it.
    pub name: String,
    /// How long it was planned to last.
    pub lasts: Duration,
    /// Latencies of the requests that were meant to be sent in it.
    pub latencies: Latencies,
    /// Requests that were meant to be sent in it.
    pub sent: u64,
    /// Answers that came while it lasted, whenever they were asked for.
    pub answered: u64,
    /// Requests of it that failed.
    pub failures: Failures,
    /// Requests of it that were never answered. They are among the latencies with the time that they had waited.
    pub unanswered: u64,
    /// Requests of it that found every connection busy and were not sent, where the plan says so.
    pub shed: u64,
    /// How late the generator picked up requests that were due: its own fault, unlike all else.
    pub lateness: Latencies,
}

impl PartOutcome {
    /// Answers in a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.answered as f64 / self.lasts.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// What the generator says where it could not keep up.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let late = self.lateness.at_ms(0.99);
        (late > LATE).then(|| format!("the generator could not keep up: sends were {late:.1} ms late at p99"))
    }
}

/// One second of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Answers that came in it.
    pub answered: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// The middle one of the latencies of its answers.
    pub p50_ms: f64,
    /// The 99th percentile of them.
    pub p99_ms: f64,
    /// The longest of them.
    pub max_ms: f64,
}

/// A whole drive.
#[derive(Clone, Debug, Default)]
pub struct LoadOutcome {
    /// Its parts, in the order of the plan.
    pub parts: Vec<PartOutcome>,
    /// Its seconds, without what came after the last part.
    pub seconds: Vec<Second>,
    /// The most connections that were open at once.
    pub connections: usize,
    /// Whether it was ended before its time.
    pub stopped: bool,
}

impl LoadOutcome {
    /// The part of this name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&PartOutcome> {
        self.parts.iter().find(|part| part.name == name)
    }
}
