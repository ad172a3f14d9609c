//! A rule: which processes it is about, what must be so, and for how long.

use neurogc_wire::finding::FindingKind;

use super::words::{size, time};
use crate::facts::ProcessFacts;

/// One rule of the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlertRule {
    pub(super) name: String,
    pub(super) condition: AlertCondition,
    /// The condition must hold for this long before the alert is told, and be over for this long before it ends.
    pub(super) for_ms: u64,
    pub(super) clear_ms: u64,
    pub(super) service: Option<NamePattern>,
    pub(super) host: Option<NamePattern>,
    pub(super) command: Option<NamePattern>,
    /// Names of channels.
    pub(super) to: Vec<String>,
}

/// What must be so.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AlertCondition {
    /// The agent has a finding of one of these kinds, at least this sure.
    Finding { kinds: Vec<AlertKind>, confidence: f64 },
    /// Resident memory grows by so many bytes in an hour, measured over a while.
    Growth { bytes_h: f64, over_ms: u64 },
    /// The memory limit is reached in less than this, at the rate measured over a while.
    LimitIn { ms: u64, over_ms: u64 },
    /// The 99th percentile of the requests of a while is longer than this.
    P99 { ms: f64, over_ms: u64 },
    /// A process has gone, and none of the same service and role has come.
    Gone,
}

/// A kind of finding that a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlertKind {
    /// Every kind of leak.
    Leak,
    Only(FindingKind),
}

impl AlertKind {
    pub(super) fn covers(self, kind: FindingKind) -> bool {
        match self {
            Self::Leak => kind.is_leak(),
            Self::Only(only) => only == kind,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Leak => "leak",
            Self::Only(kind) => kind.name(),
        }
    }
}

impl AlertRule {
    /// Whether it is about this process.
    pub(super) fn is_about(&self, facts: &ProcessFacts) -> bool {
        let fits = |pattern: &Option<NamePattern>, text: &str| pattern.as_ref().is_none_or(|it| it.fits(text));
        fits(&self.service, &facts.service) && fits(&self.host, &facts.host) && fits(&self.command, &facts.command)
    }

    /// The rule in words.
    pub(super) fn shown(&self) -> String {
        format!("{}: {}; to {}", self.name, self.condition_shown(), self.to.join(", "))
    }

    /// The condition in words.
    pub(super) fn condition_shown(&self) -> String {
        let condition = match &self.condition {
            AlertCondition::Finding { kinds, confidence } => {
                let kinds: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
                format!("a finding of kind {} with a confidence of at least {confidence}", kinds.join(", "))
            }
            AlertCondition::Growth { bytes_h, over_ms } => {
                format!("memory grows by more than {}/h, measured over {}", size(*bytes_h), time(*over_ms as f64))
            }
            AlertCondition::LimitIn { ms, over_ms } => format!(
                "the memory limit is reached in less than {}, measured over {}",
                time(*ms as f64),
                time(*over_ms as f64)
            ),
            AlertCondition::P99 { ms, over_ms } => {
                format!("p99 of the last {} over {}", time(*over_ms as f64), time(*ms))
            }
            AlertCondition::Gone => "a process has gone and is not replaced".to_owned(),
        };
        if self.for_ms == 0 { condition } else { format!("{condition}, for {}", time(self.for_ms as f64)) }
    }
}

/// A text in which `*` stands for any letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamePattern(pub(super) String);

impl NamePattern {
    fn fits(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters() {
        let fits = |pattern: &str, text: &str| NamePattern(pattern.to_owned()).fits(text);
        for (pattern, text) in [("shop", "shop"), ("*", ""), ("*", "x"), ("sh*", "shop"), ("*op", "shop")] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        assert!(fits("*gunicorn*shop:app*", "/usr/bin/gunicorn -w 4 shop:app --x") && fits("a*b*c", "a-b-b-c"));
        for (pattern, text) in [("shop", "shops"), ("sh*", "ash"), ("*op", "ops"), ("a*a", "a"), ("a*b*c", "acb")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
