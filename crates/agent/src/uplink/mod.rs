//! The thread that speaks to the outside: it looks at the process, answers on the control socket, reports to hubs and
//! writes the trace.
//!
//! It sleeps in `poll` until a peer moves, something is due, or another thread wakes it.
//!
//! It works with descriptors of its own. Where the kernel does not give it a private table it opens nothing that it
//! would write to: the program could close such a descriptor and open a file of its own under the same number.

mod backlog;
mod connections;
mod control;
mod follower;
mod listeners;
mod memory;
mod push;
mod response;
mod trace_file;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use neurogc_policy::Bytes;
use neurogc_wire::status::Memory;
use nix::poll::PollFd;

use crate::act::acting::Acting;
use crate::act::dumps::MemoryInUse;
use crate::act::gpu_calls;
use crate::book::books::Books;
use crate::book::status::ReportSources;
use crate::cpython::arenas::{self, Upkeep};
use crate::cpython::gather::GatherLimits;
use crate::host::Host;
use crate::host::identity::{Identity, ProcessRole};
use crate::sense::process::{ceiling, has_room, resident};
use crate::snapshot::SnapshotProgress;
use crate::snapshot::left_behind::LeftBehind;
use crate::sys::locks::lock;
use crate::sys::native::{Descriptors, monotonic_ns, thread_cpu_ns};
use crate::sys::ticks;
use crate::sys::wake::{UPLINK, Waiter};
use crate::sys::writable::Unprotecting;
use crate::threads::ThreadControl;
use crate::threads::member::Crew;
use crate::threads::rounds::wait_until;
use control::ControlSocket;
pub(crate) use control::leave_dump;
use listeners::Listeners;
use trace_file::TraceFile;

/// The process is looked at no more often while there is neither a hub nor a trace; the second holds where its memory is
/// limited, and others may take a part of what is left.
const UNHEARD_LOOK_NS: u64 = 10_000_000_000;
const LIMITED_LOOK_NS: u64 = 1_000_000_000;

/// Memory is held ready for the program where it could still get this share of what it has.
const ROOM_TO_SPARE: f64 = 0.25;

/// How often the end of a census is looked for.
const CENSUS_LOOK_NS: u64 = 20_000_000;

/// How long a report waits for the sampler to book what has happened. It takes no longer than the sampler needs
/// to get a processor.
const BOOKED: Duration = Duration::from_millis(5);

/// How long a forked child may take before it is heard and recorded.
const AWAIT_EXEC: Duration = Duration::from_millis(20);

/// Serves until it is told to stop, and watches over the other two threads.
pub(crate) fn run(sources: ReportSources<'_>, threads: &ThreadControl, descriptors: Descriptors, crew: &Crew) {
    let ReportSources { host, acting, books, .. } = sources;
    let waiter = Waiter::new(&UPLINK, descriptors);
    if host.forked {
        await_exec(threads, &waiter);
    }
    let mut uplink = Uplink::open(sources, threads, descriptors, crew);
    let mut upkeep = Upkeep::default();
    let mut unprotecting = Unprotecting::default();
    let mut left_behind = LeftBehind::new();
    while !threads.stopping() {
        let round = threads.uplink.begin();
        uplink.round(false);
        if let Some(lost) = crew.lost()
            && !threads.stopping()
        {
            books.ledger().trouble(lost.to_owned());
            acting.leave_to_cpython();
        }
        threads.uplink.end(round);
        if descriptors == Descriptors::Private {
            ticks::learn_if_wanted();
        }
        left_behind.look(&acting.snapshots);
        if unprotecting.round(|range| arenas::are_within((range.start, range.end))) {
            continue;
        }
        let upkeep = upkeep.round(|| {
            let resident = resident().unwrap_or(0);
            GatherLimits { allowed: host.settings.gather_pages, resident, has_room: has_room(resident, ROOM_TO_SPARE) }
        });
        waiter.wait(uplink.polled(), uplink.pause().min(upkeep));
    }
    drop(waiter);
    // The sampler closes its last block when it stops, which it does at once.
    while crew.senses() {
        std::thread::park_timeout(Duration::from_micros(50));
    }
    uplink.round(true);
}

/// Gives a forked child the time to become another program, as `subprocess` has it do: it would leave a socket behind
/// without a listener, and an empty trace. It stops waiting when a thread asks for a round.
fn await_exec(threads: &ThreadControl, waiter: &Waiter) {
    let until = Instant::now() + AWAIT_EXEC;
    while Instant::now() < until && !threads.stopping() && !threads.uplink.is_asked() {
        waiter.wait(Vec::new(), until.saturating_duration_since(Instant::now()));
    }
}

