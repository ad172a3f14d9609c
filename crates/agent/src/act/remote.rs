//! A collection, a heap dump or a look at GPUs that is asked for from outside.
//!
//! The uplink takes it on and gives a ticket; threads of the program carry it out, step by step, at their next
//! moments. The outcome waits until it is asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crossbeam_queue::ArrayQueue;
use neurogc_policy::{Decision, Order, SMALL_HEAP};
use neurogc_wire::control::{GatheredPages, How, Outcome};

use super::actor::Actor;
use super::drive::{ASKED_FOR, Next, OTHERS_NS, RequestedSnapshot};
use super::vm::Vm;
use crate::sense::hooks::Hooks;
use crate::snapshot::{Destination, HeapErrand, SnapshotFailure};
use crate::sys::locks::{lock, try_lock};
use crate::sys::outlet::Outlet;

/// A command that no thread of the program has come by to carry out in this time is forgotten.
const FORGOTTEN_NS: u64 = 120_000_000_000;

/// One command at a time, and the outcome of the last one.
#[derive(Debug)]
pub(crate) struct Remote {
    /// Whether there is something to do.
    waiting: AtomicBool,
    desk: Mutex<Desk>,
    /// Jobs that threads of the program have worked on, for the thread that has the desk next: none of them waits for it.
    returned: ArrayQueue<Returned>,
}

impl Default for Remote {
    fn default() -> Self {
        Self { waiting: AtomicBool::new(false), desk: Mutex::default(), returned: ArrayQueue::new(MOST_RETURNED) }
    }
}

/// A job after a step of it: the rest of it, or its outcome.
#[derive(Debug)]
struct Returned {
    ticket: u64,
    job: Option<Job>,
    outcome: Option<Outcome>,
}

/// One is worked on, and others may have been forgotten.
const MOST_RETURNED: usize = 4;

#[derive(Debug, Default)]
struct Desk {
    tickets: u64,
    taken_on: u64,
    job: Option<Job>,
    /// A thread of the program works on it at this instant.
    lent: bool,
    outcome: Option<Outcome>,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) enum RemoteWork {
    Collect(How),
    /// A dump to a pipe or a file.
    Dump {
        to: Outlet,
        texts: bool,
        /// It is tried also where memory is short.
        urgent: bool,
    },
    /// What holds the memory of GPUs.
    Gpu,
}

impl From<How> for RemoteWork {
    fn from(how: How) -> Self {
        Self::Collect(how)
    }
}

/// Something that is under way.
#[derive(Debug)]
struct Job {
    work: RemoteWork,
    drive: Option<RequestedSnapshot>,
    taken_on: u64,
    /// Since when a collection of another thread has been in the way.
    held_up_since: Option<u64>,
}

impl Desk {
    /// Whether a command is under way that is not forgotten.
    fn is_busy(&self, now: u64) -> bool {
        (self.job.is_some() || self.lent) && now < self.taken_on + FORGOTTEN_NS
    }
}

impl Remote {
    /// Takes a command on and gives its ticket, or nothing while another one is under way.
    pub(crate) fn take_on(&self, work: impl Into<RemoteWork>, now: u64) -> Option<u64> {
        let mut desk = self.desk();
        if desk.is_busy(now) {
            return None;
        }
        desk.tickets += 1;
        desk.taken_on = now;
        desk.job = Some(Job { work: work.into(), drive: None, taken_on: now, held_up_since: None });
        desk.lent = false;
        desk.outcome = None;
        self.waiting.store(true, Ordering::Release);
        Some(desk.tickets)
    }

    /// Gives a ticket for something that is over already, unless a collection is under way.
    pub(crate) fn settle(&self, outcome: Outcome, now: u64) -> Option<u64> {
        let mut desk = self.desk();
        if desk.is_busy(now) {
            return None;
        }
        desk.tickets += 1;
        (desk.job, desk.lent) = (None, false);
        desk.outcome = Some(outcome);
        self.waiting.store(false, Ordering::Release);
        Some(desk.tickets)
    }

