//! A pretended program on a pretended heap, driven as the agent drives a real one: every policy is rehearsed on it.
//!
//! Everything happens in the program's own thread. At the end of each collection that CPython starts by itself, and when
//! the program has nothing to do, the policy is asked, and what it orders is carried out at once.

mod heap;
mod rhythm;
mod tests;

use std::time::Duration;

pub(crate) use self::heap::{Nature, RehearsalHeap};
use crate::bytes::Bytes;
use crate::forecast::Forecast;
use crate::guards::{Guarded, Limits};
use crate::name::Name;
use crate::observation::{Decision, Generation, Moment, Observation, Order};
use crate::pacer::{CROWDED_ROOM, SMALL_HEAP};
use crate::phase::{GapRhythm, LongGaps};
use crate::policies::{Thresholds, Tuning, policy};

/// How long the program works or rests at a time.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// The thresholds that the program runs with.
pub(crate) const OWN: Thresholds = [2_000, 10, 10];

/// Objects that gather before CPython considers a full collection.
pub(crate) const LEAST_ROOM: f64 = 200_000.0;

/// One tick of the program, and of the machine that it runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RehearsalTick {
    pub(crate) busy: bool,
    /// Objects that are kept, and that are garbage at once.
    pub(crate) kept: f64,
    pub(crate) garbage: f64,
    /// The share of what is kept that dies as soon as it is old.
    pub(crate) dies_soon: f64,
    /// Old objects that die: in cycles, and by reference counting.
    pub(crate) dies_late: f64,
    pub(crate) by_reference: f64,
    pub(crate) paused: bool,
    /// How many times slower a walk is than it could be; never over where there is none.
    pub(crate) starved: Option<f64>,
    /// No clone can be made.
    pub(crate) fails: bool,
}

impl Default for RehearsalTick {
    fn default() -> Self {
        Self {
            busy: true,
            kept: 0.0,
            garbage: 0.0,
            dies_soon: 0.0,
            dies_late: 0.0,
            by_reference: 0.0,
            paused: false,
            starved: Some(1.0),
            fails: false,
        }
    }
}

/// A stop of the program that was ordered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderedStop {
    pub(crate) order: Order,
    pub(crate) observation: Observation,
    pub(crate) pause: Duration,
    /// In which tick it was.
    pub(crate) tick: usize,
    /// How much of its room the heap filled, beyond what the last cycle left, as the program really was.
    pub(crate) filled: f64,
}

/// The program under a policy, and what came of it.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    pub(crate) heap: RehearsalHeap,
    pub(crate) guarded: Guarded,
    pub(crate) stops: Vec<OrderedStop>,
    /// Collections that CPython started by itself.
    pub(crate) own: Vec<(Generation, Duration)>,
    pub(crate) peak: Bytes,
    /// The most rooms that were ever filled while a plain collection could have run, a young generation and the middle one left out; and the most objects beyond
    /// what was left and a room, as a share of both, where the heap is not small.
    pub(crate) rooms: f64,
    pub(crate) beyond: f64,
    /// The most objects that there were, and while a plain collection could have run.
    pub(crate) most: (f64, f64),
    ceiling: Option<Bytes>,
    thresholds: Thresholds,
    idle_since: Option<Duration>,
    requests: u64,
    growth_share: f64,
    /// Whether a walk had to wait for a processor.
    crowded: bool,
    /// Until then no plain collection may run: they take half of the time at most.
    plain_again: Duration,
    urgent: Option<(Order, Observation)>,
    /// What the pacer is told to expect at each tick, one after the other, right or wrong.
    pub(crate) forecasts: Vec<Option<Forecast>>,
    ticks: usize,
    /// Gaps so far, how long the program was stopped in this one, and what is foretold of them; or what is said instead, at each
    /// tick, right or wrong.
    gaps: u64,
    stopped: Duration,
    long_gaps: LongGaps,
    pub(crate) rhythms: Vec<Option<GapRhythm>>,
}

impl Rehearsal {
    pub(crate) fn new(heap: RehearsalHeap, name: Name, limits: Limits, ceiling: Option<Bytes>) -> Self {
        let tuning = Tuning::default();
        let mut guarded = Guarded::new(policy(name, tuning), limits, tuning, OWN);
        guarded.begin(heap.rss(), heap.objects() as u64);
        let mut rehearsal = Self {
            heap,
            guarded,
            stops: Vec::new(),
            own: Vec::new(),
            peak: Bytes::ZERO,
            rooms: 0.0,
            beyond: 0.0,
            most: (0.0, 0.0),
            ceiling,
            thresholds: OWN,
            idle_since: None,
            requests: 0,
            growth_share: limits.growth_share,
            crowded: false,
            plain_again: Duration::ZERO,
            urgent: None,
            forecasts: Vec::new(),
            ticks: 0,
            gaps: 0,
            stopped: Duration::ZERO,
            long_gaps: LongGaps::default(),
            rhythms: Vec::new(),
        };
        rehearsal.set_thresholds();
        rehearsal
    }

