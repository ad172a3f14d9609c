//! What happened in a process, as the API tells it.

use neurogc_wire::trace::{Place, Record};
use serde::Serialize;

/// One event. `t` is in milliseconds since 1970, or whatever the epoch was that the records count from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Event {
    /// When it began.
    pub(crate) t: f64,
    /// What it was.
    #[serde(flatten)]
    pub(crate) what: What,
}

/// The kinds of events; docs/api.md describes their fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum What {
    Collection {
        class: &'static str,
        what: &'static str,
        place: &'static str,
        ms: f64,
        collected: u64,
        uncollectable: u64,
    },
    Stall {
        ms: f64,
        cause: &'static str,
        site: String,
    },
    Order {
        guard: bool,
        what: String,
        reason: String,
    },
    Dropped {
        count: u64,
    },
    Policy {
        before: String,
        after: String,
    },
}

/// The first word of an order that tells of another policy, and what stands between both.
const POLICY: &str = "policy";
const TO: &str = " → ";

impl Event {
    /// The event that a record tells of, if it is one. `epoch_ms` is the moment that records count from.
    #[must_use]
    pub(crate) fn of(record: &Record, epoch_ms: f64) -> Option<Self> {
        let what = match record {
            Record::Collection { pause, generation, place, collected, uncollectable, .. } => What::Collection {
                class: class(*generation, *place),
                what: kind(*generation),
                place: place.name(),
                ms: ms(*pause),
                collected: *collected,
                uncollectable: *uncollectable,
            },
            Record::Stall { duration, cause, site, .. } => {
                What::Stall { ms: ms(*duration), cause: cause.name(), site: site.clone() }
            }
            Record::Order { guard, text, .. } => order(*guard, text),
            Record::Dropped { count, .. } => What::Dropped { count: *count },
            _ => return None,
        };
        Some(Self { t: epoch_ms + (record.at() as f64 / 1e3).round() / 1e3, what })
    }

    /// How long it lasted, for kinds that last.
    #[must_use]
    pub(crate) fn ms(&self) -> Option<f64> {
        match &self.what {
            What::Collection { ms, .. } | What::Stall { ms, .. } => Some(*ms),
            _ => None,
        }
    }

    /// The name of its kind.
    #[must_use]
    pub(crate) fn kind(&self) -> &'static str {
        match &self.what {
            What::Collection { .. } => "collection",
            What::Stall { .. } => "stall",
            What::Order { .. } => "order",
            What::Dropped { .. } => "dropped",
            What::Policy { .. } => POLICY,
        }
    }
}

/// The names of all kinds.
pub(crate) const KINDS: [&str; 5] = ["collection", "stall", "order", "dropped", POLICY];

/// The record by which the hub notes that a policy has changed.
#[must_use]
pub(crate) fn policy_change(at: u64, before: &str, after: &str) -> Record {
    Record::Order { at, guard: false, text: format!("{POLICY}: {before}{TO}{after}") }
}

fn order(guard: bool, text: &str) -> What {
    let (what, reason) = text.split_once(": ").unwrap_or((text, ""));
    match reason.split_once(TO) {
        Some((before, after)) if what == POLICY => What::Policy { before: before.to_owned(), after: after.to_owned() },
        _ => What::Order { guard, what: what.to_owned(), reason: reason.to_owned() },
    }
}

/// What a collection is called, by the number that stands for it in records.
#[must_use]
pub(crate) fn kind(generation: u8) -> &'static str {
    ["young", "middle", "full", "reap", "clone"].get(usize::from(generation)).copied().unwrap_or("unknown")
}

fn class(generation: u8, place: Place) -> &'static str {
    if generation < 3 { place.name() } else { kind(generation) }
}

fn ms(ns: u64) -> f64 {
    (ns as f64 / 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(record: Record, expect: serde_json::Value) {
        let event = Event::of(&record, 1000.0);
        assert_eq!(serde_json::to_value(event).unwrap_or_default(), expect);
    }

    #[test]
    fn records_become_events() {
        let collection = |generation, place| Record::Collection {
            at: 2_500_000,
            pause: 1_250_000,
            generation,
            place,
            collected: 3,
            uncollectable: 0,
        };
        check(
            collection(0, Place::InGap),
            json!({"t": 1002.5, "kind": "collection", "class": "in_gap", "what": "young", "place": "in_gap", "ms": 1.25,
                   "collected": 3, "uncollectable": 0}),
        );
        check(
            collection(4, Place::InRequest),
            json!({"t": 1002.5, "kind": "collection", "class": "clone", "what": "clone", "place": "in_request",
                   "ms": 1.25, "collected": 3, "uncollectable": 0}),
        );
        check(
            Record::Order { at: 0, guard: true, text: "full: memory is near its ceiling".to_owned() },
            json!({"t": 1000.0, "kind": "order", "guard": true, "what": "full", "reason": "memory is near its ceiling"}),
        );
        check(
            policy_change(0, "observe", "gap"),
            json!({"t": 1000.0, "kind": "policy", "before": "observe", "after": "gap"}),
        );
        check(Record::RequestEnd { at: 0, id: 1 }, json!(null));
    }
}
