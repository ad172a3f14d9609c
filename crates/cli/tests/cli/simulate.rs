//! `neurogc simulate`: recorded and made-up workloads, and traces that say too little.

use neurogc_learn::{HeapModel, Scene, Start, TrafficShape, imagined, record};
use neurogc_policy::Name;
use neurogc_wire::trace::{Record, encode};

use crate::scene::{CliScene, check, text};

/// A trace as an agent would have written it, without the records that `keep` leaves out.
fn trace(keep: fn(&Record) -> bool) -> Vec<u8> {
    trace_under(Name::Cpython, keep)
}

fn trace_under(name: Name, keep: fn(&Record) -> bool) -> Vec<u8> {
    trace_of(1_500, name, keep)
}

/// The same of so many requests, 250 in a second.
pub(crate) fn trace_of(requests: usize, name: Name, keep: fn(&Record) -> bool) -> Vec<u8> {
    let start = Start { at: 2_000_000_000, tenured: 300_000.0, pending: 0.0 };
    let workload = TrafficShape::Poisson { rate: 250.0 }.requests(requests, &imagined(100, 700.0, 1), start, 3);
    let model = HeapModel::default();
    let trace = record(&Scene::new(&model, &workload), name);
    encode(&trace.header, trace.records.iter().filter(|record| keep(record)))
}

#[test]
fn a_trace_is_played_under_every_policy() {
    let scene = CliScene::new();
    scene.file("t.ngct", trace(|_| true));
    let output = text(&scene.check(&["simulate", "t.ngct", "--policies", "cpython,gap"], 0, ""));
    for word in [
        "1,500 requests",
        "(plan)",
        "(never)",
        "cpython",
        "gap ?",
        "lower bound: 0.",
        "best known schedule",
        "not in the trace",
    ] {
        assert!(output.contains(word), "{word}: {output}");
    }
    let json = scene.check(&["simulate", "t.ngct", "--policy", "gap", "--json"], 0, "");
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let rows = value[0]["rows"].as_array().unwrap();
    let regret = |policy: &str| rows.iter().find(|row| row["policy"] == policy).and_then(|row| row["regret"].as_f64());
    for policy in ["(plan)", "gap", "(never)"] {
        assert!(regret(policy).unwrap() >= 0.0, "{policy}");
    }
    let (bound, best) = (value[0]["lower_bound"].as_f64().unwrap(), value[0]["best_known"]["cost"].as_f64().unwrap());
    assert!(bound > 0.0 && bound <= best, "{bound} {best}");
    let wide = text(&scene.check(&["simulate", "t.ngct", "--policies", "gap", "--wide"], 0, ""));
    assert!(wide.contains("SNAPSHOTS") && !output.contains("SNAPSHOTS"), "{wide}");
}

#[test]
fn another_trace_shows_what_one_does_not() {
    let scene = CliScene::new();
    scene.file("t.ngct", trace(|_| true));
    scene.file("gap.ngct", trace_under(Name::Gap, |_| true));
    let output = text(&scene.check(&["simulate", "t.ngct", "--with", "gap.ngct", "--policies", "gap"], 0, ""));
    assert!(!output.contains("the cost of a clone"), "{output}");
}

#[test]
fn classic_has_its_model_in_the_package() {
    let scene = CliScene::new();
    let arguments = [
        "simulate",
        "--workload",
        "poisson:50",
        "--requests",
        "1000",
        "--policies",
        "classic,classic:0.2",
        "--no-oracle",
        "--json",
    ];
    scene.check(&arguments, 2, "models/classic.safetensors: No such file");
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/neurogc");
    let output = check(scene.neurogc(&arguments).env("NEUROGC_HOME", package), 0, "");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = value[0]["rows"].as_array().unwrap();
    let full = |policy: &str| rows.iter().find(|row| row["policy"] == policy).and_then(|row| row["full"].as_u64());
    // Twenty seconds, of which the first ten are needed to have samples.
    assert!((5..=12).contains(&(full("classic:0.2").unwrap() - full("classic").unwrap())), "{value}");
}

#[test]
fn a_made_up_workload_repeats_itself() {
    let scene = CliScene::new();
    let played = |seed: &str| {
        let arguments = ["simulate", "--workload", "bursty:150", "--requests", "2000", "--seed", seed];
        text(&scene.check(&arguments, 0, ""))
    };
    assert_eq!(played("4"), played("4"));
    assert_ne!(played("4"), played("5"));
    let users = text(&scene.check(&["simulate", "--workload", "closed:20", "--requests", "500"], 0, ""));
    assert!(users.contains("lower bound: none; users wait") && users.contains("–"), "{users}");
}

#[test]
fn what_cannot_be_played_says_what_is_missing() {
    let scene = CliScene::new();
    scene.check(&["simulate"], 2, "--workload poisson:200");
    scene.check(&["simulate", "--workload", "sine:5"], 2, "for instance poisson:200");
    scene.check(&["simulate", "--workload", "poisson:5", "--policies", "gip"], 2, "Did you mean gap?");
    scene.check(&["simulate", "none.ngct"], 1, "cannot read none.ngct");
    scene.file("t.ngct", trace(|record| !matches!(record, Record::RequestEnd { .. })));
    scene.check(&["simulate", "t.ngct"], 1, "t.ngct: the trace holds 0 finished requests");
    scene.file("t.ngct", trace(|record| !matches!(record, Record::Heap { .. })));
    scene.check(&["simulate", "t.ngct"], 1, "Record it again");
}
