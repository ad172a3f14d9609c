//! What is the matter with a process: evidence in, findings out.
//!
//! Nothing here reads a clock, opens a file or starts a thread, so the same evidence gives the same findings in the agent,
//! in the command, in a hub and in tests. A new subject is a part of [`Evidence`], a file that looks at it, and a call in
//! [`diagnose`].

#![forbid(unsafe_code)]

pub mod gpu;
pub mod growth;
pub mod leaks;
mod memory;
mod requests;
mod sites;
mod stalls;
mod words;

use neurogc_wire::finding::{Finding, FindingKind};
use neurogc_wire::status::{Bound, Status};
use neurogc_wire::window::Window;

/// A window shorter than this says nothing.
const LEAST_S: f64 = 2.0;

/// What is known about a process. A part that is missing leads to no finding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Process id, for the commands that are advised.
    pub pid: u32,
    /// The figures of the last minutes.
    pub window: Option<Window>,
    /// The policy in force.
    pub policy: Option<PolicyInForce>,
    /// How large the heap may get.
    pub bound: Option<Bound>,
    /// What does not work here.
    pub degraded: Vec<String>,
}

/// A policy, and whether it does anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyInForce {
    /// As people are shown it: `auto (gap)`.
    pub shown: String,
    /// Whether it decides when to collect, or only watches.
    pub acts: bool,
}

impl From<&Status> for Evidence {
    fn from(status: &Status) -> Self {
        Self {
            pid: status.pid,
            window: Some(status.window.clone()),
            policy: Some(PolicyInForce { shown: status.policy_shown(), acts: status.conduct.acting }),
            bound: Some(status.bound),
            degraded: status.degraded.clone(),
        }
    }
}

/// What is the matter, the most important first. The first one is the verdict; there is always one.
#[must_use]
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &evidence.window {
        Some(window) if window.seconds >= LEAST_S => {
            findings.extend(stalls::look(evidence, window));
            findings.extend(requests::look(window, &findings));
            if findings.is_empty() {
                findings.push(nothing(window));
            }
        }
        Some(window) => findings.push(too_early(window)),
        None => {}
    }
    findings.extend(evidence.bound.as_ref().and_then(memory::look));
    findings.extend(degraded(&evidence.degraded));
    findings
}

fn nothing(window: &Window) -> Finding {
    let lasted = words::window(window.seconds);
    let stalls = window.stalls.count;
    let longest = window.stalls.sites.iter().map(|site| site.max_ms).fold(0.0, f64::max);
    let text = match stalls {
        0 => format!("Nothing held this program up in the last {lasted}."),
        1 => {
            format!("Nothing held this program up for long in the last {lasted}: one stall of {}.", words::ms(longest))
        }
        _ => {
            let (stalls, longest) = (words::count(stalls), words::ms(longest));
            format!(
                "Nothing held this program up for long in the last {lasted}: {stalls} stalls, the longest {longest}."
            )
        }
    };
    Finding { kind: FindingKind::Nothing, confidence: 0.9, text, ..Finding::default() }
}

fn too_early(window: &Window) -> Finding {
    let text = if window.seconds > 0.0 {
        format!("Too early to tell: there are figures of {:.0} s only.", window.seconds)
    } else {
        "Too early to tell: the program has just started.".to_owned()
    };
    let advice = "Ask again in a few seconds.".to_owned();
    Finding { kind: FindingKind::TooEarly, confidence: 1.0, text, advice, ..Finding::default() }
}

fn degraded(reasons: &[String]) -> Option<Finding> {
    let first = reasons.first()?;
    let text = match reasons.len() {
        1 => format!("One thing does not work here: {first}."),
        many => format!("{many} things do not work here, the first: {first}."),
    };
    let advice = "`neurogc doctor` says what is needed.".to_owned();
    Some(Finding { kind: FindingKind::Degraded, confidence: 1.0, text, advice, ..Finding::default() })
}

#[cfg(test)]
mod tests;
