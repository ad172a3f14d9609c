//! What is the matter with a process, as the first lines of a report.

use neurogc_diagnose::{Evidence, diagnose};
use neurogc_wire::finding::{Finding, FindingKind};
use neurogc_wire::status::Status;

use crate::figures::{change, plain, span};

/// What the agent found; an older agent leaves the conclusion to us.
pub(crate) fn findings(status: &Status) -> Vec<Finding> {
    if status.findings.is_empty() { diagnose(&Evidence::from(status)) } else { status.findings.clone() }
}

/// A finding and what to do about it, in one line.
pub(crate) fn line(finding: &Finding) -> String {
    let (text, advice) = (plain(&finding.text), plain(&finding.advice));
    if advice.is_empty() { text } else { format!("{text} {advice}") }
}

/// A process is watched for this long before anything is said about its memory.
const EARLY_S: f64 = 120.0;

/// The most important finding on memory.
fn of_memory(status: &Status) -> Option<&Finding> {
    status.findings.iter().find(|finding| finding.kind.is_leak())
}

/// The verdict on memory in one line, and whether it is an alarm.
pub(crate) fn memory(status: &Status) -> (FindingKind, String) {
    match of_memory(status) {
        Some(finding) => (
            if finding.is_alarm() { finding.kind } else { FindingKind::Growing },
            format!("Memory: {}", plain(&finding.text)),
        ),
        None if status.uptime_s < EARLY_S => {
            let watched = span(status.uptime_s);
            (FindingKind::TooEarly, format!("Memory: watched for {watched}, too short to tell whether it leaks."))
        }
        None => (FindingKind::Nothing, "Memory: no leak is known.".to_owned()),
    }
}

/// The same in a word or two, for a list.
pub(crate) fn memory_in_brief(status: &Status) -> String {
    match of_memory(status) {
        Some(finding) if !finding.is_alarm() => "perhaps leaks".to_owned(),
        Some(finding) if !finding.kind.is_growth() => "fragmented".to_owned(),
        Some(finding) if finding.rate_bytes_h >= 1.0 => {
            format!("leaks {}/h", change(finding.rate_bytes_h as i64).trim_start_matches('+'))
        }
        Some(_) => "leaks".to_owned(),
        None if status.uptime_s < EARLY_S => "-".to_owned(),
        None => "no leak".to_owned(),
    }
}

/// The length of the window as a heading has it.
pub(crate) fn lately(status: &Status) -> String {
    let seconds = status.window.seconds;
    if seconds >= 285.0 { "last 5 minutes".to_owned() } else { format!("last {}", span(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: FindingKind, confidence: f64, rate_bytes_h: f64, brief: &str, shown: FindingKind) {
        let text = "Leak, likely: app.seen grows.".to_owned();
        let finding = Finding { kind, confidence, rate_bytes_h, text, ..Finding::default() };
        let status = Status { uptime_s: 600.0, findings: vec![Finding::default(), finding], ..Status::default() };
        assert_eq!(memory_in_brief(&status), brief);
        assert_eq!(memory(&status), (shown, "Memory: Leak, likely: app.seen grows.".to_owned()));
    }

    #[test]
    fn the_verdict_on_memory_is_brief_in_lists() {
        use FindingKind::{ArenaExplosion, Descriptors, Growing, UnboundedContainer};
        check(UnboundedContainer, 0.95, 98.0 * 1048576.0, "leaks 98.0 MiB/h", UnboundedContainer);
        check(UnboundedContainer, 0.5, 98.0, "perhaps leaks", Growing);
        check(Descriptors, 0.7, 0.0, "leaks", Descriptors);
        check(ArenaExplosion, 0.9, 0.0, "fragmented", ArenaExplosion);
    }

    #[test]
    fn no_leak_is_said_when_there_was_time_to_see_one() {
        let status = |uptime_s: f64| Status { uptime_s, ..Status::default() };
        assert_eq!(memory(&status(600.0)).1, "Memory: no leak is known.");
        assert_eq!(memory_in_brief(&status(600.0)), "no leak");
        assert_eq!(memory(&status(9.0)).1, "Memory: watched for 9 s, too short to tell whether it leaks.");
        assert_eq!(memory_in_brief(&status(9.0)), "-");
    }
}
