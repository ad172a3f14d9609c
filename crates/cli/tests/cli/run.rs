//! `neurogc run`: the command is what it would be without us, but for its environment.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::scene::{CliScene, NEUROGC, check, text};

#[test]
fn exit_code_signal_and_pid_are_the_commands_own() {
    let scene = CliScene::new();
    scene.check(&["run", "--", "sh", "-c", "exit 7"], 7, "");
    let killed = scene.neurogc(&["run", "--", "sh", "-c", "kill -TERM $$"]).output().unwrap();
    assert_eq!(killed.status.signal(), Some(15));
    let child = scene.neurogc(&["run", "--", "sh", "-c", "echo $$"]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    assert_eq!(text(&child.wait_with_output().unwrap()).trim(), pid.to_string());
}

#[test]
fn signals_are_handled_as_if_started_directly() {
    let scene = CliScene::new();
    // What is ignored and what is blocked must go through: nohup and job managers rely on it.
    for prepare in ["", "trap '' HUP USR1;"] {
        let signals = |prefix: &str| {
            let script = format!("{prepare} exec {prefix} grep -E 'Sig(Ign|Blk)' /proc/self/status");
            text(&scene.command("sh").args(["-c", &script]).output().unwrap())
        };
        let direct = signals("");
        assert!(direct.contains("SigIgn"), "{direct}");
        assert_eq!(signals(&format!("{NEUROGC} run --")), direct);
    }
}

#[test]
fn blocked_signals_stay_blocked() {
    let scene = CliScene::new();
    let masked = |prefix: &[&str]| {
        let code = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); \
                    os.execvp(sys.argv[1], sys.argv[1:])";
        let mut command = scene.command("python3");
        command.args(["-c", code]).args(prefix).args(["grep", "SigBlk", "/proc/self/status"]);
        text(&command.output().unwrap())
    };
    assert_eq!(masked(&[NEUROGC, "run", "--"]), masked(&[]));
}

