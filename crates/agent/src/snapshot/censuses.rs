//! Censuses: flights that collect count what is reachable on their way, and so does a flight for that alone.

use neurogc_policy::Scope;
use pyo3::prelude::*;

use super::flight::{Flight, FlightErrand};
use super::heap::{CensusFound, CountedContainer, HeapFacts, TallyRoom};
use super::heap_flights::facts;
use super::{HeapErrand, SnapshotRunner, Sortie, State};
use crate::cpython::Interpreter;

impl SnapshotRunner {
    /// The snapshots of a process whose collections count, or do not.
    pub(crate) fn new(counts: bool) -> Self {
        let mut runner = Self::default();
        runner.counts = counts;
        runner
    }

    /// What a flight needs to count besides. Nothing where it cannot, or looks at new objects only.
    pub(super) fn census_plan(
        &self,
        py: Python<'_>,
        interpreter: &Interpreter,
        sortie: Sortie,
    ) -> Option<(Box<HeapFacts>, TallyRoom)> {
        if !self.counts || sortie.scope != Scope::All {
            return None;
        }
        let facts = facts(py, interpreter, HeapErrand::Census).ok()?;
        Some((Box::new(facts), TallyRoom::new()?))
    }

    /// The latest census, once. It waits for no thread.
    pub(crate) fn take_census(&self) -> Option<Box<CensusFound>> {
        self.try_state()?.census.take()
    }
}

impl State {
    /// Keeps the census of a flight that has landed. True if the flight was for that alone.
    pub(super) fn census_landed(&mut self, flight: &Flight) -> bool {
        let (facts, room) = match &flight.errand {
            FlightErrand::Collect(Some((facts, room))) | FlightErrand::Census(facts, room) => (facts, room),
            _ => return false,
        };
        if let Some(mut found) = room.census(flight.began) {
            found.containers.push(CountedContainer {
                name: "atexit".to_owned(),
                kind: "registered functions".to_owned(),
                length: facts.at_exit,
                ..CountedContainer::default()
            });
            self.census = Some(Box::new(CensusFound { pause_ns: flight.clone_ns, ..found }));
        }
        matches!(flight.errand, FlightErrand::Census(..))
    }
}
