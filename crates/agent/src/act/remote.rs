//! A collection that is asked for from outside.
//!
//! The uplink takes it on and gives a ticket; threads of the program carry it out, step by step, at their next
//! moments. The outcome waits until it is asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};

use neurogc_policy::SMALL_HEAP;
use neurogc_wire::control::{How, Outcome};

use super::actor::Actor;
use super::drive::{Drive, Next};
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
}

impl Remote {
    /// Takes a command on and gives its ticket, or nothing while another one is under way.
    pub(crate) fn take_on(&self, how: How, now: u64) -> Option<u64> {
        let mut desk = lock(&self.desk);
        if (desk.job.is_some() || desk.lent) && now < desk.taken_on + FORGOTTEN_NS {
            return None;
        }
        desk.tickets += 1;
        desk.taken_on = now;
        desk.job = Some(Job { how, drive: None });
        desk.lent = false;
        desk.outcome = None;
        self.waiting.store(true, Ordering::Release);
        Some(desk.tickets)
    }

    /// Gives a ticket for something that is over already, unless a collection is under way.
    pub(crate) fn settle(&self, outcome: Outcome) -> Option<u64> {
        let mut desk = lock(&self.desk);
        if desk.job.is_some() || desk.lent {
            return None;
        }
        desk.tickets += 1;
        desk.outcome = Some(outcome);
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
            let outcome = collect(actor, vm, hooks, job.how, &mut job.drive);
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
fn collect(actor: &Actor, vm: &impl Vm, hooks: &Hooks, how: How, drive: &mut Option<Drive>) -> Option<Outcome> {
    match how {
        How::Young => Some(plain(vm, How::Young)),
        How::Full => Some(plain(vm, How::Full)),
        How::Snapshot => step(actor, vm, hooks, drive)
            .map(|done| done.unwrap_or_else(|failure| Outcome::Failed(failure.to_string()))),
        // What the policy would do: nothing that stops the program for long, where there is another way.
        How::Auto if drive.is_none() && vm.tracked_estimate() < SMALL_HEAP => Some(plain(vm, How::Full)),
        How::Auto => step(actor, vm, hooks, drive).map(|done| match done {
            Ok(outcome) => outcome,
            Err(Failure::Unsupported(_) | Failure::OtherInterpreter) => plain(vm, How::Full),
            Err(failure) => Outcome::Failed(format!("{failure}; `--how full` collects while the program waits")),
        }),
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

fn plain(vm: &impl Vm, how: How) -> Outcome {
    let began = vm.now();
    match vm.collect(if how == How::Young { 0 } else { 2 }) {
        Ok(found) => Outcome::Collected { how, found, pause_ms: vm.now().saturating_sub(began) as f64 / 1e6 },
        Err(reason) => Outcome::Failed(reason),
    }
}
