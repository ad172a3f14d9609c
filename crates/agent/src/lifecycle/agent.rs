//! One installed agent: its state, its threads, and how they are stopped around a fork.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use neurogc_policy::Name;
use neurogc_wire::breakdown::MemoryReport;
use neurogc_wire::sites::{AllocationMode, SiteTable};
use neurogc_wire::status::Child;
use nix::sys::signal::{SigSet, SigmaskHow};
use pyo3::Python;

use crate::act::actor::Actor;
use crate::act::census::OwnCensus;
use crate::act::dumps::OwnDumps;
use crate::act::loans::Loans;
use crate::act::remote::Remote;
use crate::act::this_process::ThisProcess;
use crate::act::trim::Trimming;
use crate::alloc::{Sampling, SiteHistory, site_table};
use crate::book::census::CensusBook;
use crate::book::growth::GrowthBook;
use crate::book::ledger::Ledger;
use crate::host::Host;
use crate::python::gc_functions::leave_to_cpython;
use crate::python::prefork::forked_worker;
use crate::sense::breakdown::{self, BreakdownReader};
use crate::sense::children::{Proportions, children_of};
use crate::sense::frozen::Frozen;
use crate::sense::gpu::GpuBook;
use crate::sense::hooks::Hooks;
use crate::sense::process::ProcessReader;
use crate::sense::workers::{WorkerFork, WorkerForks};
use crate::snapshot::SnapshotRunner;
use crate::sys::locks::{lock, try_lock};
use crate::sys::native::{Descriptors, leave_shared_descriptors, monotonic_ns};
use crate::sys::wake::{SAMPLER, UPLINK};
use crate::threads::ThreadControl;
use crate::threads::member::{Crew, Member, catch};
use crate::threads::rounds::wait_until;
use crate::{sense::sampler, uplink};

