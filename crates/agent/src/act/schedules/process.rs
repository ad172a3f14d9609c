//! A process of the fake interpreter: its agent, its threads, and what stands between CPython and the acting half, as
//! `python/` has it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use neurogc_policy::{Decision, Moment, Order, Thresholds};
use neurogc_wire::stop::StopKind;

use super::Tally;
use super::beside::Beside;
use super::threads::Thread;
use crate::act::actor::{Actor, EndedCollection, Lowered};
use crate::act::census::OwnCensus;
use crate::act::fake::{Fake, FakeCollector, FakeSnapshots, Random, TestSurroundings};
use crate::act::loans::{Loans, repay_collecting};
use crate::act::remote::Remote;
use crate::act::vm::Vm;
use crate::sense::hooks::{HookEvent, Hooks};
use crate::sys::locks::lock;

/// How often a census is due.
const CENSUS: Duration = Duration::from_secs(2);

/// What `lifecycle::agent::Agent` is to the acting half.
pub(super) struct ActingAgent {
    pub(super) actor: Actor,
    pub(super) hooks: Hooks,
    pub(super) remote: Remote,
    pub(super) snapshots: FakeSnapshots,
    /// What the sampler has taken from the queues: orders, and the numbers of orders that stops came from.
    pub(super) orders: RefCell<Vec<Order>>,
    pub(super) stops: RefCell<Vec<u64>>,
    /// The policy was changed, and the next thread of the program has to follow.
    pub(super) switched: Cell<bool>,
    /// A director is to be made.
    pub(super) undirected: Cell<bool>,
    /// This is the memory of a parent, from which native code has forked this process.
    pub(super) foreign: Cell<bool>,
    /// The thread of the parent that was in a collection then, and whether the agent was left since.
    collecting: Cell<Option<usize>>,
    left: Cell<bool>,
    /// The sampler has asked the main thread to come by.
    pub(super) called: Cell<bool>,
    pub(super) census: OwnCensus,
    /// The sampler has ended unasked, perhaps with locks of ours; and the program's thresholds are to be restored for that.
    pub(super) lost: Cell<bool>,
    pub(super) holds_snapshots: Cell<bool>,
    pub(super) leaves: Cell<bool>,
}

impl ActingAgent {
    fn of(actor: Actor, now: u64) -> Rc<Self> {
        Rc::new(Self {
            actor,
            hooks: Hooks::default(),
            remote: Remote::default(),
            snapshots: FakeSnapshots::default(),
            orders: RefCell::default(),
            stops: RefCell::default(),
            switched: Cell::new(false),
            undirected: Cell::new(true),
            foreign: Cell::new(false),
            collecting: Cell::new(None),
            left: Cell::new(false),
            called: Cell::new(false),
            census: OwnCensus::new(Some(CENSUS), now),
            lost: Cell::new(false),
            holds_snapshots: Cell::new(false),
            leaves: Cell::new(false),
        })
    }

    fn new(snapshots: bool, now: u64) -> Rc<Self> {
        Self::of(Actor::new(0, Duration::from_millis(1), snapshots, Loans::default()), now)
    }

    /// Takes from the queues, as the sampler does.
    pub(super) fn book(&self) {
        while let Some(event) = self.hooks.take() {
            if let HookEvent::Collection { order: id @ 1.., .. } = event {
                self.stops.borrow_mut().push(id);
            }
        }
        while let Some((_, order)) = self.actor.orders.pop() {
            self.orders.borrow_mut().push(order);
        }
    }
}

pub(super) struct FakeProcess {
    pub(super) interpreter: Mutex<FakeCollector>,
    random: RefCell<Random>,
    pub(super) current: RefCell<Option<Rc<ActingAgent>>>,
    /// All agents that there were.
    pub(super) agents: RefCell<Vec<Rc<ActingAgent>>>,
    /// Threads by number; one that is at its turn, or below it on the stack, is not here.
    pub(super) threads: RefCell<Vec<Option<Thread>>>,
    /// Threads that are on the stack.
    pub(super) busy: Cell<usize>,
    pub(super) beside: RefCell<Option<Beside>>,
    /// The thresholds that the program has set.
    pub(super) own: Cell<Thresholds>,
    pub(super) froze: Cell<bool>,
    pub(super) is_child: bool,
    /// Finalizers do nothing any more.
    pub(super) is_over: Cell<bool>,
    /// The agent that was told of the beginning of the last collection.
    told: RefCell<Option<Rc<ActingAgent>>>,
    pub(super) tally: RefCell<Tally>,
    pub(super) script: Script,
}

/// What a schedule is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    pub(super) policy: u64,
    pub(super) snapshots: bool,
    /// Of so many finalizers one does something.
    pub(super) lively: u64,
    pub(super) forks: bool,
    pub(super) ends: bool,
}

