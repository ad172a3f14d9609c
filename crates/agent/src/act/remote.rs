//! A collection that is asked for from outside.
//!
//! The uplink takes it on and gives a ticket; threads of the program carry it out, step by step, at their next
//! moments. The outcome waits until it is asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};

use neurogc_policy::SMALL_HEAP;
use neurogc_wire::control::{How, Outcome};

use super::actor::Actor;
use super::drive::{Drive, Next, OTHERS_NS};
use super::vm::Vm;
use crate::lifecycle::agent::lock;
use crate::sense::hooks::Hooks;
use crate::snapshot::Failure;

/// A command that no thread of the program has come by to carry out in this time is forgotten.
const FORGOTTEN_NS: u64 = 120_000_000_000;

/// One command at a time, and the outcome of the last one.
#[derive(Debug, Default)]
pub(crate) struct Remote {
    /// Whether there is something to do.
    waiting: AtomicBool,
    desk: Mutex<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    tickets: u64,
    taken_on: u64,
    job: Option<Job>,
    /// A thread of the program works on it at this instant.
    lent: bool,
    outcome: Option<Outcome>,
}

/// A collection that is under way.
#[derive(Debug)]
struct Job {
    how: How,
    drive: Option<Drive>,
    taken_on: u64,
    /// Since when a collection of another thread has been in the way.
    held_up_since: Option<u64>,
}

impl Desk {
    /// Whether a command is under way that is not forgotten.
    fn is_busy(&self, now: u64) -> bool {
        (self.job.is_some() || self.lent) && now < self.taken_on + FORGOTTEN_NS
    }
}

impl Remote {
    /// Takes a command on and gives its ticket, or nothing while another one is under way.
    pub(crate) fn take_on(&self, how: How, now: u64) -> Option<u64> {
        let mut desk = lock(&self.desk);
        if desk.is_busy(now) {
            return None;
        }
        desk.tickets += 1;
        desk.taken_on = now;
        desk.job = Some(Job { how, drive: None, taken_on: now, held_up_since: None });
        desk.lent = false;
        desk.outcome = None;
        self.waiting.store(true, Ordering::Release);
        Some(desk.tickets)
    }

    /// Gives a ticket for something that is over already, unless a collection is under way.
    pub(crate) fn settle(&self, outcome: Outcome, now: u64) -> Option<u64> {
        let mut desk = lock(&self.desk);
        if desk.is_busy(now) {
            return None;
        }
        desk.tickets += 1;
        (desk.job, desk.lent) = (None, false);
        desk.outcome = Some(outcome);
        self.waiting.store(false, Ordering::Release);
        Some(desk.tickets)
    }

    /// The outcome of a ticket, nothing while it is under way, and an error for a ticket that is not the last one.
    pub(crate) fn outcome(&self, ticket: u64) -> Result<Option<Outcome>, &'static str> {
        let desk = lock(&self.desk);
        if ticket == desk.tickets { Ok(desk.outcome.clone()) } else { Err("something else was asked for since then") }
    }

    /// Whether there is something to do.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Does the next step in the calling thread, which is one of the program's.
    pub(crate) fn step(&self, actor: &Actor, vm: &impl Vm, hooks: &Hooks) {
        if self.is_waiting()
            && let Some((ticket, mut job)) = self.lend()
        {
            let outcome = collect(actor, vm, hooks, &mut job);
            let job = outcome.is_none().then_some(job);
            self.give_back(ticket, job, outcome);
        }
    }

    /// Takes the job out: finalizers run while it is worked on, and no lock may be held then.
    fn lend(&self) -> Option<(u64, Job)> {
        let mut desk = match self.desk.try_lock() {
            Ok(desk) => desk,
            Err(TryLockError::Poisoned(desk)) => desk.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let job = desk.job.take()?;
        desk.lent = true;
        Some((desk.tickets, job))
    }

    fn give_back(&self, ticket: u64, job: Option<Job>, outcome: Option<Outcome>) {
        let mut desk = lock(&self.desk);
        if desk.tickets != ticket {
            // It was forgotten meanwhile, and another command was taken on.
            return;
        }
        desk.lent = false;
        let over = job.is_none() && outcome.is_some();
        desk.job = job;
        desk.outcome = outcome;
        if over {
            self.waiting.store(false, Ordering::Release);
        }
    }
}

/// Collects, or does the next step of that; the outcome when it is over.
fn collect(actor: &Actor, vm: &impl Vm, hooks: &Hooks, job: &mut Job) -> Option<Outcome> {
    if job.drive.is_none() && vm.now() >= job.taken_on + FORGOTTEN_NS {
        // Whoever asked has gone, and the program is not stopped for a question of long ago.
        return Some(Outcome::Failed("no thread of the program came by in time".to_owned()));
    }
    let drive = &mut job.drive;
    match job.how {
        How::Young | How::Full => plain(vm, job.how, &mut job.held_up_since),
        How::Snapshot => step(actor, vm, hooks, drive)
            .map(|done| done.unwrap_or_else(|failure| Outcome::Failed(failure.to_string()))),
        // What the policy would do: nothing that stops the program for long, where there is another way.
        How::Auto if drive.is_none() && vm.tracked_estimate() < SMALL_HEAP => {
            plain(vm, How::Full, &mut job.held_up_since)
        }
        How::Auto => match step(actor, vm, hooks, drive)? {
            Ok(outcome) => Some(outcome),
            Err(Failure::Unsupported(_) | Failure::OtherInterpreter) => {
                (job.how, job.drive) = (How::Full, None);
                plain(vm, How::Full, &mut job.held_up_since)
            }
            Err(failure) => Some(Outcome::Failed(format!("{failure}; `--how full` collects while the program waits"))),
        },
    }
}

fn step(actor: &Actor, vm: &impl Vm, hooks: &Hooks, drive: &mut Option<Drive>) -> Option<Result<Outcome, Failure>> {
    match drive.get_or_insert_with(|| Drive::new(vm)).step(actor, vm, hooks) {
        Next::Again(_) => None,
        Next::Done { freed, stopped } => {
            Some(Ok(Outcome::Collected { how: How::Snapshot, found: freed, pause_ms: stopped.as_secs_f64() * 1e3 }))
        }
        Next::Failed(failure) => Some(Err(failure)),
    }
}

/// Collects at one go. CPython does nothing while another thread's collection runs, so that is waited for.
fn plain(vm: &impl Vm, how: How, held_up_since: &mut Option<u64>) -> Option<Outcome> {
    let began = vm.now();
    if vm.is_collecting() {
        let since = *held_up_since.get_or_insert(began);
        let over = began.saturating_sub(since) > OTHERS_NS;
        return over.then(|| Outcome::Failed(Failure::Collecting.to_string()));
    }
    Some(match vm.collect(if how == How::Young { 0 } else { 2 }) {
        Ok(found) => Outcome::Collected { how, found, pause_ms: vm.now().saturating_sub(began) as f64 / 1e6 },
        Err(reason) => Outcome::Failed(reason),
    })
}
