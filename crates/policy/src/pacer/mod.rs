//! The pacer: it keeps memory within its goal, whether the program has gaps or not.
//!
//! As in Go's collector, the heap may exceed what the last cycle left alive by a share. A snapshot is launched early
//! enough to be back before that goal is reached. What it found is freed by the program's own young collections, in
//! slices that are larger the further freeing is behind. A program that outruns the walk is held up for some
//! milliseconds at a time. Where no snapshot can help, CPython's own full collection runs. Gaps make all of this
//! cheaper; the goal holds without them.
//!
//! All numbers come from the caller: no clock, no memory is read here.

mod clones;
mod foretold;
mod new_walks;
mod objects;
mod orders;
mod rooms;
mod sudden;
#[cfg(test)]
mod tests;
mod together;
mod young;

use std::time::Duration;

use self::clones::ClonePauses;
pub(crate) use self::foretold::LongGapUse;
use self::new_walks::NewWalks;
use self::objects::Objects;
pub use self::sudden::{MemoryLook, SuddenGrowth};
use self::young::Young;
use crate::bytes::Bytes;
use crate::forecast::Forecast;
use crate::guards::Limits;
use crate::observation::{Collected, Decision, Flown, Generation, Observation, Order, Scope, Snapshot};
use crate::policies::Thresholds;

/// A build for tests, made with `NEUROGC_TINY_LIMITS` set: its pacer acts all the time, in small heaps too.
const TINY: bool = option_env!("NEUROGC_TINY_LIMITS").is_some();

/// A heap may always grow by as many objects as gather before CPython even considers a full collection, within these bounds.
const LEAST_ROOM: (f64, f64) = if TINY { (200.0, 1_000.0) } else { (20_000.0, 200_000.0) };

/// A walk that gets less than the first share of a processor takes its time from the program, and one that gets the second
/// share or less takes all of it. Then the heap may grow by this much more of its share, so that walks are rarer.
const CROWDED: (f64, f64) = (0.9, 0.5);
pub(crate) const CROWDED_ROOM: f64 = 0.4;

/// Below this many objects a full collection is shorter than all that a snapshot takes.
pub const SMALL_HEAP: u64 = if TINY { 1_000 } else { 50_000 };

/// The part of the room that young objects may fill.
const YOUNG_PART: f64 = 0.125;

/// Where memory has grown in bytes, so few new objects may be all of it.
const HEAVY_FEWEST: f64 = 100.0;

/// Where garbage has filled so much of the room in bytes, and so many times as much of it as of the room in objects, it is
/// freed at once.
const HEAVY_FILLED: (f64, f64) = (0.25, 2.0);

/// New objects are walked alone where they are at least this part of the room, and at most this part of all objects; the last
/// where there is no memory for walks of everything.
const NEW_PARTS: (f64, f64, f64) = (0.25, 0.5, 0.8);

/// Where memory has crept up by this share over walks of new objects, one of everything is due: they leave something.
const CREPT: f64 = 0.05;

/// Growth that is worth a walk, as a share of what is alive.
const WORTH: f64 = 0.04;

/// The part of the room that must be filled before a gap is used for a launch.
const EARLY: f64 = 0.9;

/// The part of the room that may fill while a snapshot is out whose walk gives way to the program.
const HURRY: f64 = 0.1;

/// How much more than expected may become old while a snapshot is out.
const SURPRISE: f64 = 1.2;

/// A walk that found less than this share of the objects was poor: the heap grows, and flying earlier would not help.
const POOR: f64 = 0.02;

/// What a walk takes for each object, and in any case, before one has been measured.
const WALK: (Duration, Duration) = (Duration::from_nanos(200), Duration::from_millis(20));

/// Slices that the program's own collections carry: the shortest, the longest, and the longest above the goal.
const SLICE: (f64, f64, f64) = (1e-3, 4e-3, 7e-3);