    pub(crate) fn play(mut self, ticks: impl IntoIterator<Item = RehearsalTick>) -> Self {
        for tick in ticks {
            self.tick(&tick);
        }
        self
    }

    fn tick(&mut self, tick: &RehearsalTick) {
        if let Some(forecast) = self.forecasts.get(self.ticks % self.forecasts.len().max(1)) {
            self.guarded.expect(*forecast);
        }
        self.ticks += 1;
        if tick.busy {
            if let Some(since) = self.idle_since.take() {
                // The waits of a program are as long as they are; what stops it meanwhile is a part of them.
                let lasted = self.heap.now.saturating_sub(since + self.stopped);
                self.long_gaps.gap(self.gaps, since, lasted);
            }
            self.work(tick);
            self.requests += 1;
        } else {
            if self.idle_since.is_none() {
                self.idle_since = Some(self.heap.now);
                self.stopped = Duration::ZERO;
                self.gaps += 1;
            }
            self.rest(tick);
        }
        if self.guarded.wants_looks() {
            self.look(tick);
        }
        self.check();
    }

    /// The program allocates, and CPython collects at its thresholds.
    fn work(&mut self, tick: &RehearsalTick) {
        let objects = self.heap.nature.counted(tick.kept, tick.garbage);
        let mut left = 1.0;
        while left > 1e-9 {
            let room = f64::from(self.thresholds[0]) + 1.0 - f64::from(self.heap.counts()[0]);
            let share = if objects * left > room { (room / objects).clamp(1e-6, left) } else { left };
            left -= share;
            self.heap.allocate(tick.kept * share, tick.garbage * share, TICK.mul_f64(share));
            self.heap.die(tick.dies_late * share, tick.by_reference * share);
            if self.heap.counts()[0] > self.thresholds[0] {
                self.check();
                let generation = self.heap.due(self.thresholds);
                let pause = self.collect(generation, tick);
                self.own.push((generation, pause));
                self.collection_end(tick);
            }
        }
    }

    /// The program has nothing to do for a tick.
    fn rest(&mut self, tick: &RehearsalTick) {
        let until = self.heap.now + TICK;
        while self.heap.now < until {
            self.look_at_snapshot();
            let observation = self.observe(Moment::Gap, tick);
            let order = self.guarded.decide(&observation);
            if order.decision == Decision::Wait {
                break;
            }
            self.carry_out(order, observation, tick);
            // Asking takes time too.
            self.heap.now += Duration::from_micros(1);
        }
        self.stopped += self.heap.now.saturating_sub(until);
        self.heap.now = self.heap.now.max(until);
    }

    fn collection_end(&mut self, tick: &RehearsalTick) {
        self.look_at_snapshot();
        let observation = self.observe(Moment::CollectionEnd, tick);
        let order = self.guarded.decide(&observation);
        let drained = self.heap.snapshot() == crate::Snapshot::Idle;
        self.carry_out(order, observation, tick);
        if drained {
            self.heap.asked();
        }
        if let Some((order, observation)) = self.urgent.take() {
            self.carry_out(order, observation, tick);
        }
        self.set_thresholds();
    }

    fn set_thresholds(&mut self) {
        let observation = self.observe(Moment::CollectionEnd, &RehearsalTick::default());
        self.thresholds = self.guarded.thresholds(&observation).unwrap_or(OWN);
    }

    /// The agent's own thread looks. What it wants at once waits for the next collection.
    fn look(&mut self, tick: &RehearsalTick) {
        self.look_at_snapshot();
        let observation = self.observe(Moment::Look, tick);
        let order = self.guarded.decide(&observation);
        if self.idle_since.is_some() {
            self.carry_out(order, observation, tick);
        } else if order.at_once {
            self.urgent = Some((order, observation));
        }
    }

    fn look_at_snapshot(&mut self) {
        if let Some(flown) = self.heap.land() {
            self.guarded.landed(&flown);
        }
        if self.heap.is_drained() {
            self.guarded.drained(self.heap.rss());
        }
    }