impl FakeProcess {
    pub(super) fn new(mut random: Random, script: Script) -> Self {
        let own = [[700, 10, 10], [2_000, 5, 5], [5_000, 2, 1]][random.below(3) as usize];
        let live = [20_000, 60_000, 200_000, 1_000_000][random.below(4) as usize];
        let process = Self {
            interpreter: Mutex::new(FakeCollector::new(live, own)),
            random: RefCell::new(random),
            current: RefCell::default(),
            agents: RefCell::default(),
            threads: RefCell::default(),
            busy: Cell::new(0),
            beside: RefCell::new(Some(Beside::default())),
            own: Cell::new(own),
            froze: Cell::new(false),
            is_child: false,
            is_over: Cell::new(false),
            told: RefCell::default(),
            tally: RefCell::default(),
            script,
        };
        process.install();
        process
    }

    pub(super) fn below(&self, end: u64) -> u64 {
        self.random.borrow_mut().below(end)
    }

    pub(super) fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(super) fn count(&self, body: impl FnOnce(&mut Tally)) {
        body(&mut self.tally.borrow_mut());
    }

    pub(super) fn now(&self) -> u64 {
        lock(&self.interpreter).now
    }

    pub(super) fn current(&self) -> Option<Rc<ActingAgent>> {
        self.current.borrow().clone()
    }

    pub(super) fn vm<'a>(&'a self, agent: &'a ActingAgent, thread: usize) -> Fake<'a> {
        Fake { interpreter: &self.interpreter, snapshots: &agent.snapshots, around: self, thread }
    }

