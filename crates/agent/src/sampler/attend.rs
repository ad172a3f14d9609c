//! What the sampler does for the policy, without the GIL: it makes the director that the program's threads ask, asks it
//! itself where the policy wants regular looks, and sees to it that nothing waits for ever for a thread to come by.

use std::time::Duration;

use neurogc_policy::{Bytes, Guarded, MemoryLook, Moment, SuddenGrowth};

use super::long_clones::LongClones;
use crate::act::acting::Acting;
use crate::alloc;
use crate::book::books::Books;
use crate::cpython::{arenas, gather};
use crate::decide::director::{Director, Situation};
use crate::decide::models::policy_of;
use crate::host::Host;
use crate::sense::hooks::Hooks;
use crate::sense::process::{headroom, resident};
use crate::snapshot::SnapshotProgress;
use crate::sys::huge;

/// How often resident memory is read while the program runs; where it runs little and its allocations are sampled, which tells of
/// growth, too; and how often the flight that is out is looked at.
const MEMORY_NS: u64 = 5_000_000;
const LIGHT_MEMORY_NS: u64 = 500_000_000;
const FLIGHT_NS: u64 = 5_000_000;

/// A program that does little is looked at when it has used so much processor time.
const LIGHT_WORK: Duration = Duration::from_millis(8);
const BLIND_WORK: Duration = Duration::from_millis(2);

/// How long something that is due waits for a moment before the main thread is asked to come by, and how often it is
/// asked again.
const PATIENCE_NS: u64 = 50_000_000;
const JOB_PATIENCE_NS: u64 = 2_000_000;
const LONG_PATIENCE_NS: u64 = 1_000_000_000;

/// A program that has left the GIL alone for this long is idle.
const IDLE_NS: u64 = 1_000_000;

/// A flight is called off when less than this share of resident memory is left for copies.
const COPIES_LEAST: f64 = 0.05;

/// So many bytes more that are allocated are worth a look at memory, even if the program waits.
const MUCH: u64 = 8 << 20;

/// A collection that has run for this long waits in a finalizer.
const STUCK_NS: u64 = 5_000_000_000;

/// Looks after the acting half.
#[derive(Debug)]
pub(crate) struct Attendant<'a> {
    host: &'a Host,
    hooks: &'a Hooks,
    acting: &'a Acting,
    books: &'a Books,
    /// How often the policy had been changed when the director was made.
    switches: Option<u32>,
    wants_looks: bool,
    insists: bool,
    foretells: bool,
    memory_due: u64,
    growth: SuddenGrowth,
    /// Bytes that were allocated at the last look.
    live: u64,
    called_at: u64,
    /// Since when a census has been wanted.
    census_wanted: Option<u64>,
    said_stuck: bool,
    long_clones: LongClones,
    highest: Highest,
}

/// The most resident memory between two steps that ranks share. A step of a training loop takes and gives back memory that
/// is no garbage, so it is compared with what earlier ones took.
#[derive(Clone, Copy, Debug, Default)]
struct Highest {
    span: u64,
    now: u64,
    before: u64,
}

impl Highest {
    /// Takes note of memory, and gives the most of the spans before this one; 0 in the first one.
    fn look(&mut self, span: u64, rss: u64) -> u64 {
        if span != self.span {
            *self = Self { span, now: 0, before: self.before.max(self.now) };
        }
        self.now = self.now.max(rss);
        self.before
    }
}

impl<'a> Attendant<'a> {
    pub(crate) fn new(host: &'a Host, hooks: &'a Hooks, acting: &'a Acting, books: &'a Books) -> Self {
        Self {
            host,
            hooks,
            acting,
            books,
            switches: None,
            wants_looks: false,
            insists: false,
            foretells: false,
            memory_due: 0,
            growth: SuddenGrowth::default(),
            live: 0,
            called_at: 0,
            census_wanted: None,
            said_stuck: false,
            long_clones: LongClones::default(),
            highest: Highest::default(),
        }
    }

    /// Whether the policy wants the program to be looked at all the time, however little it does.
    pub(crate) fn insists_on_looks(&self) -> bool {
        self.insists
    }

    /// Whether the rhythm of gaps is to be found for the policy.
    pub(crate) fn foretells(&self) -> bool {
        self.foretells
    }

    /// After how much processor time a program that does little is looked at. Where its allocations are not sampled, only looks see
    /// that its objects have become heavy.
    pub(crate) fn light_work(&self) -> Duration {
        let is_blind = self.acting.actor.loans.own_young().is_some() && alloc::live().is_none();
        if is_blind { BLIND_WORK } else { LIGHT_WORK }
    }

