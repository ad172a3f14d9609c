//! Which alerts fire, change and end. The time is an argument, and what is told is an answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::notice::{AlertEvent, AlertNotice};
use super::observe::Observed;
use super::report::{AlertDetails, AlertProcess, AlertReport, AlertState, AlertUnit};
use super::rule::AlertRule;
use super::words::{size, time};

/// Alerts at once, and those that have ended and are still shown.
const MOST_ALERTS: usize = 1000;
const MOST_RESOLVED: usize = 100;

/// At most one change of an alert is told in this time.
pub(super) const CHANGE_EVERY_MS: u64 = 10 * 60_000;

/// After a restart of the hub, processes that had an alert are waited for this long.
const REUNION_MS: u64 = 150_000;

/// What makes two alerts the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct AlertKey {
    pub(super) rule: String,
    pub(super) process: String,
    /// The kind and the holder of a finding; empty for other conditions.
    pub(super) subject: String,
}

/// A condition that holds, or that is so near to it that a firing alert stays.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    pub(super) key: AlertKey,
    pub(super) holds: bool,
    pub(super) process: AlertProcess,
    pub(super) details: AlertDetails,
}

/// One alert.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct AlertEntry {
    /// Its name for as long as it lasts, also when what holds the memory is found later.
    id: String,
    process: AlertProcess,
    details: AlertDetails,
    since_ms: u64,
    fired_ms: Option<u64>,
    /// Since when the condition has not held any more.
    over_ms: Option<u64>,
    /// What was told last, and when.
    told: AlertDetails,
    told_ms: u64,
    changes: u64,
    /// The process has been there since the hub started.
    #[serde(skip)]
    met: bool,
}

/// All alerts.
#[derive(Debug, Default)]
pub(super) struct AlertBook {
    entries: BTreeMap<AlertKey, AlertEntry>,
    resolved: VecDeque<AlertReport>,
    dropped: u64,
}

impl AlertBook {
    /// Takes in what is so now. The answer is what is to be told.
    pub(super) fn step(&mut self, rules: &[AlertRule], observed: Observed, now_ms: u64) -> Vec<AlertNotice> {
        let Observed { sightings, unmeasured, present } = observed;
        let mut notices = Vec::new();
        let seen: BTreeSet<_> = sightings.iter().map(|sighting| sighting.key.clone()).collect();
        for sighting in sightings {
            let Some(rule) = rules.iter().find(|rule| rule.name == sighting.key.rule) else { continue };
            self.name_unnamed(&sighting, &seen);
            notices.extend(self.take(rule, sighting, now_ms));
        }
        let mut ended = Vec::new();
        for (key, entry) in &mut self.entries {
            let is_present = present.contains(&key.process);
            entry.met |= is_present;
            if seen.contains(key) {
                continue;
            }
            if entry.fired_ms.is_none() {
                ended.push((key.clone(), ""));
                continue;
            }
            if is_present && unmeasured.contains(key) {
                entry.over_ms = None;
                continue;
            }
            let over_ms = *entry.over_ms.get_or_insert(now_ms);
            let rule = rules.iter().find(|rule| rule.name == key.rule);
            let patience = rule.map_or(0, |rule| rule.clear_ms);
            if !is_present && !entry.met {
                if now_ms >= over_ms + REUNION_MS {
                    ended.push((key.clone(), "the process has ended"));
                }
            } else if !is_present {
                ended.push((key.clone(), "the process has ended"));
            } else if now_ms >= over_ms + patience {
                ended.push((key.clone(), "it does not hold any more"));
            }
        }
        notices.extend(ended.into_iter().filter_map(|(key, why)| self.end(&key, why, now_ms)));
        notices
    }

    /// Ends the alerts of rules that are not in force any more.
    pub(super) fn forget_rules(&mut self, in_force: impl Fn(&str) -> bool, now_ms: u64) -> Vec<AlertNotice> {
        let ended: Vec<_> = self.entries.keys().filter(|key| !in_force(&key.rule)).cloned().collect();
        ended.iter().filter_map(|key| self.end(key, "its rule was changed or removed", now_ms)).collect()
    }

    fn take(&mut self, rule: &AlertRule, sighting: Sighting, now_ms: u64) -> Option<AlertNotice> {
        let Sighting { key, holds, process, details } = sighting;
        let full = self.entries.len() >= MOST_ALERTS;
        if !self.entries.contains_key(&key) {
            if !holds {
                return None;
            }
            if full {
                self.dropped += 1;
                return None;
            }
        }
        if !holds && self.entries[&key].fired_ms.is_none() {
            self.entries.remove(&key);
            return None;
        }
        let entry = self.entries.entry(key.clone()).or_insert_with(|| AlertEntry {
            id: id(&key, now_ms),
            process: process.clone(),
            details: AlertDetails::default(),
            since_ms: now_ms,
            fired_ms: None,
            over_ms: None,
            told: AlertDetails::default(),
            told_ms: 0,
            changes: 0,
            met: true,
        });
        (entry.process, entry.details, entry.over_ms, entry.met) = (process, details, None, true);
        if entry.fired_ms.is_none() {
            if now_ms < entry.since_ms + rule.for_ms {
                return None;
            }
            (entry.fired_ms, entry.told, entry.told_ms) = (Some(now_ms), entry.details.clone(), now_ms);
            return Some(AlertNotice::new(AlertEvent::Firing, report(&key, entry, None), Vec::new(), now_ms));
        }
        if now_ms < entry.told_ms + CHANGE_EVERY_MS {
            return None;
        }
        let changes = changes(&entry.told, &entry.details);
        if changes.is_empty() {
            return None;
        }
        (entry.told, entry.told_ms) = (told_now(&entry.told, &entry.details), now_ms);
        entry.changes += 1;
        Some(AlertNotice::new(AlertEvent::Changed, report(&key, entry, None), changes, now_ms))
    }

