//! What is told of alerts, step by step, and for any steps.

use proptest::prelude::*;

use super::*;
use crate::alerts::rule::{AlertCondition, AlertKind};

const MINUTE: u64 = 60_000;

fn rule(name: &str, for_ms: u64, clear_ms: u64) -> AlertRule {
    AlertRule {
        name: name.to_owned(),
        condition: AlertCondition::Finding { kinds: vec![AlertKind::Leak], confidence: 0.6 },
        for_ms,
        clear_ms,
        service: None,
        host: None,
        command: None,
        to: vec!["log".to_owned()],
    }
}

fn details(kind: &str, holder: &str, certainty: &str, rate: f64) -> AlertDetails {
    AlertDetails {
        kind: kind.to_owned(),
        holder: holder.to_owned(),
        certainty: certainty.to_owned(),
        value: Some(rate),
        ..AlertDetails::default()
    }
}

fn sighting(subject: &str, holds: bool, details: AlertDetails) -> Sighting {
    let key = AlertKey { rule: "leak".to_owned(), process: "p".to_owned(), subject: subject.to_owned() };
    Sighting { key, holds, process: AlertProcess::default(), details }
}

/// A book with one rule and one process.
struct Scene {
    book: AlertBook,
    rules: Vec<AlertRule>,
    present: BTreeSet<String>,
    unmeasured: BTreeSet<AlertKey>,
    now: u64,
}

impl Scene {
    fn new(for_ms: u64, clear_ms: u64) -> Self {
        let present = BTreeSet::from(["p".to_owned()]);
        let rules = vec![rule("leak", for_ms, clear_ms)];
        Self { book: AlertBook::default(), rules, present, unmeasured: BTreeSet::new(), now: 1_000_000 }
    }

    fn observed(&self, sightings: Vec<Sighting>) -> Observed {
        Observed { sightings, unmeasured: self.unmeasured.clone(), present: self.present.clone() }
    }

    /// What is told after so many minutes.
    fn after(&mut self, minutes: u64, sightings: Vec<Sighting>) -> Vec<(AlertEvent, Vec<String>)> {
        self.now += minutes * MINUTE;
        let observed = self.observed(sightings);
        let notices = self.book.step(&self.rules, observed, self.now);
        notices.into_iter().map(|notice| (notice.event, notice.changes)).collect()
    }

    fn check(&mut self, minutes: u64, sightings: Vec<Sighting>, expect: &[(AlertEvent, &[&str])]) {
        let told = self.after(minutes, sightings);
        let told: Vec<(AlertEvent, Vec<&str>)> =
            told.iter().map(|(event, changes)| (*event, changes.iter().map(String::as_str).collect())).collect();
        let expect: Vec<_> = expect.iter().map(|(event, changes)| (*event, changes.to_vec())).collect();
        assert_eq!(told, expect);
    }
}

fn leak(rate: f64) -> Vec<Sighting> {
    vec![sighting("d", true, details("unbounded_container", "app.d", "likely", rate))]
}

#[test]
fn an_alert_is_told_once_and_when_it_is_over() {
    let mut scene = Scene::new(2 * MINUTE, 3 * MINUTE);
    scene.check(0, leak(5.0), &[]);
    scene.check(1, leak(5.0), &[]);
    scene.check(1, leak(5.0), &[(AlertEvent::Firing, &[])]);
    (0..100).for_each(|_| scene.check(1, leak(5.0), &[]));
    scene.check(1, vec![], &[]);
    scene.check(1, leak(5.0), &[]);
    scene.check(1, vec![], &[]);
    scene.check(2, vec![], &[]);
    scene.check(1, vec![], &[(AlertEvent::Resolved, &["it does not hold any more"])]);
    scene.check(9, vec![], &[]);
    assert_eq!((scene.book.reports().len(), scene.book.resolved().len()), (0, 1));
}

#[test]
fn one_that_does_not_last_is_not_told() {
    let mut scene = Scene::new(5 * MINUTE, MINUTE);
    for _ in 0..10 {
        scene.check(1, leak(5.0), &[]);
        scene.check(3, leak(5.0), &[]);
        scene.check(1, vec![], &[]);
        scene.check(1, leak(5.0), &[]);
        // Near the threshold is not over it.
        scene.check(1, vec![sighting("d", false, AlertDetails::default())], &[]);
    }
}