#[test]
fn a_broken_pipe_kills_the_command_as_usual() {
    let scene = CliScene::new();
    let mut child = scene.neurogc(&["run", "--", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().signal(), Some(13));
}

#[test]
fn the_environment_names_the_agent_and_the_settings() {
    let scene = CliScene::new();
    let arguments =
        ["run", "--policy", "observe", "--trace", "t.ngct", "--set", "stall_ms=20", "--", "sh", "-c", "echo $$; env"];
    let output = scene.neurogc(&arguments).env("PYTHONPATH", "/elsewhere").output().unwrap();
    let text = text(&output);
    let inject = scene.home().join("_inject");
    let pid = text.lines().next().unwrap();
    let expected = [
        format!("PYTHONPATH={}:/elsewhere", inject.display()),
        format!("NEUROGC_HOME={}", scene.home().display()),
        format!("NEUROGC_ROOT_PID={pid}"),
        "NEUROGC_POLICY=observe".to_owned(),
        format!("NEUROGC_TRACE={}", scene.work().join("t.ngct").display()),
        "NEUROGC_STALL_MS=20".to_owned(),
    ];
    for line in expected {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("NEUROGC_ADAPTERS"), "only what was given is set");
    assert!(!scene.work().join("t.ngct").exists(), "the agent makes the file");
}

#[test]
fn nested_runs_inject_once() {
    let scene = CliScene::new();
    let output = scene.neurogc(&["run", "--", NEUROGC, "run", "--", "sh", "-c", "echo $PYTHONPATH"]).output().unwrap();
    assert_eq!(text(&output).trim(), scene.home().join("_inject").display().to_string());
}

#[test]
fn the_dashes_may_be_left_out() {
    let scene = CliScene::new();
    let output = scene.neurogc(&["run", "echo", "--policy", "-x"]).output().unwrap();
    assert_eq!(text(&output), "--policy -x\n");
}

#[test]
fn commands_are_found_without_a_path() {
    let scene = CliScene::new();
    check(scene.neurogc(&["run", "--", "sh", "-c", "exit 3"]).env_remove("PATH"), 3, "");
}

#[test]
fn wrong_usage_is_said_before_anything_starts() {
    let scene = CliScene::new();
    let cases: &[(&[&str], &str)] = &[
        (&["run"], "CMD"),
        (&["run", "--policy", "obsrve", "--", "touch", "started"], "Did you mean observe?"),
        (&["run", "--policy", "neural:absent", "--", "touch", "started"], "cannot use the model absent"),
        (&["run", "--set", "stal_ms=3", "--", "touch", "started"], "Did you mean stall_ms"),
        (&["run", "--set", "stall_ms=0", "--", "touch", "started"], "a number from 1 to 60000"),
        (&["run", "--set", "stall_ms", "--", "touch", "started"], "KEY=VALUE"),
        (&["run", "--trace", "missing/t.ngct", "--", "touch", "started"], "Create it first"),
        (&["run", "--trace", ".", "--", "touch", "started"], "it is a folder"),
        (&["run", "--polcy", "observe", "--", "touch", "started"], "--policy"),
    ];
    for (arguments, expect) in cases {
        scene.check(arguments, 2, expect);
    }
    assert!(!scene.work().join("started").exists());
}

#[test]
fn a_wrong_environment_or_settings_file_is_said_and_stops_nothing() {
    let scene = CliScene::new();
    let run = || scene.neurogc(&["run", "--", "true"]);
    check(run().env("NEUROGC_POLICY", "nope"), 0, "(from environment)");
    check(run().env("NEUROGC_POLICI", "observe"), 0, "Did you mean policy");
    check(
        run().env("NEUROGC_CONFIG", "/nowhere/neurogc.toml"),
        0,
        "cannot read the settings file /nowhere/neurogc.toml",
    );
    scene.file("neurogc.toml", "policy = \"observe\"\n");
    check(&mut run(), 0, "");
    scene.file("neurogc.toml", "policy =");
    check(&mut run(), 0, "neurogc.toml");
    std::fs::remove_file(scene.work().join("neurogc.toml")).unwrap();
    std::fs::create_dir(scene.work().join("neurogc.toml")).unwrap();
    check(&mut run(), 0, "cannot read the settings file neurogc.toml");
    check(scene.neurogc(&["run", "--policy", "nope", "--", "true"]).env("NEUROGC_POLICI", "x"), 2, "no policy");
}

#[test]
fn a_command_that_cannot_start_has_the_shells_exit_code() {
    let scene = CliScene::new();
    scene.check(&["run", "--", "no-such-command-here"], 127, "there is no command no-such-command-here on PATH");
    scene.check(&["run", "--", "./missing"], 127, "there is no file ./missing");
    scene.file("app.py", "print()");
    scene.check(&["run", "--", "./app.py"], 126, "Use `neurogc run -- python3 ./app.py`");
    scene.check(&["run", "--", "app.py"], 127, "Use `neurogc run -- python3 ./app.py`");
    scene.check(&["run", "--", "."], 127, "");
    scene.check(&["run", "--", "./"], 126, "is a folder");
    scene.program("orphan", "#!/nowhere/python3\n");
    scene.check(&["run", "--", "./orphan"], 127, "/nowhere/python3; check that it exists");
    scene.program("pyton", "");
    let path = format!("{}:/usr/bin", scene.work().display());
    check(scene.neurogc(&["run", "--", "pyten"]).env("PATH", path), 127, "Did you mean");
}

#[test]
fn a_missing_package_is_said_with_the_way_to_get_it() {
    let scene = CliScene::new();
    let mut command = scene.neurogc(&["run", "--", "true"]);
    check(command.env("NEUROGC_HOME", scene.work()), 1, "__init__.py is missing");
}

#[test]
fn programs_that_will_not_be_observed_run_all_the_same() {
    let scene = CliScene::new();
    let other = scene.check(&["run", "--", "sh", "-c", "echo ran"], 0, "sh is not a Python program; Python programs");
    assert_eq!(text(&other), "ran\n");
    let path = scene.program("python3.12", "#!/bin/sh\necho ran\n");
    let isolated = scene.check(&["run", "--", path.to_str().unwrap(), "-I", "x.py"], 0, "-I keeps Python from loading");
    assert_eq!(text(&isolated), "ran\n");
}

#[test]
fn a_python_program_is_left_in_peace() {
    let scene = CliScene::new();
    let output = scene.neurogc(&["run", "--", "python3", "-c", "import sys; print(sys.argv)"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(text(&output), "['-c']\n");
}
