//! `ps`, `status` and `top` where there is nothing to ask, and the help of every verb.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::scene::{CliScene, NEUROGC, check, text};

#[test]
fn a_listing_never_fails() {
    let scene = CliScene::new();
    scene.check(&["ps"], 0, "");
    let json = scene.check(&["ps", "--json"], 0, "");
    assert!(serde_json::from_slice::<Vec<serde_json::Value>>(&json.stdout).is_ok());
}

#[test]
fn a_process_without_an_agent_is_said() {
    let scene = CliScene::new();
    let own = std::process::id().to_string();
    scene.check(&["status", &own], 1, "Start it with `neurogc run -- …`");
    scene.check(&["status", "4190000"], 1, "there is no process 4190000");
    scene.check(&["status", "me"], 2, "invalid");
    scene.check(&["status"], 2, "PID");
    scene.check(&["policy", &own, "gap"], 1, "Start it with `neurogc run -- …`");
    scene.check(&["policy", &own, "gapp"], 2, "Did you mean gap?");
    scene.check(&["collect", &own], 1, "Start it with `neurogc run -- …`");
    scene.check(&["collect", &own, "--how", "half"], 2, "possible values: auto, young, full, snapshot");
}

#[test]
fn another_users_process_is_said() {
    let scene = CliScene::new();
    if !nix::unistd::geteuid().is_root() {
        // Only root can become another user.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = folder.path().join("neurogc");
    fs::copy(NEUROGC, &binary).unwrap();
    let mut command = scene.command(&binary);
    command.args(["status", "1"]).current_dir("/").uid(65_534).gid(65_534);
    check(&mut command, 1, "process 1 belongs to user root");
}

#[test]
fn the_live_view_needs_a_terminal() {
    let scene = CliScene::new();
    scene.check(&["top", "77"], 1, "`neurogc status 77`");
    scene.check(&["top"], 1, "`neurogc ps`");
}

#[test]
fn every_verb_has_help_with_an_example() {
    let scene = CliScene::new();
    let verbs: [&[&str]; 17] = [
        &[],
        &["run"],
        &["ps"],
        &["status"],
        &["top"],
        &["stalls"],
        &["policy"],
        &["collect"],
        &["memory"],
        &["memory", "sites"],
        &["memory", "flame"],
        &["memory", "record"],
        &["memory", "diff"],
        &["check"],
        &["doctor"],
        &["trace", "show"],
        &["trace", "export"],
    ];
    for verb in verbs {
        let output = check(scene.neurogc(verb).arg("--help"), 0, "");
        assert!(text(&output).contains("  neurogc "), "{verb:?}: {}", text(&output));
    }
    scene.check(&["sing"], 2, "sing");
    scene.check(&[], 2, "Usage");
}
