//! What is the matter with a process, as the first lines of a report.

use neurogc_diagnose::{Evidence, diagnose};
use neurogc_wire::finding::{Finding, FindingKind};
use neurogc_wire::status::Status;

use crate::figures::{plain, span};

/// What the agent found; an older agent leaves the conclusion to us.
pub(crate) fn findings(status: &Status) -> Vec<Finding> {
    if status.findings.is_empty() { diagnose(&Evidence::from(status)) } else { status.findings.clone() }
}

/// A finding and what to do about it, in one line.
pub(crate) fn line(finding: &Finding) -> String {
    let (text, advice) = (plain(&finding.text), plain(&finding.advice));
    if advice.is_empty() { text } else { format!("{text} {advice}") }
}

/// The verdict in one line.
pub(crate) fn first(status: &Status) -> (FindingKind, String) {
    findings(status).first().map_or((FindingKind::TooEarly, String::new()), |finding| (finding.kind, line(finding)))
}

/// The length of the window as a heading has it.
pub(crate) fn lately(status: &Status) -> String {
    let seconds = status.window.seconds;
    if seconds >= 285.0 { "last 5 minutes".to_owned() } else { format!("last {}", span(seconds)) }
}
