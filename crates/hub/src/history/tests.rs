//! Questions to a server like Prometheus, and what becomes of its answers.

use std::collections::{BTreeMap, BTreeSet};

use neurogc_wire::catalogue::promql::Selection;

use super::answer::LabelledValues;
use super::prometheus::{Grid, HistoryServer, literal, matchers, past, questions, rows, spacing};
use crate::series::{CATALOGUE, position};
use crate::store::Span;

fn line(labels: &[(&str, &str)], values: &[(u64, f64)]) -> LabelledValues {
    let labels: BTreeMap<_, _> = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    LabelledValues { labels, values: values.to_vec() }
}

#[test]
fn an_address_names_the_kind_of_server() {
    for (text, is_good) in [
        ("prometheus:http://127.0.0.1:9090", true),
        ("prometheus:https://mimir.example/prometheus", true),
        ("http://127.0.0.1:9090", false),
        ("prometheus:127.0.0.1", false),
        ("sqlite:x", false),
    ] {
        assert_eq!(text.parse::<HistoryServer>().is_ok(), is_good, "{text}");
    }
    let error = "prometheus:https://a:SECRET@x/".parse::<HistoryServer>().err().unwrap_or_default();
    assert!(error.contains("headers") && !error.contains("SECRET"), "{error}");
}

#[test]
fn steps_are_multiples_of_the_distance_of_samples() {
    let check = |from_ms, to_ms, points, spacing_s, expect| {
        let grid = Grid::of(Span { from_ms, to_ms, points }, spacing_s);
        assert_eq!((grid.first_ms, grid.last_ms, grid.step_s), expect);
        assert!(grid.last_ms <= to_ms);
    };
    check(1_000_000_000, 1_000_900_000, 600, 15, (1_000_005_000, 1_000_890_000, 15));
    check(0, 604_800_000, 600, 15, (1_020_000, 604_800_000 / 1_020_000 * 1_020_000, 1020));
    check(1_000_000_000, 1_003_600_000, 10, 60, (1_000_080_000, 1_003_320_000, 360));
}

#[test]
fn questions_are_not_too_long_and_ask_for_all() {
    let matchers = "service=\"a service with a rather long name\",worker=\"worker 12\",host=\"host.example.internal\"";
    let of = Selection { matchers, by: "service, worker, host", value_s: 23, growth_s: 37 };
    let places: Vec<_> = (0..CATALOGUE.len()).collect();
    let asked = questions(&places, &of);
    assert!(asked.len() > 1 && asked.iter().all(|question| question.len() < 8000));
    let named: usize = asked.iter().map(|question| question.matches("label_replace(").count()).sum();
    assert_eq!(named, CATALOGUE.iter().filter(|series| series.promql(&of).is_some()).count());
}

#[test]
fn matchers_match_nothing_else() {
    let worker = |name: &str| ["shop".to_owned(), name.to_owned(), "a\"b".to_owned()];
    let one = matchers(&BTreeSet::from([worker("main")]));
    assert_eq!(one, r#"service="shop",worker="main",host="a\"b""#);
    let two = matchers(&BTreeSet::from([worker("main#2"), worker("a.b")]));
    assert_eq!(two, r#"service="shop",worker=~"a\\.b|main\\#2",host="a\"b""#);
    assert_eq!(literal("é|x_1"), r"é\|x_1");
}

#[test]
fn a_step_belongs_to_the_process_that_was_there() {
    let labels = [("service", "shop"), ("worker", "1"), ("host", "a")];
    let named = |name| [labels[0], labels[1], labels[2], ("neurogc_series", name)];
    let presence = [line(&labels, &[(15, 1.0), (30, 1.0)])];
    let other = [("service", "shop"), ("worker", "2"), ("host", "a"), ("neurogc_series", "fds")];
    let values = [
        line(&named("memory.rss"), &[(15, 5.0), (30, 6.0), (45, 7.0)]),
        line(&named("no.such"), &[(15, 5.0)]),
        line(&other, &[(15, 9.0)]),
    ];
    let found = rows(&presence, &values, &[], 1.0);
    assert_eq!(found.iter().map(|row| row.t).collect::<Vec<_>>(), [15, 30]);
    let value = |row: usize, name| position(name).and_then(|place| found[row].value(place));
    assert_eq!((value(0, "memory.rss"), value(1, "memory.rss"), value(0, "fds")), (Some(5.0), Some(6.0), None));
}

#[test]
fn the_distance_of_samples_is_that_of_most() {
    let every = |ms: &[u64]| line(&[], &ms.iter().map(|ms| (*ms, 1.0)).collect::<Vec<_>>());
    assert_eq!(spacing(&[every(&[0, 15_010, 30_000, 90_000])]), Some(15));
    assert_eq!(spacing(&[every(&[0, 59_900])]), Some(60));
    assert_eq!((spacing(&[every(&[7])]), spacing(&[])), (None, None));
}

#[test]
fn a_process_is_told_with_the_policy_that_it_had() {
    let labels = [("service", "shop"), ("worker", "main"), ("host", "a")];
    let info = |id: &'static str, values: &[(u64, f64)]| {
        let all = [&labels[..], &[("process", id), ("pid", "7"), ("role", "main"), ("version", "0.1.0")]].concat();
        line(&all, values)
    };
    let policy = |name: &'static str, values: &[(u64, f64)]| line(&[&labels[..], &[("policy", name)]].concat(), values);
    let hour = 3_600_000;
    let infos = [info("a-7-1000", &[(hour, 1.0), (2 * hour, 1.0)]), info("a-8-5000", &[(20 * hour, 1.0)])];
    let policies = [policy("observe", &[(hour, 1.0), (2 * hour, 1.0)]), policy("gap", &[(20 * hour, 1.0)])];
    let now = [info("a-8-5000", &[(0, 70_000.5)])];
    let found = past(&infos, &policies, &now);
    let told: Vec<_> = found.iter().map(|(facts, seen)| (facts.id.as_str(), facts.policy.as_str(), *seen)).collect();
    assert_eq!(told, [("a-8-5000", "gap", 70_000_500), ("a-7-1000", "observe", 2 * hour)]);
    let facts = &found[1].0;
    assert_eq!((facts.pid, facts.started_ms, facts.neurogc.as_str()), (7, 1000, "0.1.0"));
}
