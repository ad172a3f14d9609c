//! Asks the policy: turns what was noted in the program's threads into observations, and the advice into an order.
//!
//! It is asked with the GIL held, in a thread of the program that could carry the order out, and by the sampler for
//! policies that want regular looks. It touches no interpreter itself.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use neurogc_policy::{
    Bytes, Collected, Decision, Flown, Generation, Guarded, Moment, Name, Observation, Order, PacerBound, RankStep,
    Scope, Snapshot, Thresholds, Trust,
};

use crate::sense::seen_requests::{EndedByRoute, SeenRequests};
use crate::snapshot::{Latest, SnapshotFailure, SnapshotProgress};

/// Something that happened in a thread of the program and that the policy has to know. Moments count from the
/// installation of the agent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    /// A collection has ended; resident memory was so much when it began.
    Collected { collected: Collected, before: Bytes },
    /// A snapshot was launched, with so many young objects.
    Launched { at: Duration, scope: Scope, young: u32 },
    /// So many young objects were made old for a clone that counts or dumps the heap.
    MadeOld { young: u32 },
    /// A slice has freed so many objects and left so many.
    Reaped { at: Duration, freed: u64, left: u64, pause: Duration, resident: Bytes },
    /// An order has stopped the program for so long.
    Stopped { decision: Decision, pause: Duration },
    /// A census is wanted, which only a walk of everything takes.
    CensusWanted,
}

/// The program at the moment of the question, as far as its own threads see it.
#[derive(Clone, Debug)]
pub(crate) struct Situation {
    pub(crate) now: Duration,
    pub(crate) moment: Moment,
    pub(crate) idle: Option<Duration>,
    pub(crate) in_flight: u64,
    pub(crate) requests: u64,
    pub(crate) counts: [u32; 3],
    pub(crate) promoted: u64,
    pub(crate) rss: Bytes,
    pub(crate) ceiling: Option<Bytes>,
    pub(crate) left_for_copies: Option<Bytes>,
    pub(crate) paused: bool,
    pub(crate) deferred: bool,
    /// How the snapshot stands, and the latest flight; nothing where there are no snapshots.
    pub(crate) snapshot: Option<(SnapshotProgress, Latest)>,
    /// Where the process is in a training job with several ranks.
    pub(crate) ranks: Option<RankStep>,
}

impl Situation {
    fn copied(&self) -> Bytes {
        match &self.snapshot {
            Some((SnapshotProgress::InFlight { copied, .. }, _)) => Bytes::new(*copied),
            _ => Bytes::ZERO,
        }
    }
}

/// What comes of a question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Advice {
    pub(crate) order: Order,
    pub(crate) thresholds: Option<Thresholds>,
    /// What makes the next question worth asking.
    pub(crate) due: Due,
    /// The process collects together with other ranks of its training job.
    pub(crate) aligned: bool,
    /// A failure of a snapshot was taken note of.
    pub(crate) failed: bool,
    /// Something that the status report should say.
    pub(crate) trouble: Option<String>,
    /// A snapshot has landed.
    pub(crate) landed: Option<Latest>,
}

/// When a thread of the program that comes to a gap should ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// In any case.
    pub(crate) now: bool,
    /// When so many young objects have gathered.
    pub(crate) young: u32,
}

/// What is shown of the policy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PolicyState {
    pub(crate) bound: PacerBound,
    /// Since when the program has waited for a collection that it asked for.
    pub(crate) overdue_since: Option<Duration>,
    pub(crate) trust: Option<Trust>,
}

/// Failures in a row after which they are no chance.
const NOT_BY_CHANCE: u32 = 3;

/// How long none is tried where memory was too short for the copies that a snapshot makes: at first, and at most after
/// several in a row that were called off.
const SHORT: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(64));

/// Fewest young objects for which a gap is used.
const YOUNG_FEWEST: u32 = 500;

/// Collections near the memory ceiling that were put off, from which on the status report says so.
const HELD_BACK_OFTEN: u64 = 3;

