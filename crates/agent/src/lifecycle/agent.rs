//! One installed agent: its state, its threads, and how they are stopped around a fork.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant};

use neurogc_wire::workers::WorkerKind;
use nix::sys::signal::{SigSet, SigmaskHow};
use pyo3::Python;

use crate::act::acting::Acting;
use crate::act::main_thread::MainThreadCalls;
use crate::act::this_process::ThisProcess;
use crate::alloc::Sampling;
use crate::book::books::Books;
use crate::book::status::ReportSources;
use crate::host::Host;
use crate::sense::sensors::Sensors;
use crate::sys::locks::lock;
use crate::sys::native::{Descriptors, leave_shared_descriptors};
use crate::sys::wake::{SAMPLER, UPLINK};
use crate::threads::ThreadControl;
use crate::threads::member::{Crew, Member, catch};
use crate::threads::rounds::wait_until;
use crate::{sampler, uplink};

/// The stack of our threads, which never run Python.
const STACK: usize = 256 * 1024;

/// How long a report waits for fresh figures.
const FRESH_PATIENCE: Duration = Duration::from_millis(100);

/// How long a fork waits for the threads to end.
const FORK_PATIENCE: Duration = Duration::from_millis(100);

/// How long the end of the program waits for them.
pub(crate) const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// An installed agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) host: Host,
    pub(crate) sensors: Sensors,
    pub(crate) acting: Acting,
    pub(crate) books: Books,
    pub(crate) control: ThreadControl,
    threads: Mutex<Threads>,
    /// A child that native code has forked has no agent any more.
    left: AtomicBool,
}

/// The threads there are, and whether there should be any.
#[derive(Debug, Default)]
struct Threads {
    running: Option<Running>,
    /// Threads that are late to end begin again by themselves while this is set.
    wanted: bool,
}

#[derive(Debug)]
struct Running {
    uplink: Member,
    /// The uplink has looked for the last time whether it is wanted.
    leaves: bool,
    /// The sampler is started by the uplink, whose private descriptors it shares, and joined by it.
    sampler: Arc<Mutex<Option<Thread>>>,
}

impl Agent {
    /// An agent that has not begun yet, in a process whose allocations are sampled so.
    pub(crate) fn new(host: Host, sampling: Sampling, main_thread: MainThreadCalls) -> Self {
        let can_act = host.interpreter.can_be_conducted();
        let acting = Acting::new(&host.settings, host.installed, can_act, main_thread);
        Self::of(host, sampling, acting)
    }

    fn of(host: Host, sampling: Sampling, acting: Acting) -> Self {
        Self {
            sensors: Sensors::new(host.installed, sampling),
            acting,
            books: Books::new(host.installed, host.settings.trace.is_some()),
            control: ThreadControl::default(),
            threads: Mutex::default(),
            left: AtomicBool::new(false),
            host,
        }
    }

    /// Starts both threads.
    pub(crate) fn start(self: &Arc<Self>) {
        let mut threads = lock(&self.threads);
        threads.wanted = true;
        // Where earlier ones are late to end, they see that they are wanted again. There is never a second pair.
        match &threads.running {
            Some(running) if running.uplink.is_lost() => {
                let lost = "the uplink thread has ended: the process is not looked at any more";
                self.books.ledger().trouble(lost.to_owned());
                self.acting.leave_to_cpython();
            }
            Some(running) if !running.leaves => {}
            _ => self.spawn_both(&mut threads),
        }
    }

    fn spawn_both(self: &Arc<Self>, threads: &mut Threads) {
        self.control.stop(false);
        let sampler = Arc::new(Mutex::new(None));
        let (agent, slot) = (Arc::clone(self), Arc::clone(&sampler));
        let body = move || {
            run_both(&agent, &slot);
            agent.leave();
        };
        let begun = with_signals_blocked(|| Member::start("neurogc-uplink", STACK, body));
        threads.running = match begun {
            Ok(uplink) => Some(Running { uplink, leaves: false, sampler }),
            Err(error) => {
                self.books.ledger().trouble(format!("the agent's threads did not start: {error}"));
                None
            }
        };
    }

    /// The last thing that the uplink's thread does. If another thread has asked for a start meanwhile, it starts both
    /// threads again.
    fn leave(self: &Arc<Self>) {
        let mut threads = lock(&self.threads);
        if threads.wanted && self.control.stopping() {
            self.spawn_both(&mut threads);
        } else if let Some(running) = &mut threads.running {
            running.leaves = true;
        }
    }

