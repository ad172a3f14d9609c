//! The thread that speaks to the outside: it looks at the process, answers on the control socket, reports to hubs and
//! writes the trace.
//!
//! It works with descriptors of its own. Where the kernel does not give it a private table it opens nothing that it
//! would write to: the program could close such a descriptor and open a file of its own under the same number.

mod backlog;
mod control;
mod follower;
mod listeners;
mod push;
mod response;
mod trace_file;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::cpython::arenas::Upkeep;
use crate::lifecycle::agent::{Agent, lock};
use crate::lifecycle::threads::Crew;
use crate::python::gc_functions::leave_to_cpython;
use crate::snapshot::left_behind::LeftBehind;
use crate::sys::native::{Descriptors, monotonic_ns, thread_cpu_ns};
use control::Control;
use listeners::Listeners;
use trace_file::TraceFile;

/// How often questions and trace blocks are looked for.
const ROUND: Duration = Duration::from_millis(200);

/// The same while a hub listens, which wants to show things as they happen.
const LISTENED_ROUND: Duration = Duration::from_millis(100);

/// What is done for huge pages is done a little at a time: whoever touches one meanwhile waits.
const UPKEEP: Duration = Duration::from_micros(200);
const UPKEEP_ROUND: Duration = Duration::from_millis(3);

/// How long a forked child may take before it is heard and recorded.
const AWAIT_EXEC: Duration = Duration::from_millis(20);

/// Serves until it is told to stop, and watches over the other two threads.
pub(crate) fn run(agent: &Agent, descriptors: Descriptors, crew: &Crew) {
    if agent.forked {
        await_exec(agent);
    }
    let mut uplink = Uplink::open(agent, descriptors);
    let mut upkeep = Upkeep::default();
    let mut left_behind = LeftBehind::new();
    while !agent.stopping() {
        uplink.round(false);
        if let Some(lost) = crew.lost()
            && !agent.stopping()
        {
            agent.ledger().trouble(lost.to_owned());
            leave_to_cpython(agent);
        }
        agent.rounds.uplink.fetch_add(1, Ordering::AcqRel);
        left_behind.look(&agent.snapshots);
        let more = upkeep.round(UPKEEP);
        std::thread::park_timeout(if more { UPKEEP_ROUND } else { uplink.pace() });
    }
    // The conductor closes its last block when it stops, which it does at once.
    while crew.senses() {
        std::thread::park_timeout(Duration::from_micros(50));
    }
    uplink.round(true);
}

/// Gives a forked child the time to become another program, as `subprocess` has it do: it would leave a socket behind
/// that nobody listens on, and an empty trace. Somebody who asks is not kept waiting.
fn await_exec(agent: &Agent) {
    let until = Instant::now() + AWAIT_EXEC;
    while Instant::now() < until && !agent.stopping() && !agent.rounds.wanted.load(Ordering::Acquire) {
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
}

struct Uplink<'a> {
    agent: &'a Agent,
    look_due: u64,
    control: Option<Control>,
    descriptors: Descriptors,
    trace: Option<TraceFile>,
    listeners: Listeners,
    cpu_before: u64,
}

impl<'a> Uplink<'a> {
    fn open(agent: &'a Agent, descriptors: Descriptors) -> Self {
        let mut trace = None;
        let mut listeners = Listeners::default();
        if descriptors == Descriptors::Private {
            trace = agent.settings.trace.as_deref().and_then(|path| open_trace(agent, path));
            listeners = Listeners::new(agent);
        } else {
            let reason = "the kernel gives the agent no descriptors of its own: no control socket, no hub, no trace";
            agent.ledger().trouble(reason.to_owned());
        }
        let cpu_before = agent.ledger().uplink_cpu_ns;
        let mut uplink = Self { agent, look_due: 0, control: None, descriptors, trace, listeners, cpu_before };
        uplink.open_control();
        uplink
    }

    fn open_control(&mut self) {
        if self.descriptors == Descriptors::Private {
            self.control = Control::open().map_err(|reason| self.agent.ledger().trouble(reason)).ok();
        }
    }

    fn round(&mut self, last: bool) {
        let now = monotonic_ns();
        let asked = self.agent.rounds.wanted.swap(false, Ordering::AcqRel)
            || self.control.as_ref().is_some_and(Control::somebody_waits);
        if now >= self.look_due || asked || last || self.listeners.want_figures(now) {
            self.look_due = now + self.agent.settings.sample.as_nanos() as u64;
            let seen = lock(&self.agent.process).look(asked);
            let mut ledger = self.agent.ledger();
            ledger.process(now, seen);
            if seen.threads == 0 {
                ledger
                    .trouble("/proc cannot be read: memory, I/O, descriptors and threads are not measured".to_owned());
            }
            ledger.uplink_cpu_ns = self.cpu_before + thread_cpu_ns();
            if last {
                self.agent.close_block(&mut ledger);
            }
        }
        if self.control.as_ref().is_some_and(|control| !control.is_of_this_user()) {
            self.open_control();
        }
        if let Some(control) = &self.control {
            for stream in control.answer_all(self.agent) {
                self.listeners.add(self.agent, stream);
            }
        }
        self.listeners.round(self.agent, now);
        while let Some(block) = self.agent.blocks.pop() {
            self.write(&block);
        }
    }

    /// How long the next round may wait.
    fn pace(&self) -> Duration {
        if self.listeners.are_there() { LISTENED_ROUND } else { ROUND }
    }

    fn write(&mut self, block: &[u8]) {
        let Some(trace) = &mut self.trace else { return };
        if let Err(error) = trace.write(block) {
            let mut ledger = self.agent.ledger();
            ledger.lost_blocks += 1;
            ledger.trouble(format!("the trace ends here: {error}"));
            ledger.trace = None;
            self.trace = None;
        }
    }
}

fn open_trace(agent: &Agent, path: &Path) -> Option<TraceFile> {
    match TraceFile::open(agent, path) {
        Ok(trace) => Some(trace),
        Err(reason) => {
            let mut ledger = agent.ledger();
            ledger.trouble(reason);
            ledger.trace = None;
            None
        }
    }
}
