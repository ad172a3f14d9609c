//! A pretended heap with CPython's collector: objects that live or are garbage, by age, and a clock.

use std::time::Duration;

use crate::bytes::Bytes;
use crate::observation::{Collected, Flown, Generation, Scope, Snapshot};

/// Memory beside objects.
const BASE: f64 = 50e6;

/// What a clone takes, and what a walk takes in any case.
const CLONE: Duration = Duration::from_millis(3);
const WALK_BASE: Duration = Duration::from_millis(10);

/// Objects of one age.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    live: f64,
    garbage: f64,
}

impl Group {
    fn all(self) -> f64 {
        self.live + self.garbage
    }

    fn take(&mut self, other: &mut Self) {
        let other = std::mem::take(other);
        self.live += other.live;
        self.garbage += other.garbage;
    }
}

/// What the heap and the machine below it are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nature {
    /// What a plain collection, a walk and freeing take for each object, in nanoseconds.
    pub(crate) plain: f64,
    /// See `plain`.
    pub(crate) walk: f64,
    /// See `plain`.
    pub(crate) reap: f64,
    /// Objects that can only be freed together.
    pub(crate) piece: f64,
    /// Bytes of an object, where there are more than so many light ones.
    pub(crate) weight: f64,
    pub(crate) light: f64,
    /// Tracked objects for each that CPython counts, of those that are kept, and of those that are garbage at once.
    pub(crate) tracked: f64,
    pub(crate) tracked_garbage: f64,
    /// The share of what is found that finalizers bring back to life.
    pub(crate) revived: f64,
    /// The share of a flight that the program spends on copying pages.
    pub(crate) copying: f64,
    pub(crate) snapshots: bool,
}

impl Default for Nature {
    fn default() -> Self {
        Self {
            plain: 100.0,
            walk: 150.0,
            reap: 400.0,
            piece: 1.0,
            weight: 100.0,
            light: 0.0,
            tracked: 1.0,
            tracked_garbage: 1.0,
            revived: 0.0,
            copying: 0.1,
            snapshots: true,
        }
    }
}

impl Nature {
    /// How many CPython counts.
    pub(crate) fn counted(&self, kept: f64, garbage: f64) -> f64 {
        kept / self.tracked + garbage / self.tracked_garbage
    }
}

/// A snapshot that is out.
#[derive(Clone, Copy, Debug)]
struct Flight {
    scope: Scope,
    began: Duration,
    worked: Duration,
    lands: Option<Duration>,
    landed: bool,
    seen: f64,
    found: f64,
    /// A slice was too short for the next piece.
    stuck: bool,
}

/// The heap, and what has become of it.
#[derive(Debug)]
pub(crate) struct RehearsalHeap {
    pub(crate) nature: Nature,
    pub(crate) now: Duration,
    young: Group,
    middle: Group,
    /// Old ones that the last walk of everything has not seen, that the walk which is out looks at, and all others.
    new: Group,
    aboard: Group,
    /// Live ones that have become old since the last launch, and those of them that are aboard.
    recent: [f64; 2],
    old: Group,
    /// Garbage that a walk sees or has found.
    known: f64,
    /// CPython's counts; the first in fractions.
    gathered: f64,
    rounds: [u32; 2],
    tenured: f64,
    pending: f64,
    flight: Option<Flight>,
    /// What the last cycle that is over left alive, and the one before it while its garbage is not gone.
    left: [f64; 2],
}

impl RehearsalHeap {
    pub(crate) fn new(live: u64, nature: Nature) -> Self {
        let live = live as f64;
        Self {
            nature,
            now: Duration::ZERO,
            young: Group::default(),
            middle: Group::default(),
            new: Group::default(),
            recent: [0.0; 2],
            aboard: Group::default(),
            old: Group { live, garbage: 0.0 },
            known: 0.0,
            gathered: 0.0,
            rounds: [0; 2],
            tenured: live,
            pending: 0.0,
            flight: None,
            left: [live; 2],
        }
    }

    pub(crate) fn objects(&self) -> f64 {
        let groups = [self.young, self.middle, self.new, self.aboard, self.old];
        groups.iter().map(|group| group.all()).sum::<f64>() + self.known
    }

