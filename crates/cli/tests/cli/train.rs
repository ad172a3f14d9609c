//! `neurogc train`: from a trace to a model that policies can use, and traces that say too little.

use std::fs;

use neurogc_policy::Name;

use crate::scene::{CliScene, text};
use crate::simulate::trace_of;

#[test]
fn a_model_is_trained_and_can_be_used() {
    let scene = CliScene::new();
    scene.file("t.ngct", trace_of(12_000, Name::Gap, |_| true));
    let arguments = ["train", "t.ngct", "--model", "linear", "--epochs", "2", "-o", "m.safetensors"];
    let output = text(&scene.check(&arguments, 0, ""));
    for word in ["(plan)", "gap", "linear", "REGRET", "CALIBRATION", "linear is written to m.safetensors"] {
        assert!(output.contains(word), "{word}: {output}");
    }
    let plot = fs::read_to_string(scene.work().join("m.calibration.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.contains("polyline"), "{plot}");
    let card = fs::read_to_string(scene.work().join("m.card.md")).unwrap();
    for word in ["# m.safetensors", "`t.ngct`", "`gap_q50_ln1p_ms`", "| 50 % |", "| linear |", "Not measured"] {
        assert!(card.contains(word), "{word}: {card}");
    }
    assert!(!scene.work().join("m.safetensors.progress").exists(), "what is only needed to go on is gone");
    let output = text(&scene.check(&["simulate", "t.ngct", "--policies", "gap,neural:m.safetensors"], 0, ""));
    assert!(output.contains("neural:m.safetensors"), "{output}");
}

#[test]
fn the_same_seed_gives_the_same_model_in_json_too() {
    let scene = CliScene::new();
    scene.file("t.ngct", trace_of(9_000, Name::Gap, |_| true));
    let train = |to: &str| {
        let arguments = ["train", "t.ngct", "--model", "linear", "--epochs", "1", "--json", "-o", to];
        let json = scene.check(&arguments, 0, "");
        let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(value["best"], "linear");
        fs::read(scene.work().join(to)).unwrap()
    };
    assert_eq!(train("a.safetensors"), train("b.safetensors"));
}

#[test]
fn too_short_and_bad_traces_are_refused_with_what_is_missing() {
    let scene = CliScene::new();
    scene.file("short.ngct", trace_of(800, Name::Gap, |_| true));
    scene.file("bad.ngct", b"no trace");
    for (trace, reason) in [("short.ngct", "Record for longer"), ("bad.ngct", "bad.ngct"), ("none.ngct", "cannot read")]
    {
        let output = scene.check(&["train", trace], 1, reason);
        assert!(output.stdout.is_empty());
        assert!(!scene.work().join("model.safetensors").exists());
    }
}

#[test]
fn wrong_usage_says_what_would_be_right() {
    let scene = CliScene::new();
    scene.check(&["train"], 2, "TRACE");
    scene.check(&["train", "t.ngct", "--model", "lstn"], 2, "lstm");
    scene.check(&["train", "--record", "python app.py"], 2, "--load");
    let load = ["train", "--record", "true", "--load", "http://192.0.2.1:80/"];
    scene.check(&load, 2, "loopback");
}