    /// One round. `idle_ns` is how long the GIL has been free, `None` while it is held; a `light` program uses its processors
    /// little. Gives how soon the next round should come, where it matters.
    pub(crate) fn round(&mut self, now: u64, idle_ns: Option<u64>, light: bool) -> Option<u64> {
        self.follow_policy();
        self.empty_queues(now);
        let in_flight = self.look_at_flight();
        if idle_ns.is_none() && now >= self.memory_due || self.has_grown() {
            self.memory_due = now + if light && alloc::live().is_some() { LIGHT_MEMORY_NS } else { MEMORY_NS };
            self.look_at_memory();
        }
        self.look_for_stuck_collection(now);
        if self.wants_looks && (self.insists || !light) {
            self.ask(now, idle_ns);
        }
        let called = self.call_if_due(now, idle_ns);
        [in_flight, called].into_iter().flatten().min()
    }

    /// Makes the director of the policy in force. A model is read from its file here, not in a thread of the program.
    fn follow_policy(&mut self) {
        if self.switches == Some(self.acting.policy.switches()) {
            return;
        }
        self.switches = Some(self.acting.policy.switches());
        let name = self.acting.policy.in_force();
        let acts = name.acts() && self.host.interpreter.can_be_conducted() && !self.acting.actor.has_stood_down();
        let director = acts.then(|| {
            let policy = policy_of(&self.host.settings, name.clone(), |trouble| self.books.ledger().trouble(trouble));
            let tuning = self.host.settings.tuning;
            let mut guarded = Guarded::new(policy, self.host.settings.limits, tuning, self.host.start.thresholds);
            let objects = self.host.interpreter.collector.map_or(0, |collector| collector.tracked_estimate());
            guarded.begin(Bytes::new(resident().unwrap_or(0)), objects);
            Director::new(guarded, name).seeing(&self.hooks.seen)
        });
        self.wants_looks = director.as_ref().is_some_and(Director::wants_looks);
        self.foretells = director.as_ref().is_some_and(Director::foretells);
        self.insists = director.as_ref().is_some_and(Director::insists_on_looks);
        self.acting.actor.direct(director);
    }

    /// Books what the program's threads have done.
    fn empty_queues(&mut self, now: u64) {
        let actor = &self.acting.actor;
        if actor.orders.is_empty() && actor.troubles.is_empty() && actor.landings.is_empty() {
            return;
        }
        let mut ledger = self.books.ledger();
        while let Some((at, order)) = actor.orders.pop() {
            ledger.order(at, order);
        }
        while let Some(latest) = actor.landings.pop() {
            ledger.flight(now, &latest);
            if let Some(trouble) = self.long_clones.landed(latest.clone_ns, huge::are_possible) {
                ledger.trouble(trouble);
            }
        }
        while let Some(trouble) = actor.troubles.pop() {
            ledger.trouble(trouble);
        }
    }

    /// A flight is looked at without the program: it may be idle.
    fn look_at_flight(&self) -> Option<u64> {
        // A dump may be out where no policy acts.
        if !self.acting.actor.waits() && !arenas::is_snapshot_out() {
            return None;
        }
        match self.acting.snapshots.look() {
            SnapshotProgress::InFlight { .. } => {
                let left = headroom();
                self.acting.actor.note_left_for_copies(left);
                let least = self.acting.actor.resident_seen() as f64 * COPIES_LEAST;
                if left.is_some_and(|left| (left as f64) < least) {
                    // The kernel would end the walk before the program, but others may live in the same cgroup.
                    self.acting.snapshots.call_off_for_room();
                }
                Some(FLIGHT_NS)
            }
            _ => None,
        }
    }

    /// Whether much more is allocated than at the last look at memory, or at the end of the last collection.
    fn has_grown(&self) -> bool {
        let before = alloc::left().map_or(self.live, |left| left.min(self.live));
        alloc::live().is_some_and(|live| live.saturating_sub(before) >= MUCH)
    }

