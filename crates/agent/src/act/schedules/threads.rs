//! The threads of the program in a schedule: what each does at its turn, and what finalizers do.

use std::rc::Rc;
use std::time::Duration;

use neurogc_policy::Moment;

use super::process::{ActingAgent, FakeProcess};
use crate::act::drive::{Next, RequestedSnapshot};
use crate::act::fake::FakeFlight;
use crate::act::vm::Vm;
use crate::sense::arrivals::Arrival;
use crate::sense::hooks::Open;
use crate::sense::routes::RouteId;
use crate::snapshot::{Destination, HeapErrand, SnapshotFailure};
use crate::sys::locks::lock;

/// A thread that is not at its turn.
pub(super) struct Thread {
    kind: Kind,
    turns: u32,
    wakes: u64,
    /// Requests that it serves, each with the agent that was told of it.
    open: Option<(Rc<ActingAgent>, Open)>,
    doing: Doing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Allocates, and does whatever programs do.
    Program,
    /// An event loop: gaps.
    Loop,
    /// Calls `neurogc.collect("snapshot")`, or asks for a count or a dump.
    Drives,
}

/// What a thread is in the middle of, without the GIL.
enum Doing {
    Nothing,
    /// With the number of the last flight that had been launched before.
    Driving(Rc<ActingAgent>, RequestedSnapshot, u64),
    Uninstalling(Rc<ActingAgent>),
}

impl Thread {
    pub(super) fn program(turns: u32) -> Self {
        Self::new(Kind::Program, turns)
    }

    /// The thread of a number.
    pub(super) fn numbered(number: usize, turns: u32) -> Self {
        match number % 4 {
            1 => Self::new(Kind::Loop, turns),
            // Each turn is many steps.
            2 => Self::new(Kind::Drives, 1 + turns / 8),
            _ => Self::program(turns),
        }
    }

    fn new(kind: Kind, turns: u32) -> Self {
        Self { kind, turns, wakes: 0, open: None, doing: Doing::Nothing }
    }

    fn is_over(&self) -> bool {
        self.turns == 0 && matches!(self.doing, Doing::Nothing)
    }
}

/// A count, or a dump.
fn errand(process: &FakeProcess) -> HeapErrand {
    let to = Destination::NONE;
    if process.once_in(2) {
        HeapErrand::Count
    } else {
        HeapErrand::Dump { to, texts: true, urgent: process.once_in(2) }
    }
}

impl FakeProcess {
    /// Runs all threads to their ends.
    pub(super) fn run(&self) {
        let deadline = self.now() + 3_000_000_000_000;
        while self.run_one(u64::MAX) {
            assert!(self.now() < deadline, "the schedule does not end");
        }
    }

    /// One turn of a thread that can run, or the time until one can; false where none will before this moment.
    fn run_one(&self, until: u64) -> bool {
        let now = self.now();
        let (mut ready, mut count, mut wakes, mut over) = (0, 0, u64::MAX, true);
        let called = self.current().is_some_and(|agent| agent.called.get());
        for (number, thread) in self.threads.borrow().iter().enumerate() {
            let comes_by = called && number == 0;
            let Some(thread) = thread.as_ref().filter(|thread| !thread.is_over() || comes_by) else { continue };
            over &= thread.is_over();
            if thread.wakes <= now {
                count += 1;
                if self.below(count) == 0 {
                    ready = number;
                }
            } else {
                wakes = wakes.min(thread.wakes);
            }
        }
        if over {
            return false;
        } else if count > 0 {
            self.turn(ready);
        } else if wakes >= until || wakes == u64::MAX {
            return false;
        } else {
            lock(&self.interpreter).now = wakes;
        }
        if self.once_in(3) {
            self.run_beside();
        }
        true
    }

    /// The calling thread has let go of the GIL for so long, and others may have it.
    pub(super) fn let_others_run(&self, pause: Duration) {
        let until = self.now() + pause.as_nanos() as u64;
        // The clock jumps where there would be many turns.
        for _ in 0..self.below(12) {
            if self.now() >= until || !self.run_one(until) {
                break;
            }
        }
        let mut interpreter = lock(&self.interpreter);
        interpreter.now = interpreter.now.max(until);
    }

