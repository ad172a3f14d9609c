//! `neurogc run`: start a command under the agent, and become it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use neurogc_settings::{HubAddress, Settings};
use nix::unistd::{AccessFlags, access};

use crate::commands::hub;
use crate::failure::{CommandResult, Failure};
use crate::home::Home;
use crate::notice::say;
use crate::plot::marks::Marks;
use crate::plot::{self, PlotHead, watched};
use crate::program::{self, ProgramFacts};
use crate::target::OutputFile;
use crate::{figures, injection, models, own_hub, sources};

/// What a shell answers for a command that cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// What a shell answers for a command that does not exist.
const NOT_FOUND: u8 = 127;

/// Tells `sitecustomize.py` to print a table when the program ends.
const LINES: &str = "_NEUROGC_LINES";

/// Names the file to which `profile_memory` writes its calls, for the memory plot.
const PLOT: &str = "_NEUROGC_PLOT";

/// Start a Python command and its Python child processes with the agent
///
/// The program needs no changes. `neurogc run` replaces itself with CMD, so the exit code and signals are those of CMD. With
/// --memory-plot it stays, passes signals on, writes the file when CMD has ended or crashed, and ends as CMD did.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc run -- python app.py\n  \
    neurogc run --trace service.ngct -- gunicorn -w 4 app:app\n  \
    neurogc run --memory-plot memory.html -- python job.py\n  \
    neurogc run --set stall_ms=20 -- uvicorn app:app")]
pub(crate) struct Arguments {
    #[arg(long, value_name = "P", help = format!("When to collect: {}", neurogc_policy::written(", ")))]
    policy: Option<String>,
    /// Record a trace to FILE, overwriting it; child processes add their pid to the name
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Also report to a hub on another machine, with the token in NEUROGC_HUB_TOKEN. A hub on this machine finds its
    /// agents automatically
    #[arg(long, value_name = "URL")]
    hub: Option<String>,
    /// Print the lines that allocated the most memory to standard error when the program ends
    #[arg(long)]
    lines: bool,
    /// When CMD has ended, write its memory over time to FILE, a page in one file, overwriting it: child processes, collections and
    /// marked functions are in it
    #[arg(long, value_name = "FILE")]
    memory_plot: Option<PathBuf>,
    /// Change a setting; `neurogc doctor` lists all settings
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    settings: Vec<(String, String)>,
    /// The command with its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Arguments {
    /// A command with these settings.
    pub(crate) fn with(settings: Vec<(String, String)>, command: Vec<OsString>) -> Self {
        Self { policy: None, trace: None, hub: None, lines: false, memory_plot: None, settings, command }
    }
}

pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must look like KEY=VALUE, for instance stall_ms=20")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn run(arguments: Arguments) -> CommandResult {
    if let Some(path) = &arguments.memory_plot {
        return run_plotted(&arguments, path);
    }
    let (settings, effective) = checked_settings(arguments.given()?)?;
    let home = Home::find().map_err(Failure::failed)?;
    let Some((name, rest)) = arguments.command.split_first() else {
        return Err(Failure::usage("there is no command to run"));
    };
    let shown = name.to_string_lossy();
    let Some(path) = program::find(name, env::var_os("PATH").as_deref()) else {
        return Err(not_found(name));
    };
    if path.is_dir() || !program::is_executable(&path) {
        return Err(not_executable(name, &path));
    }
    if let Some(remark) = ProgramFacts::look_at(&path, rest).remark(&shown) {
        say(remark);
    }
    let mut command = Command::new(name);
    command.args(rest);
    injection::inject(&mut command, &home, &settings).map_err(Failure::failed)?;
    if arguments.lines {
        command.env(LINES, "1");
    }
    if effective.allocations.wants_preload() {
        injection::preload(&mut command, &home);
    }
    if io::stderr().is_terminal() {
        // The command takes over this process, so its number is ours.
        let (pid, policy) = (std::process::id(), &effective.policy);
        say(format!("process {pid} runs with policy {policy}. See `neurogc status {pid}` or `neurogc top {pid}`"));
    }
    // Only a failure comes back from here. The standard library gives SIGPIPE its default back first.
    let error = command.exec();
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    let hint = program::shebang(&path).map_or_else(String::new, |(interpreter, _)| {
        format!(". Its first line asks for the interpreter {interpreter}; check that it exists")
    });
    Err(Failure::with_code(code, format!("cannot run {shown}: {error}{hint}")))
}

