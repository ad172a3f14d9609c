//! What rules see of a process over a while.

use neurogc_wire::finding::FindingKind;

use super::*;
use crate::alerts::file::parse;

const MINUTE: u64 = 60_000;

/// One process over a while, and what rules see of it.
struct Scene {
    rules: Vec<AlertRule>,
    observer: Observer,
    facts: ProcessFacts,
    findings: Vec<Finding>,
    latency: Buckets,
    limit: Option<u64>,
    now: u64,
}

impl Scene {
    fn new(rule: &str) -> Self {
        let file = parse(&format!("[[rule]]\nname = \"r\"\n{rule}\n"), |_| None);
        Self {
            rules: file.unwrap_or_else(|(_, message)| panic!("{message}")).rules,
            observer: Observer::default(),
            facts: ProcessFacts { id: "p".to_owned(), service: "shop".to_owned(), ..ProcessFacts::default() },
            findings: Vec::new(),
            latency: Buckets::default(),
            limit: Some(10_000_000_000),
            now: 1_000_000,
        }
    }

    /// What is seen now: whether it holds, its subject and its text.
    fn look(&mut self, rss: u64) -> Vec<(bool, String, AlertDetails)> {
        let watched =
            Watched { facts: &self.facts, findings: &self.findings, rss, limit: self.limit, latency: &self.latency };
        let observed = self.observer.look(&self.rules, &[watched], self.now);
        assert!(observed.present.contains("p"));
        observed.sightings.into_iter().map(|it| (it.holds, it.key.subject, it.details)).collect()
    }

    /// The same after so many minutes in which memory grew by so many bytes an hour.
    fn grow(&mut self, minutes: u64, bytes_h: u64) -> Vec<(bool, String, AlertDetails)> {
        let mut seen = Vec::new();
        for step in 0..=minutes * 6 {
            self.now += 10_000;
            seen = self.look(1_000_000_000 + bytes_h * step / 360);
        }
        seen
    }
}

fn leak(kind: FindingKind, holder: &str, confidence: f64) -> Finding {
    Finding { kind, confidence, holder: holder.to_owned(), rate_bytes_h: 5e6, ..Finding::default() }
}

#[test]
fn findings_are_seen_by_kind_and_confidence() {
    let mut scene = Scene::new("finding = [\"leak\", \"gc\"]\nconfidence = 0.8");
    let container = FindingKind::UnboundedContainer;
    scene.findings = vec![
        leak(container, "app.a", 0.9),
        leak(container, "app.a", 0.85),
        leak(container, "app.b", 0.75),
        leak(container, "app.c", 0.6),
        leak(FindingKind::Gc, "", 1.0),
        leak(FindingKind::Plateau, "app.d", 1.0),
        leak(FindingKind::Python, "", 1.0),
    ];
    let seen: Vec<_> = scene.look(5).into_iter().map(|(holds, subject, _)| (holds, subject)).collect();
    let expect = [(true, "unbounded_container/app.a"), (false, "unbounded_container/app.b"), (true, "gc")];
    assert_eq!(seen, expect.map(|(holds, subject)| (holds, subject.to_owned())));
}

#[test]
fn a_rule_is_about_some_processes() {
    let mut scene = Scene::new("finding = \"leak\"\nservice = \"bill*\"");
    scene.findings = vec![leak(FindingKind::Threads, "", 1.0)];
    assert!(scene.look(5).is_empty());
    scene.facts.service = "billing".to_owned();
    assert_eq!(scene.look(5).len(), 1);
}

#[test]
fn growth_is_measured_or_said_by_a_finding() {
    let mut scene = Scene::new("growth_mb_h = 100\nover = \"10m\"");
    assert!(scene.grow(8, 200_000_000).is_empty());
    let mut scene = Scene::new("growth_mb_h = 100\nover = \"10m\"");
    let seen = scene.grow(20, 200_000_000);
    assert!(seen[0].0 && seen[0].2.text.starts_with("memory grows by 200 MB/h; it is 1.1 GB now"), "{seen:?}");
    assert!(!Scene::new("growth_mb_h = 100\nover = \"10m\"").grow(20, 95_000_000)[0].0);
    assert!(Scene::new("growth_mb_h = 100\nover = \"10m\"").grow(20, 80_000_000).is_empty());
    let mut scene = Scene::new("growth_mb_h = 4");
    scene.findings = vec![Finding { text: "app.d grows".to_owned(), ..leak(FindingKind::Callbacks, "app.d", 0.95) }];
    let seen = scene.look(5_000_000);
    assert_eq!(seen[0].2.text, "memory grows by 5 MB/h; it is 5 MB now. app.d grows");
    scene.findings[0].confidence = 0.3;
    assert!(scene.look(5).is_empty());
}

#[test]
fn the_limit_comes_near() {
    let rule = "limit_in = \"6h\"\nover = \"10m\"";
    let seen = Scene::new(rule).grow(20, 2_000_000_000);
    assert!(
        seen[0].0 && seen[0].2.text.starts_with("the memory limit of 10 GB is reached in 4.2 h at 2 GB/h"),
        "{seen:?}"
    );
    assert!(Scene::new(rule).grow(20, 1_000_000_000).is_empty());
    let mut scene = Scene::new(rule);
    scene.limit = None;
    assert!(scene.grow(20, 2_000_000_000).is_empty());
}

#[test]
fn slow_requests_are_seen_with_what_held_them_up() {
    let mut scene = Scene::new("p99_ms = 250\nover = \"10s\"");
    scene.findings =
        vec![Finding { kind: FindingKind::Python, site: "app.py:7".to_owned(), confidence: 0.9, ..Finding::default() }];
    assert!(scene.look(5).is_empty());
    scene.latency.add(300_000_000, 20);
    scene.now += 2000;
    let seen = scene.look(5);
    assert!(seen[0].0 && seen[0].2.site == "app.py:7", "{seen:?}");
    assert!(seen[0].2.text.starts_with("p99 of the last 10 s is 3") || seen[0].2.text.contains("is 29"), "{seen:?}");
    let seen: Vec<_> = (0..10)
        .map(|_| {
            scene.now += 2000;
            scene.look(5).len()
        })
        .collect();
    assert_eq!(seen.last(), Some(&0));
}

#[test]
fn a_process_that_is_not_replaced_is_missed() {
    let mut scene = Scene::new("gone = true\nservice = \"shop\"");
    assert!(scene.look(5).is_empty());
    scene.now += MINUTE;
    let observed = scene.observer.look(&scene.rules, &[], scene.now);
    let [missed] = &observed.sightings[..] else { panic!("{observed:?}") };
    assert_eq!((missed.holds, missed.key.process.as_str()), (true, "/shop/"));
    assert!(missed.details.text.contains("gone for 60 s") && observed.present.contains("/shop/"), "{missed:?}");
    // Another one of the same service and role is its replacement.
    scene.facts.id = "q".to_owned();
    let watched = Watched { facts: &scene.facts, findings: &[], rss: 0, limit: None, latency: &scene.latency };
    assert!(scene.observer.look(&scene.rules, &[watched], scene.now + 1).sightings.is_empty());
    assert!(scene.observer.look(&scene.rules, &[], scene.now + 2 * ABSENT_MS).present.is_empty());
}
