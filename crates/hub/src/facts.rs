//! Who a process is: what stays the same for as long as it lives, or nearly.

use neurogc_wire::report::Report;
use neurogc_wire::status::Status;
use serde::Serialize;

/// A process as the hub knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ProcessFacts {
    /// The same for as long as the process lives, also over restarts of the hub.
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) command: String,
    /// The service that it belongs to, and what it is in it.
    pub(crate) service: String,
    pub(crate) role: String,
    pub(crate) python: String,
    pub(crate) neurogc: String,
    pub(crate) policy: String,
    pub(crate) started_ms: u64,
}

/// Longer texts are cut: they come from outside.
const LONGEST_NAME: usize = 64;
const LONGEST_TEXT: usize = 1000;

/// The beginning of a text, of at most so many bytes.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The id of the process that reports.
pub(crate) fn id_of(report: &Report) -> String {
    let plain = |it: char| if it.is_ascii_alphanumeric() || "._-".contains(it) { it } else { '_' };
    let host: String = report.host.chars().take(LONGEST_NAME).map(plain).collect();
    let host = if host.is_empty() { "unnamed" } else { &host };
    format!("{host}-{}-{}", report.pid, report.started_unix_ms)
}

impl ProcessFacts {
    /// What a report says about its process.
    pub(crate) fn of(id: &str, report: &Report, status: &Status) -> Self {
        let cut = |text: &str| cut(text, LONGEST_TEXT).to_owned();
        Self {
            id: id.to_owned(),
            host: cut(&report.host),
            pid: report.pid,
            command: cut(&status.command),
            service: cut(&status.service),
            role: cut(&status.role),
            python: cut(&status.python),
            neurogc: cut(&status.neurogc),
            policy: cut(&status.policy),
            started_ms: report.started_unix_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_letters() {
        assert_eq!((cut("abc", 9), cut("abc", 2), cut("aé", 2), cut("", 0)), ("abc", "ab", "a", ""));
    }

    #[test]
    fn an_id_can_stand_in_a_path() {
        let report = Report { host: "a/b c".to_owned(), pid: 7, started_unix_ms: 9, ..Report::default() };
        assert_eq!(id_of(&report), "a_b_c-7-9");
        assert_eq!(id_of(&Report::default()), "unnamed-0-0");
    }
}
