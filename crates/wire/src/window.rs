//! The figures of the last minutes: what happened lately, without what happened at the start.

use serde::{Deserialize, Serialize};

use crate::status::{ByCause, Cause, Latency, PauseTotals};

/// The last minutes of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Window {
    /// How long it is. It begins with the first request, or five seconds after the agent was installed.
    pub seconds: f64,
    /// Stalls.
    pub stalls: WindowStalls,
    /// Collections and other stops.
    pub gc: WindowGc,
    /// Requests.
    pub requests: WindowRequests,
}

/// Stalls of the last minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowStalls {
    /// All of them.
    pub count: u64,
    /// How many of each cause.
    pub by_cause: ByCause,
    /// How long those of each cause lasted together.
    pub time_ms_by_cause: TimeByCause,
    /// The places where they happened, the longest total first; at most ten for each cause.
    pub sites: Vec<StallSite>,
}

/// Milliseconds of stalls by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the causes are described at `Cause`")]
pub struct TimeByCause {
    pub gc: f64,
    pub gil_native: f64,
    pub python: f64,
    pub cpu_starved: f64,
    pub unknown: f64,
}

impl TimeByCause {
    /// The time of one cause.
    #[must_use]
    pub fn of(&self, cause: Cause) -> f64 {
        match cause {
            Cause::Gc => self.gc,
            Cause::GilNative => self.gil_native,
            Cause::Python => self.python,
            Cause::CpuStarved => self.cpu_starved,
            Cause::Unknown => self.unknown,
        }
    }

    /// Sets the time of one cause.
    pub fn set(&mut self, cause: Cause, ms: f64) {
        *match cause {
            Cause::Gc => &mut self.gc,
            Cause::GilNative => &mut self.gil_native,
            Cause::Python => &mut self.python,
            Cause::CpuStarved => &mut self.cpu_starved,
            Cause::Unknown => &mut self.unknown,
        } = ms;
    }

    /// The time of all causes.
    #[must_use]
    pub fn total(&self) -> f64 {
        Cause::ALL.iter().map(|cause| self.of(*cause)).sum()
    }
}

/// Stalls of one cause at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StallSite {
    /// Their cause.
    pub cause: Cause,
    /// The place; empty where it is not known.
    pub site: String,
    /// How many.
    pub count: u64,
    /// How long they lasted together.
    pub total_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// When the longest began, in seconds since the agent was installed.
    pub at_s: f64,
    /// What kind of stop the longest was; empty where it was no collection.
    pub stop: String,
    /// How many objects that stop dealt with; zero where it is not known.
    pub objects: u64,
}

/// Stops of the last minutes by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowGc {
    /// Full collections, wherever they happened.
    pub full: PauseTotals,
    /// While a request was being served.
    pub in_request: PauseTotals,
    /// While no request was being served, but requests arrived and waited.
    pub in_gap_arrivals: PauseTotals,
    /// While no request was being served, and none waited.
    pub in_gap: PauseTotals,
    /// Ordered by a guard.
    pub forced: PauseTotals,
}

/// Requests of the last minutes: the latency from arrival to last byte, and its two parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowRequests {
    /// How many ended.
    pub count: u64,
    /// From arrival to last byte.
    pub total: Latency,
    /// From arrival to the call of the application.
    pub wait: Latency,
    /// From the call of the application to the last byte.
    pub service: Latency,
}