/// Runs the same command line without the plot below this process, and watches its memory.
fn run_plotted(arguments: &Arguments, path: &Path) -> CommandResult {
    let path = writable(path, "write the memory plot to")?;
    let folder = tempfile::tempdir()?;
    let calls = folder.path().join("calls");
    let (sources, _) = sources::gather(arguments.given()?);
    let own = neurogc_settings::resolve(&sources).ok().and_then(|effective| effective.settings.trace);
    let trace = own.map_or_else(|| Ok(folder.path().join("trace.ngct")), std::path::absolute)?;
    let mut command = Command::new(env::current_exe()?);
    command.arg("run").env(PLOT, &calls);
    let words = [
        ("--policy", arguments.policy.as_ref().map(OsString::from)),
        ("--hub", arguments.hub.as_ref().map(OsString::from)),
    ];
    for (name, value) in words.into_iter().chain([("--trace", Some(trace.clone().into_os_string()))]) {
        if let Some(value) = value {
            command.arg(name).arg(value);
        }
    }
    if arguments.lines {
        command.arg("--lines");
    }
    for (name, value) in arguments.settings.iter().filter(|(name, _)| name != "trace") {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    command.arg("--").args(&arguments.command);
    let began = SystemTime::now();
    let began_unix_ns = began.duration_since(UNIX_EPOCH).map_or(0, |it| u64::try_from(it.as_nanos()).unwrap_or(0));
    let (status, course, took) = watched::run(&mut command, io::stdin().is_terminal())?;
    let traces = traces_of(&trace, began);
    let traces: Vec<_> = traces.iter().map(PathBuf::as_path).collect();
    let marks = Marks::gather(&traces, &calls, began_unix_ns, took.as_secs_f64());
    let words: Vec<_> = arguments.command.iter().map(|word| word.to_string_lossy()).collect();
    let mut remarks = vec![REMARK.to_owned()];
    if traces.is_empty() {
        remarks.push(
            "No collections are marked: the command has left no trace. It may not be a Python program.".to_owned(),
        );
    }
    let head = PlotHead {
        command: figures::shorten(&figures::plain(&words.join(" ")), 120),
        outcome: watched::outcome(status),
        began: figures::utc(began_unix_ns),
        seconds: took.as_secs_f64(),
        remarks,
    };
    let page = plot::encode(&head, &course, &marks)?;
    let written =
        OutputFile::new(&path, true).and_then(|to| Ok(to.write(|mut file| Ok(file.write_all(page.as_bytes())?))?));
    // The command's own end counts for more than a file that could not be written.
    match written {
        Ok(()) => say(format_args!("wrote {}; open it in a browser", path.display())),
        Err(failure) => say(failure),
    }
    drop(folder);
    watched::end_like(status)
}

/// What the page says about its figures.
const REMARK: &str = "Resident sets are added up: pages that processes share, for instance after a fork, count in each of them. \
                      The dashed line counts only what no other process shares. Processes that have left the tree of the command, \
                      such as daemons, are not in it.";

/// The traces of a command and of its children, which add their pids to the name, as far as they are of this run.
fn traces_of(trace: &Path, began: SystemTime) -> Vec<PathBuf> {
    let (Some(folder), Some(stem)) = (trace.parent(), trace.file_stem().and_then(OsStr::to_str)) else {
        return Vec::new();
    };
    let ending = trace.extension();
    let is_child = |path: &Path| {
        let of_child = |stem: &str, name: &str| name.strip_prefix(stem)?.strip_prefix('.')?.parse::<u32>().ok();
        let name = path.file_stem().and_then(OsStr::to_str).and_then(|name| of_child(stem, name));
        name.is_some() && path.extension() == ending
    };
    let is_new = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).is_ok_and(|at| at >= began);
    let others = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = std::iter::once(trace.to_owned()).chain(others.filter(|path| is_child(path)));
    all.filter(|path| is_new(path)).take(MOST_TRACES).collect()
}

/// Children whose collections are marked.
const MOST_TRACES: usize = 64;

impl Arguments {
    fn given(&self) -> Result<Vec<(String, String)>, Failure> {
        given(self.policy.as_deref(), self.trace.as_deref(), self.hub.as_deref(), &self.settings)
    }
}

/// The settings of a command line.
pub(crate) fn given(
    policy: Option<&str>,
    trace: Option<&Path>,
    hub: Option<&str>,
    others: &[(String, String)],
) -> Result<Vec<(String, String)>, Failure> {
    let mut given = Vec::new();
    given.extend(policy.map(|policy| ("policy".to_owned(), policy.to_owned())));
    if let Some(trace) = trace {
        let trace = trace.to_str().ok_or_else(|| Failure::usage("the path of --trace must be valid UTF-8"))?;
        given.push(("trace".to_owned(), trace.to_owned()));
    }
    if let Some(hub) = hub {
        given.push(("hub".to_owned(), hub::with_address(hub).map_err(Failure::usage)?));
    }
    given.extend(others.iter().cloned());
    Ok(given)
}

