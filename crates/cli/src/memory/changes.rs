//! What changed from one look at a process's memory to the next, in lines: for `neurogc memory PID --watch`.

use std::time::Duration;

use neurogc_wire::breakdown::MemoryReport;
use neurogc_wire::finding::Finding;
use neurogc_wire::memory_verdict::MemoryVerdict;

use crate::figures::{change, plain, span};

/// A part of the breakdown that has changed by less is not told.
const LEAST: i64 = 64 * 1024;

/// What is compared of one look.
#[derive(Clone, Debug)]
pub(crate) struct Looked {
    /// Since the watch began.
    pub(crate) at: Duration,
    pub(crate) verdict: MemoryVerdict,
    pub(crate) memory: Option<MemoryReport>,
}

/// The lines: memory first, then findings that came, became surer or less sure, and went.
pub(crate) fn between(first: &Looked, before: &Looked, now: &Looked) -> Vec<String> {
    let mut lines = vec![memory(first, before, now)];
    let findings = |looked: &Looked| looked.verdict.findings.iter().map(|it| it.finding.clone()).collect::<Vec<_>>();
    let (old, new) = (findings(before), findings(now));
    let of = |list: &[Finding], wanted: &Finding| list.iter().find(|it| is_same(it, wanted)).cloned();
    for it in &new {
        match of(&old, it) {
            None => lines.push(format!("new: {}", plain(&it.text))),
            Some(old) if old.certainty() != it.certainty() => {
                let text = plain(&it.text);
                lines.push(format!("{} now, {} before: {text}", it.certainty(), old.certainty()));
            }
            Some(_) => {}
        }
    }
    let gone = old.iter().filter(|it| of(&new, it).is_none());
    lines.extend(gone.map(|it| format!("not any more: {}", plain(&it.text))));
    lines
}

/// The same kind of finding on the same thing, with whatever figures.
fn is_same(one: &Finding, other: &Finding) -> bool {
    one.kind == other.kind && one.holder == other.holder
}

fn memory(first: &Looked, before: &Looked, now: &Looked) -> String {
    let resident = |looked: &Looked| looked.memory.as_ref().map_or(looked.verdict.rss, |memory| memory.rss);
    let grown = |one: &Looked| change(differ(resident(now), resident(one)));
    let since = |one: &Looked| span((now.at.saturating_sub(one.at)).as_secs_f64().round());
    let mut text = format!("resident {} in {}", grown(before), since(before));
    if let (Some(old), Some(new)) = (&before.memory, &now.memory) {
        let parts = old.breakdown.parts().into_iter().zip(new.breakdown.parts());
        let parts = parts.map(|((name, old), (_, new))| (name, differ(new, old)));
        let told = parts.filter(|(_, by)| by.abs() >= LEAST).map(|(name, by)| format!("{name} {}", change(by)));
        let told: Vec<_> = told.collect();
        if !told.is_empty() {
            text.push_str(&format!(" ({})", told.join(", ")));
        }
    }
    if first.at != before.at {
        text.push_str(&format!("; {} in {} of watching", grown(first), since(first)));
    }
    text
}

/// The difference of two sizes.
fn differ(now: u64, before: u64) -> i64 {
    i64::try_from(i128::from(now) - i128::from(before)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use neurogc_wire::breakdown::Breakdown;
    use neurogc_wire::finding::FindingKind;
    use neurogc_wire::memory_verdict::ExplainedFinding;

    use super::*;

    const MB: u64 = 1 << 20;

    fn looked(at: u64, rss: u64, findings: &[(FindingKind, &str, f64)]) -> Looked {
        let findings = findings.iter().map(|(kind, holder, confidence)| ExplainedFinding {
            finding: Finding {
                kind: *kind,
                holder: (*holder).to_owned(),
                confidence: *confidence,
                text: format!("{} {holder}.", kind.name()),
                ..Finding::default()
            },
            ..ExplainedFinding::default()
        });
        let breakdown = Breakdown { python_used: rss - 10 * MB, other: 10 * MB, ..Breakdown::default() };
        Looked {
            at: Duration::from_secs(at),
            verdict: MemoryVerdict { rss, findings: findings.collect(), ..MemoryVerdict::default() },
            memory: Some(MemoryReport { rss, breakdown, ..MemoryReport::default() }),
        }
    }

    #[test]
    fn what_came_went_and_grew_is_told() {
        use FindingKind::{Plateau, TooEarly, UnboundedCache, UnboundedContainer};
        let first = looked(0, 100 * MB, &[(TooEarly, "", 1.0)]);
        let before = looked(60, 120 * MB, &[(UnboundedContainer, "app.seen", 0.7), (Plateau, "app.log", 0.8)]);
        let now = looked(65, 123 * MB, &[(UnboundedContainer, "app.seen", 0.95), (UnboundedCache, "app.cache", 0.7)]);
        assert_eq!(
            between(&first, &before, &now),
            [
                "resident +3.0 MiB in 5 s (Python objects +3.0 MiB); +23.0 MiB in 1 m 05 s of watching",
                "certain now, likely before: unbounded_container app.seen.",
                "new: unbounded_cache app.cache.",
                "not any more: plateau app.log.",
            ]
        );
    }

    #[test]
    fn nothing_new_is_one_line() {
        let looks = [looked(0, 100 * MB, &[]), looked(5, 100 * MB, &[])];
        assert_eq!(between(&looks[0], &looks[0], &looks[1]), ["resident ±0 B in 5 s"]);
    }
}