    /// What holds the memory may be found later than the growth itself: that is a change of an alert, and no other one.
    fn name_unnamed(&mut self, sighting: &Sighting, seen: &BTreeSet<AlertKey>) {
        let key = &sighting.key;
        if sighting.details.holder.is_empty() || self.entries.contains_key(key) {
            return;
        }
        let unnamed = self.entries.iter().find(|(other, entry)| {
            other.rule == key.rule
                && other.process == key.process
                && !entry.told.kind.is_empty()
                && entry.told.holder.is_empty()
                && !seen.contains(other)
        });
        if let Some(unnamed) = unnamed.map(|(other, _)| other.clone())
            && let Some(entry) = self.entries.remove(&unnamed)
        {
            self.entries.insert(key.clone(), entry);
        }
    }

    fn end(&mut self, key: &AlertKey, why: &str, now_ms: u64) -> Option<AlertNotice> {
        let entry = self.entries.remove(key)?;
        entry.fired_ms?;
        let report = report(key, &entry, Some(now_ms));
        self.resolved.push_front(report.clone());
        self.resolved.truncate(MOST_RESOLVED);
        Some(AlertNotice::new(AlertEvent::Resolved, report, vec![why.to_owned()], now_ms))
    }

    /// Those that there are.
    pub(super) fn reports(&self) -> Vec<AlertReport> {
        self.entries.iter().map(|(key, entry)| report(key, entry, None)).collect()
    }

    /// Those that have ended, the last one first.
    pub(super) fn resolved(&self) -> Vec<AlertReport> {
        self.resolved.iter().cloned().collect()
    }

    /// Alerts that there was no room for.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Those that were told and are not over, to be kept over a restart of the hub.
    pub(super) fn to_text(&self) -> String {
        let firing: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.fired_ms.is_some()).collect();
        crate::hub::to_text(&firing)
    }

    /// What was kept. Another text is the same as none.
    pub(super) fn from_text(text: &str) -> Self {
        let entries: Vec<(AlertKey, AlertEntry)> = serde_json::from_str(text).unwrap_or_default();
        Self { entries: entries.into_iter().take(MOST_ALERTS).collect(), ..Self::default() }
    }
}

fn id(key: &AlertKey, since_ms: u64) -> String {
    let AlertKey { rule, process, subject } = key;
    if subject.is_empty() {
        format!("{rule}/{process}@{since_ms}")
    } else {
        format!("{rule}/{process}/{subject}@{since_ms}")
    }
}

fn report(key: &AlertKey, entry: &AlertEntry, resolved_ms: Option<u64>) -> AlertReport {
    let state = match (resolved_ms, entry.fired_ms) {
        (Some(_), _) => AlertState::Resolved,
        (None, Some(_)) => AlertState::Firing,
        (None, None) => AlertState::Pending,
    };
    AlertReport {
        id: entry.id.clone(),
        rule: key.rule.clone(),
        state,
        process: entry.process.clone(),
        details: entry.details.clone(),
        since_ms: entry.since_ms,
        fired_ms: entry.fired_ms,
        resolved_ms,
        changes: entry.changes,
    }
}

/// A change by this factor is told.
const WORSE: f64 = 2.0;

/// What has changed since something was told, in words, as far as it is worth a message.
fn changes(told: &AlertDetails, now: &AlertDetails) -> Vec<String> {
    let mut changes = Vec::new();
    if told.kind != now.kind {
        changes.push(format!("the finding is now {} (it was {})", now.kind, told.kind));
    }
    if told.holder.is_empty() && !now.holder.is_empty() {
        changes.push(format!("what holds the memory is known: {}", now.holder));
    }
    if told.site.is_empty() && !now.site.is_empty() {
        changes.push(format!("the line is known: {}", now.site));
    }
    if certainty(&now.certainty) > certainty(&told.certainty) {
        changes.push(format!("it is {} now (it was {})", now.certainty, told.certainty));
    }
    if is_worse(told, now) {
        let shown = |details: &AlertDetails| details.value.map_or("unknown".to_owned(), |it| shown(it, details.unit));
        changes.push(format!("{} now (it was {})", shown(now), shown(told)));
    }
    changes
}

/// What has been told after a change: the worst figures so far, so that one that goes up and down is not told again.
fn told_now(told: &AlertDetails, now: &AlertDetails) -> AlertDetails {
    let mut merged = now.clone();
    if certainty(&told.certainty) > certainty(&now.certainty) {
        merged.certainty.clone_from(&told.certainty);
    }
    if now.site.is_empty() {
        merged.site.clone_from(&told.site);
    }
    if !is_worse(told, now) {
        merged.value = told.value;
    }
    merged
}

fn is_worse(told: &AlertDetails, now: &AlertDetails) -> bool {
    match (told.value, now.value) {
        (Some(told), Some(value)) if now.unit == AlertUnit::SecondsLeft => value * WORSE <= told,
        (Some(told), Some(value)) => value >= told * WORSE,
        _ => false,
    }
}

fn certainty(word: &str) -> u8 {
    match word {
        "certain" => 2,
        "likely" => 1,
        _ => 0,
    }
}

/// A value in words.
pub(super) fn shown(value: f64, unit: AlertUnit) -> String {
    match unit {
        AlertUnit::BytesPerHour => format!("{}/h", size(value)),
        AlertUnit::Milliseconds => time(value),
        AlertUnit::SecondsLeft => time(value * 1e3),
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