    /// The outcome of a ticket, nothing while it is under way, and an error for a ticket that is not the last one.
    pub(crate) fn outcome(&self, ticket: u64) -> Result<Option<Outcome>, &'static str> {
        let desk = self.desk();
        if ticket == desk.tickets { Ok(desk.outcome.clone()) } else { Err("something else was asked for since then") }
    }

    /// Whether there is something to do.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Does the next step in the calling thread, which is one of the program's.
    pub(crate) fn step(&self, actor: &Actor, vm: &impl Vm, hooks: &Hooks) {
        if self.is_waiting()
            && let Some((ticket, mut job)) = self.lend()
        {
            let outcome = carry_out(actor, vm, hooks, &mut job);
            let job = outcome.is_none().then_some(job);
            self.give_back(ticket, job, outcome);
        }
    }

    /// Takes the job out: finalizers run while it is worked on, and no lock may be held then.
    fn lend(&self) -> Option<(u64, Job)> {
        let mut desk = try_lock(&self.desk)?;
        self.take_in(&mut desk);
        let job = desk.job.take()?;
        desk.lent = true;
        Some((desk.tickets, job))
    }

    fn give_back(&self, ticket: u64, job: Option<Job>, outcome: Option<Outcome>) {
        drop(self.returned.force_push(Returned { ticket, job, outcome }));
        if let Some(mut desk) = try_lock(&self.desk) {
            self.take_in(&mut desk);
        }
    }

    /// The desk, for a thread of the agent.
    fn desk(&self) -> MutexGuard<'_, Desk> {
        let mut desk = lock(&self.desk);
        self.take_in(&mut desk);
        desk
    }

    fn take_in(&self, desk: &mut Desk) {
        while let Some(Returned { ticket, job, outcome }) = self.returned.pop() {
            if desk.tickets != ticket {
                // It was forgotten meanwhile, and another command was taken on.
                continue;
            }
            desk.lent = false;
            if job.is_none() && outcome.is_some() {
                self.waiting.store(false, Ordering::Release);
            }
            (desk.job, desk.outcome) = (job, outcome);
        }
    }
}

/// Does it, or the next step of it; the outcome when it is over.
fn carry_out(actor: &Actor, vm: &impl Vm, hooks: &Hooks, job: &mut Job) -> Option<Outcome> {
    if job.drive.is_none() && vm.now() >= job.taken_on + FORGOTTEN_NS {
        // The client that asked has gone, and the program is not stopped for a question of long ago.
        return Some(Outcome::Failed("no thread of the program came by in time".to_owned()));
    }
    let drive = &mut job.drive;
    let failed = |failure: SnapshotFailure| Outcome::Failed(failure.to_string());
    match &mut job.work {
        RemoteWork::Dump { to, texts, urgent } => dump(actor, vm, hooks, drive, to, (*texts, *urgent)),
        RemoteWork::Gpu => Some(vm.explain_gpu().map_or_else(Outcome::Failed, |report| Outcome::Gpu(Box::new(report)))),
        RemoteWork::Collect(how @ (How::Young | How::Full)) => plain(actor, vm, *how, &mut job.held_up_since),
        RemoteWork::Collect(How::Snapshot) => step(actor, vm, hooks, drive).map(|done| done.unwrap_or_else(failed)),
        // What the policy would do: nothing that stops the program for long, where there is another way.
        RemoteWork::Collect(How::Auto) if drive.is_none() && vm.tracked_estimate() < SMALL_HEAP => {
            plain(actor, vm, How::Full, &mut job.held_up_since)
        }
        RemoteWork::Collect(How::Auto) => match step(actor, vm, hooks, drive)? {
            Ok(outcome) => Some(outcome),
            Err(SnapshotFailure::Unsupported(_) | SnapshotFailure::OtherInterpreter) => {
                (job.work, job.drive) = (RemoteWork::Collect(How::Full), None);
                plain(actor, vm, How::Full, &mut job.held_up_since)
            }
            Err(failure) => Some(Outcome::Failed(format!("{failure}; `--how full` collects while the program waits"))),
        },
    }
}

/// The next step of a dump. What it is written to is open in this process only around the clone.
fn dump(
    actor: &Actor,
    vm: &impl Vm,
    hooks: &Hooks,
    drive: &mut Option<RequestedSnapshot>,
    to: &mut Outlet,
    (texts, urgent): (bool, bool),
) -> Option<Outcome> {
    let failed = |reason: String| {
        actor.complain(format!("a heap dump could not be written: {reason}"));
        Some(Outcome::Failed(reason))
    };
    let errand = |to: Destination| HeapErrand::Dump { to, texts, urgent };
    let drive = drive.get_or_insert_with(|| RequestedSnapshot::for_heap(vm, errand(Destination::NONE)));
    if drive.may_launch() {
        match to.open() {
            Ok(first) => drive.write_to(errand(Destination { first, limit: u64::MAX, rest: None })),
            Err(reason) => return failed(reason),
        }
    }
    let next = drive.step(actor, vm, hooks);
    // The client sees the end when the clone has ended, whenever a thread of the program comes by again.
    to.close();
    match next {
        Next::Again(_) | Next::Done { .. } => None,
        Next::Told(report) => {
            to.settle(true);
            Some(Outcome::Dumped {
                objects: report.objects,
                bytes: report.written,
                pause_ms: report.pause.as_secs_f64() * 1e3,
                flight_ms: report.flight.as_secs_f64() * 1e3,
                pages: GatheredPages {
                    huge: report.gathered.pages,
                    took_ms: report.gathered.took.as_secs_f64() * 1e3,
                    why_not: report.gathered.end.words().map(str::to_owned),
                },
            })
        }
        Next::Failed(failure) => {
            to.settle(false);
            failed(failure.to_string())
        }
    }
}

