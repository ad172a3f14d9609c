//! The verdict on a process's memory, with the series behind each finding: the answer to `neurogc memory PID`.

use serde::{Deserialize, Serialize};

use crate::finding::Finding;

/// What is the matter with the memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryVerdict {
    /// Process id.
    pub pid: u32,
    /// For how long it has been watched, in seconds.
    pub watched_s: f64,
    /// Resident memory now.
    pub rss: u64,
    /// How it grows, where it does.
    pub growth: Option<Rate>,
    /// The limit of memory that holds, and when it is reached at this rate; none where there is no limit.
    pub limit: Option<MemoryLimit>,
    /// What is the matter, the most important first. There is always one.
    pub findings: Vec<ExplainedFinding>,
}

/// How fast something grows in an hour, with bounds where there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Rate {
    pub per_hour: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// A limit, and how long it lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// In how many seconds it is reached at the present rate; none where nothing grows.
    pub reached_in_s: Option<f64>,
    /// The earliest and the latest that the bounds of the rate allow.
    pub earliest_s: Option<f64>,
    /// See `earliest_s`.
    pub latest_s: Option<f64>,
}

/// A finding and what it rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedFinding {
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// The series that it was made from, the most telling first.
    pub evidence: Vec<EvidenceSeries>,
}

/// One series behind a finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvidenceSeries {
    /// What is counted: `resident memory`, `entries of app.cache`.
    pub what: String,
    /// What it counts in: `bytes`, or a word.
    pub unit: String,
    /// What the series looks like, in a few words.
    pub shape: String,
    /// How it grows.
    pub growth: Rate,
    /// The latest value.
    pub now: f64,
    /// The length of the window that the shape is of, in seconds.
    pub seconds: f64,
    /// Seconds since the agent was installed, and the value then.
    pub points: Vec<(f64, f64)>,
}

/// What figures of memory were some time ago, and what they are now: from the series that the agent keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryChange {
    /// How long ago the compared moment is, in seconds. It is the nearest one that is kept.
    pub ago_s: f64,
    /// For how long the process has been watched, in seconds.
    pub watched_s: f64,
    /// Figures of the whole process.
    pub process: Vec<FigureThenAndNow>,
    /// Containers that a census has counted, by name: entries. Those that changed most come first.
    pub containers: Vec<FigureThenAndNow>,
    /// Types: objects. Those that changed most come first.
    pub types: Vec<FigureThenAndNow>,
}

/// One figure then and now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FigureThenAndNow {
    /// What is counted.
    pub what: String,
    /// `bytes`, or a word.
    pub unit: String,
    /// The value then; none where it was not followed yet.
    pub before: Option<f64>,
    /// The latest value.
    pub now: f64,
}

impl FigureThenAndNow {
    /// By how much it has changed.
    #[must_use]
    pub fn change(&self) -> Option<f64> {
        self.before.map(|before| self.now - before)
    }
}
