//! The socket loop: one thread, one `epoll`, and a clock that nothing holds up.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;

use crate::asks::Asks;
use crate::chance::Chance;
use crate::connection::{Connection, ConnectionEvent, Doing, Job, RequestTrouble, lasted, request};
use crate::errands::{Errand, Errands, Load};
use crate::latencies::Latencies;
use crate::outcome::{LoadOutcome, PartOutcome, Second};
use crate::target::Target;

/// Why no load could be made.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Load goes to this machine only.
    #[error("{0} is not on this machine: load is sent to loopback addresses only, for instance 127.0.0.1")]
    NotLoopback(SocketAddr),
    /// The kernel refused what the generator needs.
    #[error("the load generator cannot work: {0}")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for LoadError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

/// A part of a plan whose figures are kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPart {
    /// What it is called.
    pub name: &'static str,
    /// How long it lasts.
    pub lasts: Duration,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Where.
    pub target: Target,
    /// What is asked for.
    pub asks: Asks,
    /// When.
    pub load: Load,
    /// The parts, one after the other.
    pub parts: Vec<PlanPart>,
    /// How long to wait for the last answers.
    pub patience: Duration,
    /// The most connections at once. A request that finds them all busy waits, or is shed.
    pub connections: usize,
    /// Whether such a request is not sent at all.
    pub shed: bool,
    /// Chance: the same seed gives the same requests at the same moments.
    pub seed: u64,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    On,
    /// Stop at once.
    Stop,
}

/// What happened since the last tick.
#[derive(Clone, Debug, Default)]
pub struct LoadTick {
    /// Latencies of the answers that came.
    pub latencies: Latencies,
    /// Requests that failed.
    pub failed: u64,
}

/// A look at a drive while it goes on.
#[derive(Debug)]
pub struct Live<'l> {
    /// Since the start.
    pub elapsed: Duration,
    /// The part that is under way; the last one while the last answers are awaited.
    pub part: usize,
    /// Requests under way or waiting for a connection.
    pub in_flight: usize,
    /// What happened since the last look.
    pub tick: &'l LoadTick,
}

/// From one look to the next.
const TICK: Duration = Duration::from_millis(100);

/// Makes the load of a plan, and lets `watch` look at it ten times a second. What `watch` does delays sends, so it
/// must be quick.
///
/// # Errors
///
/// The kernel refuses an `epoll`. What the service does is never an error: failures are counted.
pub fn drive(plan: &LoadPlan, watch: &mut dyn FnMut(&Live<'_>) -> Flow) -> Result<LoadOutcome, LoadError> {
    Drive::new(plan)?.run(watch)
}

struct Drive<'p> {
    plan: &'p LoadPlan,
    began: Instant,
    /// Where each part ends.
    ends: Vec<Duration>,
    epoll: OwnedFd,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    idle: Vec<usize>,
    queue: VecDeque<Job>,
    busy: usize,
    errands: Errands,
    chance: Chance,
    number: u64,
    buffer: Vec<u8>,
    outcome: LoadOutcome,
    tick: LoadTick,
    second: Latencies,
    second_failed: u64,
}

