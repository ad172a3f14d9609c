//! Running a piece of Python in a process that runs already: x86-64 and CPython 3.10 or newer.
//!
//! `facts` says what the target is and who may touch it; `memory`, `elf` and `interpreter` find Python in it, and
//! `main_thread` the thread that it was started in; `tracee` stops that thread for a moment; `moment` judges what the thread was doing; `frame` and `stub` have it run
//! something and go on; `remote_debug` is what 3.14 offers; `session` puts these together. `package` brings the Python
//! package to where the target can load it. How it works is described in docs/attach.md.

mod elf;
mod facts;
mod frame;
mod interpreter;
mod main_thread;
mod memory;
mod moment;
mod package;
mod remote_debug;
mod root;
mod session;
mod stub;
mod text;
mod tracee;

use std::time::Duration;

pub(crate) use self::facts::TargetFacts;
pub(crate) use self::package::PlacedPackage;
pub(crate) use self::root::remove_folder;
pub(crate) use self::session::Execution;
pub(crate) use self::text::{TextAnswer, literal};

use self::facts::{OwnRights, denial};
use self::interpreter::{RemotePython, Unsuitable};
use self::memory::TargetMemory;
use self::remote_debug::RuntimeFacts;
use self::session::{STACK_FOR_PYTHON, Session, SessionError};
use self::tracee::StopError;

/// How often a text is tried again that came at a bad moment.
const ATTEMPTS: u32 = 4;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// The oldest version that is supported, as in `PY_VERSION_HEX`.
const OLDEST: u32 = 0x030a_0000;

/// A process that can be attached to.
#[derive(Debug)]
pub(crate) struct Attachable {
    pub(crate) facts: TargetFacts,
    python: RemotePython,
    runtime: Option<RuntimeFacts>,
}

impl Attachable {
    /// Looks at a process; the error says why it is not one and what would help.
    pub(crate) fn look_at(pid: u32) -> Result<Self, String> {
        let facts = TargetFacts::read(pid).ok_or_else(|| format!("there is no process {pid}"))?;
        match facts.state {
            'Z' | 'X' => return Err(format!("process {pid} has ended; only its exit code is left")),
            'T' => return Err(format!("process {pid} is stopped. Let it run first: `kill -CONT {pid}`")),
            _ => {}
        }
        if facts.tracer != 0 {
            return Err(denial(&facts, &OwnRights::read()));
        }
        if facts.has_shadow_stack {
            return Err(format!(
                "process {pid} uses a shadow stack, which forbids what `attach` does. Start it with `neurogc run` instead"
            ));
        }
        if facts.seccomp == 1 {
            return Err(format!(
                "process {pid} may only read and write (seccomp in strict mode): nothing can be loaded"
            ));
        }
        let python = interpreter::find(pid).map_err(|trouble| unsuitable(&facts, trouble))?;
        let runtime = remote_debug::look(TargetMemory::of(pid), python.runtime)
            .map_err(|_| format!("process {pid} ended meanwhile"))?;
        let is_known = runtime.is_some_and(|runtime| runtime.interface.is_some() || runtime.is_disabled);
        // 3.14 and later say themselves what they were told; older ones have no opinion, so what was meant counts.
        let disabled_by = match runtime {
            Some(runtime) if runtime.is_disabled => Some("remote debugging is disabled in it"),
            _ if is_known => None,
            _ => facts.disabled_by,
        };
        if let Some(reason) = disabled_by {
            return Err(format!(
                "process {pid} does not want to be attached to: {reason}. Start it with `neurogc run`, or without that"
            ));
        }
        if runtime.is_some_and(|runtime| runtime.is_finalizing) {
            return Err(ending(pid));
        }
        if runtime.is_some_and(|runtime| runtime.is_free_threaded) {
            return Err(format!(
                "process {pid} runs a free-threaded Python, in which the agent cannot be loaded. Call neurogc.install() in \
                 the program: it measures what it can without the agent"
            ));
        }
        if python.version != 0 && python.version < OLDEST {
            return Err(format!("process {pid} runs a Python older than 3.10"));
        }
        Ok(Self { facts, python, runtime })
    }

