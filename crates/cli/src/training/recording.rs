//! A program that is started, loaded and recorded, to learn from.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use neurogc_load::{Arrivals, Asks, Flow, Load, LoadPlan, PlanPart, Target, drive, get};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::bench::interrupt::Interrupt;
use crate::failure::Failure;
use crate::home::Home;
use crate::injection;
use crate::notice::say;

/// How long the program may take to answer for the first time, and to end.
const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(10);

/// What is recorded.
#[derive(Debug)]
pub(crate) struct RecordingPlan {
    command: String,
    target: Target,
    path: String,
    rate: f64,
    seconds: u64,
}

impl RecordingPlan {
    /// A program, and where it answers.
    pub(crate) fn new(command: &str, url: &str, rate: f64, seconds: u64) -> Result<Self, Failure> {
        let wrong = |reason: &str| Failure::usage(format!("cannot load {url}: {reason}"));
        let rest = url.strip_prefix("http://").ok_or_else(|| wrong("write http://127.0.0.1:PORT/PATH"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let address: SocketAddr = host
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.find(SocketAddr::is_ipv4))
            .ok_or_else(|| wrong("it is not an address"))?;
        let target = Target::new(address).map_err(|error| wrong(&error.to_string()))?;
        if rate <= 0.0 {
            return Err(Failure::usage("--rate must be above zero"));
        }
        Ok(Self { command: command.to_owned(), target, path: format!("/{path}"), rate, seconds })
    }

    /// Starts the program, loads it and gives its trace.
    pub(crate) fn record(&self, to: &Path) -> Result<PathBuf, Failure> {
        let home = Home::find().map_err(Failure::failed)?;
        let to = std::path::absolute(to)?;
        let text = to.to_str().ok_or_else(|| Failure::usage("the path of the trace must be valid UTF-8"))?;
        remove_traces(&to)?;
        let settings = [("policy".to_owned(), "gap".to_owned()), ("trace".to_owned(), text.to_owned())];
        let mut command = Command::new("sh");
        // The program stays one child: the shell is replaced by it. Its group is its own, so that all of it can be ended.
        command
            .args(["-c", &format!("exec {}", self.command)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0);
        injection::inject(&mut command, &home, &settings).map_err(Failure::failed)?;
        let child =
            command.spawn().map_err(|error| Failure::failed(format!("cannot start {}: {error}", self.command)))?;
        let loaded = self.load(Running(child));
        loaded?;
        trace_of(&to).ok_or_else(|| {
            Failure::failed(format!(
                "{} recorded nothing: is it a Python program that runs under neurogc?",
                self.command
            ))
        })
    }

    fn load(&self, mut program: Running) -> Result<(), Failure> {
        let interrupt = Interrupt::watch()?;
        say(format_args!("waiting for {} to answer", self.command));
        let until = Instant::now() + START;
        while get(self.target, &self.path, Duration::from_secs(5)).is_err() {
            if let Some(status) = program.0.try_wait()? {
                return Err(Failure::failed(format!("{} ended before it answered: {status}", self.command)));
            }
            if Instant::now() > until || interrupt.came() {
                return Err(Failure::failed(format!("{} does not answer at {}", self.command, self.path)));
            }
            thread::sleep(Duration::from_millis(100));
        }
        // A pause in which it can settle, as services have when they are started.
        thread::sleep(Duration::from_secs(2));
        say(format_args!("recording {} s with {} requests a second", self.seconds, self.rate));
        let plan = LoadPlan {
            target: self.target,
            asks: Asks::of(&self.path),
            load: Load::Open(Arrivals::Poisson { per_second: self.rate }),
            parts: vec![PlanPart { name: "recorded", lasts: Duration::from_secs(self.seconds) }],
            patience: Duration::from_secs(5),
            connections: 512,
            shed: false,
            seed: 1,
        };
        drive(&plan, &mut |_| if interrupt.came() { Flow::Stop } else { Flow::On })?;
        if interrupt.came() {
            return Err(Failure::with_code(crate::bench::interrupt::CODE, "interrupted"));
        }
        Ok(())
    }
}

/// A program that is ended when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.id() as i32);
        let _ = killpg(group, Signal::SIGTERM);
        let until = Instant::now() + END;
        while Instant::now() < until {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// The traces of a recording: the first process writes to the file, others add their number to its name.
fn traces(to: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(stem)) = (to.parent(), to.file_stem().and_then(|stem| stem.to_str())) else {
        return Ok(Vec::new());
    };
    let all = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".ngct"))
    };
    Ok(all.filter(ours).collect())
}

fn remove_traces(to: &Path) -> io::Result<()> {
    traces(to)?.iter().try_for_each(fs::remove_file)
}

/// The trace that says most: of a server with workers that is a worker's.
fn trace_of(to: &Path) -> Option<PathBuf> {
    traces(to).ok()?.into_iter().max_by_key(|path| fs::metadata(path).map_or(0, |found| found.len()))
}