/// The settings of the command line, and those that are in force with all sources. A mistake on the command line is
/// an error; one in the environment or in the settings file is told and passed over, as the agent does it.
pub(crate) fn checked_settings(mut given: Vec<(String, String)>) -> Result<(Vec<(String, String)>, Settings), Failure> {
    // An agent looks no names up.
    if !given.iter().any(|(name, _)| name == "hub")
        && let Ok(named) = env::var(injection::variable("hub"))
        && named.parse::<HubAddress>().is_err()
        && let Ok(found) = hub::with_address(&named)
        && found.parse::<HubAddress>().is_ok()
    {
        given.push(("hub".to_owned(), found));
    }
    for (name, value) in &mut given {
        if name == "trace" && !value.is_empty() {
            *value = trace_path(value)?;
        }
        if name == "policy"
            && let Ok(policy) = value.parse()
        {
            *value = models::checked(policy)?.to_string();
        }
    }
    let (sources, unread) = sources::gather(given.clone());
    let effective = neurogc_settings::resolve(&sources).map_err(|error| Failure::usage(error.to_string()))?;
    for complaint in unread.iter().chain(&effective.complaints) {
        say(format!("{}. It is ignored", complaint.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    given.extend(effective.from_project.into_iter().filter_map(passed_on));
    let settings = effective.settings;
    if let Some(hub) = settings.hub.as_ref().filter(|_| settings.hub_token.is_empty())
        && let Some(token) = own_hub::token_of(hub.address)
    {
        given.push(("hub_token".to_owned(), token));
    }
    Ok((given, settings))
}

/// A setting of the project file as the program gets it, by its environment: files are those of this working directory.
fn passed_on((name, value): (String, String)) -> Option<(String, String)> {
    let value = match name.as_str() {
        "trace" if !value.is_empty() => std::path::absolute(&value).ok()?.into_os_string().into_string().ok()?,
        "policy" => match models::checked(value.parse().ok()?) {
            Ok(policy) => policy.to_string(),
            Err(failure) => {
                say(failure);
                return None;
            }
        },
        _ => value,
    };
    Some((name, value))
}

/// The trace's path as it holds wherever the program changes to, in a folder that can take it.
fn trace_path(text: &str) -> Result<String, Failure> {
    let path = writable(Path::new(text), "record a trace in")?;
    path.into_os_string()
        .into_string()
        .map_err(|_| Failure::usage(format!("cannot record a trace in {text}: its full path is not valid UTF-8")))
}

/// A file's full path, in a folder that can take it.
fn writable(path: &Path, what: &str) -> Result<PathBuf, Failure> {
    let wrong = |reason: &str| Failure::usage(format!("cannot {what} {}: {reason}", path.display()));
    let path = std::path::absolute(path).map_err(|error| wrong(&error.to_string()))?;
    if path.is_dir() {
        return Err(wrong("it is a folder. Name a file in it"));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        return Err(wrong(&format!("there is no folder {}. Create it first", folder.display())));
    }
    let target = if path.exists() { &path } else { folder };
    access(target, AccessFlags::W_OK)
        .map_err(|error| wrong(&format!("{} is not writable ({})", target.display(), error.desc())))?;
    Ok(path)
}

fn not_found(name: &OsStr) -> Failure {
    let shown = name.to_string_lossy();
    let message = if shown.contains('/') {
        match fs::read_link(name) {
            Ok(target) => format!("{shown} points to {}, which does not exist or is not accessible", target.display()),
            Err(_) => format!("there is no file {shown}. Check the path"),
        }
    } else if Path::new(name).is_file() {
        let how = start_file(&format!("./{shown}"));
        format!("there is no command {shown} on PATH, but a file of that name is here. {how}")
    } else {
        let known = commands_on_path();
        let suggestion = neurogc_policy::suggestion(&shown, known.iter().map(String::as_str));
        format!("there is no command {shown} on PATH.{suggestion} Check its spelling, or give its full path")
    };
    Failure::with_code(NOT_FOUND, message)
}

fn not_executable(name: &OsStr, path: &Path) -> Failure {
    let shown = name.to_string_lossy();
    let message = if path.is_dir() {
        format!("{shown} is a folder, not a command. For a package, use `neurogc run -- python3 -m NAME`")
    } else {
        format!("{shown} is not executable. {}", start_file(&shown))
    };
    Failure::with_code(NOT_EXECUTABLE, message)
}

/// How to start a file that cannot be started by its name.
fn start_file(path: &str) -> String {
    if path.ends_with(".py") {
        format!("Use `neurogc run -- python3 {path}`")
    } else {
        format!("Make it executable with `chmod +x {path}`, or name its interpreter before it")
    }
}

fn commands_on_path() -> Vec<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let entries = env::split_paths(&path).filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