const HELD_BACK: &str = "memory stays near its ceiling, although everything was collected several times: collections take half of the \
     time and no more. What is left is in use: the process needs more memory, or leaks (neurogc memory PID)";

/// A policy at work.
#[derive(Debug)]
pub(crate) struct Director {
    guarded: Guarded,
    name: Name,
    /// The number of the last flight that the policy knows of, and failures since.
    flights: u64,
    failures: u32,
    /// Whether everything has been collected once: what start-up leaves behind waits for the first gap.
    cycled: bool,
    /// Until when memory is taken to be too short for snapshots, and for how long the next time.
    short_until: Duration,
    short_for: Duration,
    said_held_back: bool,
    /// What forecasts go by, and what of it the policy knows; nothing where it wants none.
    seen: Option<(Arc<SeenRequests>, EndedByRoute)>,
}

impl Director {
    pub(crate) fn new(guarded: Guarded, name: Name) -> Self {
        Self {
            guarded,
            name,
            flights: 0,
            failures: 0,
            cycled: false,
            short_until: Duration::ZERO,
            short_for: SHORT.0,
            said_held_back: false,
            seen: None,
        }
    }

    /// The same with what forecasts go by, where the policy wants that.
    pub(crate) fn seeing(self, seen: &Arc<SeenRequests>) -> Self {
        let seen = self.foretells().then(|| (Arc::clone(seen), EndedByRoute::default()));
        Self { seen, ..self }
    }

    /// Whether what requests leave behind, and when they come, is learned for the policy.
    pub(crate) fn foretells(&self) -> bool {
        self.guarded.foretells()
    }

    /// Whether a rank of a training job is left to the plan that ranks share.
    pub(crate) fn may_align(&self) -> bool {
        self.guarded.may_align()
    }

    pub(crate) fn wants_looks(&self) -> bool {
        self.guarded.wants_looks()
    }

    pub(crate) fn insists_on_looks(&self) -> bool {
        self.guarded.insists_on_looks()
    }

    /// What is shown of it.
    pub(crate) fn state(&self) -> PolicyState {
        PolicyState {
            bound: self.guarded.bound(),
            overdue_since: self.guarded.overdue_since(),
            trust: self.guarded.trust(),
        }
    }

    /// Takes in what was noted since the last question.
    pub(crate) fn take_in(&mut self, notes: &ArrayQueue<Note>) {
        // Before the collections that have made old what these requests left.
        if let Some((seen, ended)) = &mut self.seen {
            ended.since(seen, |route, count| self.guarded.ended(route, count));
        }
        while let Some(note) = notes.pop() {
            match note {
                Note::Collected { collected, before } => {
                    self.guarded.learn(&collected, before);
                    if collected.generation == Generation::Full {
                        self.cycled = true;
                        self.collected_all();
                    }
                }
                Note::Launched { at, scope, young } => self.guarded.launched(at, scope, young),
                Note::MadeOld { young } => self.guarded.made_old(young),
                Note::Reaped { at, freed, left, pause, resident } => {
                    self.guarded.reaped(at, freed, pause);
                    if left == 0 {
                        self.guarded.drained(resident);
                    }
                }
                Note::Stopped { decision, pause } => self.guarded.stopped_for(decision, pause),
                Note::CensusWanted => self.guarded.walk_all_next(),
            }
        }
    }

    /// Everything is old now. Where walks of new objects may pay, the next one is one of those, and needs far less memory than
    /// the one that memory was too short for.
    fn collected_all(&mut self) {
        if self.guarded.may_walk_new() {
            self.short_until = Duration::ZERO;
        }
    }

