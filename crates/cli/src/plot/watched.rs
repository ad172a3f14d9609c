//! A command that runs below this one while its memory is watched: signals go on to it, and this command ends as it did.

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::course::PlotCourse;
use super::tree::ProcessTree;

/// How long a signal, or the end of the command, may lie before it is seen.
const STEP: Duration = Duration::from_millis(20);

/// What is passed on. A terminal sends the first two to all processes in the foreground, so that they have come already.
const SIGNALS: [i32; 6] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
const OF_TERMINALS: [i32; 2] = [SIGINT, SIGQUIT];

/// Signals for the command that have come to this one.
struct Forwarded(Vec<(i32, Arc<AtomicBool>)>);

impl Forwarded {
    /// Notes signals from now on. One that is ignored stays so, for the command inherits it.
    fn watch() -> io::Result<Self> {
        let ignored = ignored_signals();
        let mut noted = Vec::new();
        for signal in SIGNALS.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0) {
            let came = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&came))?;
            noted.push((signal, came));
        }
        Ok(Self(noted))
    }

    fn pass_on(&self, to: Pid, at_terminal: bool) {
        for (signal, came) in &self.0 {
            if came.swap(false, Ordering::Relaxed)
                && !(at_terminal && OF_TERMINALS.contains(signal))
                && let Ok(signal) = Signal::try_from(*signal)
            {
                // It may have ended just now.
                let _ = kill(to, signal);
            }
        }
    }
}

/// The mask of signals that this process ignores.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Runs the command to its end. Gives how it ended, and its memory over time.
pub(crate) fn run(command: &mut Command, at_terminal: bool) -> io::Result<(ExitStatus, PlotCourse, Duration)> {
    let signals = Forwarded::watch()?;
    let began = Instant::now();
    let mut child = command.spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let (mut tree, mut course) = (ProcessTree::of(child.id()), PlotCourse::new());
    loop {
        let due = Instant::now() + course.step();
        let (looked, uss) = tree.look();
        if !looked.is_empty() {
            course.push(began.elapsed().as_secs_f64(), &looked, uss);
        }
        if let Some(status) = wait(&mut child, due, || signals.pass_on(pid, at_terminal))? {
            return Ok((status, course, began.elapsed()));
        }
    }
}

/// Waits until the command has ended, or the next look is due.
fn wait(child: &mut Child, due: Instant, meanwhile: impl Fn()) -> io::Result<Option<ExitStatus>> {
    loop {
        meanwhile();
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        thread::sleep(left.min(STEP));
    }
}

/// How it ended, in words.
pub(crate) fn outcome(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => {
            let name =
                Signal::try_from(signal).map_or_else(|_| signal.to_string(), |signal| signal.as_str().to_owned());
            format!("ended by {name}")
        }
        (None, None) => "ended".to_owned(),
    }
}

/// Ends this process as the command ended: with its exit code, or by the same signal. There is no second core dump.
pub(crate) fn end_like(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        if let Ok(signal) = Signal::try_from(signal) {
            let _ = nix::sys::signal::raise(signal);
        }
        std::process::exit(128 + signal);
    }
    std::process::exit(status.code().unwrap_or(1));
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_watched_to_its_end() {
        let (status, course, took) = run(Command::new("sh").args(["-c", "sleep 0.2; exit 3"]), false).unwrap();
        assert_eq!((status.code(), outcome(status).as_str()), (Some(3), "exit code 3"));
        assert!(took >= Duration::from_millis(200));
        let text = serde_json::to_string(&course).unwrap();
        assert!(text.contains("\"name\":\"sh\"") && text.contains("\"name\":\"sleep\""), "{text}");
    }

    #[test]
    fn a_signal_that_ended_it_has_a_name() {
        let (status, ..) = run(Command::new("sh").args(["-c", "kill -SEGV $$"]), false).unwrap();
        assert_eq!(outcome(status), "ended by SIGSEGV");
    }
}
