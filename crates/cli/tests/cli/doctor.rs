//! `neurogc doctor` with real interpreters and a stand-in for the package.

use std::fs;
use std::path::PathBuf;

use crate::scene::{CliScene, check, text};

/// An interpreter of pyenv, where this machine has it.
fn pyenv(version: &str) -> Option<PathBuf> {
    let versions = PathBuf::from(std::env::var_os("HOME")?).join(".pyenv/versions");
    let mut found = fs::read_dir(versions).ok()?.flatten().map(|entry| entry.path());
    let name = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(version));
    found.find(name).map(|path| path.join("bin/python"))
}

#[test]
fn a_working_interpreter_is_reported_with_its_degradations() {
    let scene = CliScene::new();
    let output = scene.check(&["doctor"], 0, "");
    let text = text(&output);
    for part in
        ["the agent works", "degraded: this is a stand-in", "memory limit 1.0 MiB", "memory overcommit", "stall_ms"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn the_report_is_json_where_asked() {
    let scene = CliScene::new();
    scene.file("neurogc.toml", "stall_ms = 7\n");
    let output = scene.check(&["doctor", "--json"], 0, "");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["works"], true);
    assert_eq!(value["python"]["status"]["memory"]["limit"], 1_048_576);
    let settings = value["settings"].as_array().unwrap();
    let stall = settings.iter().find(|setting| setting["name"] == "stall_ms").unwrap();
    assert_eq!((stall["value"].as_str(), stall["origin"].as_str()), (Some("7"), Some("neurogc.toml")));
}

#[test]
fn a_look_leaves_the_trace_of_the_settings_alone() {
    let scene = CliScene::new();
    let package =
        "import os\ndef install(): pass\ndef status(): return {'degraded': ['trace=' + os.environ['NEUROGC_TRACE']]}\n";
    fs::write(scene.home().join("__init__.py"), package).unwrap();
    let mut command = scene.neurogc(&["doctor"]);
    let output = check(command.env("NEUROGC_TRACE", "precious.ngct"), 0, "");
    assert!(text(&output).contains("degraded: trace=\n"), "{}", text(&output));
}

#[test]
fn an_interpreter_without_a_working_agent_fails() {
    let scene = CliScene::new();
    fs::write(scene.home().join("__init__.py"), "raise ImportError('the agent is broken')").unwrap();
    scene.check(&["doctor"], 1, "ImportError: the agent is broken");
}

#[test]
fn a_missing_or_foreign_interpreter_is_said() {
    let scene = CliScene::new();
    scene.check(&["doctor", "--python", "/nowhere/python3"], 1, "there is no interpreter /nowhere/python3");
    scene.check(&["doctor", "--python", "true"], 1, "true did not answer");
}

#[test]
fn old_interpreters_are_said_to_be_unsupported() {
    let scene = CliScene::new();
    for version in ["2.7", "3.9"] {
        if let Some(python) = pyenv(version) {
            let expect = format!("CPython {version}");
            let output = scene.check(&["doctor", "--python", python.to_str().unwrap()], 1, &expect);
            assert!(String::from_utf8_lossy(&output.stderr).contains("is not supported"));
        }
    }
}

#[test]
fn wrong_settings_are_part_of_the_diagnosis() {
    let scene = CliScene::new();
    scene.file("neurogc.toml", "stall_ms = 0\n");
    let output = scene.check(&["doctor"], 1, "the settings are wrong");
    assert!(text(&output).contains("a number from 1 to 60000"), "{}", text(&output));
}
