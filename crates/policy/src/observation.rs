//! What a policy sees, and what it may answer.

use std::time::Duration;

use crate::bytes::Bytes;
use crate::pacer::SMALL_HEAP;
use crate::phase::GapRhythm;
use crate::ranks::RankStep;

/// The program at one moment. Times count from the moment the agent was installed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    /// Now.
    pub now: Duration,
    /// Where in the program this is asked.
    pub moment: Moment,
    /// For how long no thread has wanted the interpreter; `None` while one runs.
    pub idle: Option<Duration>,
    /// Requests being served.
    pub in_flight: u64,
    /// Requests served so far.
    pub requests: u64,
    /// The collector's counters: net allocations since the last young collection, young collections since the last
    /// middle one, middle ones since the last full one.
    pub counts: [u32; 3],
    /// Objects that have become old since CPython's last full collection, as it counts them when they do. Its counters leave out
    /// objects that it takes from its free lists, up to eighty dicts and as many lists in each collection.
    pub promoted: u64,
    /// Objects that the last walk or full collection left behind, as the pacer counts them.
    pub tenured: u64,
    /// Objects that have come on top of that.
    pub pending: u64,
    /// Young objects that may gather, and survivors of young collections: how many there are and how many may gather.
    pub young_limit: u32,
    /// See `young_limit`.
    pub survivors: u32,
    /// See `young_limit`.
    pub survivors_limit: u32,
    /// The pacer would begin a cycle in a gap, which should look at this.
    pub cycle_due: bool,
    /// Nothing has been collected yet, and the first cycle waits until what has come since start-up is worth one.
    pub first_waits: bool,
    /// A plain collection of everything fits into the gap that begins now, which is a long one of a program whose gaps repeat.
    pub fits: bool,
    /// See `cycle_due`.
    pub scope: Scope,
    /// The heap grows so fast that the walk should not give way to the program.
    pub hurry: bool,
    /// Resident memory.
    pub rss: Bytes,
    /// What memory may not exceed.
    pub ceiling: Option<Bytes>,
    /// Memory that is left for the pages that the program copies while a snapshot is out, where that is known.
    pub left_for_copies: Option<Bytes>,
    /// What the program has copied at most since the clone was made.
    pub copied: Bytes,
    /// The program asked for quiet.
    pub paused: bool,
    /// The program has asked for a full collection, which was put off.
    pub deferred: bool,
    /// How a snapshot stands.
    pub snapshot: Snapshot,
    /// Where the program is in a rhythm of long and short gaps, if it has one.
    pub rhythm: Option<GapRhythm>,
    /// Where the process is in a training job, if it is one of several ranks.
    pub ranks: Option<RankStep>,
}

/// Where in the program a policy is asked. What it orders runs finalizers, so it runs in a thread of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// A thread of the agent looks at the program. What is decided waits for a thread of the program.
    #[default]
    Look,
    /// A thread of the program has nothing to do: its event loop is about to sleep, or its last request has ended.
    Gap,
    /// A collection has just ended in a thread of the program.
    CollectionEnd,
    /// A thread of the program has come by, with work of its own waiting.
    Passing,
    /// A step of a training job with several ranks has ended.
    StepEnd,
    /// An epoch of a training loop has ended, or an evaluation.
    Boundary,
}

/// What a snapshot looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Every tracked object.
    #[default]
    All,
    /// Objects that have become old since the launch before the last snapshot of everything.
    New,
}

/// How a snapshot of the heap stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Snapshot {
    /// This process takes none.
    #[default]
    Unavailable,
    /// None is out.
    Idle,
    /// One is being walked.
    InFlight,
    /// What it found waits to be freed.
    Ready {
        /// Objects.
        objects: u64,
        /// How long the next piece would take, where only pieces are left that are too large for a slice.
        piece: Option<Duration>,
    },
}

/// A snapshot that has been walked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flown {
    /// When it was over.
    pub at: Duration,
    /// What it looked at.
    pub scope: Scope,
    /// How long the program stood still for it.
    pub clone: Duration,
    /// How long the walk took, and the processor time that it used.
    pub flight: Duration,
    /// See `flight`.
    pub worked: Duration,
    /// How long the program has spent on copying pages meanwhile, about.
    pub copied: Duration,
    /// Objects that it saw.
    pub objects: u64,
    /// Objects that it found unreachable.
    pub found: u64,
    /// Reachable objects that are no longer new after a walk of everything: walks of new objects leave them out.
    pub older: u64,
}