fn step(
    actor: &Actor,
    vm: &impl Vm,
    hooks: &Hooks,
    drive: &mut Option<RequestedSnapshot>,
) -> Option<Result<Outcome, SnapshotFailure>> {
    match drive.get_or_insert_with(|| RequestedSnapshot::new(vm)).step(actor, vm, hooks) {
        Next::Again(_) => None,
        Next::Done { freed, stopped } => {
            Some(Ok(Outcome::Collected { how: How::Snapshot, found: freed, pause_ms: stopped.as_secs_f64() * 1e3 }))
        }
        Next::Told(_) => Some(Err(SnapshotFailure::Vanished)),
        Next::Failed(failure) => Some(Err(failure)),
    }
}

/// Collects at one go. CPython does nothing while another thread's collection runs, so that is waited for.
fn plain(actor: &Actor, vm: &impl Vm, how: How, held_up_since: &mut Option<u64>) -> Option<Outcome> {
    let began = vm.now();
    if vm.is_collecting() {
        let since = *held_up_since.get_or_insert(began);
        let over = began.saturating_sub(since) > OTHERS_NS;
        return over.then(|| Outcome::Failed(SnapshotFailure::Collecting.to_string()));
    }
    let (decision, generation) = if how == How::Young { (Decision::Young, 0) } else { (Decision::Full, 2) };
    let _running = actor.begin(vm, Order::at_once(decision, ASKED_FOR));
    Some(match vm.collect(generation) {
        Ok(found) => Outcome::Collected { how, found, pause_ms: vm.now().saturating_sub(began) as f64 / 1e6 },
        Err(reason) => Outcome::Failed(reason),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fake::{FakeFlight, Rig};
    use super::*;

    const LONG: Duration = Duration::from_nanos(FORGOTTEN_NS);

    fn take_on(rig: &Rig, how: How) -> Option<u64> {
        rig.remote.take_on(how, rig.now())
    }

    /// A thread of the program comes by once.
    fn come_by(rig: &Rig) {
        rig.remote.step(&rig.actor, &rig.vm(1), &rig.hooks);
        rig.vm(1).has_let_go();
        rig.pass(Duration::from_millis(2));
    }

    /// Threads come by until the command of this ticket is over.
    fn carry_out(rig: &Rig, ticket: u64) -> Outcome {
        for _ in 0..100_000 {
            come_by(rig);
            if let Ok(Some(outcome)) = rig.remote.outcome(ticket) {
                return outcome;
            }
        }
        panic!("no outcome: {:?}", rig.remote);
    }

    fn check(rig: &Rig, asked: How, done: How, freed: u64) {
        let Some(ticket) = take_on(rig, asked) else { panic!("it is refused") };
        match carry_out(rig, ticket) {
            Outcome::Collected { how, found, .. } => assert_eq!((how, found), (done, freed)),
            other => panic!("{other:?}"),
        }
        assert!(!rig.remote.is_waiting());
    }

    fn collections(rig: &Rig) -> u64 {
        lock(&rig.interpreter).collections
    }

    #[test]
    fn each_way_does_what_it_says() {
        check(&Rig::with_garbage(70), How::Young, How::Young, 0);
        check(&Rig::with_garbage(70), How::Full, How::Full, 70);
        check(&Rig::with_garbage(70), How::Snapshot, How::Snapshot, 70);
        check(&Rig::with_garbage(70), How::Auto, How::Snapshot, 70);
        check(&Rig::new(1_000), How::Auto, How::Full, 0);
    }

    #[test]
    fn a_plain_collection_is_booked_as_an_order() {
        for (how, decision) in [(How::Young, Decision::Young), (How::Full, Decision::Full)] {
            let rig = Rig::new(1_000);
            check(&rig, how, how, 0);
            let order = rig.actor.orders.pop().map(|(_, order)| order);
            assert_eq!(order, Some(Order { id: 1, ..Order::at_once(decision, ASKED_FOR) }));
        }
    }

    #[test]
    fn where_there_are_no_snapshots_auto_collects_plainly() {
        let rig = Rig::with_garbage(70);
        let refused = Some(SnapshotFailure::Unsupported("a test".to_owned()));
        rig.snapshots.plan(FakeFlight { refused, ..FakeFlight::default() });
        check(&rig, How::Auto, How::Full, 70);
    }

    #[test]
    fn there_is_one_at_a_time_and_the_last_one_counts() {
        let rig = Rig::new(1_000);
        assert_eq!((take_on(&rig, How::Full), take_on(&rig, How::Full)), (Some(1), None));
        assert_eq!(rig.remote.settle(Outcome::Failed(String::new()), rig.now()), None);
        come_by(&rig);
        assert_eq!(take_on(&rig, How::Full), Some(2));
        assert!(rig.remote.outcome(1).is_err());
        assert_eq!(rig.remote.outcome(2), Ok(None));
    }

    #[test]
    fn what_was_forgotten_is_not_carried_out_later() {
        let rig = Rig::new(1_000);
        assert_eq!(take_on(&rig, How::Full), Some(1));
        rig.pass(LONG);
        come_by(&rig);
        assert!(matches!(rig.remote.outcome(1), Ok(Some(Outcome::Failed(_)))));
        assert_eq!((collections(&rig), rig.remote.is_waiting()), (0, false));
    }

    #[test]
    fn what_was_forgotten_is_in_no_command_s_way() {
        for lent in [false, true] {
            let rig = Rig::new(1_000);
            assert_eq!(take_on(&rig, How::Full), Some(1));
            let worked_on = lent.then(|| rig.remote.lend()).flatten();
            rig.pass(LONG);
            assert_eq!(take_on(&rig, How::Young), Some(2));
            if let Some((ticket, _)) = worked_on {
                // The thread that was at it has been held up in a finalizer.
                rig.remote.give_back(ticket, None, Some(Outcome::Failed("late".to_owned())));
            }
            assert_eq!(rig.remote.outcome(2), Ok(None));
            rig.pass(LONG);
            assert_eq!(rig.remote.settle(Outcome::Failed("settled".to_owned()), rig.now()), Some(3));
            assert!(!rig.remote.is_waiting() && matches!(rig.remote.outcome(3), Ok(Some(_))));
        }
    }

    #[test]
    fn a_thread_that_has_worked_on_it_does_not_wait_for_the_desk() {
        let rig = Rig::new(1_000);
        assert_eq!(take_on(&rig, How::Full), Some(1));
        let Some((ticket, _)) = rig.remote.lend() else { panic!("there is no job") };
        let desk = lock(&rig.remote.desk);
        rig.remote.give_back(ticket, None, Some(Outcome::Failed("a test".to_owned())));
        drop(desk);
        assert!(matches!(rig.remote.outcome(1), Ok(Some(Outcome::Failed(_)))) && !rig.remote.is_waiting());
    }

    #[test]
    fn two_threads_do_not_work_on_the_same() {
        let rig = Rig::new(1_000);
        assert_eq!(take_on(&rig, How::Full), Some(1));
        let worked_on = rig.remote.lend();
        come_by(&rig);
        assert_eq!((collections(&rig), worked_on.is_some()), (0, true));
    }

    #[test]
    fn a_plain_collection_waits_for_that_of_another_thread() {
        let rig = Rig::with_garbage(70);
        lock(&rig.interpreter).collecting = true;
        assert_eq!(take_on(&rig, How::Full), Some(1));
        come_by(&rig);
        assert_eq!(rig.remote.outcome(1), Ok(None));
        lock(&rig.interpreter).collecting = false;
        assert!(matches!(carry_out(&rig, 1), Outcome::Collected { found: 70, .. }));
    }

    #[test]
    fn it_does_not_wait_for_ever() {
        for how in [How::Full, How::Snapshot] {
            let rig = Rig::new(1_000);
            lock(&rig.interpreter).collecting = true;
            let began = rig.now();
            assert_eq!(take_on(&rig, how), Some(1));
            assert_eq!(carry_out(&rig, 1), Outcome::Failed(SnapshotFailure::Collecting.to_string()));
            assert!(rig.now() - began < OTHERS_NS + 10_000_000);
        }
    }
}
