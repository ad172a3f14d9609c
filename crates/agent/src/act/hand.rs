//! The thread that carries orders out where the program has no thread of its own for it, and what people ask for.
//!
//! A collection runs finalizers, which close files and sockets by number. So this thread shares the program's
//! descriptors, owns none, and is the only one of ours that ever takes the GIL.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

use neurogc_policy::{Decision, Order, Thresholds};
use pyo3::prelude::*;

use crate::act::remote;
use crate::act::stage::hold_off;
use crate::lifecycle::agent::{Agent, lock};
use crate::sys::native::monotonic_ns;

/// An order that had to wait this long has missed its gap.
const MISSED_NS: u64 = 300_000;

/// Something to do.
#[derive(Clone, Copy, Debug)]
struct Task {
    order: Order,
    thresholds: Option<Thresholds>,
    ordered: u64,
}

/// The way to the thread.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    task: Mutex<Option<Task>>,
    thread: Mutex<Option<Thread>>,
    applied: Mutex<Option<Thresholds>>,
    missed: AtomicU64,
}

impl Hand {
    /// Gives an order, unless the last one is still being carried out. Nobody waits.
    pub(crate) fn give(&self, order: Order, thresholds: Option<Thresholds>) {
        let mut task = lock(&self.task);
        if task.is_none() {
            *task = Some(Task { order, thresholds, ordered: monotonic_ns() });
            drop(task);
            self.wake();
        }
    }

    /// Whether an order is waiting or being carried out.
    pub(crate) fn is_busy(&self) -> bool {
        lock(&self.task).is_some()
    }

    /// Wakes the thread, to work or to end.
    pub(crate) fn wake(&self) {
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }

    /// The thresholds that were set last.
    pub(crate) fn applied(&self) -> Option<Thresholds> {
        *lock(&self.applied)
    }

    /// Another policy is in force: what was set before does not count.
    pub(crate) fn begin_anew(&self) {
        *lock(&self.applied) = None;
    }

    /// How many orders found their gap over.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

/// Carries out orders until it is told to stop.
pub(crate) fn run(agent: &Agent) {
    *lock(&agent.hand.thread) = Some(std::thread::current());
    while !agent.stopping() {
        let task = *lock(&agent.hand.task);
        if let Some(errand) = agent.errands.begin() {
            Python::try_attach(|py| remote::run(py, agent, errand));
        } else if let Some(task) = task {
            carry_out(agent, task);
            *lock(&agent.hand.task) = None;
        } else {
            // Whoever has something to do for it, or wants it to end, wakes it.
            std::thread::park();
        }
    }
    *lock(&agent.hand.task) = None;
}

/// Takes the GIL if it is free. Who had to wait for it has missed the gap, and only an urgent order goes on.
fn carry_out(agent: &Agent, task: Task) {
    let Task { order, thresholds, ordered } = task;
    if agent.interpreter.gil.is_none_or(|gil| gil.is_held()) && !order.at_once {
        agent.hand.missed.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let done = Python::try_attach(|py| -> Result<(), String> {
        let tried = if monotonic_ns() - ordered > MISSED_NS && !order.at_once {
            agent.hand.missed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        } else {
            act(py, agent, order, thresholds)
        };
        tried.map_err(|error| error.value(py).to_string())
    });
    if let Some(Err(reason)) = done {
        agent.ledger().trouble(format!("a collection could not be carried out: {reason}"));
    }
}

fn act(py: Python<'_>, agent: &Agent, order: Order, thresholds: Option<Thresholds>) -> PyResult<()> {
    let stage = &agent.stage;
    if let Some(thresholds) = thresholds {
        let _held = hold_off(py, agent);
        stage.set_thresholds(py, thresholds)?;
        *lock(&agent.hand.applied) = Some(thresholds);
    }
    if order.decision == Decision::Wait {
        return Ok(());
    }
    // A clone runs no finalizers, so it need not wait for the event loop.
    if order.decision != Decision::Snapshot && stage.call_in_loop(py, agent, "collect_posted", Some(order))? {
        return Ok(());
    }
    stage.carry_out(py, agent, order)
}
