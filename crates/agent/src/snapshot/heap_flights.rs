//! Flights that do not collect: they count all objects by type, or write them to a dump.

use std::sync::OnceLock;
use std::time::Duration;

use pyo3::ffi;
use pyo3::prelude::*;

use super::flight::FlightErrand;
use super::heap::{ArrowLayout, Builtins, Counted, Destination, HeapFacts, TallyRoom, TensorLayout, images};
use super::{Phase, SnapshotFailure, SnapshotRunner, Sortie, State, system};
use crate::cpython::gather::GatheredArenas;
use crate::cpython::heap_layout::heap_layout_for;
use crate::cpython::modules::loaded;
use crate::cpython::{Interpreter, arenas};
use crate::sense::process::resident;
use crate::sys::native::{process_age_ns, unix_ns};

/// What such a flight is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeapErrand {
    /// A count by type.
    Count,
    /// A census, which no thread waits for.
    Census,
    /// A dump, with or without the values of strings and integers. One that is urgent is tried where memory is short.
    Dump { to: Destination, texts: bool, urgent: bool },
}

impl HeapErrand {
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(self, Self::Dump { urgent: true, .. })
    }

    /// Whether pages are put together first. A census is not asked for, and changes nothing.
    pub(crate) fn gathers(&self) -> bool {
        matches!(self, Self::Count | Self::Dump { urgent: false, .. })
    }
}

/// What it has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HeapReport {
    /// How long the program stood still for the clone, and how long the flight was.
    pub(crate) pause: Duration,
    pub(crate) flight: Duration,
    pub(crate) objects: u64,
    /// Bytes of the dump.
    pub(crate) written: u64,
    /// The counts by type.
    pub(crate) counted: Vec<Counted>,
    /// What was done before the clone so that it is short.
    pub(crate) gathered: GatheredArenas,
}

/// The outcome of the flight with this number.
#[derive(Clone, Debug)]
pub(crate) struct HeapTold {
    number: u64,
    outcome: Result<HeapReport, SnapshotFailure>,
}

impl SnapshotRunner {
    /// Clones the process for a count or a dump, and gives the number of the flight.
    pub(crate) fn launch_heap(
        &self,
        py: Python<'_>,
        interpreter: &Interpreter,
        errand: HeapErrand,
    ) -> Result<u64, SnapshotFailure> {
        let facts = facts(py, interpreter, errand)?;
        self.make_markers(py);
        let Some(mut state) = self.try_state() else { return Err(SnapshotFailure::UnderWay) };
        let errand = match errand {
            HeapErrand::Count => {
                FlightErrand::Count(Box::new(facts), TallyRoom::new().ok_or(SnapshotFailure::NoMemory)?)
            }
            HeapErrand::Census => {
                FlightErrand::Census(Box::new(facts), TallyRoom::new().ok_or(SnapshotFailure::NoMemory)?)
            }
            HeapErrand::Dump { to, urgent, .. } => {
                // Of one that came to nothing something may be there.
                let can_begin_anew = [Some(to.first), to.rest].into_iter().flatten().all(system::empty_file);
                FlightErrand::Dump { facts: Box::new(facts), to, urgent, can_begin_anew }
            }
        };
        let sortie = Sortie { polite: true, ..Sortie::default() };
        match self.try_launch(py, interpreter, &mut state, sortie, errand) {
            Ok(_) => {
                state.heap_flights += 1;
                Ok(state.heap_flights)
            }
            Err(failure) => {
                if !matches!(failure, SnapshotFailure::UnderWay | SnapshotFailure::Collecting) {
                    arenas::release();
                }
                Err(failure)
            }
        }
    }

    /// What has become of the flight with this number; nothing while it is out, and where another thread has the state.
    pub(crate) fn heap_told(&self, number: u64) -> Option<Result<HeapReport, SnapshotFailure>> {
        let mut state = self.try_state()?;
        match state.told.take_if(|told| told.number == number) {
            Some(told) => Some(told.outcome),
            None if state.is_heap_flight() && state.heap_flights == number => None,
            // Another thread has taken the report: two that wait for the same flight.
            None => Some(Err(SnapshotFailure::Vanished)),
        }
    }
}

impl SnapshotRunner {
    /// Calls a flight off because its copies leave too little memory. A dump that was to be tried all the same is left to
    /// the kernel, which ends the clone before the program.
    pub(crate) fn call_off_for_room(&self) {
        let is_urgent = |state: &State| {
            matches!(
                &state.phase,
                Phase::Flying(flight) if matches!(flight.errand, FlightErrand::Dump { urgent: true, .. })
            )
        };
        if self.try_state().is_some_and(|state| !is_urgent(&state)) {
            self.cancel(SnapshotFailure::OutOfRoom);
        }
    }
}