    /// A program whose objects become heavy all of a sudden collects at its next allocation, before memory has grown by
    /// much.
    fn look_at_memory(&mut self) {
        self.live = alloc::live().unwrap_or(0);
        let Some(own) = self.acting.actor.loans.own_young() else { return };
        alloc::wake_after(MUCH);
        let (Some(collector), Some(resident)) = (self.host.interpreter.collector, resident()) else { return };
        // Ranks that share steps are compared with what earlier steps took, and by resident memory only.
        let shared = self.hooks.training.ranks().filter(|_| self.acting.actor.is_aligned());
        let before = shared.map(|at| {
            let span = at.step / u64::from(self.host.settings.tuning.align_steps.max(1));
            self.highest.look(span, resident)
        });
        let look = MemoryLook {
            resident: Bytes::new(resident),
            seen: Bytes::new(before.unwrap_or_else(|| self.acting.actor.resident_seen())),
            live: alloc::live().filter(|_| before.is_none()).map(Bytes::new),
            left: alloc::left().filter(|_| before.is_none()).map(Bytes::new),
            aligned: before.is_some(),
            counts: collector.counts(),
            own,
            threshold: collector.young_threshold(),
        };
        if let Some(threshold) = self.growth.threshold(&look)
            && collector.change_young_threshold(look.threshold, threshold)
            && self.acting.actor.loans.own_young().is_none()
        {
            // The program's own threshold has come back meanwhile, and was the same as the one in force.
            collector.change_young_threshold(threshold, look.threshold);
        }
    }

    fn look_for_stuck_collection(&mut self, now: u64) {
        let since = self.hooks.collecting_since();
        let stuck = since.is_some_and(|since| now.saturating_sub(since) > STUCK_NS);
        if stuck && !self.said_stuck {
            self.said_stuck = true;
            let reason = "a collection has run for more than 5 s: a finalizer waits for something; until it ends, CPython collects nothing";
            self.books.ledger().trouble(reason.to_owned());
        }
    }

    /// Asks the policy, for policies that want to be asked regularly.
    fn ask(&self, now: u64, idle_ns: Option<u64>) {
        let collector = self.host.interpreter.collector;
        let look = || Some((self.acting.snapshots.look(), self.acting.snapshots.latest()?));
        let snapshot = if self.host.settings.snapshots {
            // A thread of the program that has the snapshot comes to a moment of its own.
            let Some(seen) = look() else { return };
            Some(seen)
        } else {
            None
        };
        self.acting.actor.look(&Situation {
            now: self.acting.actor.since_install(now),
            moment: Moment::Look,
            idle: idle_ns.map(Duration::from_nanos),
            in_flight: self.hooks.in_flight(),
            requests: self.hooks.ended(),
            counts: collector.map_or([0; 3], |collector| collector.counts()),
            promoted: collector.map_or(0, |collector| collector.pending()),
            rss: Bytes::new(resident().unwrap_or(0)),
            ceiling: self.acting.actor.ceiling().map(Bytes::new),
            left_for_copies: self.acting.actor.left_for_copies().map(Bytes::new),
            paused: self.acting.actor.is_quiet(),
            deferred: self.acting.actor.is_deferred(),
            snapshot,
            ranks: self.hooks.training.ranks(),
        });
    }

    /// Asks the main thread to come by where something has waited for a moment for too long.
    fn call_if_due(&mut self, now: u64, idle_ns: Option<u64>) -> Option<u64> {
        let actor = &self.acting.actor;
        let job = self.acting.remote.is_waiting();
        if job && gather::share().is_some() {
            // The uplink is at it.
            return Some(JOB_PATIENCE_NS);
        }
        // What a finalizer has held up waits for the end of a collection of CPython's.
        let waits = actor.waits() && !actor.keeps_to_collections();
        let ready = waits && matches!(self.acting.snapshots.look(), SnapshotProgress::Ready { .. });
        let census = self.acting.census.is_wanted().then(|| *self.census_wanted.get_or_insert(now));
        self.census_wanted = census;
        // Where ranks collect together, everything but a command waits for a step that they share.
        if !job && (actor.is_aligned() || (!waits && census.is_none())) {
            return None;
        }
        let patience = match () {
            () if job => JOB_PATIENCE_NS,
            () if waits && (ready || actor.is_deferred() || actor.has_posted()) => PATIENCE_NS,
            // A main thread that has not come by for long is asked less and less often.
            () => LONG_PATIENCE_NS.max(census.map_or(0, |since| now.saturating_sub(since) / 4)),
        };
        // A census needs more than the end of a collection, of which there may be many.
        let moment = if job || waits { actor.last_moment() } else { census.unwrap_or(0) };
        let since = moment.max(self.called_at);
        if now.saturating_sub(since) >= patience && !actor.is_running() {
            self.called_at = now;
            let idle = idle_ns.is_some_and(|idle| idle >= IDLE_NS) && self.hooks.in_flight() == 0;
            self.acting.main_thread.come_by(idle);
        }
        Some(patience)
    }
}