/// Trace blocks that may wait to be written.
const BLOCKS: usize = 16;

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
    pub(crate) hooks: Hooks,
    pub(crate) actor: Actor,
    pub(crate) remote: Remote,
    pub(crate) dumps: OwnDumps,
    /// When a census is due that no snapshot takes, and what the latest ones have found.
    pub(crate) own_census: OwnCensus,
    pub(crate) census: Mutex<CensusBook>,
    /// Memory of GPUs.
    pub(crate) gpu: Mutex<GpuBook>,
    /// How memory grows.
    pub(crate) growth: Mutex<GrowthBook>,
    /// The policy in force, and how often it was changed.
    policy: Mutex<Name>,
    switches: AtomicU32,
    pub(crate) snapshots: SnapshotRunner,
    /// What is sampled of the program's allocations, and what the sites were at earlier moments.
    pub(crate) sampling: Sampling,
    pub(crate) sites: Mutex<SiteHistory>,
    /// Blocks of the trace on their way to the file.
    pub(crate) blocks: ArrayQueue<Vec<u8>>,
    /// The sense that the uplink feeds. It outlives the uplink's thread, which every fork ends.
    pub(crate) process: Mutex<ProcessReader>,
    /// Where the memory is, and what was given back of it.
    pub(crate) breakdown: Mutex<BreakdownReader>,
    pub(crate) trimming: Mutex<Trimming>,
    /// What status reports remember from one to the next, because it is dear to read.
    pub(crate) proportions: Mutex<Proportions>,
    /// The workers that were forked.
    pub(crate) worker_forks: Mutex<WorkerForks>,
    pub(crate) frozen: Mutex<Frozen>,
    /// A child that native code has forked has no agent any more.
    left: AtomicBool,
    ledger: Mutex<Ledger>,
    pub(crate) control: ThreadControl,
    threads: Mutex<Threads>,
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
    pub(crate) fn new(host: Host, sampling: Sampling) -> Self {
        let (settings, installed) = (&host.settings, host.installed);
        let ledger = Ledger::new(installed, settings.trace.is_some());
        let policy = settings.policy.clone();
        let own_census = OwnCensus::new(settings.census.filter(|_| settings.snapshots), installed);
        let snapshots = SnapshotRunner::new(settings.census.is_some());
        let actor = Actor::new(installed, settings.tuning.pause_budget, settings.snapshots, Loans::default());
        Self {
            host,
            hooks: Hooks::default(),
            actor,
            remote: Remote::default(),
            dumps: OwnDumps::new(),
            own_census,
            census: Mutex::default(),
            gpu: Mutex::default(),
            growth: Mutex::default(),
            policy: Mutex::new(policy),
            switches: AtomicU32::new(0),
            snapshots,
            sampling,
            sites: Mutex::default(),
            blocks: ArrayQueue::new(BLOCKS),
            process: Mutex::new(ProcessReader::new()),
            breakdown: Mutex::new(BreakdownReader::new(installed)),
            trimming: Mutex::default(),
            proportions: Mutex::default(),
            worker_forks: Mutex::default(),
            frozen: Mutex::default(),
            left: AtomicBool::new(false),
            ledger: Mutex::new(ledger),
            control: ThreadControl::default(),
            threads: Mutex::default(),
        }
    }

    /// The books. A thread that panicked while it held them has left them readable.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// The policy in force, which is never `auto`.
    pub(crate) fn policy(&self) -> Name {
        lock(&self.policy).clone().resolve(self.host.interpreter.can_be_conducted())
    }

    /// The policy as it was set, which may be `auto`.
    pub(crate) fn policy_set(&self) -> Name {
        lock(&self.policy).clone()
    }

    /// Puts another policy in force. The sampler sees it in its next round.
    pub(crate) fn set_policy(&self, name: Name) {
        *lock(&self.policy) = name;
        self.switches.fetch_add(1, Ordering::Release);
    }

    /// How often the policy was changed.
    pub(crate) fn switches(&self) -> u32 {
        self.switches.load(Ordering::Acquire)
    }

    /// Starts both threads.
    pub(crate) fn start(self: &Arc<Self>) {
        let mut threads = lock(&self.threads);
        threads.wanted = true;
        // Where earlier ones are late to end, they see that they are wanted again. There is never a second pair.
        match &threads.running {
            Some(running) if running.uplink.is_lost() => {
                self.ledger().trouble("the uplink thread has ended: the process is not looked at any more".to_owned());
                leave_to_cpython(self);
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
                self.ledger().trouble(format!("the agent's threads did not start: {error}"));
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

    /// Stops the threads before the program forks: a forked process has none, and CPython warns about them.
    pub(crate) fn before_fork(&self) {
        // Threads that an earlier fork has waited for in vain are not waited for again.
        self.stop(if self.control.stopping() { Duration::ZERO } else { FORK_PATIENCE });
        if let Some(worker) = forked_worker() {
            let fork = WorkerFork::now(worker.kind);
            if let (Some(fork), Some(mut forks)) = (fork, try_lock(&self.worker_forks)) {
                forks.begin(fork);
            }
        }
    }

    /// The program has forked. This is the parent.
    pub(crate) fn after_fork_in_parent(&self) {
        if forked_worker().is_some()
            && let Some(mut forks) = try_lock(&self.worker_forks)
        {
            forks.end();
        }
    }

    /// Everything below this process, with memory that is read rarely.
    pub(crate) fn children(&self) -> Vec<Child> {
        // A fork must not wait until `/proc` is read.
        let forks = lock(&self.worker_forks).clone();
        children_of(std::process::id(), &mut lock(&self.proportions), &forks)
    }

    /// The agent of a forked child: the same settings, and empty books. Of the parent's agent only that is read which
    /// threads with the GIL alone change: a lock of another kind may have been held when the process was forked.
    pub(crate) fn in_child(&self) -> Self {
        let policy = match self.policy.try_lock() {
            Ok(policy) => policy.clone(),
            Err(TryLockError::Poisoned(policy)) => policy.into_inner().clone(),
            Err(TryLockError::WouldBlock) => self.host.settings.policy.clone(),
        };
        let host = self.host.in_child(policy, forked_worker().is_some());
        let fresh = Self::new(host, self.sampling.clone());
        let actor = self.actor.in_child(fresh.host.installed);
        Self { actor, ..fresh }
    }

    /// The thread that is in a collection, or in the order that follows it, if one is.
    pub(crate) fn collecting_thread(&self) -> Option<usize> {
        self.hooks.collecting_thread().or_else(|| self.actor.running_in())
    }

    /// Whether this process, which native code has forked, was left before; it is from now on.
    pub(crate) fn is_left(&self) -> bool {
        self.left.swap(true, Ordering::Relaxed)
    }

    /// The interpreter, for a thread that holds the GIL.
    pub(crate) fn vm<'a, 'py>(&'a self, py: Python<'py>) -> ThisProcess<'a, 'py> {
        ThisProcess { py, interpreter: &self.host.interpreter, snapshots: &self.snapshots }
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

    /// Where live memory was allocated, compared with so many seconds ago if that is given; else why that is not known.
    pub(crate) fn site_table(&self, since: Option<u32>) -> Result<SiteTable, String> {
        let ago = since.map(|seconds| u64::from(seconds) * 1_000_000_000);
        if self.sampling.mode == AllocationMode::Off {
            let off = || "allocations are not sampled in this process: the setting `allocations` is off".to_owned();
            return Err(self.sampling.reason.clone().unwrap_or_else(off));
        }
        site_table(&lock(&self.sites), self.host.installed_unix_ns / 1_000_000, monotonic_ns(), ago)
            .ok_or_else(|| "allocations are not sampled in this process".to_owned())
    }

    /// Reads where the resident memory is, until `enough`. It takes a while, but the program goes on.
    pub(crate) fn read_memory(&self, enough: impl Fn() -> bool) -> Option<MemoryReport> {
        let now = monotonic_ns();
        let (report, took) = breakdown::read(enough)?;
        Some(lock(&self.breakdown).keep(report, now, took))
    }

    /// Closes the trace's block and hands it to the uplink; one that finds no room is lost and counted.
    pub(crate) fn close_block(&self, ledger: &mut Ledger) {
        if let Some(trace) = ledger.trace.as_mut().filter(|trace| !trace.is_empty()) {
            if self.blocks.push(trace.take()).is_err() {
                ledger.lost_blocks += 1;
            }
            UPLINK.wake();
        }
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
    let sampler = Member::start("neurogc", STACK, move || sampler::run(&agent_of_sampler, descriptors));
    match &sampler {
        Ok(sampler) => *lock(slot) = Some(sampler.thread().clone()),
        Err(error) => agent.ledger().trouble(format!("the sampler thread did not start: {error}")),
    }
    let crew = Crew { sampler: sampler.ok() };
    if catch(|| uplink::run(agent, descriptors, &crew)).is_err() {
        agent.ledger().trouble("the uplink thread has failed: the process is not looked at any more".to_owned());
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