    /// What to do now.
    pub(crate) fn ask(&mut self, seen: &Situation) -> Advice {
        let mut advice = Advice::default();
        let snapshot = self.look_at_snapshot(seen, &mut advice);
        let observation = Observation {
            now: seen.now,
            moment: seen.moment,
            idle: seen.idle,
            in_flight: seen.in_flight,
            requests: seen.requests,
            counts: seen.counts,
            promoted: seen.promoted,
            rss: seen.rss,
            ceiling: seen.ceiling,
            left_for_copies: seen.left_for_copies,
            copied: seen.copied(),
            paused: seen.paused,
            deferred: seen.deferred,
            snapshot,
            ranks: seen.ranks,
            rhythm: self.seen.as_ref().and_then(|(seen, _)| seen.rhythm()),
            ..Observation::default()
        };
        advice.order = self.guarded.decide(&observation);
        if !self.said_held_back && self.guarded.bound().held_back >= HELD_BACK_OFTEN {
            self.said_held_back = true;
            advice.trouble = Some(HELD_BACK.to_owned());
        }
        // Thresholds are for what comes next: with a snapshot out, young collections must be frequent from its launch on.
        let launches = matches!(advice.order.decision, Decision::Snapshot { .. });
        let snapshot = if launches { Snapshot::InFlight } else { observation.snapshot };
        advice.thresholds = self.guarded.thresholds(&Observation { snapshot, ..observation });
        advice.aligned = self.guarded.is_aligned(&observation);
        advice.due = self.due(&observation, advice.thresholds);
        advice
    }

    fn look_at_snapshot(&mut self, seen: &Situation, advice: &mut Advice) -> Snapshot {
        let Some((progress, latest)) = &seen.snapshot else { return Snapshot::Unavailable };
        if latest.number > self.flights {
            self.flights = latest.number;
            self.cycled = true;
            self.failures = 0;
            self.short_for = SHORT.0;
            self.guarded.landed(&flown(seen.now, latest));
            advice.landed = Some(*latest);
        }
        match progress {
            // Where memory is too short for copies, CPython's own collection keeps the goal.
            SnapshotProgress::Idle if seen.now < self.short_until => Snapshot::Unavailable,
            SnapshotProgress::Idle => Snapshot::Idle,
            // A slice is being freed by another thread.
            SnapshotProgress::Busy | SnapshotProgress::InFlight { .. } => Snapshot::InFlight,
            SnapshotProgress::Ready { candidates, piece, .. } => {
                Snapshot::Ready { objects: *candidates as u64, piece: *piece }
            }
            SnapshotProgress::Failed(failure) => self.note_failure(seen.now, failure, advice),
        }
    }

    fn note_failure(&mut self, now: Duration, failure: &SnapshotFailure, advice: &mut Advice) -> Snapshot {
        advice.failed = true;
        if matches!(failure, SnapshotFailure::ShortOfMemory | SnapshotFailure::OutOfRoom) {
            if self.guarded.short_of_memory() {
                return Snapshot::Idle;
            }
            self.short_until = now + self.short_for;
            if *failure == SnapshotFailure::OutOfRoom {
                self.short_for = (2 * self.short_for).min(SHORT.1);
            }
            return Snapshot::Unavailable;
        }
        if failure.is_no_fault() {
            self.guarded.called_off();
            return Snapshot::Idle;
        }
        self.guarded.failed(now);
        self.failures += 1;
        if failure.is_final() || self.failures == NOT_BY_CHANCE {
            advice.trouble = Some(format!("the heap is not collected from snapshots: {failure}"));
        }
        if failure.is_final() { Snapshot::Unavailable } else { Snapshot::Idle }
    }

    /// A slice or a landing is always worth a question; young objects when enough have gathered.
    fn due(&self, observation: &Observation, thresholds: Option<Thresholds>) -> Due {
        let bound = self.guarded.bound();
        let out = matches!(observation.snapshot, Snapshot::InFlight | Snapshot::Ready { .. });
        if self.guarded.is_aligned(observation) {
            // Nothing waits for another moment than the next step that ranks share.
            return Due { now: out, young: u32::MAX };
        }
        let simple = matches!(self.name, Name::Every(_) | Name::Freeze);
        let filled = bound.objects.saturating_sub(bound.live_objects) as f64
            >= 0.5 * bound.goal_objects.saturating_sub(bound.live_objects) as f64;
        let settles = !self.cycled && !self.guarded.first_waits();
        Due {
            now: out || simple || observation.deferred || filled || settles,
            young: thresholds.map_or(u32::MAX, |thresholds| (thresholds[0] / 4).max(YOUNG_FEWEST)),
        }
    }
}