    /// Objects of the two younger generations.
    pub(crate) fn younger(&self) -> f64 {
        self.young.all() + self.middle.all()
    }

    pub(crate) fn middle(&self) -> f64 {
        self.middle.all()
    }

    pub(crate) fn rss(&self) -> Bytes {
        let light = self.nature.light.min(self.objects());
        Bytes::new((BASE + 100.0 * light + self.nature.weight * (self.objects() - light)) as u64)
    }

    pub(crate) fn counts(&self) -> [u32; 3] {
        [self.gathered as u32, self.rounds[0], self.rounds[1]]
    }

    /// What the last cycle left alive; until its garbage is gone and the policy has been asked again, what the one before
    /// it left if that was more.
    pub(crate) fn left(&self) -> f64 {
        self.left[0].max(self.left[1])
    }

    /// The policy has been asked.
    pub(crate) fn asked(&mut self) {
        if self.flight.is_none_or(|flight| !flight.landed) {
            self.left[1] = self.left[0];
        }
    }

    /// The program allocates, for so long.
    pub(crate) fn allocate(&mut self, kept: f64, garbage: f64, time: Duration) {
        self.now += time;
        self.young.live += kept;
        self.young.garbage += garbage;
        self.gathered += self.nature.counted(kept, garbage);
    }

    /// Old objects die: so many are in cycles, and so many are freed by reference counting.
    pub(crate) fn die(&mut self, in_cycles: f64, by_reference: f64) {
        let dead = in_cycles.min(self.old.live);
        self.old.live -= dead;
        self.old.garbage += dead;
        let freed = by_reference.min(self.old.live);
        self.old.live -= freed;
        self.gathered = (self.gathered - freed).max(0.0);
    }

    /// The generation that CPython would collect by itself now.
    pub(crate) fn due(&self, thresholds: [u32; 3]) -> Generation {
        let held_off = self.flight.is_some();
        if self.rounds[1] > thresholds[2] && self.pending > self.tenured / 4.0 && !held_off {
            Generation::Full
        } else if self.rounds[0] > thresholds[1] {
            Generation::Middle
        } else {
            Generation::Young
        }
    }

    /// Collects; a share of what becomes old dies at once.
    pub(crate) fn collect(&mut self, generation: Generation, dies_soon: f64) -> Collected {
        let gathered = std::mem::take(&mut self.gathered) as u32;
        let (looked, freed) = match generation {
            Generation::Young => {
                let looked = self.young.all();
                let freed = std::mem::take(&mut self.young.garbage);
                self.middle.take(&mut self.young);
                self.rounds[0] += 1;
                (looked, freed)
            }
            Generation::Middle => {
                let looked = self.younger();
                let freed = std::mem::take(&mut self.young.garbage) + std::mem::take(&mut self.middle.garbage);
                self.middle.take(&mut self.young);
                self.pending += self.middle.all();
                self.promote(dies_soon);
                self.rounds = [0, self.rounds[1] + 1];
                (looked, freed)
            }
            Generation::Full => {
                let looked = self.objects();
                self.call_off();
                self.recent = [0.0; 2];
                let dies = (self.young.live + self.middle.live) * dies_soon;
                for group in [&mut self.young, &mut self.middle, &mut self.new] {
                    self.old.take(group);
                }
                let freed = std::mem::take(&mut self.old.garbage);
                self.rounds = [0, 0];
                (self.tenured, self.pending) = (self.old.live, 0.0);
                self.left = [self.old.live; 2];
                self.old.live -= dies;
                self.old.garbage = dies;
                (looked, freed)
            }
        };
        let cost = if generation == Generation::Full { self.nature.plain } else { 40.0 };
        let pause = Duration::from_nanos((cost * looked) as u64);
        self.now += pause;
        Collected {
            at: self.now,
            generation,
            pause,
            gathered,
            freed: freed as u64,
            rss: self.rss(),
            objects: (generation == Generation::Full).then(|| self.objects() as u64),
        }
    }

    fn promote(&mut self, dies_soon: f64) {
        let dead = self.middle.live * dies_soon;
        self.middle.live -= dead;
        self.middle.garbage += dead;
        self.recent[0] += self.middle.live;
        self.new.take(&mut self.middle);
    }

