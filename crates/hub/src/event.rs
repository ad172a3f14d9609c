//! What happened in a process, as the API tells it.

use neurogc_wire::status::Cause;
use neurogc_wire::stop::StopKind;
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
        class: PauseClass,
        what: &'static str,
        place: &'static str,
        ms: f64,
        collected: u64,
        uncollectable: u64,
        order: Option<u64>,
    },
    Stall {
        ms: f64,
        cause: Cause,
        site: String,
    },
    Order {
        id: u64,
        guard: bool,
        what: &'static str,
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

impl Event {
    /// The event that a record tells of, if it is one. `epoch_ms` is the moment that records count from.
    #[must_use]
    pub(crate) fn of(record: &Record, epoch_ms: f64) -> Option<Self> {
        let what = match record {
            Record::Collection { pause, kind, place, collected, uncollectable, order, .. } => What::Collection {
                class: class(*kind, *place),
                what: kind.name(),
                place: place.name(),
                ms: ms(*pause),
                collected: *collected,
                uncollectable: *uncollectable,
                order: *order,
            },
            Record::Stall { duration, cause, site, .. } => {
                What::Stall { ms: ms(*duration), cause: *cause, site: site.clone() }
            }
            Record::Order { id, guard, what, reason, .. } => {
                What::Order { id: *id, guard: *guard, what: what.name(), reason: reason.clone() }
            }
            Record::Policy { before, after, .. } => What::Policy { before: before.clone(), after: after.clone() },
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
            What::Policy { .. } => "policy",
        }
    }
}

/// The names of all kinds.
pub(crate) const KINDS: [&str; 5] = ["collection", "stall", "order", "dropped", "policy"];

/// What a collection is coloured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PauseClass {
    InRequest,
    InGap,
    Forced,
    Clone,
    Reap,
}

/// The pauses of a snapshot go by what they are, all others by where they fell. A stop that requests waited for is one of
/// theirs, whenever they came.
fn class(kind: StopKind, place: Place) -> PauseClass {
    match (kind, place) {
        (StopKind::Clone, _) => PauseClass::Clone,
        (StopKind::Reap, _) => PauseClass::Reap,
        (_, Place::InRequest | Place::InGapArrivals) => PauseClass::InRequest,
        (_, Place::InGap) => PauseClass::InGap,
        (_, Place::Forced) => PauseClass::Forced,
    }
}

fn ms(ns: u64) -> f64 {
    (ns as f64 / 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use neurogc_wire::trace::OrderKind;
    use serde_json::json;

    use super::*;

    fn check(record: Record, expect: serde_json::Value) {
        let event = Event::of(&record, 1000.0);
        assert_eq!(serde_json::to_value(event).unwrap_or_default(), expect);
    }

    #[test]
    fn records_become_events() {
        let collection = |kind, place, order| Record::Collection {
            at: 2_500_000,
            pause: 1_250_000,
            kind,
            place,
            collected: 3,
            uncollectable: 0,
            order,
        };
        check(
            collection(StopKind::Young, Place::InGap, None),
            json!({"t": 1002.5, "kind": "collection", "class": "in_gap", "what": "young", "place": "in_gap", "ms": 1.25,
                   "collected": 3, "uncollectable": 0, "order": null}),
        );
        check(
            collection(StopKind::Clone, Place::InRequest, Some(7)),
            json!({"t": 1002.5, "kind": "collection", "class": "clone", "what": "clone", "place": "in_request",
                   "ms": 1.25, "collected": 3, "uncollectable": 0, "order": 7}),
        );
        check(
            Record::Order {
                at: 0,
                id: 7,
                guard: true,
                what: OrderKind::Full,
                reason: "near: its → ceiling".to_owned(),
            },
            json!({"t": 1000.0, "kind": "order", "id": 7, "guard": true, "what": "full", "reason": "near: its → ceiling"}),
        );
        check(
            Record::Policy { at: 0, before: "observe".to_owned(), after: "gap".to_owned() },
            json!({"t": 1000.0, "kind": "policy", "before": "observe", "after": "gap"}),
        );
        check(Record::RequestEnd { at: 0, id: 1 }, json!(null));
    }
}