/// What was found has been freed by the time that this share of it has come anew: later, the heap would go on growing;
/// earlier, the slices would crowd behind the walk, which has slowed the program down already.
const SPREAD: f64 = 0.6;

/// Slices take at most half of the time, or three quarters where the room is nearly filled. So many seconds may be saved up.
const CREDIT: f64 = 20e-3;
const EARNED: (f64, f64) = (1.0, 3.0);
const NEARLY: f64 = 0.9;

/// The program is held up for at most this long at a time, and for that long when it is so far above the goal.
const THROTTLE: Duration = Duration::from_millis(8);
const THROTTLE_SPAN: f64 = 0.3;
const THROTTLE_LEAST: Duration = Duration::from_micros(200);

/// A program that is held up copies no pages. It is held up from the first share of resident memory that is left for copies
/// on, and nearly all of the time from the second on.
const COPIES_SHORT: (f64, f64) = (0.3, 0.15);

/// Copies count as memory of the program: the same for the share of resident memory that it has copied.
const COPIES_MANY: (f64, f64) = (0.04, 0.15);

/// With less than this share left, a walk of new objects is tried before one of everything.
const TIGHT: f64 = 0.4;

/// How many rooms may be filled before a plain collection runs: when nothing is out, when what is out is late, in any
/// case.
const BACKSTOP: (f64, f64, f64) = (1.5, 2.0, 3.0);

/// The promise: the heap does not exceed this many times the size at which CPython would collect it. Where much has died since the
/// cycle before, it is what that one has left which counts: the program has just been as large.
pub(crate) const PROMISE: f64 = 1.25;

/// A flight is late after so many times what it should take.
const LATE: f64 = 3.0;

/// Plain collections take at most half of the time, whatever memory does; those that memory in bytes asks for take
/// less.
const PLAIN_SHARE: f64 = 0.5;

/// How long no snapshot is tried after one that came to nothing; four times longer after each further one.
const BARRED: Duration = Duration::from_secs(2);
const BARRED_MOST: Duration = Duration::from_secs(600);

/// After so many in a row the next one is not waited for.
const FAILURES_MANY: u32 = 2;

/// Middle collections that CPython waits for beyond the present count until it collects everything itself. Every
/// collection moves this on; without the agent CPython takes over.
const FULL_SWITCH: u32 = 100;

/// Near its ceiling, memory must have grown by this part of what is left, and this part of the ceiling, before it is worth
/// another look.
const GROWN: (u64, u64) = (4, 100);

/// How the pacer's promise stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PacerBound {
    /// Objects that there are, that the last cycle left alive, and that there may be.
    pub objects: u64,
    /// See `objects`.
    pub live_objects: u64,
    /// See `objects`.
    pub goal_objects: u64,
    /// Resident memory that the last cycle left, and that there may be.
    pub live_bytes: Bytes,
    /// See `live_bytes`.
    pub goal_bytes: Bytes,
    /// How far above the goal the heap is, as a share of the room; 0 below it.
    pub over: f64,
    /// Snapshots launched, of everything and of new objects.
    pub launches: u64,
    /// See `launches`.
    pub launches_new: u64,
    /// Plain collections because the goal could not be held otherwise.
    pub backstops: u64,
    /// Plain collections near the ceiling that were put off because those before have taken half of the time.
    pub held_back: u64,
    /// How long the program was held up because it outran the walk.
    pub throttled: Duration,
    /// How long slices have taken that the program's own collections carried.
    pub assisted: Duration,
}

/// A snapshot that is out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Out {
    scope: Scope,
    launched: Duration,
    /// When it landed, and how much it found then.
    landed: Option<(Duration, f64)>,
    /// What had become old meanwhile when it landed.
    grown_at_landing: f64,
    /// What counted as alive when it was launched.
    live_before: f64,
    /// What has been freed of what it found.
    freed: f64,
    /// How long the program was held up because memory was short for copies.
    held_up: Duration,
}

