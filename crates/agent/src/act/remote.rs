//! What somebody outside has asked for: another policy, or a collection now. The hand does it, and the outcome waits
//! until it is asked for.

use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use neurogc_policy::Name;
use neurogc_wire::control::{How, Outcome};
use pyo3::prelude::*;

use crate::act::stage::original;
use crate::act::takeover::switch;
use crate::lifecycle::agent::{Agent, lock};
use crate::snapshot::{Failure, Progress};
use crate::sys::native::monotonic_ns;

/// An event loop that has not run an errand in this time has ended; nobody else need wait for it.
const FORGOTTEN_NS: u64 = 120_000_000_000;

/// How long a slice may take that frees what a snapshot found. Between slices others have the GIL, or their turn in the loop.
const SLICE: Duration = Duration::from_millis(1);

/// How often a snapshot is looked at, and how long one that is out already is waited for.
const LOOK: Duration = Duration::from_millis(1);
const OUT_NS: u64 = 10_000_000_000;

/// Something to do.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    /// Another policy.
    Policy(Name),
    /// A collection.
    Collect(How),
}

/// One errand at a time, and the outcome of the last one.
#[derive(Debug, Default)]
pub(crate) struct Errands {
    desk: Mutex<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    tickets: u64,
    waiting: Option<Errand>,
    taken_on: u64,
    /// It is being done, by the hand or in the program's event loop.
    begun: bool,
    /// What snapshots had freed, and how long they had stopped the program, before this one.
    before: (u64, f64),
    outcome: Option<Outcome>,
}

impl Errands {
    /// Takes an errand on and gives its ticket, or nothing while another one is under way.
    pub(crate) fn take_on(&self, errand: Errand) -> Option<u64> {
        let mut desk = lock(&self.desk);
        let now = monotonic_ns();
        if desk.waiting.is_some() && now < desk.taken_on + FORGOTTEN_NS {
            return None;
        }
        desk.tickets += 1;
        desk.taken_on = now;
        desk.waiting = Some(errand);
        desk.begun = false;
        desk.outcome = None;
        Some(desk.tickets)
    }

    /// The outcome of a ticket, nothing while it is under way, and an error for a ticket that is not the last one.
    pub(crate) fn outcome(&self, ticket: u64) -> Result<Option<Outcome>, &'static str> {
        let desk = lock(&self.desk);
        if ticket == desk.tickets { Ok(desk.outcome.clone()) } else { Err("something else was asked for since then") }
    }

    /// The errand that nobody has begun yet. It counts as begun from now on.
    pub(crate) fn begin(&self) -> Option<Errand> {
        let mut desk = lock(&self.desk);
        if desk.begun {
            return None;
        }
        desk.begun = desk.waiting.is_some();
        desk.waiting.clone()
    }

    /// The errand that is under way.
    fn under_way(&self) -> Option<Errand> {
        lock(&self.desk).waiting.clone()
    }

    fn done(&self, outcome: Outcome) {
        let mut desk = lock(&self.desk);
        desk.waiting = None;
        desk.outcome = Some(outcome);
    }
}

/// Begins an errand with the GIL held. Objects are freed in the thread of the program's event loop, where there is one; a
/// snapshot's flight is waited for here, in the hand.
pub(crate) fn run(py: Python<'_>, agent: &Agent, errand: Errand) {
    match errand {
        Errand::Policy(_) => {
            step(py, agent);
        }
        Errand::Collect(How::Snapshot) => {
            lock(&agent.errands.desk).before = spent(agent);
            match fly(py, agent) {
                Ok(()) => in_the_loop(py, agent),
                Err(reason) => agent.errands.done(Outcome::Failed(reason)),
            }
        }
        Errand::Collect(_) => in_the_loop(py, agent),
    }
}

/// Goes on in the event loop, where there is one.
fn in_the_loop(py: Python<'_>, agent: &Agent) {
    if !agent.stage.call_in_loop(py, agent, "run_errand", None).unwrap_or(false) {
        while !step(py, agent) {}
    }
}

/// Does the errand that is under way, or the next slice of it, in the event loop's thread.
pub(crate) fn proceed(py: Python<'_>, agent: &Agent) {
    if !step(py, agent) {
        in_the_loop(py, agent);
    }
}

