//! `neurogc bench` and `neurogc demo` from outside: usage, runs that are kept, and runs that cannot be.

use std::fs;

use crate::scene::{CliScene, text};

/// One quick trial of CPython by itself.
const QUICK: [&str; 8] = ["bench", "acyclic", "--quick", "--runs", "1", "--policies", "default", "--out"];

#[test]
fn wrong_usage_says_what_would_be_right() {
    let scene = CliScene::new();
    scene.check(&["bench", "atribution"], 2, "Did you mean attribution?");
    scene.check(&["bench", "acyclic", "--policies", "default,gip"], 2, "Did you mean gap?");
    scene.check(&["bench", "acyclic", "--policies", "thread:"], 2, "thread:30");
    scene.check(&["bench", "acyclic", "--runs", "0"], 2, "--runs");
    scene.check(&["bench", "acyclic", "--seconds", "0"], 2, "--seconds");
    scene.check(&["bench", "attribution", "--arrivals", "nothing.txt"], 2, "nothing.txt");
    scene.check(&["demo", "--policy", "off"], 2, "not a policy of NeuroGC");
    scene.check(&["bench", "compare", "here"], 2, "<B>");
    scene.check(&["bench", "compare", "here", "there"], 1, "Name the folder that `neurogc bench` wrote");
    scene.check(&["bench", "acyclic", "--python", "no-such-python"], 1, "Name one with --python");
    assert!(!scene.work().join("neurogc-bench").exists(), "nothing is left of what never began");
}

#[test]
fn every_scenario_is_listed_with_its_sentence() {
    let list = text(&CliScene::new().check(&["bench", "--list"], 0, ""));
    for name in [
        "attribution",
        "mixed",
        "llm-loop",
        "train",
        "overload",
        "acyclic",
        "leak",
        "peers",
        "saturated",
        "contended",
        "one-core",
        "container",
        "container-tight",
        "heavy-objects",
    ] {
        assert!(list.lines().any(|line| line.starts_with(name) && line.len() > 40), "{name}: {list}");
    }
}

#[test]
fn a_run_is_kept_with_its_reports_and_can_be_compared() {
    let scene = CliScene::new();
    for folder in ["a", "b"] {
        let output = scene.check(&[&QUICK[..], &[folder]].concat(), 0, "100 %  acyclic, run 1/1, default: time");
        assert!(text(&output).contains("| CPython default |"), "{}", text(&output));
        for file in ["run.json", "report.md", "report.html", "scenarios/stage.py"] {
            assert!(scene.work().join(folder).join(file).is_file(), "{file}");
        }
    }
    let page = fs::read_to_string(scene.work().join("a/report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && !page.contains("http://"));
    scene.check(&[&QUICK[..], &["a"]].concat(), 2, "already contains a run");
    let compared = text(&scene.check(&["bench", "compare", "a", "b/run.json", "--all"], 0, ""));
    assert!(compared.contains("acyclic") && compared.contains("needs at least two runs"), "{compared}");
    let json = text(&scene.check(&["bench", "compare", "a", "b", "--json"], 0, ""));
    let changes: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(changes.as_array().unwrap().iter().any(|change| change["metric"] == "time_ms"), "{json}");
}

#[test]
fn a_policy_that_is_not_in_force_is_a_failure_and_not_a_figure() {
    // The package of the scene loads no agent.
    let scene = CliScene::new();
    let arguments = ["bench", "acyclic", "--quick", "--runs", "1", "--policies", "gap", "--json", "--out", "a"];
    let output = scene.check(&arguments, 1, "gap was requested, but the program runs without an agent");
    let run: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    assert!(run["scenarios"][0]["skipped"].as_str().unwrap().contains("without an agent"), "{run}");
}

#[test]
fn a_scenario_without_what_it_needs_is_skipped_with_a_reason() {
    let scene = CliScene::new();
    // An interpreter that finds nothing but its own library.
    scene.program("bare", "#!/bin/sh\nexec python3 -S -E \"$@\"\n");
    let arguments = ["bench", "train", "--quick", "--runs", "1", "--python", "./bare", "--out", "a"];
    let python = scene.work().join("bare");
    let mut arguments: Vec<&str> = arguments.to_vec();
    arguments[6] = python.to_str().unwrap();
    let output = scene.check(&arguments, 0, "skipped: torch is not installed");
    assert!(text(&output).contains("Skipped: torch is not installed: pip install torch"), "{}", text(&output));
}