/// The pacer of one process.
#[derive(Debug)]
pub struct Pacer {
    limits: Limits,
    /// See `LEAST_ROOM`.
    least_room: f64,
    objects: Objects,
    young: Young,
    /// What the last walk of everything, or full collection, left, and the one before it; and whether there was one.
    live: f64,
    live_before: f64,
    known: bool,
    /// Resident memory at the end of the last cycle, and of the last one that looked at everything, or the next ones after it.
    live_bytes: Bytes,
    all_bytes: Bytes,
    out: Option<Out>,
    /// Growth in the last flight, and whether the last walk was poor.
    growth_in_flight: f64,
    poor: bool,
    new_walks: NewWalks,
    forecast: Option<Forecast>,
    /// What a walk takes for each object, in seconds.
    walk_cost: f64,
    /// The share of a processor that walks get.
    processor: f64,
    /// What freeing an object takes, in seconds.
    reap_cost: f64,
    credit: (Duration, f64),
    /// When the program may be held up again: that takes at most half of the time, too.
    throttle_at: Duration,
    barred_until: Duration,
    failures: u32,
    /// When a plain collection may run again; the second one where memory in bytes asks for it.
    plain_at: (Duration, Duration),
    /// The first of these, where it was noticed that one near the ceiling waits for it.
    held_back_until: Duration,
    /// What the last plain collection took for each object, in seconds.
    plain_cost: f64,
    clones: ClonePauses,
    bound: PacerBound,
}

impl Pacer {
    /// With limits, and the thresholds and the pause budget that CPython's young collections begin with.
    #[must_use]
    pub fn new(limits: Limits, own: Thresholds, budget: Duration) -> Self {
        Self {
            limits,
            least_room: own.iter().map(|each| f64::from(*each)).product::<f64>().clamp(LEAST_ROOM.0, LEAST_ROOM.1),
            objects: Objects::new(),
            young: Young::new(own, budget),
            live: 0.0,
            live_before: 0.0,
            known: false,
            live_bytes: Bytes::ZERO,
            all_bytes: Bytes::ZERO,
            out: None,
            growth_in_flight: 0.0,
            poor: false,
            new_walks: NewWalks::default(),
            forecast: None,
            walk_cost: WALK.0.as_secs_f64(),
            processor: 1.0,
            reap_cost: 0.6e-6,
            credit: (Duration::ZERO, CREDIT),
            throttle_at: Duration::ZERO,
            barred_until: Duration::ZERO,
            failures: 0,
            plain_at: (Duration::ZERO, Duration::ZERO),
            held_back_until: Duration::ZERO,
            plain_cost: 100e-9,
            clones: ClonePauses::default(),
            bound: PacerBound::default(),
        }
    }

    /// The program begins with so much memory and so many objects.
    pub fn begin(&mut self, resident: Bytes, objects: u64) {
        self.live_bytes = resident;
        self.young.begin(resident);
        self.objects.left(objects as f64);
        // Until a cycle has told, all of it counts as alive.
        self.live = objects as f64;
    }

    /// The thresholds that CPython should run with now.
    #[must_use]
    pub fn thresholds(&self, observation: &Observation) -> Thresholds {
        // While a snapshot is out, freeing and holding up must keep pace with what becomes old: they happen at young
        // collections only, so these must not be rare.
        let out = self.out.is_some() || observation.snapshot == Snapshot::InFlight;
        let often = out || self.is_near(observation, 0.9);
        let young = if often { self.young.own() } else { self.young_limit() };
        let middle = self.young.middle_threshold(observation.counts[1]);
        [young as u32, middle, observation.counts[2].saturating_add(FULL_SWITCH)]
    }

    /// Young objects after which CPython should collect at the latest where the policy wants it never to: as many as still
    /// have room.
    #[must_use]
    pub fn last_threshold(&self) -> u32 {
        (self.live + self.room() - self.objects.now()).max(self.young.own()) as u32
    }

