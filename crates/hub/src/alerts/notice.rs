//! A message about an alert: as JSON for programs, as text for people.

use serde::Serialize;
use serde_json::json;

use super::report::{AlertDetails, AlertProcess, AlertReport, AlertState};

/// What has happened to an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AlertEvent {
    Firing,
    Changed,
    Resolved,
    Test,
}

/// One message.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AlertNotice {
    pub(super) event: AlertEvent,
    /// When, in milliseconds since 1970.
    t: u64,
    /// What has changed, or why it is over.
    pub(super) changes: Vec<String>,
    pub(super) alert: AlertReport,
}

impl AlertNotice {
    pub(super) fn new(event: AlertEvent, alert: AlertReport, changes: Vec<String>, t: u64) -> Self {
        Self { event, t, changes, alert }
    }

    /// A message that tests a channel.
    pub(super) fn test(t: u64) -> Self {
        let host = crate::peer::host_name();
        let alert = AlertReport {
            id: "test".to_owned(),
            rule: "test".to_owned(),
            state: AlertState::Firing,
            process: AlertProcess { host, ..AlertProcess::default() },
            details: AlertDetails {
                text: "this is a test of the channel; nothing is the matter".to_owned(),
                ..AlertDetails::default()
            },
            since_ms: t,
            fired_ms: Some(t),
            resolved_ms: None,
            changes: 0,
        };
        Self::new(AlertEvent::Test, alert, Vec::new(), t)
    }

    /// The message as JSON.
    pub(super) fn json(&self) -> String {
        crate::hub::to_text(self)
    }

    /// The message in the form of Slack's incoming webhooks.
    pub(super) fn slack(&self) -> String {
        let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let mut lines = self.lines().into_iter();
        let mut text = format!("*{}*", escaped(&lines.next().unwrap_or_default()));
        for line in lines {
            text.push('\n');
            text.push_str(&escaped(&line));
        }
        json!({ "text": text }).to_string()
    }

    /// The message as one line.
    pub(super) fn line(&self) -> String {
        // Texts of a program may hold anything, and a log has one line for each message.
        self.lines().join("; ").replace(char::is_control, " ")
    }

    fn lines(&self) -> Vec<String> {
        let AlertReport { rule, process, details, .. } = &self.alert;
        let head = match self.event {
            AlertEvent::Firing => format!("{rule}: {}", process.shown()),
            AlertEvent::Changed => format!("{rule} changed: {}", process.shown()),
            AlertEvent::Resolved => format!("{rule} resolved: {}", process.shown()),
            AlertEvent::Test => format!("NeuroGC test alert from {}", process.host),
        };
        let mut lines = vec![head];
        lines.extend(self.changes.iter().cloned());
        let said = if self.event == AlertEvent::Resolved { "it was: " } else { "" };
        lines.push(format!("{said}{}", details.text));
        if self.event != AlertEvent::Resolved {
            lines.extend((!details.site.is_empty()).then(|| format!("where: {}", details.site)));
            lines.extend((!details.advice.is_empty()).then(|| format!("what to do: {}", details.advice)));
        }
        lines
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn notice(event: AlertEvent) -> AlertNotice {
        let mut notice = AlertNotice::test(7);
        notice.event = event;
        notice.alert.rule = "leak".to_owned();
        notice.alert.process =
            AlertProcess { service: "shop".to_owned(), pid: 42, host: "a".to_owned(), ..AlertProcess::default() };
        notice.alert.details.text = "<dict> & list grow".to_owned();
        notice.alert.details.site = "a.py:3".to_owned();
        notice
    }

    #[test]
    fn people_read_lines() {
        assert_eq!(
            notice(AlertEvent::Firing).line(),
            "leak: shop (process 42 on a); <dict> & list grow; where: a.py:3"
        );
        let mut resolved = notice(AlertEvent::Resolved);
        resolved.changes.push("the process\nhas ended".to_owned());
        assert_eq!(
            resolved.line(),
            "leak resolved: shop (process 42 on a); the process has ended; it was: <dict> & list grow"
        );
        let slack: serde_json::Value = serde_json::from_str(&notice(AlertEvent::Changed).slack()).unwrap();
        assert_eq!(
            slack["text"],
            "*leak changed: shop (process 42 on a)*\n&lt;dict&gt; &amp; list grow\nwhere: a.py:3"
        );
    }

    #[test]
    fn programs_read_json() {
        let told: serde_json::Value = serde_json::from_str(&notice(AlertEvent::Firing).json()).unwrap();
        assert_eq!((&told["event"], &told["t"], &told["alert"]["rule"]), (&json!("firing"), &json!(7), &json!("leak")));
        assert_eq!((&told["alert"]["process"]["pid"], &told["alert"]["site"]), (&json!(42), &json!("a.py:3")));
    }
}