    /// Has it run code that sets `answer`.
    pub(crate) fn execute(&self, code: &str, patience: Duration) -> Result<Execution, String> {
        let pid = self.facts.pid;
        let interface = self.runtime.and_then(|runtime| runtime.interface);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let session = Session::new(&self.facts, &self.python, interface, code, patience);
            let execution = session.run().map_err(|error| self.trouble(&error, patience))?;
            match &execution.answer {
                Some(TextAnswer::Again(reason)) if attempt == ATTEMPTS => {
                    return Err(format!("process {pid} was busy with something else each time: {reason}. Try again"));
                }
                Some(TextAnswer::Again(_)) => std::thread::sleep(BETWEEN_ATTEMPTS),
                _ => return Ok(execution),
            }
        }
    }

    fn trouble(&self, error: &SessionError, patience: Duration) -> String {
        let pid = self.facts.pid;
        match error {
            SessionError::Stop(StopError::Gone) => format!("process {pid} ended meanwhile"),
            SessionError::Stop(StopError::NotPermitted) => {
                let facts = TargetFacts::read(pid).unwrap_or_else(|| self.facts.clone());
                denial(&facts, &OwnRights::read())
            }
            SessionError::Stop(StopError::Unstoppable) => format!(
                "the main thread of process {pid} waits in the kernel and cannot be interrupted, for instance for a disk, \
                 or for a child that it has started with vfork. Try again later; nothing was changed"
            ),
            SessionError::Stop(StopError::Suspended) => {
                format!("process {pid} is stopped. Let it run first: `kill -CONT {pid}`")
            }
            SessionError::Late => format!(
                "process {pid} did not come to it within {} s: its main thread is in native code that holds the GIL, or \
                 waits for a lock. Nothing was changed, and nothing will run later. Try again with a longer --timeout",
                patience.as_secs()
            ),
            SessionError::NotInitialized => {
                format!("Python is not ready in process {pid}: it starts or ends. Try again")
            }
            SessionError::Finalizing => ending(pid),
            SessionError::NoPage => format!(
                "process {pid} could not get memory that can be executed: SELinux (execmem), systemd's \
                 MemoryDenyWriteExecute, or a seccomp filter forbids it. Start it with `neurogc run` instead"
            ),
            SessionError::NoStack => format!(
                "the stack of the main thread of process {pid} has no room for loading the agent: that takes {} KiB, and the \
                 limit is {} KiB (`ulimit -s`). Start the program with a higher limit, or try again when it is less deep in calls",
                STACK_FOR_PYTHON / 1024,
                self.facts.stack_limit / 1024
            ),
            SessionError::NoMainThread => format!(
                "no thread of process {pid} is the main thread of Python: the one in which the program has started Python has \
                 ended, or Python is only starting. Nothing was changed. Try again, or start the program with `neurogc run`"
            ),
            SessionError::Replaced => format!("process {pid} has executed another program meanwhile. Try again"),
        }
    }
}

fn ending(pid: u32) -> String {
    format!("Python is ending in process {pid}")
}

fn unsuitable(facts: &TargetFacts, trouble: Unsuitable) -> String {
    let pid = facts.pid;
    match trouble {
        Unsuitable::Unreadable if TargetFacts::read(pid).is_none() => format!("process {pid} ended meanwhile"),
        Unsuitable::Unreadable => denial(facts, &OwnRights::read()),
        Unsuitable::Bits32 => format!("process {pid} is a 32-bit program; NeuroGC is for 64 bits"),
        Unsuitable::NoPython => {
            format!(
                "there is no CPython in process {pid}, or one that exports nothing. `neurogc attach` is for CPython"
            )
        }
        Unsuitable::Lacks(what) => {
            format!("the Python of process {pid} cannot be attached to: {what} is missing. Start it with `neurogc run`")
        }
    }
}