    /// Ends both threads, waiting at most `patience`. One that does not end in time ends by itself later.
    pub(crate) fn stop(&self, patience: Duration) {
        if self.host.is_foreign() {
            // A child that native code has forked behind Python's back: there are no threads here to wait for.
            return;
        }
        lock(&self.threads).wanted = false;
        self.control.stop(true);
        let deadline = Instant::now() + patience;
        loop {
            let mut threads = lock(&self.threads);
            let Some(running) = &threads.running else { return };
            if running.uplink.is_lost() {
                return;
            }
            if running.uplink.has_ended() {
                // The code is over; the join waits for the kernel to take the thread away.
                if let Some(running) = threads.running.take() {
                    running.uplink.join();
                }
                return;
            }
            running.unpark();
            drop(threads);
            if Instant::now() > deadline {
                return;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Stops the threads before the program forks, perhaps a worker of a kind: a forked process has none, and CPython warns
    /// about them.
    pub(crate) fn before_fork(&self, worker: Option<WorkerKind>) {
        // Threads that an earlier fork has waited for in vain are not waited for again.
        self.stop(if self.control.stopping() { Duration::ZERO } else { FORK_PATIENCE });
        if let Some(kind) = worker {
            self.sensors.children.before_fork(kind);
        }
    }

    /// The agent of a forked child: the same settings, and empty books. Of the parent's agent only that is read which
    /// threads with the GIL alone change: a lock of another kind may have been held when the process was forked.
    pub(crate) fn in_child(&self, is_worker: bool) -> Self {
        let policy = self.acting.policy.set_in_parent().unwrap_or_else(|| self.host.settings.policy.clone());
        let host = self.host.in_child(policy, is_worker);
        let acting = self.acting.in_child(&host.settings, host.installed);
        Self::of(host, self.sensors.sites.sampling.clone(), acting)
    }

    /// What a status report is made of.
    pub(crate) fn sources(&self) -> ReportSources<'_> {
        let Self { host, sensors, acting, books, .. } = self;
        ReportSources { host, sensors, acting, books }
    }

    /// The thread that is in a collection, or in the order that follows it, if one is.
    pub(crate) fn collecting_thread(&self) -> Option<usize> {
        self.sensors.hooks.collecting_thread().or_else(|| self.acting.actor.running_in())
    }

    /// Whether this process, which native code has forked, was left before; it is from now on.
    pub(crate) fn is_left(&self) -> bool {
        self.left.swap(true, Ordering::Relaxed)
    }

    /// The interpreter, for a thread that holds the GIL.
    pub(crate) fn vm<'a, 'py>(&'a self, py: Python<'py>) -> ThisProcess<'a, 'py> {
        ThisProcess { py, interpreter: &self.host.interpreter, snapshots: &self.acting.snapshots }
    }

    /// Waits, for a short while, until everything that has happened is in the books.
    pub(crate) fn refresh(&self) {
        let (sampler, uplink) = (self.control.sampler.ask(), self.control.uplink.ask());
        match &lock(&self.threads).running {
            Some(running) if !self.host.is_foreign() => running.unpark(),
            _ => return,
        }
        let are_done = || self.control.sampler.has_answered(sampler) && self.control.uplink.has_answered(uplink);
        wait_until(are_done, FRESH_PATIENCE);
    }

    /// Has the uplink do a round, and waits for its end. False where it did not come within the time.
    pub(crate) fn await_uplink(&self, patience: Duration) -> bool {
        let round = self.control.uplink.ask();
        match &lock(&self.threads).running {
            Some(running) if !self.host.is_foreign() => running.unpark(),
            _ => return false,
        }
        wait_until(|| self.control.uplink.has_answered(round), patience);
        self.control.uplink.has_answered(round)
    }
}

impl Running {
    fn unpark(&self) {
        UPLINK.wake();
        SAMPLER.wake();
        self.uplink.thread().unpark();
        if let Some(sampler) = &*lock(&self.sampler) {
            sampler.unpark();
        }
    }
}

/// The uplink's thread: it leaves the program's descriptors, starts the sampler, and outlives it.
fn run_both(agent: &Arc<Agent>, slot: &Mutex<Option<Thread>>) {
    let descriptors = if leave_shared_descriptors() { Descriptors::Private } else { Descriptors::Shared };
    let agent_of_sampler = Arc::clone(agent);
    let sampler = Member::start("neurogc", STACK, move || {
        let Agent { host, sensors, acting, books, control, .. } = &*agent_of_sampler;
        sampler::run(host, &sensors.hooks, acting, books, control, descriptors);
    });
    match &sampler {
        Ok(sampler) => *lock(slot) = Some(sampler.thread().clone()),
        Err(error) => agent.books.ledger().trouble(format!("the sampler thread did not start: {error}")),
    }
    let crew = Crew { sampler: sampler.ok() };
    if catch(|| uplink::run(agent.sources(), &agent.control, descriptors, &crew)).is_err() {
        agent.books.ledger().trouble("the uplink thread has failed: the process is not looked at any more".to_owned());
    }
    crew.join();
}

/// Threads inherit the mask of signals: with all blocked, the program's handlers never run in ours.
fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let result = body();
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
    result
}