/// The same in any thread. True when there is nothing left to do.
fn step(py: Python<'_>, agent: &Agent) -> bool {
    let outcome = match agent.errands.under_way() {
        Some(Errand::Policy(name)) => change(py, agent, name).map(Some),
        Some(Errand::Collect(How::Snapshot)) => Ok(free(py, agent)),
        Some(Errand::Collect(how)) => collect(py, how).map(Some),
        None => return true,
    };
    let outcome = outcome.unwrap_or_else(|error| Some(Outcome::Failed(error.value(py).to_string())));
    outcome.map(|outcome| agent.errands.done(outcome)).is_some()
}

fn change(py: Python<'_>, agent: &Agent, name: Name) -> PyResult<Outcome> {
    if agent.stage.has_stood_down() && name.acts() {
        let reason = "the program has set the collector's thresholds itself, so no policy acts in it";
        return Ok(Outcome::Failed(reason.to_owned()));
    }
    let before = agent.policy().to_string();
    switch(py, agent, name)?;
    Ok(Outcome::Policy { before, after: agent.policy().to_string() })
}

fn collect(py: Python<'_>, how: How) -> PyResult<Outcome> {
    let began = monotonic_ns();
    let (how, generation) = if how == How::Young { (How::Young, 0) } else { (How::Full, 2) };
    let found = original(py, "collect")?.call1((generation,))?.extract::<u64>()?;
    Ok(Outcome::Collected { how, found, pause_ms: (monotonic_ns() - began) as f64 / 1e6 })
}

/// What snapshots have freed so far, and for how many milliseconds they have stopped the program.
fn spent(agent: &Agent) -> (u64, f64) {
    let figures = agent.snapshots.figures();
    (figures.freed, figures.clone.pauses().total_ms + figures.reap.pauses().total_ms)
}

/// Launches a snapshot and waits until it has landed.
fn fly(py: Python<'_>, agent: &Agent) -> Result<(), String> {
    let until = monotonic_ns() + OUT_NS;
    while let Progress::Busy | Progress::InFlight { .. } | Progress::Ready { .. } = agent.snapshots.look() {
        if monotonic_ns() > until || agent.stopping() {
            return Err("a snapshot is under way already".to_owned());
        }
        py.detach(|| sleep(LOOK));
    }
    loop {
        agent.stage.launch_now(py, agent).map_err(|failure| failure.to_string())?;
        while let Progress::Busy | Progress::InFlight { .. } = agent.snapshots.look() {
            if agent.stopping() {
                return Err("the program ends".to_owned());
            }
            py.detach(|| sleep(LOOK));
        }
        match agent.snapshots.look() {
            // The next one leaves nothing out.
            Progress::Failed(Failure::Missing) => {}
            Progress::Failed(failure) => {
                agent.snapshots.lift(py);
                return Err(failure.to_string());
            }
            _ => return Ok(()),
        }
    }
}

/// Frees a slice of what the snapshot found, unless the policy has done so; the outcome when that was the last one.
fn free(py: Python<'_>, agent: &Agent) -> Option<Outcome> {
    match agent.snapshots.look() {
        Progress::Ready { .. } => {
            agent.stage.reap_now(py, agent, SLICE, true);
            None
        }
        Progress::Busy => {
            py.detach(std::thread::yield_now);
            None
        }
        Progress::Failed(failure) => {
            agent.snapshots.lift(py);
            Some(Outcome::Failed(failure.to_string()))
        }
        Progress::Idle | Progress::InFlight { .. } => {
            let (before, (freed, stopped)) = (lock(&agent.errands.desk).before, spent(agent));
            Some(Outcome::Collected { how: How::Snapshot, found: freed - before.0, pause_ms: stopped - before.1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_errand_at_a_time() {
        let errands = Errands::default();
        let ticket = errands.take_on(Errand::Collect(How::Full));
        assert_eq!((ticket, errands.take_on(Errand::Collect(How::Young))), (Some(1), None));
        assert!(errands.begin().is_some() && errands.begin().is_none());
        assert_eq!(errands.outcome(1), Ok(None));
        errands.done(Outcome::Failed("no".to_owned()));
        assert_eq!(errands.outcome(1), Ok(Some(Outcome::Failed("no".to_owned()))));
        assert_eq!(errands.take_on(Errand::Collect(How::Full)), Some(2));
        assert!(errands.outcome(1).is_err());
    }
}