/// Workers of one server that are numbered.
const MOST_WORKERS: u32 = 512;

/// Gives a worker the lowest number that no other worker of its server has, so that the one that takes its place gets the
/// same. A number is the name of a socket without a file, which two processes cannot have at once.
fn claim_number(identity: &Identity) -> Option<UnixListener> {
    let (user, parent) = (nix::unistd::geteuid(), nix::unistd::getppid());
    (1..=MOST_WORKERS).find_map(|number| {
        let name = format!("neurogc-worker-{user}-{parent}-{number}");
        let address = SocketAddr::from_abstract_name(name).ok()?;
        let listener = UnixListener::bind_addr(&address).ok()?;
        identity.worker.store(number, Ordering::Relaxed);
        Some(listener)
    })
}

struct Uplink<'a> {
    sources: ReportSources<'a>,
    threads: &'a ThreadControl,
    crew: &'a Crew,
    look_due: u64,
    /// When the memory of GPUs is looked at again, where there are any.
    gpu_due: Option<u64>,
    socket: Option<ControlSocket>,
    descriptors: Descriptors,
    trace: Option<TraceFile>,
    listeners: Listeners,
    /// Holds the number of this worker: the kernel gives it back when the process ends.
    _worker: Option<UnixListener>,
    cpu_before: u64,
}

impl<'a> Uplink<'a> {
    fn open(sources: ReportSources<'a>, threads: &'a ThreadControl, descriptors: Descriptors, crew: &'a Crew) -> Self {
        let ReportSources { host, acting, books, .. } = sources;
        let (mut trace, mut worker) = (None, None);
        let mut listeners = Listeners::default();
        if descriptors == Descriptors::Private {
            trace = host.settings.trace.as_deref().and_then(|path| open_trace(host, acting, books, path));
            listeners = Listeners::new(&host.settings);
            let identity = &host.start.identity;
            worker = (identity.role == ProcessRole::Worker).then(|| claim_number(identity)).flatten();
        } else {
            let reason = "the kernel gives the agent no descriptors of its own: no control socket, no hub, no trace";
            books.ledger().trouble(reason.to_owned());
        }
        let cpu_before = books.ledger().uplink_cpu_ns;
        let mut uplink = Self {
            sources,
            threads,
            crew,
            look_due: 0,
            gpu_due: None,
            socket: None,
            descriptors,
            trace,
            listeners,
            _worker: worker,
            cpu_before,
        };
        uplink.open_control();
        uplink
    }

    fn open_control(&mut self) {
        if self.descriptors == Descriptors::Private {
            self.socket = ControlSocket::open().map_err(|reason| self.sources.books.ledger().trouble(reason)).ok();
        }
    }

    fn round(&mut self, last: bool) {
        let ReportSources { host, sensors, acting, books } = self.sources;
        let now = monotonic_ns();
        let asked = self.threads.uplink.is_asked();
        let last_for_others = last && self.is_heard();
        if now >= self.look_due || asked || last_for_others || self.listeners.want_figures(now) {
            self.look(now, asked);
        }
        if last {
            books.close_block(&mut books.ledger());
        }
        if self.socket.as_ref().is_some_and(|socket| !socket.is_of_this_user()) {
            self.open_control();
            self.listeners.socket_changes();
        }
        if let Some(mut socket) = self.socket.take() {
            for stream in socket.serve(self.sources, self.threads, now, || self.catch_up(now)) {
                self.listeners.add(&host.settings, books, stream);
            }
            self.socket = Some(socket);
        }
        self.see_to_census(now);
        self.gpu_due = gpu_calls::ask_if_old(&sensors.gpu, now);
        sensors.sites.attend(now);
        books.attend_growth(host, sensors, &acting.census, now);
        self.listeners.round(self.sources, self.threads, now);
        while let Some(block) = books.blocks.pop() {
            self.write(&block);
        }
        let table = || sensors.sites.table(host.installed_unix_ns, None);
        let sites = self.trace.as_mut().and_then(|trace| trace.sites(now, last, table));
        if let Some(block) = sites {
            self.write(&block);
        }
    }

    /// Makes everything fresh that a report is made of. A request that has ended is not in flight any more, so it must
    /// be counted: the sampler books it.
    fn catch_up(&mut self, now: u64) {
        let round = self.threads.sampler.ask();
        self.crew.wake_sampler();
        wait_until(|| self.threads.sampler.has_answered(round) || self.threads.stopping(), BOOKED);
        self.look(now, true);
    }

    /// Whether figures go anywhere without being asked for.
    fn is_heard(&self) -> bool {
        self.trace.is_some() || self.listeners.are_there()
    }