    /// How the promise stands.
    #[must_use]
    pub fn bound(&self) -> PacerBound {
        PacerBound {
            objects: self.objects.now() as u64,
            live_objects: self.live as u64,
            goal_objects: (self.live + self.room()) as u64,
            live_bytes: self.live_bytes,
            goal_bytes: self.goal_bytes(),
            over: (self.filled() - 1.0).max(0.0),
            ..self.bound
        }
    }

    /// What is alive, as far as is known, and what has come on top of it.
    #[must_use]
    pub fn live_and_new(&self) -> (u64, u64) {
        (self.live as u64, (self.objects.now() - self.live).max(0.0) as u64)
    }

    /// Young objects that may gather, survivors that wait for a middle collection, and how many may.
    #[must_use]
    pub fn young_limits(&self) -> (f64, f64, f64) {
        (self.young_limit(), self.young.survivors(), self.young.survivors_limit())
    }

    /// The heap is only looked at when young objects have been collected, so these must not fill the room at one go, be it
    /// in objects or in bytes.
    fn young_limit(&self) -> f64 {
        let room_in_bytes = (self.goal_bytes() - self.live_bytes).as_f64();
        let most = (YOUNG_PART * self.room()).min(YOUNG_PART * room_in_bytes / self.young.weight().max(1.0));
        self.young.limit().min(most).max(self.young.own())
    }

    /// Takes note of a collection; `before` is resident memory when it began.
    pub fn collected(&mut self, collected: &Collected, before: Bytes) {
        self.young.collected(collected, before);
        if collected.generation != Generation::Full {
            self.objects.collected(collected.at, f64::from(collected.gathered), collected.freed as f64);
            return;
        }
        let freed = collected.freed as f64;
        let objects = collected.objects.map_or_else(|| self.objects.now() - freed, |left| left as f64);
        self.objects.collected_all(f64::from(collected.gathered), freed, objects.max(0.0));
        self.live_before = std::mem::replace(&mut self.live, self.objects.now());
        self.known = true;
        self.new_walks.walked_all(freed / self.room(), freed < POOR * (objects + freed));
        (self.live_bytes, self.all_bytes) = (collected.rss, collected.rss);
        self.poor = false;
        self.out = None;
        self.plain_cost = collected.pause.as_secs_f64() / (objects + freed).max(1.0);
        self.clones.collected_plainly();
        let again = |share: f64| collected.at + collected.pause.mul_f64(1.0 / share - 1.0);
        self.plain_at = (again(PLAIN_SHARE), again(self.limits.gc_share));
    }

    /// A snapshot was launched, with so many young objects, which are old now.
    pub fn launched(&mut self, now: Duration, scope: Scope, young: u32) {
        self.objects.launched(scope, f64::from(young));
        self.young.all_made_old();
        self.out = Some(Out {
            scope,
            launched: now,
            landed: None,
            grown_at_landing: 0.0,
            live_before: self.live,
            freed: 0.0,
            held_up: Duration::ZERO,
        });
        self.bound.launches += 1;
        self.bound.launches_new += u64::from(scope == Scope::New);
    }

    /// So many young objects were made old, without a walk that looks for garbage among them.
    pub fn made_old(&mut self, young: u32) {
        self.objects.made_old(f64::from(young));
        self.young.all_made_old();
    }