/// What a full collection costs for each object, before one has been measured.
const NS_PER_OBJECT: u64 = 100;

impl Observation {
    /// Whether no thread of the program has anything to do now.
    #[must_use]
    pub fn is_gap(&self) -> bool {
        matches!(self.moment, Moment::Gap | Moment::StepEnd | Moment::Boundary) || self.idle.is_some()
    }

    /// How many objects there are, about.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.tenured + self.pending + u64::from(self.counts[0])
    }

    /// How long a full collection may take, by the number of objects alone.
    #[must_use]
    pub fn guessed_full_pause(&self) -> Duration {
        Duration::from_nanos(self.objects().saturating_mul(NS_PER_OBJECT))
    }

    /// How everything is collected: from a snapshot, or plainly where the heap is small or none can be taken.
    #[must_use]
    pub fn everything(&self, scope: Scope) -> Decision {
        let large = self.objects() >= SMALL_HEAP;
        if self.snapshot == Snapshot::Idle && large { Decision::Snapshot { scope } } else { Decision::Full }
    }
}

/// A collection that has happened: CPython's own, the policy's or the program's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Collected {
    /// When it ended.
    pub at: Duration,
    /// What was collected.
    pub generation: Generation,
    /// How long it stopped the program.
    pub pause: Duration,
    /// Net allocations that had gathered before it: about as many objects as a young collection looks at.
    pub gathered: u32,
    /// Objects freed.
    pub freed: u64,
    /// Resident memory afterwards.
    pub rss: Bytes,
    /// Objects that a full collection left, where that is known.
    pub objects: Option<u64>,
}

/// A part of the heap, by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// What was allocated since the last collection.
    Young,
    /// What survived one.
    Middle,
    /// Everything.
    Full,
}

impl Generation {
    /// CPython's number for it.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Decision {
    /// Nothing.
    #[default]
    Wait,
    /// Collect the youngest generation.
    Young,
    /// Collect the two younger generations.
    Middle,
    /// Collect everything.
    Full,
    /// Collect everything once and take what is left out of the collector's sight.
    Freeze,
    /// Collect the oldest generation from a snapshot.
    Snapshot {
        /// What it looks at.
        scope: Scope,
    },
    /// Free what a snapshot found, for at most this long.
    Reap {
        /// How long.
        budget: Duration,
    },
    /// Hold the calling thread up without the interpreter, so that the walk can catch up.
    Throttle {
        /// For how long.
        pause: Duration,
    },
    /// Give free memory of the C library back to the system. A thread of the agent does it, at no moment in particular.
    Trim,
}

/// A decision with its reason.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Order {
    /// Its number within the process, by which what it led to is known; 0 before it is given.
    pub id: u64,
    /// What to do.
    pub decision: Decision,
    /// Why, in words.
    pub reason: &'static str,
    /// Whether a guard ordered it.
    pub forced: bool,
    /// Whether it is carried out at once, gap or not.
    pub at_once: bool,
}

impl Order {
    /// Nothing to do.
    pub const WAIT: Self = Self { id: 0, decision: Decision::Wait, reason: "", forced: false, at_once: false };

    /// An order of a policy.
    #[must_use]
    pub fn because(decision: Decision, reason: &'static str) -> Self {
        Self { id: 0, decision, reason, forced: false, at_once: false }
    }

    /// An order of a policy that does not wait for gaps.
    #[must_use]
    pub fn at_once(decision: Decision, reason: &'static str) -> Self {
        Self { id: 0, decision, reason, forced: false, at_once: true }
    }

    /// An order of a guard that still keeps to gaps.
    #[must_use]
    pub fn forced_in_gap(decision: Decision, reason: &'static str) -> Self {
        Self { id: 0, decision, reason, forced: true, at_once: false }
    }

    /// An order of a guard that waits no longer.
    #[must_use]
    pub fn forced(decision: Decision, reason: &'static str) -> Self {
        Self { id: 0, decision, reason, forced: true, at_once: true }
    }
}