    /// Looks at the process. When a client has `asked`, figures are read anew unless that is expensive.
    fn look(&mut self, now: u64, asked: bool) {
        let seen = lock(&self.sources.sensors.process).look(self.is_heard(), asked);
        let least = match seen.memory.limit {
            _ if self.is_heard() => 0,
            Some(_) => LIMITED_LOOK_NS,
            None => UNHEARD_LOOK_NS,
        };
        self.look_due = now + (self.sources.host.settings.sample.as_nanos() as u64).max(least);
        // The pages that are copied while a snapshot is out come back: they do not lower the ceiling.
        if !matches!(self.sources.acting.snapshots.look(), SnapshotProgress::InFlight { .. }) {
            let ceiling = ceiling(seen.memory.rss, seen.memory.limit);
            self.sources.acting.actor.ceiling.store(ceiling.unwrap_or(0), Ordering::Relaxed);
            self.dump_if_due(&seen.memory, ceiling);
        }
        // What it reads is copied to a file of its own, and that must not become one of the program's.
        if self.descriptors == Descriptors::Private {
            memory::attend(self.sources, self.threads, now, seen.memory.limit, self.is_heard(), asked);
        }
        let mut ledger = self.sources.books.ledger();
        ledger.process(now, seen);
        if seen.threads == 0 {
            ledger.trouble("/proc cannot be read: memory, I/O, descriptors and threads are not measured".to_owned());
        }
        ledger.uplink_cpu_ns = self.cpu_before + thread_cpu_ns();
    }

    /// Has the program write a heap dump where the settings want one at this much memory.
    fn dump_if_due(&self, memory: &Memory, ceiling: Option<u64>) {
        let ReportSources { host, acting, .. } = self.sources;
        let allowed = host.settings.limits.ceiling.map(Bytes::get);
        let in_use = MemoryInUse { resident: memory.rss, limit: memory.limit, ceiling, allowed };
        if acting.dumps.is_due(&host.settings, in_use.share()) {
            leave_dump(self.sources, true);
        }
    }

    /// Books a census that has landed, and asks for one that is due.
    fn see_to_census(&self, now: u64) {
        let ReportSources { host, acting, books, .. } = self.sources;
        let own = &acting.census;
        if own.is_out() && !matches!(acting.snapshots.look(), SnapshotProgress::InFlight { .. }) {
            own.has_ended();
        }
        if let Some(found) = acting.snapshots.take_census() {
            own.taken(found.at);
            lock(&books.growth).count(&found, host.installed);
            lock(&books.census).add(*found, host.installed);
        }
        if let Some(collector) = host.interpreter.collector.filter(|_| now >= own.due()) {
            own.ask_if_due(now, &acting.snapshots.look(), || collector.tracked_estimate());
        }
    }

    /// How long the next round may wait where no peer moves. A thread that closes a block of the trace wakes this one.
    fn pause(&self) -> Duration {
        let now = monotonic_ns();
        let sites_due = self.trace.as_ref().map(|trace| trace.sites_due);
        let census_due = self.sources.acting.census.is_out().then_some(now + CENSUS_LOOK_NS);
        let due = [
            self.socket.as_ref().and_then(ControlSocket::due),
            self.listeners.due(now),
            sites_due,
            census_due,
            self.gpu_due,
        ];
        let look_due = self.look_due.min(lock(&self.sources.books.growth).due(now));
        let due = due.into_iter().flatten().fold(look_due, u64::min);
        Duration::from_nanos(due.saturating_sub(now))
    }

    /// The peers that are waited for.
    fn polled(&self) -> Vec<PollFd<'_>> {
        let mut polled = Vec::new();
        if let Some(socket) = &self.socket {
            socket.poll_on(&mut polled);
        }
        self.listeners.poll_on(&mut polled);
        polled
    }

    fn write(&mut self, block: &[u8]) {
        let Some(trace) = &mut self.trace else { return };
        if let Err(error) = trace.write(block) {
            let mut ledger = self.sources.books.ledger();
            ledger.lost_blocks += 1;
            ledger.trouble(format!("the trace ends here: {error}"));
            ledger.trace = None;
            self.trace = None;
        }
    }
}

fn open_trace(host: &Host, acting: &Acting, books: &Books, path: &Path) -> Option<TraceFile> {
    match TraceFile::open(host, &acting.policy.in_force(), path) {
        Ok(trace) => Some(trace),
        Err(reason) => {
            let mut ledger = books.ledger();
            ledger.trouble(reason);
            ledger.trace = None;
            None
        }
    }
}
