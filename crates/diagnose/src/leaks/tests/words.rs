//! What a person reads, and that every kind has its section in the documentation.

use neurogc_wire::finding::FindingKind;

use super::super::{ArenaPins, teaching};
use super::world::{Behaviour, MB, MINUTES_3, MINUTES_10, run};
use neurogc_wire::breakdown::Breakdown;

const LEAK: Behaviour = |truth, at, _| {
    truth.containers.insert("app.log.records", ("collections.deque", (400.0 * at).min(10_000.0), Some(10_000)));
    truth.leak("app.stats.running_stats", "dict", "/srv/app/stats.py:41 in process_request", 500.0 * at, 400.0);
};

#[test]
fn the_verdict_names_the_dict_the_line_and_the_way_out() {
    let report = run(MINUTES_10, 1, LEAK, |_, _| ()).verdict();
    let first = &report.findings[0];
    let text = &first.finding.text;
    assert!(text.starts_with("Leak, certain: global app.stats.running_stats (dict) grows by "), "{text}");
    assert!(text.contains("entries a minute; it has ") && text.ends_with(" now."), "{text}");
    assert_eq!(first.finding.site, "/srv/app/stats.py:41 in process_request");
    assert!(first.finding.advice.starts_with("Bound it") && first.finding.doc.starts_with("docs/leaks.md#"));
    let true_rate = 500.0 * 400.0 * 3600.0;
    assert!((first.finding.rate_bytes_h / true_rate - 1.0).abs() < 0.15, "{}", first.finding.rate_bytes_h / true_rate);
    assert!(first.finding.share > 0.8 && first.evidence.len() >= 3, "{first:?}");
    let calm = report.findings.iter().find(|it| it.finding.holder == "app.log.records").map(|it| &*it.finding.text);
    let expected =
        "Not a leak: app.log.records (collections.deque) has reached its bound of 10,000 entries and is flat for ";
    assert!(calm.is_some_and(|text| text.starts_with(expected)), "{calm:?}");
}

#[test]
fn the_time_to_the_limit_has_bounds() {
    let world = run(MINUTES_10, 2, LEAK, |_, _| ());
    let report = world.verdict();
    let limit = report.limit.unwrap_or_default();
    let seconds = (limit.bytes as f64 - report.rss as f64) / (500.0 * 400.0 * 1.05);
    let found = [limit.earliest_s, limit.reached_in_s, limit.latest_s].map(|it| it.unwrap_or(0.0) / seconds);
    assert!(found[0] <= found[1] && found[1] <= found[2], "{found:?}");
    assert!((found[1] - 1.0).abs() < 0.1, "{found:?}");
    let calm = run(MINUTES_3, 2, |_, _, _| (), |_, _| ()).verdict();
    assert_eq!(calm.limit.map(|limit| limit.reached_in_s), Some(None));
    assert!(calm.growth.is_none());
}

#[test]
fn objects_that_keep_arenas_are_told_by_type() {
    let mut world = run(
        MINUTES_3,
        4,
        |truth, _, _| {
            truth.rss += 400.0 * MB;
            truth.breakdown = Some(Breakdown { python_used: 20 << 20, python_free: 400 << 20, ..Breakdown::default() });
        },
        |_, _| (),
    );
    world.evidence.pins = ArenaPins {
        objects: 5000,
        types: vec![("app.Row".to_owned(), 3500), ("str".to_owned(), 1000), ("float".to_owned(), 100)],
    };
    let report = world.verdict();
    let found = report.findings.iter().find(|it| it.finding.kind == FindingKind::PymallocPinned);
    let text = found.map(|it| &*it.finding.text).unwrap_or_default();
    let end = "; of these 5,000 objects most are of type app.Row (70 %), str (20 %).";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn without_evidence_it_is_too_early() {
    let report = super::super::diagnose_memory(&super::super::MemoryEvidence::default());
    assert_eq!(report.findings[0].finding.kind, FindingKind::TooEarly);
}

#[test]
fn a_calm_process_is_said_to_be_calm() {
    let report = run(MINUTES_10, 3, |_, _, _| (), |_, _| ()).verdict();
    assert_eq!(report.findings[0].finding.text, "No leak: 286 MiB are resident, flat; watched for 10 minutes.");
}

#[test]
fn every_kind_has_its_section_in_the_documentation() {
    let page = include_str!("../../../../../docs/leaks.md");
    let anchors: Vec<_> = page
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with("##")))
        .map(|title| title.to_lowercase().replace(' ', "-"))
        .collect();
    let kinds = [
        FindingKind::UnboundedContainer,
        FindingKind::UnboundedCache,
        FindingKind::Callbacks,
        FindingKind::StoredExceptions,
        FindingKind::Logging,
        FindingKind::Contexts,
        FindingKind::Modules,
        FindingKind::Tasks,
        FindingKind::Threads,
        FindingKind::Descriptors,
        FindingKind::Children,
        FindingKind::CyclicGarbage,
        FindingKind::PythonGrowth,
        FindingKind::NativeGrowth,
        FindingKind::ArenaExplosion,
        FindingKind::MallocFree,
        FindingKind::PymallocPinned,
        FindingKind::Growing,
        FindingKind::Plateau,
    ];
    for kind in kinds {
        let doc = teaching(kind).map_or("", |it| it.doc);
        let anchor = doc.strip_prefix("docs/leaks.md#").unwrap_or_default();
        assert!(anchors.iter().any(|it| it == anchor), "{kind:?}: {doc}");
        assert!(!kind.is_leak() || teaching(kind).is_some_and(|it| !it.pattern.is_empty() && !it.advice.is_empty()));
    }
}