    /// The interpreter, whether an agent is installed or not.
    pub(super) fn with_vm<T>(&self, thread: usize, body: impl FnOnce(&Fake<'_>) -> T) -> T {
        let none = FakeSnapshots::default();
        let agent = self.current();
        let snapshots = agent.as_ref().map_or(&none, |agent| &agent.snapshots);
        body(&Fake { interpreter: &self.interpreter, snapshots, around: self, thread })
    }

    /// `neurogc.install()`.
    pub(super) fn install(&self) {
        if self.current().is_none() {
            self.let_sampler_finish();
            let agent = ActingAgent::new(self.script.snapshots, self.now());
            self.agents.borrow_mut().push(Rc::clone(&agent));
            *self.current.borrow_mut() = Some(Rc::clone(&agent));
            self.take_over(&agent, 0);
        }
    }

    /// The first part of `uninstall()`, which lets go of the GIL at its end.
    pub(super) fn begin_uninstall(&self, thread: usize) -> Option<Rc<ActingAgent>> {
        let agent = self.current.borrow_mut().take()?;
        agent.actor.stand_down();
        assert!(agent.actor.loans.repay(&self.vm(&agent, thread)).is_ok());
        agent.snapshots.shut_down();
        self.let_sampler_finish();
        Some(agent)
    }

    /// The second part, as in `give_back`.
    pub(super) fn finish_uninstall(&self, agent: &ActingAgent, thread: usize) {
        agent.actor.direct(None);
        assert!(agent.actor.loans.repay(&self.vm(agent, thread)).is_ok());
        self.count(|tally| tally.uninstalls += 1);
    }

    /// `gc.set_threshold(...)`: the program is left alone from then on.
    pub(super) fn set_threshold(&self, thresholds: Thresholds, thread: usize) {
        if let Some(agent) = self.current() {
            self.restore_if_left(&agent, thread);
        }
        self.own.set(thresholds);
        if let Some(agent) = self.current().filter(|agent| !agent.actor.has_stood_down()) {
            let vm = self.vm(&agent, thread);
            assert!(agent.actor.loans.repay(&vm).is_ok());
            assert!(vm.set_thresholds(thresholds).is_ok());
            agent.actor.stand_down();
            agent.snapshots.shut_down();
            self.count(|tally| tally.stood_down += 1);
        } else {
            lock(&self.interpreter).thresholds = thresholds;
        }
    }

    fn follow_switch(&self, agent: &ActingAgent, thread: usize) {
        if agent.switched.take() {
            let (vm, loans) = (self.vm(agent, thread), &agent.actor.loans);
            if agent.actor.has_stood_down() {
                assert!(loans.repay(&vm).is_ok());
            } else {
                assert!(loans.hand_over(&vm).is_ok());
                self.take_over(agent, thread);
            }
        }
    }

    /// What `gc_functions::take_over` does to loans.
    fn take_over(&self, agent: &ActingAgent, thread: usize) {
        let vm = self.vm(agent, thread);
        agent.actor.loans.note_frozen(&vm);
        assert!(agent.actor.loans.take_thresholds(&vm).is_ok());
    }

    /// `gc_functions::restore_if_left`.
    pub(super) fn restore_if_left(&self, agent: &ActingAgent, thread: usize) {
        if agent.leaves.take() {
            let vm = self.vm(agent, thread);
            assert!(agent.actor.loans.repay(&vm).is_ok());
            assert_eq!(vm.thresholds(), Ok(self.own.get()), "thresholds are left where the sampler is lost");
        }
    }

    /// `moments::serve`.
    fn serve_outside(&self, agent: &ActingAgent, thread: usize) {
        let vm = self.vm(agent, thread);
        agent.remote.step(&agent.actor, &vm, &agent.hooks);
        if agent.census.step(&agent.actor, &vm, &agent.hooks) {
            self.count(|tally| tally.censuses += 1);
        }
    }

    /// `moments::at`.
    pub(super) fn at(&self, thread: usize, moment: Moment) -> bool {
        let Some(agent) = self.current() else { return false };
        if agent.foreign.get() {
            self.leave_in_native_child(&agent, thread, agent.collecting.get());
            return false;
        }
        self.follow_switch(&agent, thread);
        let vm = self.vm(&agent, thread);
        let acted = agent.actor.moment(&vm, &agent.hooks, moment);
        self.serve_outside(&agent, thread);
        acted && self.is_due(&agent)
    }

    pub(super) fn is_due(&self, agent: &ActingAgent) -> bool {
        agent.remote.is_waiting()
            || agent.census.is_wanted()
            || agent.actor.is_due(lock(&self.interpreter).counts[0] as u32)
    }

    /// A fork by a thread that is in no collection, while others may be: the child lives to its end before the parent goes
    /// on.
    pub(super) fn fork(&self, thread: usize) {
        let Some(parents) = self.current().filter(|_| !self.is_child && self.script.forks) else { return };
        self.let_sampler_finish();
        let interpreter = lock(&self.interpreter).in_child(thread);
        let told = self.told.borrow().as_ref().is_some_and(|told| Rc::ptr_eq(told, &parents));
        if interpreter.collecting && !told {
            // The agent came in the middle of a collection, of which it knows nothing.
            return;
        }
        let child = Self {
            interpreter: Mutex::new(interpreter),
            random: RefCell::new(Random::new(self.random.borrow_mut().next())),
            current: RefCell::default(),
            agents: RefCell::default(),
            threads: RefCell::default(),
            busy: Cell::new(0),
            beside: RefCell::default(),
            own: self.own.clone(),
            froze: self.froze.clone(),
            is_child: true,
            is_over: Cell::new(false),
            told: RefCell::default(),
            tally: RefCell::default(),
            script: self.script,
        };
        let native = self.once_in(4);
        if native {
            child.after_native_fork(&parents);
            if lock(&child.interpreter).collecting || self.once_in(2) {
                child.at(thread, Moment::Passing);
            }
        } else {
            child.after_fork_in_child(&parents, thread);
        }
        child.still_collects(thread);
        let interpreter = lock(&child.interpreter).clone();
        assert!(!native || !interpreter.enabled || interpreter.thresholds == child.own.get(), "thresholds are left");
        child.threads.borrow_mut().resize_with(thread, || None);
        child.threads.borrow_mut().push(Some(Thread::program(6)));
        if !native {
            *child.beside.borrow_mut() = Some(Beside::default());
        }
        child.run();
        child.end(thread);
        self.count(|tally| {
            tally.add(&child.tally.borrow());
            tally.children += 1;
        });
    }

    /// A fork by a thread that may be in a collection itself: the schedule goes on in the child, where the other threads
    /// do not exist.
    pub(super) fn become_child(&self, thread: usize) {
        let Some(parents) = self.current().filter(|_| self.script.forks && self.busy.get() == 1) else { return };
        self.let_sampler_finish();
        self.threads.borrow_mut().iter_mut().for_each(|other| *other = None);
        self.after_fork_in_child(&parents, thread);
        parents.actor.stand_down();
        *self.beside.borrow_mut() = Some(Beside::default());
        self.count(|tally| tally.became_child += 1);
    }

    /// `module::after_fork_in_child`.
    fn after_fork_in_child(&self, parents: &Rc<ActingAgent>, thread: usize) {
        let collecting = parents.hooks.collecting_thread().or_else(|| parents.actor.running_in());
        repay_collecting(&self.vm(parents, thread), collecting);
        let mut interpreter = lock(&self.interpreter);
        interpreter.bring_back_in_child(thread);
        let is_lost = interpreter.collecting && !interpreter.is_in_collection(thread);
        assert!(!is_lost, "a child is left with a collection that never ends");
        let agent = ActingAgent::of(parents.actor.in_child(interpreter.now), interpreter.now);
        drop(interpreter);
        agent.leaves.set(parents.leaves.get());
        self.agents.borrow_mut().push(Rc::clone(&agent));
        *self.current.borrow_mut() = Some(agent);
    }

    /// A child that native code has forked has no hooks, and the memory of its parent's agent.
    fn after_native_fork(&self, parents: &ActingAgent) {
        let agent = ActingAgent::of(parents.actor.in_child(0), self.now());
        agent.foreign.set(true);
        agent.collecting.set(parents.hooks.collecting_thread().or_else(|| parents.actor.running_in()));
        self.agents.borrow_mut().push(Rc::clone(&agent));
        *self.current.borrow_mut() = Some(agent);
    }

    /// `moments::leave_in_native_child`.
    fn leave_in_native_child(&self, agent: &ActingAgent, thread: usize, collecting: Option<usize>) {
        if !agent.left.replace(true) {
            let vm = self.vm(agent, thread);
            repay_collecting(&vm, collecting);
            lock(&self.interpreter).bring_back_in_child(thread);
            agent.actor.stand_down();
            assert!(agent.actor.loans.repay(&vm).is_ok());
        }
    }

    /// A child of a thread that is in no collection collects by CPython's own trigger.
    fn still_collects(&self, thread: usize) {
        let FakeCollector { collections, enabled, thresholds, .. } = lock(&self.interpreter).clone();
        if enabled {
            self.with_vm(thread, |vm| vm.allocate(0, u64::from(thresholds[0]) + 1));
            assert!(lock(&self.interpreter).collections > collections, "a child does not collect");
        }
    }
}

impl TestSurroundings for FakeProcess {
    /// `moments::gc_event` with the phase `start`.
    fn collection_begins(&self, thread: usize) {
        let agent = self.current();
        *self.told.borrow_mut() = agent.clone();
        let Some(agent) = agent else { return };
        self.restore_if_left(&agent, thread);
        if agent.foreign.get() {
            return self.leave_in_native_child(&agent, thread, None);
        }
        self.follow_switch(&agent, thread);
        let vm = self.vm(&agent, thread);
        agent.hooks.collection_starts(vm.counts()[0], thread);
        agent.actor.collection_begins(&vm);
    }

