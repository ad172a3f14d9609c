//! What is the matter with a process: findings, each a sentence with its number, its place and the next step.

use serde::{Deserialize, Serialize};

/// One finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// What kind it is.
    pub kind: FindingKind,
    /// How sure it is, from 0 to 1.
    pub confidence: f64,
    /// What is the matter, as a sentence for a person.
    pub text: String,
    /// What holds the memory; empty where the finding is not about memory that something holds.
    pub holder: String,
    /// Where in the code; empty where it is no single place.
    pub site: String,
    /// How fast memory grows, in bytes per hour; zero where the finding is not about growth.
    pub rate_bytes_h: f64,
    /// What to do next; empty where nothing is to be done.
    pub advice: String,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Nothing held the program up.
    #[default]
    Nothing,
    /// It has not been watched for long enough.
    TooEarly,
    /// Garbage collections held it up.
    Gc,
    /// Native code that held the GIL did.
    GilNative,
    /// Python code that ran on without giving way did.
    Python,
    /// CPU starvation.
    CpuStarved,
    /// It was held up and the cause could not be told.
    Unknown,
    /// Requests waited although nothing held the program up: more came than it serves.
    Queueing,
    /// The heap is larger than its goal.
    MemoryOverGoal,
    /// The agent cannot do everything here.
    Degraded,
}

impl FindingKind {
    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::TooEarly => "too_early",
            Self::Gc => "gc",
            Self::GilNative => "gil_native",
            Self::Python => "python",
            Self::CpuStarved => "cpu_starved",
            Self::Unknown => "unknown",
            Self::Queueing => "queueing",
            Self::MemoryOverGoal => "memory_over_goal",
            Self::Degraded => "degraded",
        }
    }

    /// Whether it says that something is the matter with the program.
    #[must_use]
    pub fn is_trouble(self) -> bool {
        !matches!(self, Self::Nothing | Self::TooEarly | Self::Degraded)
    }
}