    /// Clones; everything is old from then on. The walk is so many times slower than it could be, or never ends.
    pub(crate) fn launch(&mut self, scope: Scope, starved: Option<f64>, dies_soon: f64) -> Duration {
        self.now += CLONE;
        self.gathered = 0.0;
        self.middle.take(&mut self.young);
        self.promote(dies_soon);
        self.rounds[0] = 0;
        self.recent = [0.0, self.recent[0]];
        self.known = std::mem::take(&mut self.new.garbage);
        self.aboard = std::mem::take(&mut self.new);
        let mut seen = self.aboard.all() + self.known;
        if scope == Scope::All {
            self.known += std::mem::take(&mut self.old.garbage);
            seen = self.aboard.all() + self.old.all() + self.known;
        }
        let worked = WALK_BASE + Duration::from_nanos((self.nature.walk * seen) as u64);
        let lands = starved.map(|starved| self.now + worked.mul_f64(starved));
        let found = self.known;
        self.flight = Some(Flight { scope, began: self.now, worked, lands, landed: false, seen, found, stuck: false });
        CLONE
    }

    /// The walk is over, if it is.
    pub(crate) fn land(&mut self) -> Option<Flown> {
        let now = self.now;
        let flight = self.flight.as_mut()?;
        let lands = flight.lands.filter(|lands| *lands <= now && !flight.landed)?;
        flight.landed = true;
        let (scope, worked, seen, found) = (flight.scope, flight.worked, flight.seen, flight.found);
        let flight = lands - flight.began;
        // What became old since the launch before the last walk of everything stays new.
        let mut older = 0.0;
        if scope == Scope::All {
            let recent = self.recent[1].min(self.aboard.live);
            self.aboard.live -= recent;
            self.new.live += recent;
            self.old.take(&mut self.aboard);
            older = self.old.all();
        } else {
            self.new.take(&mut self.aboard);
        }
        if scope == Scope::All {
            self.left = [seen - found, self.left[0]];
        }
        Some(Flown {
            at: now,
            scope,
            clone: CLONE,
            flight,
            worked,
            copied: flight.mul_f64(self.nature.copying),
            objects: seen as u64,
            found: found as u64,
            older: older as u64,
        })
    }

    /// The snapshot that is out has come to nothing: what it looked at is as it was.
    pub(crate) fn call_off(&mut self) {
        if self.flight.take().is_some() {
            self.new.take(&mut self.aboard);
            self.new.garbage += std::mem::take(&mut self.known);
        }
    }

    /// Frees a slice; says how much and for how long.
    pub(crate) fn reap(&mut self, budget: Duration) -> (u64, Duration) {
        let piece = self.nature.piece.min(self.known).max(1.0);
        let pieces = (budget.as_nanos() as f64 / (piece * self.nature.reap)).floor();
        let done = (pieces * piece).min(self.known);
        self.known -= done;
        let revived = done * self.nature.revived;
        self.old.live += revived;
        let pause = Duration::from_nanos((done * self.nature.reap) as u64);
        self.now += pause;
        if let Some(flight) = &mut self.flight {
            flight.stuck = done == 0.0;
        }
        ((done - revived) as u64, pause)
    }

    /// Whether everything that was found is gone; the cycle is over then.
    pub(crate) fn is_drained(&mut self) -> bool {
        let drained = self.flight.is_some_and(|flight| flight.landed) && self.known < 1.0;
        if drained {
            let all = self.flight.is_some_and(|flight| flight.scope == Scope::All);
            self.flight = None;
            self.old.garbage += std::mem::take(&mut self.known);
            if all {
                (self.tenured, self.pending, self.rounds[1]) = (self.old.all(), self.new.all(), 0);
            }
        }
        drained
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        match self.flight {
            _ if !self.nature.snapshots => Snapshot::Unavailable,
            None => Snapshot::Idle,
            Some(flight) if !flight.landed => Snapshot::InFlight,
            Some(flight) => {
                let each = self.nature.piece.min(self.known) * self.nature.reap;
                let piece = flight.stuck.then(|| Duration::from_nanos(each as u64 + 1));
                Snapshot::Ready { objects: self.known as u64, piece }
            }
        }
    }
}