    /// The walk is over.
    pub fn landed(&mut self, flown: &Flown) {
        let (objects, found) = (flown.objects as f64, flown.found as f64);
        self.growth_in_flight = self.objects.grown_since_launch();
        self.clones.cloned(flown.clone);
        let cost = (flown.flight.saturating_sub(WALK.1)).as_secs_f64() / objects.max(1.0);
        self.walk_cost = cost.max(0.7 * self.walk_cost).max(20e-9);
        let processor = flown.worked.as_secs_f64() / flown.flight.as_secs_f64().max(1e-6);
        self.processor = f64::midpoint(self.processor, processor.min(1.0));
        self.failures = 0;
        self.poor = found < POOR * objects;
        match flown.scope {
            Scope::All => {
                self.objects.walked_all(objects, flown.older as f64);
                self.live_before = std::mem::replace(&mut self.live, (objects - found).max(0.0));
                self.known = true;
                self.new_walks.walked_all(found / self.room(), self.poor);
            }
            Scope::New => {
                self.objects.walked_new(objects);
                self.new_walks.walked_new(found / self.room(), found / objects.max(1.0));
                if self.new_walks.are_all_there_is() {
                    // What it has left is alive. Of the others nothing is known, and the ceiling bounds what they may hide.
                    self.live = self.live.max(self.objects.now() - self.growth_in_flight - found);
                }
            }
        }
        // Cycles that only memory in bytes asks for take their share of time, be they walks or plain collections.
        self.plain_at.1 = flown.at + flown.flight.mul_f64(1.0 / self.limits.gc_share - 1.0);
        self.credit = (flown.at, CREDIT);
        if let Some(out) = &mut self.out {
            out.landed = Some((flown.at, found));
            out.grown_at_landing = self.growth_in_flight;
        }
    }

    /// A slice has freed so many of the objects, and took so long.
    pub fn reaped(&mut self, now: Duration, freed: u64, pause: Duration) {
        self.objects.reaped(freed as f64);
        if let Some(out) = &mut self.out {
            out.freed += freed as f64;
        }
        // A large piece is paid for by what comes after it.
        self.credit = (now, (self.credit.1 - pause.as_secs_f64()).max(-1.0));
        if freed >= 500 {
            let cost = pause.as_secs_f64() / freed as f64;
            self.reap_cost = 0.7 * self.reap_cost + 0.3 * cost.clamp(50e-9, 20e-6);
        }
    }

    /// Everything that was found has been freed.
    pub fn drained(&mut self, resident: Bytes) {
        if let Some(Out { scope, landed: Some((_, found)), freed, .. }) = self.out.take() {
            match scope {
                // What finalizers have brought back to life is alive.
                Scope::All => {
                    let brought_back = (found - freed).max(0.0);
                    self.live += brought_back;
                    self.objects.brought_back(brought_back);
                    self.all_bytes = resident;
                }
                Scope::New if freed < found / 2.0 => self.new_walks.in_vain(),
                // Resident memory rises to what a cycle's garbage takes, and stays there.
                Scope::New if self.new_walks.have_just_begun() => self.all_bytes = self.all_bytes.max(resident),
                Scope::New => {}
            }
        }
        self.live_bytes = resident;
    }

    /// The snapshot that was out has been called off, or a full collection has done its work.
    pub fn called_off(&mut self) {
        if self.out.take().is_some() {
            self.objects.failed();
        }
    }

    /// A snapshot came to nothing.
    pub fn failed(&mut self, now: Duration) {
        self.called_off();
        let barred = BARRED * 4_u32.saturating_pow(self.failures.min(6));
        self.barred_until = now + barred.min(BARRED_MOST);
        self.failures += 1;
    }

    /// The program was held up, or its collections carried slices, for so long.
    pub fn stopped_for(&mut self, decision: Decision, pause: Duration) {
        match decision {
            Decision::Throttle { .. } => self.bound.throttled += pause,
            Decision::Reap { .. } => self.bound.assisted += pause,
            _ => {}
        }
    }

    /// Whether snapshots are not tried at present: the last one came to nothing, or a plain collection is shorter than a clone.
    #[must_use]
    pub fn is_barred(&self, now: Duration) -> bool {
        now < self.barred_until || self.is_plain_shorter()
    }

    /// What must be done now, in a thread of the program, gap or not; nothing where all is well.
    pub fn must(&mut self, observation: &Observation) -> Option<Order> {
        let order = self.order(observation)?;
        if order.forced {
            self.bound.backstops += 1;
        }
        Some(order)
    }