    /// The same with the phase `stop`.
    fn collection_ended(&self, thread: usize, generation: u8, freed: u64) {
        let Some(agent) = self.current() else { return };
        self.restore_if_left(&agent, thread);
        if agent.foreign.get() {
            return self.leave_in_native_child(&agent, thread, None);
        }
        self.follow_switch(&agent, thread);
        let (vm, kind) = (self.vm(&agent, thread), StopKind::of_generation(generation));
        let (by, order) = agent.actor.ordered(&vm);
        if generation == 2 {
            agent.snapshots.full_collection_ended();
        }
        let freed = freed as u32;
        if agent.hooks.collection_stops(kind, by, order, freed, 0).is_none() {
            return;
        }
        let ended = EndedCollection { generation, began: vm.now(), gathered: agent.hooks.gathered(), freed };
        agent.actor.collection_ended(&vm, &agent.hooks, ended);
        let waits = agent.remote.is_waiting() || agent.census.is_overdue(vm.now());
        if waits && vm.is_collecting() && !agent.actor.is_running() {
            let _lowered = Lowered::new(&vm);
            self.serve_outside(&agent, thread);
        }
    }

    fn finalizers(&self, thread: usize, unreachable: u64) -> u64 {
        if self.is_over.get() {
            return 0;
        }
        if self.once_in(self.script.lively) {
            self.finalize(thread);
            self.count(|tally| tally.finalizers += 1);
        }
        if self.once_in(20) { self.below(unreachable) / 2 } else { 0 }
    }

    fn others_run(&self, _: &Mutex<FakeCollector>, _: usize, pause: Duration) {
        self.let_others_run(pause);
    }

    fn interrupts(&self) -> bool {
        !self.is_over.get() && self.once_in(100)
    }

    fn holds_snapshots(&self) -> bool {
        let is_held = self.current().is_some_and(|agent| agent.holds_snapshots.get());
        is_held || !self.is_over.get() && self.once_in(20)
    }

    fn beside(&self) {
        if self.once_in(24) {
            self.run_beside();
        }
    }
}

/// A number for each decision that changes something.
pub(super) fn number(decision: Decision) -> usize {
    match decision {
        Decision::Wait => 0,
        Decision::Young => 1,
        Decision::Middle => 2,
        Decision::Full => 3,
        Decision::Freeze => 4,
        Decision::Snapshot { .. } => 5,
        Decision::Reap { .. } => 6,
        Decision::Throttle { .. } => 7,
        Decision::Trim => 8,
    }
}