/// A flight as the policy sees it.
fn flown(at: Duration, latest: &Latest) -> Flown {
    Flown {
        at,
        scope: latest.scope,
        clone: Duration::from_nanos(latest.clone_ns),
        flight: Duration::from_nanos(latest.flight_ns),
        worked: Duration::from_nanos(latest.worked_ns),
        copied: latest.copied(),
        objects: latest.tracked,
        found: latest.candidates,
        older: latest.older,
    }
}

#[cfg(test)]
mod tests {
    use neurogc_policy::phase::ForetoldGap;
    use neurogc_policy::{Limits, Tuning, policy};

    use super::*;
    use crate::sense::routes::RouteId;

    const MS: Duration = Duration::from_millis(1);

    /// A director of `neural` whose heap of 30,000 objects has grown by 50,000 in half a second, of 70,000 that may come.
    fn grown(seen: &Arc<SeenRequests>) -> Director {
        let tuning = Tuning::default();
        let mut guarded = Guarded::new(policy(Name::Neural(None), tuning), Limits::default(), tuning, [700, 10, 10]);
        guarded.begin(Bytes::mebibytes(100), 30_000);
        let mut director = Director::new(guarded, Name::Neural(None)).seeing(seen);
        let notes = ArrayQueue::new(16);
        for tick in 1..=5 {
            let collected = Collected {
                at: MS * (2_000 + 100 * tick),
                generation: Generation::Middle,
                pause: MS,
                gathered: 10_000,
                freed: 0,
                rss: Bytes::mebibytes(100),
                objects: None,
            };
            let _ = notes.push(Note::Collected { collected, before: Bytes::mebibytes(100) });
        }
        director.take_in(&notes);
        director
    }

    fn asked(director: &mut Director) -> Decision {
        let situation = Situation {
            now: MS * 2_600,
            moment: Moment::Gap,
            idle: Some(Duration::ZERO),
            in_flight: 0,
            requests: 100,
            counts: [0; 3],
            promoted: 0,
            rss: Bytes::mebibytes(100),
            ceiling: None,
            left_for_copies: None,
            paused: false,
            deferred: false,
            snapshot: None,
            ranks: None,
        };
        director.ask(&situation).order.decision
    }

    #[test]
    fn the_whole_heap_is_collected_in_the_long_gap_that_was_foretold() {
        let seen = Arc::new(SeenRequests::default());
        let decided = |long| {
            seen.foretell(Some(ForetoldGap { number: long, period: 10, length: MS * 60, every: MS * 1_000 }));
            asked(&mut grown(&seen))
        };
        (0..10).for_each(|_| seen.end(RouteId::default(), true));
        // The program is in its tenth gap.
        assert_eq!((decided(10), decided(13)), (Decision::Full, Decision::Wait));
        seen.foretell(None);
        assert_eq!(asked(&mut grown(&seen)), Decision::Wait);
    }

    #[test]
    fn ends_of_requests_are_told_once_and_only_where_the_policy_asks_for_them() {
        let seen = Arc::new(SeenRequests::default());
        let mut director = grown(&seen);
        seen.end(RouteId::from_number(3), true);
        director.take_in(&ArrayQueue::new(1));
        let mut untold = 0;
        if let Some((seen, ended)) = &mut director.seen {
            ended.since(seen, |_, count| untold += count);
        }
        assert_eq!(untold, 0);
        let guarded =
            Guarded::new(policy(Name::Gap, Tuning::default()), Limits::default(), Tuning::default(), [700, 10, 10]);
        assert!(Director::new(guarded, Name::Gap).seeing(&seen).seen.is_none());
    }
}
