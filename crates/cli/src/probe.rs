//! Asking an interpreter whether the agent runs in it, by running it.

use std::env;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use neurogc_wire::status::Status;
use serde::{Deserialize, Serialize};

use crate::figures::{plain, shorten};
use crate::home::Home;
use crate::{injection, program};

/// How long an interpreter may take: the first start after an installation compiles its library.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much of an error is passed on: a program that is no Python may repeat all that it was given.
const LONGEST_ERROR: usize = 200;

/// What stands before the facts on their line, whatever else the start of the interpreter prints.
const MARK: &str = "neurogc-doctor:";

/// What the interpreter runs. It must be valid in every Python there is, so that an old one can say its version.
const CODE: &str = r#"
import json, os, platform, sys
facts = {"version": platform.python_version(), "implementation": platform.python_implementation(),
         "executable": sys.executable}
if sys.version_info >= (3, 10):
    try:
        sys.path.append(os.path.dirname(os.environ["NEUROGC_HOME"]))
        import neurogc
        neurogc.install()
        facts["status"] = neurogc.status()
    except BaseException as error:
        facts["error"] = "%s: %s" % (type(error).__name__, error)
sys.stdout.write("\nneurogc-doctor:" + json.dumps(facts) + "\n")
sys.stdout.flush()
"#;

/// What an interpreter said about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct InterpreterFacts {
    pub(crate) version: String,
    pub(crate) implementation: String,
    pub(crate) executable: String,
    #[serde(default)]
    pub(crate) status: Option<Status>,
    #[serde(default)]
    pub(crate) error: Option<String>,
}

/// The interpreter that a user means without naming one.
pub(crate) fn default_python() -> PathBuf {
    let in_environment = env::var_os("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin/python"));
    in_environment.filter(|python| python.exists()).unwrap_or_else(|| PathBuf::from("python3"))
}

/// Runs an interpreter with the agent. The error says why nothing is known about it.
pub(crate) fn ask(python: &Path, home: &Home) -> Result<InterpreterFacts, String> {
    let shown = python.display();
    if program::find(python.as_os_str(), env::var_os("PATH").as_deref()).is_none() {
        return Err(format!("there is no interpreter {shown}. Name one with --python"));
    }
    let mut command = Command::new(python);
    command.args([OsString::from("-c"), CODE.into()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A trace that the settings ask for must not be overwritten by a look at the machine.
    injection::inject(&mut command, home, &[("trace".to_owned(), String::new())])?;
    let mut child = command.spawn().map_err(|error| format!("cannot run {shown}: {error}"))?;
    let output = drain(child.stdout.take());
    let errors = drain(child.stderr.take());
    let ended = wait(&mut child);
    let (output, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
    if let Some(facts) = parse(&output) {
        return Ok(facts);
    }
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed no error");
    let last = shorten(&plain(last), LONGEST_ERROR);
    Err(match ended {
        Some(status) => format!("{shown} did not answer like a Python interpreter ({status}): {last}"),
        None => format!("{shown} did not answer within {} s: {last}", PATIENCE.as_secs()),
    })
}

fn parse(output: &str) -> Option<InterpreterFacts> {
    let line = output.lines().rev().find_map(|line| line.strip_prefix(MARK))?;
    serde_json::from_str(line).ok()
}

/// Reads a pipe to its end in a thread, so that a full one cannot hold the child up.
fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before a failure is still worth looking at.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_among_other_output() {
        let output = "hello from sitecustomize\n\nneurogc-doctor:{\"version\": \"3.12.1\", \"implementation\": \"CPython\", \
                      \"executable\": \"/usr/bin/python3\", \"error\": \"ImportError: no\"}\nbye\n";
        let facts = parse(output);
        assert!(
            facts.is_some_and(|facts| facts.version == "3.12.1" && facts.error.as_deref() == Some("ImportError: no"))
        );
        assert_eq!(parse("nothing"), None);
    }
}