    fn collect(&mut self, generation: Generation, tick: &RehearsalTick) -> Duration {
        let before = self.heap.rss();
        let collected = self.heap.collect(generation, tick.dies_soon);
        if generation == Generation::Full {
            self.plain_again = collected.at + collected.pause + TICK;
        }
        self.guarded.learn(&collected, before);
        collected.pause
    }

    fn carry_out(&mut self, order: Order, observation: Observation, tick: &RehearsalTick) {
        let filled = self.filled();
        let pause = match order.decision {
            Decision::Wait | Decision::Trim => return,
            Decision::Young => self.collect(Generation::Young, tick),
            Decision::Middle => self.collect(Generation::Middle, tick),
            Decision::Full | Decision::Freeze => self.collect(Generation::Full, tick),
            Decision::Snapshot { .. } if tick.fails => {
                self.guarded.failed(self.heap.now);
                Duration::ZERO
            }
            Decision::Snapshot { scope } => {
                let young = self.heap.counts()[0];
                self.crowded |= tick.starved.is_some_and(|starved| starved > 1.0);
                let pause = self.heap.launch(scope, tick.starved, tick.dies_soon);
                self.guarded.launched(self.heap.now, scope, young);
                pause
            }
            // A look's order may come too late.
            Decision::Reap { .. } if !matches!(self.heap.snapshot(), crate::Snapshot::Ready { .. }) => return,
            Decision::Reap { budget } => {
                let (freed, pause) = self.heap.reap(budget);
                self.guarded.reaped(self.heap.now, freed, pause);
                self.look_at_snapshot();
                pause
            }
            Decision::Throttle { pause } => {
                self.heap.now += pause;
                pause
            }
        };
        self.guarded.stopped_for(order.decision, pause);
        self.stops.push(OrderedStop { order, observation, pause, tick: self.ticks - 1, filled });
        self.check();
    }

    fn observe(&self, moment: Moment, tick: &RehearsalTick) -> Observation {
        Observation {
            now: self.heap.now,
            moment,
            idle: self.idle_since.map(|since| self.heap.now.saturating_sub(since)),
            in_flight: u64::from(self.idle_since.is_none()),
            requests: self.requests,
            counts: self.heap.counts(),
            rss: self.heap.rss(),
            ceiling: self.ceiling,
            paused: tick.paused,
            snapshot: self.heap.snapshot(),
            rhythm: self.rhythm(),
            ..Observation::default()
        }
    }

    fn rhythm(&self) -> Option<GapRhythm> {
        let said = self.rhythms.get(self.ticks % self.rhythms.len().max(1));
        said.map_or_else(|| self.long_gaps.foretold()?.seen_from(self.gaps), |said| *said)
    }

    pub(crate) fn room(&self) -> f64 {
        let crowded = if self.crowded { 1.0 + CROWDED_ROOM } else { 1.0 };
        (self.heap.left() * self.growth_share * crowded).max(LEAST_ROOM)
    }

    fn filled(&self) -> f64 {
        (self.heap.objects() - self.heap.younger() - self.heap.left()) / self.room()
    }

    fn check(&mut self) {
        self.peak = self.peak.max(self.heap.rss());
        self.most.0 = self.most.0.max(self.heap.objects());
        let younger = f64::from(self.thresholds[0]) + self.heap.middle();
        let old = self.heap.objects() - younger.max(self.heap.younger());
        let rooms = (old - self.heap.left()) / self.room();
        if self.heap.left() >= SMALL_HEAP as f64 {
            self.beyond = self.beyond.max(old / (self.heap.left() + self.room()) - 1.0);
        }
        if self.heap.now >= self.plain_again {
            self.rooms = self.rooms.max(rooms);
            self.most.1 = self.most.1.max(self.heap.objects());
        }
    }

    /// What may come on top before the pacer is asked again, as a share of a room: a policy may collect in a gap right
    /// before it, so one more young generation; and what rounding makes.
    pub(crate) fn slack(&self) -> f64 {
        f64::from(OWN[0]).max(0.125 * self.room()) / self.room() + 100.0 / self.room()
    }

    /// How many orders of a kind there were.
    pub(crate) fn count(&self, wanted: fn(&Decision) -> bool) -> usize {
        self.stops.iter().filter(|stop| wanted(&stop.order.decision)).count()
    }

    /// How long they took.
    pub(crate) fn spent(&self, wanted: fn(&Decision) -> bool) -> Duration {
        self.stops.iter().filter(|stop| wanted(&stop.order.decision)).map(|stop| stop.pause).sum()
    }
}
