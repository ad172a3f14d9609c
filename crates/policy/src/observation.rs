//! What a policy sees, and what it may answer.

use std::time::Duration;

/// Bytes of memory.
pub type Bytes = u64;

/// The program at one moment. Times count from the moment the agent was installed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    /// Now.
    pub now: Duration,
    /// For how long nobody has wanted the interpreter; `None` while somebody runs.
    pub idle: Option<Duration>,
    /// Requests being served.
    pub in_flight: u64,
    /// Requests served so far.
    pub requests: u64,
    /// The collector's counters: net allocations since the last young collection, young collections since the last
    /// middle one, middle ones since the last full one.
    pub counts: [u32; 3],
    /// Objects that the last full collection left behind.
    pub tenured: u64,
    /// Objects that have reached the oldest generation since then.
    pub pending: u64,
    /// Resident memory.
    pub rss: Bytes,
    /// What memory may not exceed.
    pub ceiling: Option<Bytes>,
    /// The program asked for quiet.
    pub paused: bool,
    /// The program has asked for a full collection, which was put off.
    pub deferred: bool,
    /// How a snapshot stands.
    pub snapshot: Snapshot,
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
    /// How long the program stood still for it.
    pub clone: Duration,
    /// How long the walk took.
    pub flight: Duration,
    /// How long the program has spent on copying pages meanwhile, about.
    pub copied: Duration,
    /// Objects that it saw.
    pub objects: u64,
    /// Objects that it found unreachable.
    pub found: u64,
}

/// From so many objects on a snapshot is cheaper than the pause; where no gap has come in a while, from fewer on.
const LARGE_HEAP: u64 = 500_000;
const SMALL_HEAP: u64 = 50_000;
const LONG_WAIT: Duration = Duration::from_secs(3);

/// What memory may come to during a snapshot, as a multiple of what it is.
const SNAPSHOT_ROOM: f64 = 1.6;

/// What a full collection costs for each object, before one has been measured.
const NS_PER_OBJECT: u64 = 100;

impl Observation {
    /// Whether a collection would disturb nobody now.
    #[must_use]
    pub fn is_gap(&self) -> bool {
        self.idle.is_some()
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

    /// How everything is collected best, after it has waited for so long: from a snapshot where that pays and memory
    /// has room for the copies that the program makes meanwhile, and plainly otherwise.
    #[must_use]
    pub fn everything(&self, waited: Duration) -> Decision {
        let large = if waited < LONG_WAIT { LARGE_HEAP } else { SMALL_HEAP };
        let room = self.ceiling.is_none_or(|ceiling| self.rss as f64 * SNAPSHOT_ROOM < ceiling as f64);
        if self.snapshot == Snapshot::Idle && self.objects() >= large && room {
            Decision::Snapshot
        } else {
            Decision::Full
        }
    }
}

/// A collection that has happened, whoever ordered it.
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
    Snapshot,
    /// Free what a snapshot found, for at most this long.
    Reap {
        /// How long.
        budget: Duration,
    },
}

/// A decision with its reason.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Order {
    /// What to do.
    pub decision: Decision,
    /// Why, in words.
    pub reason: &'static str,
    /// Whether a guard ordered it.
    pub forced: bool,
    /// Whether it is carried out at once, gap or not.
    pub at_once: bool,
    /// Its number within the process, by which what it leads to is told from what others do; 0 while it has none.
    pub id: u64,
}

impl Order {
    /// Nothing to do.
    pub const WAIT: Self = Self { decision: Decision::Wait, reason: "", forced: false, at_once: false, id: 0 };

    /// An order of a policy.
    #[must_use]
    pub fn because(decision: Decision, reason: &'static str) -> Self {
        Self { decision, reason, forced: false, at_once: false, id: 0 }
    }

    /// An order of a policy that does not wait for gaps.
    #[must_use]
    pub fn at_once(decision: Decision, reason: &'static str) -> Self {
        Self { decision, reason, forced: false, at_once: true, id: 0 }
    }

    /// An order of a guard that still keeps to gaps.
    #[must_use]
    pub fn forced_in_gap(decision: Decision, reason: &'static str) -> Self {
        Self { decision, reason, forced: true, at_once: false, id: 0 }
    }

    /// An order of a guard that waits no longer.
    #[must_use]
    pub fn forced(decision: Decision, reason: &'static str) -> Self {
        Self { decision, reason, forced: true, at_once: true, id: 0 }
    }
}