    /// Whether a gap should be used to begin a cycle before the goal is near.
    #[must_use]
    pub fn is_due_in_gap(&self) -> bool {
        let early = (1.0 - EARLY) * self.room();
        self.is_worth() && self.objects.now() + self.expected_growth(self.scope()) >= self.live + self.room() - early
    }

    /// Whether a walk should not give way to the program: so much becomes old meanwhile, or walks lack a processor.
    /// One that gives way then takes so long that the program copies most of its pages.
    #[must_use]
    pub fn is_in_a_hurry(&self) -> bool {
        self.processor < CROWDED.0 || self.expected_growth(Scope::All) >= HURRY * self.room()
    }

    /// Memory was too short for a snapshot, which is called off. True if one of new objects should be tried instead.
    pub fn short_of_memory(&mut self) -> bool {
        let of_new = self.out.is_some_and(|out| out.scope == Scope::New);
        self.called_off();
        if of_new {
            self.new_walks.in_vain();
        }
        !of_new && self.new_walks.may_stand_in()
    }

    /// The next walk shall be one of everything: only those count what there is.
    pub fn walk_all_next(&mut self) {
        self.new_walks.rest_once();
    }

    /// Whether walks of new objects may be worth it.
    #[must_use]
    pub fn may_walk_new(&self) -> bool {
        self.new_walks.may_pay()
    }

    /// What a cycle should look at.
    #[must_use]
    pub fn scope(&self) -> Scope {
        if self.new_walks.may_pay() && self.can_walk_new() { Scope::New } else { Scope::All }
    }

    /// Whether new objects can be told from others, and are neither too few nor too many to be walked alone.
    fn can_walk_new(&self) -> bool {
        let new = self.objects.new_objects();
        let most = if self.new_walks.are_all_there_is() { NEW_PARTS.2 } else { NEW_PARTS.1 };
        let enough = new >= NEW_PARTS.0 * self.room() && new <= most * self.objects.now();
        let crept = self.live_bytes.as_f64() > (1.0 + CREPT) * self.all_bytes.as_f64();
        self.known && enough && !crept
    }

    /// Whether there is so little memory that the program would be held up for a walk of everything.
    fn is_tight(&self, observation: &Observation) -> bool {
        let left = self.ceiling(observation).map(|ceiling| ceiling.saturating_sub(observation.rss));
        left.is_some_and(|left| left.as_f64() < TIGHT * observation.rss.as_f64())
    }

    fn ceiling(&self, observation: &Observation) -> Option<Bytes> {
        [observation.ceiling, self.limits.ceiling].into_iter().flatten().min()
    }

    fn is_near(&self, observation: &Observation, share: f64) -> bool {
        self.ceiling(observation).is_some_and(|ceiling| observation.rss.as_f64() > share * ceiling.as_f64())
    }

    /// Whether there is enough new to look at.
    pub(crate) fn is_worth(&self) -> bool {
        let new = self.objects.now() - self.live;
        (!self.known && !self.may_wait_for_growth()) || new >= (WORTH * self.live).max(LEAST_ROOM.0 / 2.0)
    }

    fn flight_time(&self, scope: Scope) -> Duration {
        let objects = match scope {
            Scope::All => self.objects.now(),
            Scope::New => self.objects.new_objects(),
        };
        WALK.1 + Duration::from_secs_f64(objects * self.walk_cost)
    }

    /// What will become old until a snapshot that is launched now is back.
    fn expected_growth(&self, scope: Scope) -> f64 {
        if self.poor || self.is_foretold_poor() {
            return 0.0;
        }
        // Where it is open whether a walk of new objects will do, one of everything must still be possible after it.
        let scope = if self.new_walks.has_paid() { scope } else { Scope::All };
        let seconds = self.flight_time(scope).as_secs_f64();
        let by_rate = self.objects.rate() * seconds;
        let last = if scope == Scope::All { self.growth_in_flight.min(by_rate * 2.0) } else { 0.0 };
        self.foretold_growth(SURPRISE * last.max(by_rate), seconds).min(0.9 * self.room())
    }
}