impl<'p> Drive<'p> {
    fn new(plan: &'p LoadPlan) -> Result<Self, LoadError> {
        let mut end = Duration::ZERO;
        let mut ends = Vec::new();
        let mut outcome = LoadOutcome::default();
        for part in &plan.parts {
            end += part.lasts;
            ends.push(end);
            let (name, lasts) = (part.name.to_owned(), part.lasts);
            outcome.parts.push(PartOutcome { name, lasts, ..PartOutcome::default() });
        }
        if outcome.parts.is_empty() {
            outcome.parts.push(PartOutcome::default());
        }
        Ok(Self {
            plan,
            ends,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            free: Vec::new(),
            idle: Vec::new(),
            queue: VecDeque::new(),
            busy: 0,
            errands: Errands::new(&plan.load, end, plan.seed),
            chance: Chance::new(plan.seed.rotate_left(17) ^ 0x5bd1),
            number: 0,
            buffer: vec![0; 64 * 1024],
            outcome,
            tick: LoadTick::default(),
            second: Latencies::new(),
            second_failed: 0,
            began: Instant::now(),
        })
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn end(&self) -> Duration {
        self.ends.last().copied().unwrap_or_default()
    }

    fn part_at(&self, at: Duration) -> usize {
        self.ends.iter().position(|end| at < *end).unwrap_or(self.ends.len().saturating_sub(1))
    }

    fn run(mut self, watch: &mut dyn FnMut(&Live<'_>) -> Flow) -> Result<LoadOutcome, LoadError> {
        let last = self.end() + self.plan.patience;
        let mut next_tick = TICK;
        loop {
            let mut now = self.now();
            while let Some(errand) = self.errands.due(now) {
                self.take(errand, now);
                now = self.now();
            }
            if now >= next_tick {
                self.close_seconds(now);
                let (part, in_flight) = (self.part_at(now), self.busy + self.queue.len());
                if watch(&Live { elapsed: now, part, in_flight, tick: &self.tick }) == Flow::Stop {
                    self.outcome.stopped = true;
                    break;
                }
                self.tick.latencies.clear();
                self.tick.failed = 0;
                next_tick += TICK * u32::try_from((now - next_tick).as_millis() / TICK.as_millis() + 1).unwrap_or(1);
            }
            // All users may be thinking until after the end: there is nothing to wait for but the end itself.
            if now >= self.end() && (self.busy + self.queue.len() == 0 || now >= last) {
                break;
            }
            let mut until = next_tick.min(last).min(if now < self.end() { self.end() } else { last });
            until = self.errands.next_at().map_or(until, |at| until.min(at));
            self.wait(until.saturating_sub(now))?;
        }
        self.finish();
        Ok(self.outcome)
    }

    /// An errand is due: it goes out on an idle connection, or on a new one, or waits.
    fn take(&mut self, errand: Errand, now: Duration) {
        let part = self.part_at(errand.at);
        let counted = &mut self.outcome.parts[part];
        counted.sent += 1;
        counted.lateness.record(lasted(errand, now));
        self.send(Job { errand, part });
    }

    fn send(&mut self, job: Job) {
        let full = self.busy >= self.plan.connections.max(1);
        if full && self.plan.shed {
            self.outcome.parts[job.part].shed += 1;
            self.errands.over(job.errand.user, self.began.elapsed(), true);
            return;
        }
        if full {
            self.queue.push_back(job);
            return;
        }
        let path = self.plan.asks.path(self.number, &mut self.chance);
        self.number += 1;
        let bytes = request(self.plan.target, &path);
        // A service may have closed an idle connection a moment ago: then the next one is tried.
        while let Some(at) = self.idle.pop() {
            let asked = self.connections[at].as_mut().is_some_and(|connection| connection.ask(job, &bytes).is_ok());
            if asked {
                self.busy += 1;
                return;
            }
            self.close(at);
        }
        match self.open(job, bytes) {
            Ok(()) => self.busy += 1,
            Err(_) => self.failed(job, RequestTrouble::Refused),
        }
    }

    fn open(&mut self, job: Job, bytes: Vec<u8>) -> io::Result<()> {
        let connection = Connection::open(self.plan.target, job, bytes)?;
        let at = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let added = epoll::add(&self.epoll, &connection.stream, EventData::new_u64(at as u64), EventFlags::OUT);
        if let Err(error) = added {
            self.free.push(at);
            return Err(error.into());
        }
        self.connections[at] = Some(connection);
        let open = self.connections.len() - self.free.len();
        self.outcome.connections = self.outcome.connections.max(open);
        Ok(())
    }

    /// Forgets a connection. Closing its descriptor takes it out of the `epoll` too.
    fn close(&mut self, at: usize) {
        if self.connections[at].take().is_some() {
            self.free.push(at);
        }
    }

    /// Waits, to the microsecond, until something happens, and deals with it.
    fn wait(&mut self, longest: Duration) -> Result<(), LoadError> {
        // An `epoll` itself rounds up to milliseconds on older kernels; `ppoll` does not.
        let timeout = Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        let mut ready = [PollFd::new(&self.epoll, PollFlags::IN)];
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut events = Vec::with_capacity(256);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&zero)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events {
            self.look(usize::try_from(event.data.u64()).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    fn look(&mut self, at: usize) {
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_mut) else { return };
        let news = connection.look(&mut self.buffer);
        let now = self.began.elapsed();
        match news {
            ConnectionEvent::None => {}
            ConnectionEvent::Sent => {
                let data = EventData::new_u64(at as u64);
                if epoll::modify(&self.epoll, &connection.stream, data, EventFlags::IN).is_err()
                    && let Some(job) = connection.job()
                {
                    self.busy -= 1;
                    self.close(at);
                    self.failed(job, RequestTrouble::Broken);
                }
            }
            ConnectionEvent::Gone => {
                self.idle.retain(|idle| *idle != at);
                self.close(at);
            }
            ConnectionEvent::Answered(job, done) => {
                self.busy -= 1;
                if done.keep {
                    connection.doing = Doing::Idle;
                    self.idle.push(at);
                } else {
                    self.close(at);
                }
                self.answered(job, done.status, now);
                self.send_waiting();
            }
            ConnectionEvent::Failed(job, trouble) => {
                self.busy -= 1;
                self.close(at);
                self.failed(job, trouble);
                self.send_waiting();
            }
        }
    }

    fn send_waiting(&mut self) {
        if let Some(job) = self.queue.pop_front() {
            self.send(job);
        }
    }

    fn answered(&mut self, job: Job, status: u16, now: Duration) {
        let good = (200..400).contains(&status);
        if now < self.end() {
            let part = self.part_at(now);
            self.outcome.parts[part].answered += 1;
        }
        let part = &mut self.outcome.parts[job.part];
        if good {
            let lasted = lasted(job.errand, now);
            part.latencies.record(lasted);
            self.close_seconds(now);
            self.second.record(lasted);
            self.tick.latencies.record(lasted);
        } else {
            part.failures.status += 1;
            self.tick.failed += 1;
            self.second_failed += 1;
        }
        self.errands.over(job.errand.user, now, !good);
    }

    fn failed(&mut self, job: Job, trouble: RequestTrouble) {
        let failures = &mut self.outcome.parts[job.part].failures;
        match trouble {
            RequestTrouble::Refused => failures.refused += 1,
            RequestTrouble::Broken => failures.broken += 1,
            RequestTrouble::Garbage => failures.garbage += 1,
        }
        self.tick.failed += 1;
        self.second_failed += 1;
        self.errands.over(job.errand.user, self.began.elapsed(), true);
    }

    /// Writes down the seconds that are over.
    fn close_seconds(&mut self, now: Duration) {
        let over = now.min(self.end()).as_secs();
        while (self.outcome.seconds.len() as u64) < over {
            let figures = self.second.figures();
            self.outcome.seconds.push(Second {
                answered: figures.count,
                failed: self.second_failed,
                p50_ms: figures.p50_ms,
                p99_ms: figures.p99_ms,
                max_ms: figures.max_ms,
            });
            self.second.clear();
            self.second_failed = 0;
        }
    }

    /// Charges what was never answered with the time that it has waited so far.
    fn finish(&mut self) {
        let now = self.now();
        self.close_seconds(now);
        let under_way = self.connections.iter().flatten().filter_map(Connection::job);
        let left: Vec<Job> = under_way.chain(self.queue.drain(..)).collect();
        for job in left {
            let part = &mut self.outcome.parts[job.part];
            part.unanswered += 1;
            part.latencies.record(lasted(job.errand, now));
        }
    }
}
