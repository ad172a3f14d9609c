//! From a recorded trace to a workload and a model.
//!
//! | what | from which records | how |
//! |---|---|---|
//! | service, rest | request start and end, collection, process (processor time) | time in flight, shared by those in flight, without pauses; what the processor did not do is rest of those during whose time others began |
//! | arrivals | request start and end, collection, gap | who followed another closely had waited: `arrivals` |
//! | objects of a request | heap (gathered) | net allocations from one collection to the next, shared out among those who ran, again and again |
//! | shares that die, lag | collection (freed), heap, flight (found) | what young collections free; a line through what old ones have freed so far, by allocations so far; what is neither left nor was freed went by reference counting |
//! | young, middle, full | collection (pause, freed), heap | least squares of pause by objects looked at and freed, without the longest twentieth; what is left over is kept by time |
//! | reap, clone, walk, copies | collection, flight, process | least squares; medians of the cost of a byte, or of an object |
//! | bytes of an object | process (resident), heap | least squares of resident memory by objects, and by the most so far |

mod costs;
mod lifetimes;
mod objects;
mod requests;
mod seen;

use neurogc_wire::trace::Trace;
use serde::Serialize;

use crate::model::HeapModel;
use crate::workload::Workload;
use seen::TraceContents;

/// What a trace says about its program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// What its heap is like.
    pub model: HeapModel,
    /// What was asked of it.
    #[serde(skip)]
    pub workload: Workload,
    /// What the trace does not show, so that it was taken from other programs.
    pub assumed: Vec<Unseen>,
}

/// Something that a trace may not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// What a young collection costs.
    Young,
    /// What a middle one costs.
    Middle,
    /// What a full one costs.
    Full,
    /// What freeing what a snapshot found costs.
    Reap,
    /// What a clone costs.
    Clone,
    /// How long a snapshot is walked, and what is copied meanwhile.
    Walk,
    /// The bytes of an object.
    Object,
    /// What dies late, and when.
    DyingLate,
}

impl Unseen {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Young => "the cost of a young collection",
            Self::Middle => "the cost of a middle collection",
            Self::Full => "the cost of a full collection",
            Self::Reap => "the cost of freeing what a snapshot found",
            Self::Clone => "the cost of a clone",
            Self::Walk => "how long a snapshot is walked, and what is copied meanwhile",
            Self::Object => "the bytes of an object",
            Self::DyingLate => "what dies old: no collection of the old heap has freed anything",
        }
    }
}

impl Serialize for Unseen {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

/// Why a trace says too little.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum FitError {
    #[error(
        "the trace holds {found} finished requests, and a simulation needs {LEAST_REQUESTS}. Record for longer, and mark \
         requests where no adapter does: neurogc.request() or neurogc.step()"
    )]
    Requests { found: usize },
    #[error(
        "the trace holds no record of the heap at a collection: it was recorded by an older version, or under an \
         interpreter whose collector is not understood. Record it again; `neurogc doctor` tells what works here"
    )]
    Heap,
    #[error(
        "the trace holds {found} collections while requests were served, and a simulation needs {LEAST_COLLECTIONS} to \
         know what they cost. Record for longer"
    )]
    Collections { found: usize },
    #[error(
        "the trace holds {found} looks at the process, and a simulation needs 2 to know its memory. Record for longer"
    )]
    Process { found: usize },
}

const LEAST_REQUESTS: usize = 100;
const LEAST_COLLECTIONS: usize = 3;

/// A trace with so many times as many collections for each request has looked closer at what objects live.
const CLOSER: f64 = 2.0;

/// Reads a workload and a model out of a trace. Requests of the first `warm_up` nanoseconds are played, but not counted.
pub fn fit(trace: &Trace, warm_up: u64, seed: u64) -> Result<Fit, FitError> {
    fit_with(trace, &[], warm_up, seed)
}

/// The same, with other traces of the same program that show what this one does not: what collections cost that it has
/// not seen, and, where they have looked much more closely, what objects live and how many each request allocates.
pub fn fit_with(trace: &Trace, others: &[Trace], warm_up: u64, seed: u64) -> Result<Fit, FitError> {
    let seen = TraceContents::read(trace)?;
    let others = others.iter().map(TraceContents::read).collect::<Result<Vec<_>, _>>()?;
    let mut assumed = Vec::new();
    let closest = others.iter().max_by(|a, b| a.closeness().total_cmp(&b.closeness()));
    let closer = closest.filter(|other| other.closeness() > CLOSER * seen.closeness());
    let lifetimes = closer.unwrap_or(&seen).lifetimes(&mut assumed);
    let mut workload =
        seen.workload(&closer.map_or_else(|| seen.objects.clone(), |other| seen.objects_like(other)), seed);
    if trace.header.thresholds != [0; 3] {
        workload.thresholds = trace.header.thresholds;
    }
    workload.counted_from = seen.window.0 + warm_up;
    let busy = workload.requests.iter().map(|request| request.service as f64).sum::<f64>();
    let costs = seen.costs(&others, busy / (seen.window.1 - seen.window.0) as f64, &mut assumed);
    let memory = seen.memory(&mut assumed);
    let disturbed = seen.disturbed(&others, &costs);
    Ok(Fit { model: HeapModel { costs, lifetimes, memory, disturbed }, workload, assumed })
}
