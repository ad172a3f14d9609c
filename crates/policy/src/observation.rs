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
}

/// What a full collection costs for each object, before one has been measured.
const NS_PER_OBJECT: u64 = 100;

impl Observation {
    /// Whether a collection would disturb nobody now.
    #[must_use]
    pub fn is_gap(&self) -> bool {
        self.idle.is_some()
    }

    /// How long a full collection may take, by the number of objects alone.
    #[must_use]
    pub fn guessed_full_pause(&self) -> Duration {
        let objects = self.tenured + self.pending + u64::from(self.counts[0]);
        Duration::from_nanos(objects.saturating_mul(NS_PER_OBJECT))
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
}

impl Order {
    /// Nothing to do.
    pub const WAIT: Self = Self { decision: Decision::Wait, reason: "", forced: false, at_once: false };

    /// An order of a policy.
    #[must_use]
    pub fn because(decision: Decision, reason: &'static str) -> Self {
        Self { decision, reason, forced: false, at_once: false }
    }

    /// An order of a policy that does not wait for gaps.
    #[must_use]
    pub fn at_once(decision: Decision, reason: &'static str) -> Self {
        Self { decision, reason, forced: false, at_once: true }
    }

    /// An order of a guard that still keeps to gaps.
    #[must_use]
    pub fn forced_in_gap(decision: Decision, reason: &'static str) -> Self {
        Self { decision, reason, forced: true, at_once: false }
    }

    /// An order of a guard that waits no longer.
    #[must_use]
    pub fn forced(decision: Decision, reason: &'static str) -> Self {
        Self { decision, reason, forced: true, at_once: true }
    }
}