#[test]
fn near_the_threshold_a_firing_alert_stays() {
    let mut scene = Scene::new(0, 0);
    let near = || vec![sighting("d", false, details("unbounded_container", "app.d", "possible", 5.0))];
    scene.check(0, near(), &[]);
    scene.check(1, leak(5.0), &[(AlertEvent::Firing, &[])]);
    (0..30).for_each(|_| scene.check(1, near(), &[]));
    scene.check(1, leak(5.0), &[]);
    scene.check(1, vec![], &[(AlertEvent::Resolved, &["it does not hold any more"])]);
}

#[test]
fn what_has_changed_is_told_once_and_not_too_often() {
    let mut scene = Scene::new(0, MINUTE);
    scene.check(0, leak(98e6), &[(AlertEvent::Firing, &[])]);
    // Ten minutes must lie between two messages.
    scene.check(1, leak(300e6), &[]);
    scene.check(10, leak(300e6), &[(AlertEvent::Changed, &["300 MB/h now (it was 98 MB/h)"])]);
    scene.check(20, leak(100e6), &[]);
    scene.check(20, leak(320e6), &[]);
    let mut sure = leak(320e6);
    sure[0].details.certainty = "certain".to_owned();
    sure[0].details.site = "app.py:3".to_owned();
    let expect = ["the line is known: app.py:3", "it is certain now (it was likely)"];
    scene.check(20, sure.clone(), &[(AlertEvent::Changed, &expect)]);
    scene.check(20, leak(320e6), &[]);
    scene.check(20, sure, &[]);
}

#[test]
fn less_time_until_the_limit_is_a_change() {
    let left = |seconds: f64| {
        let details = AlertDetails { value: Some(seconds), unit: AlertUnit::SecondsLeft, ..AlertDetails::default() };
        vec![sighting("", true, details)]
    };
    let mut scene = Scene::new(0, MINUTE);
    scene.check(0, left(36_000.0), &[(AlertEvent::Firing, &[])]);
    scene.check(20, left(72_000.0), &[]);
    scene.check(20, left(17_000.0), &[(AlertEvent::Changed, &["4.7 h now (it was 10 h)"])]);
}

#[test]
fn a_holder_that_is_found_later_is_a_change_and_no_other_alert() {
    let mut scene = Scene::new(0, 5 * MINUTE);
    let unnamed = vec![sighting("python_growth", true, details("python_growth", "", "likely", 5.0))];
    scene.check(0, unnamed.clone(), &[(AlertEvent::Firing, &[])]);
    // It is told when ten minutes are over, though the name is there sooner.
    scene.check(3, leak(5.0), &[]);
    let expect =
        ["the finding is now unbounded_container (it was python_growth)", "what holds the memory is known: app.d"];
    scene.check(10, leak(5.0), &[(AlertEvent::Changed, &expect)]);
    assert_eq!(scene.book.reports().len(), 1);
    // One that is there beside the other is another alert.
    let both = [unnamed, leak(5.0)].concat();
    scene.check(1, both, &[(AlertEvent::Firing, &[])]);
    assert_eq!(scene.book.reports().len(), 2);
}

#[test]
fn the_end_of_a_process_ends_its_alerts_at_once() {
    let mut scene = Scene::new(0, 60 * MINUTE);
    scene.check(0, leak(5.0), &[(AlertEvent::Firing, &[])]);
    scene.present.clear();
    scene.check(1, vec![], &[(AlertEvent::Resolved, &["the process has ended"])]);
}

#[test]
fn a_rule_that_is_taken_out_ends_its_alerts() {
    let mut scene = Scene::new(0, MINUTE);
    scene.check(0, leak(5.0), &[(AlertEvent::Firing, &[])]);
    assert!(scene.book.forget_rules(|name| name == "leak", scene.now).is_empty());
    let ended = scene.book.forget_rules(|_| false, scene.now);
    assert_eq!((ended.len(), ended[0].event), (1, AlertEvent::Resolved));
    assert!(scene.book.reports().is_empty());
}

