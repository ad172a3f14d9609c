//! Alerts as the API, messages and commands tell them.

use serde::{Deserialize, Serialize};

use crate::facts::ProcessFacts;

/// The state of alerts: the answer of `/api/v1/alerts`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct AlertsReport {
    /// Whether the hub was started with rules.
    pub(crate) enabled: bool,
    /// Where the rules are; empty where there are none.
    pub(crate) file: String,
    /// Why the file as it is now is not used; the rules that were read before are in force.
    pub(crate) file_error: Option<String>,
    pub(crate) rules: Vec<RuleReport>,
    pub(crate) channels: Vec<ChannelReport>,
    /// Those that fire, and those that will if their condition holds for long enough.
    pub(crate) alerts: Vec<AlertReport>,
    /// The latest that have ended, the last one first.
    pub(crate) resolved: Vec<AlertReport>,
    /// Alerts that there was no room for.
    pub(crate) dropped: u64,
}

/// A rule.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RuleReport {
    pub(crate) name: String,
    /// What must be so, in words.
    pub(crate) condition: String,
    /// The channels that are told.
    pub(crate) to: Vec<String>,
    pub(crate) firing: usize,
}

/// A channel, without its secrets.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChannelReport {
    pub(crate) name: String,
    /// What it is, with the host of a webhook or the program of a command.
    pub(crate) what: String,
    pub(crate) sent: u64,
    /// Messages that did not arrive after all attempts.
    pub(crate) failed: u64,
    /// Messages that there was no room for.
    pub(crate) dropped: u64,
    pub(crate) waiting: usize,
    pub(crate) last_error: Option<String>,
}

/// Whether an alert is told already, or over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AlertState {
    Pending,
    Firing,
    Resolved,
}

/// One alert.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AlertReport {
    pub(crate) id: String,
    pub(crate) rule: String,
    pub(crate) state: AlertState,
    pub(crate) process: AlertProcess,
    #[serde(flatten)]
    pub(crate) details: AlertDetails,
    /// Since when the condition has held.
    pub(crate) since_ms: u64,
    /// When it was told.
    pub(crate) fired_ms: Option<u64>,
    pub(crate) resolved_ms: Option<u64>,
    /// How often a change was told.
    pub(crate) changes: u64,
}

/// The process that an alert is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AlertProcess {
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) service: String,
    pub(crate) role: String,
    pub(crate) command: String,
}

impl AlertProcess {
    pub(super) fn of(facts: &ProcessFacts) -> Self {
        Self {
            id: facts.id.clone(),
            host: facts.host.clone(),
            pid: facts.pid,
            service: facts.service.clone(),
            role: facts.role.clone(),
            command: facts.command.clone(),
        }
    }

    /// The process in a few words.
    pub(super) fn shown(&self) -> String {
        match (self.service.as_str(), self.role.as_str()) {
            ("", _) => format!("process {} on {}", self.pid, self.host),
            (service, "" | "main") => format!("{service} (process {} on {})", self.pid, self.host),
            (service, role) => format!("{service}, {role} (process {} on {})", self.pid, self.host),
        }
    }
}

/// What an alert says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AlertDetails {
    /// What is the matter, as a sentence.
    pub(crate) text: String,
    /// The kind of the finding; empty where it is none.
    pub(crate) kind: String,
    /// `certain`, `likely` or `possible`; empty where it is no finding.
    pub(crate) certainty: String,
    pub(crate) holder: String,
    pub(crate) site: String,
    pub(crate) advice: String,
    /// The page of the documentation.
    pub(crate) doc: String,
    /// What the rule measures: bytes per hour, milliseconds of a percentile, or seconds until the limit.
    pub(crate) value: Option<f64>,
    pub(crate) unit: AlertUnit,
}

/// The unit of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AlertUnit {
    #[default]
    BytesPerHour,
    Milliseconds,
    SecondsLeft,
}
