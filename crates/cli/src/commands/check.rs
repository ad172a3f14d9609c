//! `neurogc check`: run a command under Valgrind or AddressSanitizer, and explain what they find.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use signal_hook::consts::SIGINT;

use crate::check::{CheckReport, asan, explain, fold, suppressions, valgrind};
use crate::failure::{CommandResult, Failure};
use crate::home::Home;
use crate::{injection, program};

/// Tells `sitecustomize.py` that the program is being checked: the tool, and the folder for what it writes.
const CHECK: &str = "_NEUROGC_CHECK";

/// Find bugs of native code: overflows, use after free, leaks
///
/// Runs CMD under Valgrind (slow, needs no preparation) or with AddressSanitizer (fast; build the extension with
/// -fsanitize=address), and explains each bug once: what happened, to which block, from which line of Python. Leaks of the
/// interpreter itself are left out. The exit code is 1 where there are bugs, and that of CMD where there are none.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc check -- python -m pytest tests/test_extension.py\n  \
                        neurogc check --asan -- python app.py")]
pub(crate) struct Arguments {
    /// Use AddressSanitizer instead of Valgrind
    #[arg(long)]
    asan: bool,
    /// Do not look for the line of Python: the program runs faster
    #[arg(long)]
    no_python_lines: bool,
    /// Print the report as JSON; the output of CMD goes to standard error
    #[arg(long)]
    json: bool,
    /// The command with its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let words = &arguments.command;
    let name = words.first().ok_or_else(|| Failure::usage("there is no command to run"))?;
    if program::find(name, std::env::var_os("PATH").as_deref()).is_none() {
        return Err(Failure::with_code(127, format!("there is no command {}", name.to_string_lossy())));
    }
    let folder = tempfile::Builder::new().prefix("neurogc-check-").tempdir()?;
    let mut report =
        if arguments.asan { with_asan(arguments, folder.path())? } else { with_valgrind(arguments, folder.path())? };
    report.bugs = fold(report.bugs);
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        out.write_all(explain::text(&report).as_bytes())?;
    }
    out.flush()?;
    match (report.bugs.len(), report.exit_code) {
        (0, 0) => Ok(()),
        (0, code) => Err(Failure::with_code(code as u8, format!("the command ended with {code}"))),
        (1, _) => Err(Failure::failed("1 bug was found")),
        (many, _) => Err(Failure::failed(format!("{many} bugs were found"))),
    }
}

fn with_valgrind(arguments: &Arguments, folder: &Path) -> Result<CheckReport, Failure> {
    if !valgrind::is_there() {
        return Err(Failure::failed(valgrind::MISSING));
    }
    let interpreter = suppressions::interpreter(&arguments.command);
    let suppressed = suppressions::file(interpreter.as_deref(), folder)?;
    let reports = folder.join("reports");
    std::fs::create_dir(&reports)?;
    let mut command = valgrind::command(&arguments.command, &reports, &suppressed);
    let status = wait(arguments, prepared(&mut command, arguments, "valgrind", folder))?;
    let findings = valgrind::read_all(&reports);
    if !findings.has_begun {
        return Err(Failure::failed("Valgrind could not run the command; what it said itself is above"));
    }
    let mut remarks = findings.unread;
    if findings.doubts_of_python > 0 {
        remarks.push(format!(
            "left out: {} values that were never written, in code and memory of the interpreter alone",
            findings.doubts_of_python
        ));
    }
    Ok(CheckReport {
        tool: "Valgrind".to_owned(),
        exit_code: code(status),
        bugs: findings.bugs,
        leaks_of_python: findings.leaks_of_python,
        remarks,
    })
}

fn with_asan(arguments: &Arguments, folder: &Path) -> Result<CheckReport, Failure> {
    let library = asan::library().ok_or_else(|| Failure::failed(asan::MISSING))?;
    let Some(mut command) = asan::command(&arguments.command, folder, &library) else {
        return Err(Failure::usage("there is no command to run"));
    };
    let status = wait(arguments, prepared(&mut command, arguments, "asan", folder))?;
    let findings = asan::read_all(folder);
    Ok(CheckReport {
        tool: "AddressSanitizer".to_owned(),
        exit_code: code(status),
        bugs: findings.bugs,
        leaks_of_python: findings.leaks_of_python,
        remarks: findings.remarks,
    })
}

/// What both tools need: every object is a block of `malloc`, and Python says its lines.
fn prepared<'a>(command: &'a mut Command, arguments: &Arguments, tool: &str, folder: &Path) -> &'a mut Command {
    command.env("PYTHONMALLOC", "malloc");
    // Without the package there are no lines, and all else works.
    if !arguments.no_python_lines
        && let Ok(home) = Home::find()
        && injection::inject(command, &home, &[]).is_ok()
    {
        let mut value = OsString::from(format!("{tool}:"));
        value.push(folder);
        command.env(CHECK, value);
    }
    if arguments.json
        && let Ok(errors) = io::stderr().as_fd().try_clone_to_owned()
    {
        command.stdout(Stdio::from(errors));
    }
    command
}

/// Waits for the command. An interrupt is the command's own, whose end is waited for.
fn wait(arguments: &Arguments, command: &mut Command) -> Result<ExitStatus, Failure> {
    signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)))?;
    let name = arguments.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    command.status().map_err(|error| Failure::failed(format!("{name} cannot be started: {error}")))
}

/// As a shell says it.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