    fn turn(&self, number: usize) {
        let Some(mut thread) = self.threads.borrow_mut().get_mut(number).and_then(Option::take) else { return };
        self.busy.set(self.busy.get() + 1);
        self.with_vm(number, |vm| vm.has_let_go());
        match std::mem::replace(&mut thread.doing, Doing::Nothing) {
            Doing::Driving(agent, drive, before) if self.is_installed(&agent) => {
                self.drive(number, &mut thread, agent, drive, before);
            }
            Doing::Driving(..) => {}
            Doing::Uninstalling(agent) => self.finish_uninstall(&agent, number),
            Doing::Nothing => {
                thread.turns = thread.turns.saturating_sub(1);
                match thread.kind {
                    Kind::Program => self.program(number, &mut thread),
                    Kind::Loop => {
                        self.at(number, Moment::Gap);
                    }
                    Kind::Drives => self.collect_snapshot(number, &mut thread),
                }
            }
        }
        self.with_vm(number, |vm| vm.has_let_go());
        if thread.turns == 0 {
            self.end_request(number, &mut thread);
        }
        let pause = if self.once_in(8) { 50_000_000 } else { 200_000 };
        thread.wakes = thread.wakes.max(self.now() + self.below(pause));
        self.busy.set(self.busy.get() - 1);
        let mut threads = self.threads.borrow_mut();
        if let Some(slot) = threads.get_mut(number) {
            *slot = Some(thread);
        }
    }

    /// `snapshots::collect_snapshot`, up to the first time that it lets go of the GIL.
    fn collect_snapshot(&self, number: usize, thread: &mut Thread) {
        if let Some(agent) = self.current() {
            let vm = self.vm(&agent, number);
            if !vm.is_collecting() {
                let counts = self.once_in(4);
                let drive =
                    if counts { RequestedSnapshot::for_heap(&vm, errand(self)) } else { RequestedSnapshot::new(&vm) };
                let launched = agent.snapshots.launches();
                self.drive(number, thread, agent, drive, launched);
            }
        }
    }

    fn drive(
        &self,
        number: usize,
        thread: &mut Thread,
        agent: Rc<ActingAgent>,
        mut drive: RequestedSnapshot,
        before: u64,
    ) {
        match drive.step(&agent.actor, &self.vm(&agent, number), &agent.hooks) {
            Next::Again(pause) => {
                thread.wakes = self.now() + pause.as_nanos() as u64;
                thread.doing = Doing::Driving(agent, drive, before);
            }
            Next::Done { .. } => {
                assert!(agent.snapshots.latest().number > before, "no snapshot that was launched since has landed");
                self.count(|tally| tally.driven += 1);
            }
            Next::Told(_) => self.count(|tally| tally.told += 1),
            Next::Failed(_) => self.count(|tally| tally.drives_failed += 1),
        }
    }

    /// A turn of a thread that does whatever programs do.
    fn program(&self, number: usize, thread: &mut Thread) {
        if let Some(agent) = self.current().filter(|agent| number == 0 && agent.called.take()) {
            self.restore_if_left(&agent, number);
            self.at(number, if self.once_in(2) { Moment::Gap } else { Moment::Passing });
            return;
        }
        match self.below(100) {
            0..=59 => self.allocate(number),
            60..=64 => lock(&self.interpreter).die(self.random_size()),
            65..=67 => {
                let generation = self.below(3) as u8;
                self.with_vm(number, |vm| vm.gc_collect(generation));
            }
            68..=77 if thread.open.is_some() => self.end_request(number, thread),
            68..=77 => {
                thread.open = self.current().map(|agent| (Rc::clone(&agent), agent.hooks.begin(Arrival::default())))
            }
            78..=81 => {
                self.at(number, Moment::Passing);
            }
            82..=84 if self.once_in(2) => self.become_child(number),
            82..=84 => self.fork(number),
            85 if self.script.ends => self.set_threshold([400 + self.below(3_000) as u32, 5, 5], number),
            86 | 87 if self.script.ends => {
                if let Some(agent) = self.begin_uninstall(number) {
                    thread.doing = Doing::Uninstalling(agent);
                } else {
                    self.install();
                }
            }
            88 => {
                let mut interpreter = lock(&self.interpreter);
                interpreter.enabled = !interpreter.enabled;
            }
            89 if self.script.policy > 4 => {
                self.froze.set(true);
                assert!(self.with_vm(number, |vm| vm.freeze()).is_ok());
            }
            90 | 91 => self.on_agent(|agent| agent.actor.defer()),
            92 => self.on_agent(|agent| agent.actor.quiet(true)),
            93 => self.on_agent(|agent| agent.actor.quiet(false)),
            94 => {
                let ballast = (20 << 20) + self.below(200 << 20);
                lock(&self.interpreter).ballast = ballast;
                let ceiling = if self.once_in(2) { 0 } else { 150 << 20 };
                self.on_agent(|agent| agent.actor.ceiling.store(ceiling, std::sync::atomic::Ordering::Relaxed));
            }
            95 => {
                let has_room = !self.once_in(3);
                lock(&self.interpreter).has_room = has_room;
            }
            _ => {
                let plan = self.random_plan();
                self.on_agent(|agent| agent.snapshots.plan(plan));
            }
        }
    }

