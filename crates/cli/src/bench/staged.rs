//! A scenario's script, running: started in a process group of its own, spoken to, and ended whatever happens.

use std::collections::VecDeque;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{self, Path};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use neurogc_wire::status::Status;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;

use super::contender::Contender;
use super::interrupt::Interrupt;
use super::surroundings::OnOneCore;
use crate::figures::plain;
use crate::home::Home;
use crate::injection;

/// How long a script may take to build what it needs.
const START: Duration = Duration::from_secs(120);
/// How much of what a script says on standard error is kept.
const LAST_LINES: usize = 5;
/// How often an interrupt is checked for.
const STEP: Duration = Duration::from_millis(50);

/// Pauses of one kind, as the script's own callback saw them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct StagedPauses {
    pub(crate) count: u64,
    pub(crate) total_ms: f64,
    pub(crate) max_ms: f64,
}

/// All pauses, by generation and by place.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct StagedCollections {
    pub(crate) full: StagedPauses,
    pub(crate) in_request: StagedPauses,
    pub(crate) in_gap: StagedPauses,
}

/// One line of a script, or one answer of its service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Word {
    pub(crate) ready: bool,
    pub(crate) skip: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) done: bool,
    pub(crate) seconds: f64,
    pub(crate) steps_ms: Vec<f64>,
    pub(crate) programs: std::collections::BTreeMap<String, Vec<f64>>,
    pub(crate) collections: StagedCollections,
    pub(crate) neurogc: Option<Status>,
    pub(crate) before: Option<Status>,
    pub(crate) garbage: Option<u64>,
    /// Why a loop ended before its time.
    pub(crate) ended_early: Option<String>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Silence {
    /// The user has interrupted the command.
    Interrupted,
    /// Something went wrong, in words.
    Failed(String),
}

/// How a script is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptSetup<'s> {
    pub(crate) python: &'s Path,
    pub(crate) home: &'s Home,
    /// The folder with the scripts.
    pub(crate) scripts: &'s Path,
    /// The share of the live heap that is built.
    pub(crate) heap: f64,
    /// Whether it is held on one core, with all its children.
    pub(crate) one_core: bool,
    /// The file of the cgroup that it is to be in; none for that of the runner.
    pub(crate) door: Option<&'s Path>,
}

impl<'s> ScriptSetup<'s> {
    /// On all cores, and in the cgroup of the runner.
    pub(crate) fn new(python: &'s Path, home: &'s Home, scripts: &'s Path, heap: f64) -> Self {
        Self { python, home, scripts, heap, one_core: false, door: None }
    }

    /// The interpreter, which enters the cgroup before it begins.
    fn interpreter(&self) -> Command {
        // The script runs in another folder, where a relative path would lead elsewhere. A bare name is searched for.
        let is_path = self.python.components().count() > 1;
        let python = path::absolute(self.python).ok().filter(|_| is_path).unwrap_or_else(|| self.python.to_owned());
        let Some(door) = self.door else { return Command::new(python) };
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(door).arg(python);
        command
    }
}

/// A running script.
#[derive(Debug)]
pub(crate) struct Staged {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Arc<Mutex<VecDeque<String>>>,
}

impl Staged {
    /// Starts a script. Call it in a thread that lives as long as the script shall: the kernel ends it with that thread.
    pub(crate) fn start(
        setting: ScriptSetup<'_>,
        script: &str,
        contender: &Contender,
        seconds: Duration,
    ) -> Result<Self, String> {
        let mut command = setting.interpreter();
        command.arg(setting.scripts.join(script)).current_dir(setting.scripts).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with(neurogc_settings::ENVIRONMENT_PREFIX) {
                command.env_remove(name);
            }
        }
        command.env_remove("PYTHONPATH").env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONHASHSEED", "0");
        if let Some(policy) = &contender.policy {
            let mut settings = vec![("policy".to_owned(), policy.to_string())];
            settings.extend_from_slice(&contender.settings);
            injection::inject_alone(&mut command, setting.home, &settings)?;
            injection::preload(&mut command, setting.home);
        }
        command
            .env("SCENE_COLLECTOR", &contender.collector)
            .env("SCENE_SECONDS", seconds.as_secs_f64().to_string())
            .env("SCENE_SCALE", setting.heap.to_string());
        // Only while it is started: the threads that listen to it belong elsewhere.
        let pinned = if setting.one_core { Some(OnOneCore::pin()?) } else { None };
        let mut child = command.spawn().map_err(|error| format!("cannot run {}: {error}", setting.python.display()))?;
        drop(pinned);
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let errors = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(output) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let Ok(mut kept) = errors.lock() else { break };
                    kept.push_back(line);
                    if kept.len() > LAST_LINES {
                        kept.pop_front();
                    }
                }
            });
        }
        let input = child.stdin.take();
        Ok(Self { child, input, lines, errors })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself, or was killed.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Its first word.
    pub(crate) fn first(&mut self, interrupt: &Interrupt) -> Result<Word, Silence> {
        self.hear(START, interrupt, &mut || {})
    }

    /// Says a word to a loop and hears the answer; meanwhile `look` is called again and again.
    pub(crate) fn ask(
        &mut self,
        word: &str,
        patience: Duration,
        interrupt: &Interrupt,
        look: &mut dyn FnMut(),
    ) -> Result<Word, Silence> {
        let said = self.input.as_mut().map(|input| writeln!(input, "{word}").and_then(|()| input.flush()));
        if !matches!(said, Some(Ok(()))) {
            return Err(Silence::Failed(self.what_it_said("the script has ended")));
        }
        self.hear(patience, interrupt, look)
    }

    fn hear(&mut self, patience: Duration, interrupt: &Interrupt, look: &mut dyn FnMut()) -> Result<Word, Silence> {
        let deadline = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(STEP) {
                Ok(line) if line.trim_start().starts_with('{') => {
                    return serde_json::from_str(&line)
                        .map_err(|error| Silence::Failed(format!("the script said something unexpected: {error}")));
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => look(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Silence::Failed(self.what_it_said("the script has ended")));
                }
            }
            if interrupt.came() {
                return Err(Silence::Interrupted);
            }
            if Instant::now() >= deadline {
                let late = format!("the script did not answer within {} s", patience.as_secs());
                return Err(Silence::Failed(self.what_it_said(&late)));
            }
        }
    }

    /// What went wrong, with the script's own last words.
    pub(crate) fn what_it_said(&mut self, what: &str) -> String {
        let ended = self.child.try_wait().ok().flatten().map_or_else(String::new, |status| format!(" ({status})"));
        // The thread that listens may be a moment behind.
        thread::sleep(STEP);
        let said = self.errors.lock().map(|lines| lines.iter().map(|line| plain(line)).collect::<Vec<_>>());
        let said = said.unwrap_or_default().join(" / ");
        if said.is_empty() { format!("{what}{ended}") } else { format!("{what}{ended}: {said}") }
    }
}

impl Drop for Staged {
    /// Ends the script and everything that it started.
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}