#[test]
fn a_hub_that_starts_again_does_not_tell_again() {
    let mut scene = Scene::new(0, MINUTE);
    scene.check(0, leak(5.0), &[(AlertEvent::Firing, &[])]);
    let kept = scene.book.to_text();
    scene.book = AlertBook::from_text(&kept);
    // The process has not reported yet.
    scene.present.clear();
    scene.check(1, vec![], &[]);
    scene.present.insert("p".to_owned());
    // It reports, and cannot be judged yet.
    scene.unmeasured.insert(leak(5.0)[0].key.clone());
    scene.check(60, vec![], &[]);
    scene.unmeasured.clear();
    scene.check(1, leak(5.0), &[]);
    scene.check(1, vec![], &[]);
    scene.check(1, vec![], &[(AlertEvent::Resolved, &["it does not hold any more"])]);
    // One that never reports again is not waited for forever.
    scene.book = AlertBook::from_text(&kept);
    scene.present.clear();
    scene.check(1, vec![], &[]);
    scene.check(3, vec![], &[(AlertEvent::Resolved, &["the process has ended"])]);
    assert!(AlertBook::from_text("{").reports().is_empty());
}

#[test]
fn there_is_room_for_so_many() {
    let mut scene = Scene::new(0, 0);
    let many = |count: usize| {
        (0..count).map(|number| sighting(&number.to_string(), true, AlertDetails::default())).collect::<Vec<_>>()
    };
    assert_eq!(scene.after(0, many(MOST_ALERTS + 5)).len(), MOST_ALERTS);
    assert_eq!(scene.book.dropped(), 5);
    assert_eq!(scene.after(1, vec![]).len(), MOST_ALERTS);
    assert_eq!(scene.book.resolved().len(), MOST_RESOLVED);
}

/// Whether the condition holds, its figure, and how sure it is.
type Seen = Option<(bool, f64, u8)>;

/// What may be seen in one step: of each of three subjects, nothing, something near, or something with a figure.
fn steps() -> impl Strategy<Value = Vec<(u64, bool, [Seen; 3])>> {
    let seen = || prop::option::of((any::<bool>(), 1.0..1e9, 0..3_u8));
    prop::collection::vec((1..20_u64, prop::bool::weighted(0.95), [seen(), seen(), seen()]), 0..80)
}

proptest! {
    /// Never told twice without a change, never changed or resolved without having fired, always resolved in the end.
    #[test]
    fn each_alert_fires_once_changes_rarely_and_is_resolved(
        steps in steps(),
        for_minutes in 0..5_u64,
        clear_minutes in 0..5_u64,
    ) {
        let mut scene = Scene::new(for_minutes * MINUTE, clear_minutes * MINUTE);
        let mut firing: BTreeMap<String, u64> = BTreeMap::new();
        let idle = (0..20).map(|_| (1, true, [None, None, None]));
        for (minutes, present, seen) in steps.into_iter().chain(idle) {
            scene.now += minutes * MINUTE;
            scene.present = if present { BTreeSet::from(["p".to_owned()]) } else { BTreeSet::new() };
            let sightings = seen.iter().enumerate().filter(|_| present).filter_map(|(subject, seen)| {
                let (holds, rate, certainty) = (*seen)?;
                let certainty = ["possible", "likely", "certain"][usize::from(certainty)];
                // The first has no holder.
                let holder = ["", "a", "b"][subject];
                Some(sighting(&subject.to_string(), holds, details("unbounded_container", holder, certainty, rate)))
            }).collect();
            let observed = scene.observed(sightings);
            for notice in scene.book.step(&scene.rules, observed, scene.now) {
                let id = notice.alert.id.clone();
                match notice.event {
                    AlertEvent::Firing => prop_assert!(firing.insert(id, scene.now).is_none()),
                    AlertEvent::Changed => {
                        prop_assert!(!notice.changes.is_empty());
                        if let Some(before) = firing.remove(&id) {
                            prop_assert!(scene.now >= before + CHANGE_EVERY_MS);
                            firing.insert(id, scene.now);
                        } else {
                            prop_assert!(false, "changed without having fired");
                        }
                    }
                    AlertEvent::Resolved => {
                        prop_assert!(firing.remove(&id).is_some());
                    }
                    AlertEvent::Test => prop_assert!(false),
                }
            }
        }
        prop_assert!(firing.is_empty() && scene.book.reports().is_empty(), "{firing:?}");
    }
}