    fn is_installed(&self, agent: &Rc<ActingAgent>) -> bool {
        self.current().is_some_and(|current| Rc::ptr_eq(&current, agent))
    }

    fn on_agent(&self, body: impl FnOnce(&ActingAgent)) {
        if let Some(agent) = self.current() {
            body(&agent);
        }
    }

    fn random_size(&self) -> u64 {
        match self.below(4) {
            0 => self.below(20_000),
            _ => self.below(1_500),
        }
    }

    fn allocate(&self, number: usize) {
        let (live, garbage) = (self.random_size(), self.random_size());
        self.with_vm(number, |vm| vm.allocate(live, garbage));
    }

    fn random_plan(&self) -> FakeFlight {
        let fails = match self.below(8) {
            0 | 1 => Some(SnapshotFailure::Missing),
            2 => Some(SnapshotFailure::Vanished),
            _ => None,
        };
        let refused = match self.below(12) {
            0 => Some(SnapshotFailure::NoMemory),
            1 => Some(SnapshotFailure::Unsupported("a test".to_owned())),
            _ => None,
        };
        let flight_ns = match self.below(200) {
            0 => 3_000_000_000,
            1..=9 => 300_000_000,
            10..=49 => 0,
            _ => self.below(100_000_000),
        };
        FakeFlight { refused, flight_ns, fails, changed: if self.once_in(2) { 7 } else { u64::MAX } }
    }

    fn end_request(&self, number: usize, thread: &mut Thread) {
        if let Some((agent, open)) = thread.open.take() {
            agent.hooks.end(open, RouteId::default(), None);
            if agent.hooks.in_flight() == 0 && self.is_due(&agent) {
                self.at(number, Moment::Gap);
            }
        }
    }

    /// What a finalizer does, in a collection of this thread.
    pub(super) fn finalize(&self, number: usize) {
        match self.below(24) {
            0..=9 => self.let_others_run(Duration::from_micros(self.below(3_000))),
            10 => self.let_others_run(Duration::from_secs(12)),
            11 | 12 => assert_eq!(self.with_vm(number, |vm| vm.gc_collect(2)), 0),
            13 | 14 => {
                let mut nested = Thread::program(1);
                self.collect_snapshot(number, &mut nested);
                assert!(matches!(nested.doing, Doing::Nothing), "a finalizer waits for a snapshot");
            }
            15 => self.become_child(number),
            16 if self.script.ends => self.set_threshold([300 + self.below(3_000) as u32, 4, 4], number),
            17 if self.script.ends => {
                if let Some(agent) = self.begin_uninstall(number) {
                    self.let_others_run(Duration::from_micros(50));
                    self.finish_uninstall(&agent, number);
                }
            }
            18 if self.script.ends => self.install(),
            19 => {
                self.at(number, Moment::Gap);
            }
            20 => {
                self.at(number, Moment::Passing);
            }
            _ => self.allocate(number),
        }
        self.with_vm(number, |vm| vm.has_let_go());
    }
}
