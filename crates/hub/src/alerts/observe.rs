//! Which conditions hold: rules and the latest figures of processes in, sightings out.

use std::collections::{BTreeMap, BTreeSet};

use neurogc_wire::buckets::Buckets;
use neurogc_wire::finding::Finding;

use super::measure::{Percentile, ProcessMeasures};
use super::report::{AlertDetails, AlertProcess, AlertUnit};
use super::rule::{AlertCondition, AlertRule};
use super::state::{AlertKey, Sighting, shown};
use super::words::{size, time};
use crate::facts::{ProcessFacts, cut};

/// A firing alert stays until its figure is better than the threshold by this share.
const NEAR: f64 = 0.9;
const NEAR_CONFIDENCE: f64 = 0.1;

/// Processes that are looked for after their end, and for how long.
const MOST_ABSENT: usize = 5000;
const ABSENT_MS: u64 = 86_400_000;

/// Findings of one process that are looked at: the most important come first.
const MOST_FINDINGS: usize = 32;

/// Bytes of a text that is a part of an alert's name.
const LONGEST_SUBJECT: usize = 200;

/// What a process says now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched<'p> {
    pub(super) facts: &'p ProcessFacts,
    pub(super) findings: &'p [Finding],
    pub(super) rss: u64,
    pub(super) limit: Option<u64>,
    pub(super) latency: &'p Buckets,
}

/// What there is to be told.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) sightings: Vec<Sighting>,
    /// Conditions that cannot be judged yet, because the process has not been watched for long enough.
    pub(super) unmeasured: BTreeSet<AlertKey>,
    /// The processes that there are, and those that are looked for.
    pub(super) present: BTreeSet<String>,
}

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Observer {
    measures: BTreeMap<String, ProcessMeasures>,
    /// Who has been there, by host, service and role, and when.
    roster: BTreeMap<String, (AlertProcess, u64)>,
}

