//! What somebody outside has asked for: another policy, or a collection now. The hand does it, and the outcome waits
//! until it is asked for.

use std::sync::Mutex;

use neurogc_policy::Name;
use neurogc_wire::control::{How, Outcome};
use pyo3::prelude::*;

use crate::agent::{Agent, lock};
use crate::cpython::native::monotonic_ns;
use crate::snapshot::{Figures, Progress, face};
use crate::stage::original;
use crate::takeover::switch;

/// An event loop that has not run an errand in this time has ended; nobody else need wait for it.
const FORGOTTEN_NS: u64 = 120_000_000_000;

/// Something to do.
#[derive(Clone, Copy, Debug)]
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
        desk.waiting
    }

    /// The errand that is under way.
    fn under_way(&self) -> Option<Errand> {
        lock(&self.desk).waiting
    }

    fn done(&self, outcome: Outcome) {
        let mut desk = lock(&self.desk);
        desk.waiting = None;
        desk.outcome = Some(outcome);
    }
}

/// Begins an errand with the GIL held. A collection belongs in the thread of the program's event loop, where there is one.
pub(crate) fn run(py: Python<'_>, agent: &Agent, errand: Errand) {
    let event_loop = if let Errand::Collect(_) = errand { agent.stage.event_loop(py) } else { None };
    let handed_over = event_loop.is_some_and(|event_loop| {
        let collect = py.import("neurogc._agent").and_then(|module| module.getattr("run_errand"));
        collect.and_then(|collect| event_loop.call_method1("call_soon_threadsafe", (collect,))).is_ok()
    });
    if !handed_over {
        finish(py, agent);
    }
}

/// Does the errand that is under way, in the calling thread.
pub(crate) fn finish(py: Python<'_>, agent: &Agent) {
    let outcome = match agent.errands.under_way() {
        Some(Errand::Policy(name)) => change(py, agent, name),
        Some(Errand::Collect(how)) => collect(py, agent, how),
        None => return,
    };
    agent.errands.done(outcome.unwrap_or_else(|error| Outcome::Failed(error.value(py).to_string())));
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

fn collect(py: Python<'_>, agent: &Agent, how: How) -> PyResult<Outcome> {
    let began = monotonic_ns();
    if how == How::Snapshot {
        return snapshot(py, agent);
    }
    let (how, generation) = if how == How::Young { (How::Young, 0) } else { (How::Full, 2) };
    let found = original(py, "collect")?.call1((generation,))?.extract::<u64>()?;
    Ok(Outcome::Collected { how, found, pause_ms: (monotonic_ns() - began) as f64 / 1e6 })
}

fn snapshot(py: Python<'_>, agent: &Agent) -> PyResult<Outcome> {
    let before = agent.snapshots.figures();
    match face::collect(py, agent)? {
        Some(found) => {
            let after = agent.snapshots.figures();
            let stopped = |figures: &Figures| figures.clone.pauses().total_ms + figures.reap.pauses().total_ms;
            let pause_ms = stopped(&after) - stopped(&before);
            Ok(Outcome::Collected { how: How::Snapshot, found: found as u64, pause_ms })
        }
        None => {
            let reason = match agent.snapshots.look() {
                Progress::Failed(failure) => failure.to_string(),
                _ => "no snapshot could be taken".to_owned(),
            };
            Ok(Outcome::Failed(reason))
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