impl State {
    /// Whether the flight that is out is one of these.
    pub(super) fn is_heap_flight(&self) -> bool {
        matches!(&self.phase, Phase::Flying(flight) if !flight.errand.collects())
    }

    /// Such a flight has ended well.
    pub(super) fn heap_landed(&mut self) {
        let Phase::Flying(flight) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        if self.census_landed(&flight) {
            self.retired = Some(flight.shared);
            return arenas::release();
        }
        let control = flight.shared.control();
        let read = |number: &std::sync::atomic::AtomicU64| number.load(std::sync::atomic::Ordering::Relaxed);
        let counted = match &flight.errand {
            FlightErrand::Count(_, room) => room.read(),
            FlightErrand::Collect(_) | FlightErrand::Census(..) | FlightErrand::Dump { .. } => Vec::new(),
        };
        let report = HeapReport {
            pause: Duration::from_nanos(flight.clone_ns),
            flight: Duration::from_nanos(system::now().saturating_sub(flight.began)),
            objects: read(&control.objects).max(counted.iter().map(|row| row.objects).sum()),
            written: read(&control.written),
            counted,
            gathered: GatheredArenas::default(),
        };
        self.told = Some(HeapTold { number: self.heap_flights, outcome: Ok(report) });
        self.retired = Some(flight.shared);
        arenas::release();
    }

    /// Such a flight has come to nothing. That says nothing about collections.
    pub(super) fn heap_failed(&mut self, failure: SnapshotFailure) {
        let Phase::Flying(flight) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        let failure = match (failure, &flight.errand) {
            // The client that reads the pipe has a part already.
            (SnapshotFailure::Missing, FlightErrand::Dump { can_begin_anew: false, .. })
                if flight.shared.control().written.load(std::sync::atomic::Ordering::Relaxed) > 0 =>
            {
                SnapshotFailure::CutOff
            }
            (failure, _) => failure,
        };
        if !matches!(flight.errand, FlightErrand::Census(..)) {
            self.told = Some(HeapTold { number: self.heap_flights, outcome: Err(failure) });
        }
        self.retired = Some(flight.shared);
        arenas::release();
    }
}

/// The addresses of CPython's types, which stay what they are.
static BUILTINS: OnceLock<Builtins> = OnceLock::new();

/// What the clone has to know.
pub(super) fn facts(
    py: Python<'_>,
    interpreter: &Interpreter,
    errand: HeapErrand,
) -> Result<HeapFacts, SnapshotFailure> {
    let unsupported = |reason: String| SnapshotFailure::Unsupported(reason);
    let (Some(layout), Some(heap)) = (interpreter.layout, heap_layout_for(&interpreter.version)) else {
        let reason = interpreter.degraded.first().cloned();
        return Err(unsupported(reason.unwrap_or_else(|| "the interpreter is not understood".to_owned())));
    };
    let builtins = match BUILTINS.get() {
        Some(known) => *known,
        None => {
            let found = Builtins::find(py, layout).map_err(|error| unsupported(error.to_string()))?;
            *BUILTINS.get_or_init(|| found)
        }
    };
    let (version, now) = (&interpreter.version, unix_ns());
    // SAFETY: this thread holds the GIL, so it has a state and an interpreter.
    let (state, thread) = unsafe { (ffi::PyInterpreterState_Get() as usize, ffi::PyThreadState_Get() as usize) };
    Ok(HeapFacts {
        layout,
        heap,
        builtins,
        interpreter: state,
        thread,
        images: if matches!(errand, HeapErrand::Dump { .. }) { images() } else { Vec::new() },
        python: 0x0300_00f0 | u32::from(version.minor) << 16 | u32::from(version.micro) << 8,
        pid: std::process::id(),
        started_ns: process_age_ns().map_or(0, |age| now.saturating_sub(age)),
        taken_ns: now,
        resident: if matches!(errand, HeapErrand::Dump { .. }) { resident().unwrap_or(0) } else { 0 },
        texts: !matches!(errand, HeapErrand::Dump { texts: false, .. }),
        // The clone of a census may not have their memory.
        tensors: if matches!(errand, HeapErrand::Census) { None } else { TensorLayout::learn(py) },
        arrow: if matches!(errand, HeapErrand::Census) { None } else { ArrowLayout::learn(py) },
        sparse: if matches!(errand, HeapErrand::Census) { arenas::sparse() } else { Vec::new() },
        at_exit: if matches!(errand, HeapErrand::Census) { at_exit(py).unwrap_or(0) } else { 0 },
    })
}

/// How many functions are registered for the end of the program. They are in no container of Python's.
fn at_exit(py: Python<'_>) -> Option<u64> {
    loaded(py, "atexit").ok()?.call_method0("_ncallbacks").and_then(|count| count.extract()).ok()
}