impl Observer {
    /// Looks at all processes.
    pub(super) fn look(&mut self, rules: &[AlertRule], processes: &[Watched<'_>], now_ms: u64) -> Observed {
        let mut observed = Observed::default();
        observed.present.extend(processes.iter().map(|process| process.facts.id.clone()));
        self.measures.retain(|id, _| observed.present.contains(id));
        for process in processes {
            let measures = self.measures.entry(process.facts.id.clone()).or_default();
            for rule in rules.iter().filter(|rule| rule.is_about(process.facts)) {
                match sightings(rule, *process, measures, now_ms) {
                    Some(found) => observed.sightings.extend(found),
                    None => {
                        observed.unmeasured.insert(key(rule, process.facts, String::new()));
                    }
                }
            }
        }
        self.look_for_absent(rules, processes, now_ms, &mut observed);
        observed
    }

    fn look_for_absent(
        &mut self,
        rules: &[AlertRule],
        processes: &[Watched<'_>],
        now_ms: u64,
        observed: &mut Observed,
    ) {
        let rules: Vec<_> = rules.iter().filter(|rule| rule.condition == AlertCondition::Gone).collect();
        for process in processes.iter().filter(|process| rules.iter().any(|rule| rule.is_about(process.facts))) {
            let name = place(process.facts);
            if self.roster.contains_key(&name) || self.roster.len() < MOST_ABSENT {
                self.roster.insert(name, (AlertProcess::of(process.facts), now_ms));
            }
        }
        self.roster.retain(|_, (_, seen_ms)| now_ms.saturating_sub(*seen_ms) < ABSENT_MS);
        observed.present.extend(self.roster.keys().cloned());
        for (name, (process, seen_ms)) in self.roster.iter().filter(|(_, (_, seen_ms))| *seen_ms < now_ms) {
            let facts = ProcessFacts {
                service: process.service.clone(),
                host: process.host.clone(),
                command: process.command.clone(),
                ..ProcessFacts::default()
            };
            for rule in rules.iter().filter(|rule| rule.is_about(&facts)) {
                let text = format!(
                    "the process has been gone for {}, and no other one of its service and role has come",
                    time((now_ms - seen_ms) as f64)
                );
                observed.sightings.push(Sighting {
                    key: AlertKey { rule: rule.name.clone(), process: name.clone(), subject: String::new() },
                    holds: true,
                    process: process.clone(),
                    details: AlertDetails { text, ..AlertDetails::default() },
                });
            }
        }
    }
}

/// What stays the same when a process is replaced.
fn place(facts: &ProcessFacts) -> String {
    format!("{}/{}/{}", facts.host, facts.service, facts.role)
}

fn key(rule: &AlertRule, facts: &ProcessFacts, subject: String) -> AlertKey {
    AlertKey { rule: rule.name.clone(), process: facts.id.clone(), subject }
}

/// What a rule sees of a process; `None` where that cannot be said yet.
fn sightings(
    rule: &AlertRule,
    process: Watched<'_>,
    measures: &mut ProcessMeasures,
    now_ms: u64,
) -> Option<Vec<Sighting>> {
    let sighting = |subject: String, holds, details| Sighting {
        key: key(rule, process.facts, subject),
        holds,
        process: AlertProcess::of(process.facts),
        details,
    };
    let one = |holds, details| vec![sighting(String::new(), holds, details)];
    Some(match &rule.condition {
        AlertCondition::Finding { kinds, confidence } => {
            let mut found: Vec<Sighting> = Vec::new();
            for finding in process.findings.iter().take(MOST_FINDINGS) {
                let near = finding.confidence >= confidence - NEAR_CONFIDENCE;
                if !near || !kinds.iter().any(|kind| kind.covers(finding.kind)) {
                    continue;
                }
                let sighting = sighting(subject(finding), finding.confidence >= *confidence, of_finding(finding));
                // Findings come with the most important first: a second one of the same name adds nothing.
                if found.iter().all(|other| other.key != sighting.key) {
                    found.push(sighting);
                }
            }
            found
        }
        AlertCondition::Growth { bytes_h, over_ms } => {
            let (rate, is_measured) = growth(process, measures, now_ms, *over_ms);
            if rate < bytes_h * NEAR {
                return is_measured.then(Vec::new);
            }
            let text = format!("memory grows by {}/h; it is {} now", size(rate), size(process.rss as f64));
            one(rate >= *bytes_h, with_leak(process, text, rate, AlertUnit::BytesPerHour))
        }
        AlertCondition::LimitIn { ms, over_ms } => {
            let (rate, is_measured) = growth(process, measures, now_ms, *over_ms);
            let Some(limit) = process.limit else { return Some(Vec::new()) };
            if rate <= 0.0 {
                return is_measured.then(Vec::new);
            }
            let left_s = limit.saturating_sub(process.rss) as f64 / rate * 3600.0;
            let most_s = *ms as f64 / 1e3;
            if left_s > most_s / NEAR {
                return is_measured.then(Vec::new);
            }
            let text = format!(
                "the memory limit of {} is reached in {} at {}/h; memory is {} now",
                size(limit as f64),
                shown(left_s, AlertUnit::SecondsLeft),
                size(rate),
                size(process.rss as f64)
            );
            one(left_s < most_s, with_leak(process, text, left_s, AlertUnit::SecondsLeft))
        }
        AlertCondition::P99 { ms, over_ms } => match measures.p99(now_ms, *over_ms, process.latency) {
            Percentile::TooEarly => return None,
            Percentile::Is(p99) if p99 > ms * NEAR => {
                let while_ = time(*over_ms as f64);
                let text = format!("p99 of the last {while_} is {}; it may be {}", time(p99), time(*ms));
                let details =
                    AlertDetails { text, value: Some(p99), unit: AlertUnit::Milliseconds, ..with_trouble(process) };
                one(p99 > *ms, details)
            }
            _ => Vec::new(),
        },
        AlertCondition::Gone => Vec::new(),
    })
}

/// How fast memory grows: as the hub has measured, or as the agent says of a leak that it is sure of, which is sooner. And
/// whether the hub has measured it.
fn growth(process: Watched<'_>, measures: &mut ProcessMeasures, now_ms: u64, over_ms: u64) -> (f64, bool) {
    let measured = measures.growth(now_ms, over_ms, process.rss);
    // A leak on a GPU is none of the host's memory.
    let of_host = |finding: &&Finding| finding.is_alarm() && !finding.kind.is_of_gpu();
    let leaks = process.findings.iter().filter(of_host).filter(|finding| finding.rate_bytes_h > 0.0);
    let rate = leaks.map(|finding| finding.rate_bytes_h).chain(measured).reduce(f64::max);
    (rate.unwrap_or(0.0), measured.is_some())
}

fn subject(finding: &Finding) -> String {
    let name = format!("{}/{}", finding.kind.name(), finding.holder);
    cut(name.trim_end_matches('/'), LONGEST_SUBJECT).to_owned()
}

fn of_finding(finding: &Finding) -> AlertDetails {
    const LONGEST: usize = 1000;
    let cut = |text: &str| cut(text, LONGEST).to_owned();
    AlertDetails {
        text: cut(&finding.text),
        kind: finding.kind.name().to_owned(),
        certainty: finding.certainty().to_owned(),
        holder: cut(&finding.holder),
        site: cut(&finding.site),
        advice: cut(&finding.advice),
        doc: cut(&finding.doc),
        value: (finding.rate_bytes_h > 0.0).then_some(finding.rate_bytes_h),
        unit: AlertUnit::BytesPerHour,
    }
}

/// A figure of memory, with the leak that explains it where the agent has found one.
fn with_leak(process: Watched<'_>, text: String, value: f64, unit: AlertUnit) -> AlertDetails {
    let leak = process.findings.iter().find(|finding| finding.is_alarm());
    let text = leak.map_or_else(|| text.clone(), |leak| format!("{text}. {}", leak.text));
    let details = leak.map(of_finding).unwrap_or_default();
    // The name of the alert has no finding in it: one that comes later is no change of the alert.
    AlertDetails {
        text,
        value: Some(value),
        unit,
        kind: String::new(),
        certainty: String::new(),
        holder: String::new(),
        ..details
    }
}

/// The place and the advice of what held the program up, where the agent knows.
fn with_trouble(process: Watched<'_>) -> AlertDetails {
    let trouble = process.findings.iter().find(|finding| finding.kind.is_trouble() && !finding.kind.is_of_memory());
    let AlertDetails { site, advice, doc, .. } = trouble.map(of_finding).unwrap_or_default();
    AlertDetails { site, advice, doc, ..AlertDetails::default() }
}

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
