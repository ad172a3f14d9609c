//! Interleavings of the acting half: seeded schedules of the program's threads, the agent's threads, finalizers, forks and
//! ends, in the fake interpreter. `NEUROGC_SCHEDULES` says how many, `NEUROGC_SEED` where to begin.
//!
//! A thread is a state machine between the points at which it lets go of the GIL. Where that is in the middle of a
//! collection the others run on top of its stack. As no second collection can begin meanwhile, none of them can come to
//! such a point itself, so no order of events is left out by that.

mod beside;
mod process;
mod threads;

use neurogc_policy::Moment;

use self::process::{FakeProcess, Script, number};
use self::threads::Thread;
use super::fake::Random;
use super::vm::Vm;
use crate::sys::locks::lock;

/// Schedules in a normal run of the tests.
const SCHEDULES: u64 = 20_000;

/// What has happened in schedules.
#[derive(Debug, Default)]
struct Tally {
    orders: [u64; 8],
    finalizers: u64,
    driven: u64,
    drives_failed: u64,
    outcomes: u64,
    uninstalls: u64,
    stood_down: u64,
    switches: u64,
    children: u64,
    became_child: u64,
    /// Counts and dumps that were told of, censuses that were sent out, and samplers that were lost.
    told: u64,
    censuses: u64,
    lost: u64,
}

impl Tally {
    fn add(&mut self, more: &Self) {
        for (sum, more) in self.orders.iter_mut().zip(more.orders) {
            *sum += more;
        }
        self.finalizers += more.finalizers;
        self.driven += more.driven;
        self.drives_failed += more.drives_failed;
        self.outcomes += more.outcomes;
        self.uninstalls += more.uninstalls;
        self.stood_down += more.stood_down;
        self.switches += more.switches;
        self.children += more.children;
        self.became_child += more.became_child;
        self.told += more.told;
        self.censuses += more.censuses;
        self.lost += more.lost;
    }

    /// Whether everything has happened that schedules are made for.
    fn has_everything(&self) -> bool {
        let others = [
            self.finalizers,
            self.driven,
            self.drives_failed,
            self.outcomes,
            self.uninstalls,
            self.stood_down,
            self.switches,
            self.children,
            self.became_child,
            self.told,
            self.censuses,
            self.lost,
        ];
        self.orders[1..].iter().chain(&others).all(|count| *count > 0)
    }
}

/// Runs the schedule of a seed to its end, and checks what is left.
fn play(seed: u64) -> Tally {
    let mut random = Random::new(seed);
    let script = Script {
        policy: random.below(10),
        snapshots: !random.once_in(8),
        lively: 1 + random.below(4),
        forks: random.once_in(2),
        ends: random.once_in(2),
    };
    let (threads, turns) = (2 + random.below(3) as usize, 10 + random.below(40) as u32);
    let process = FakeProcess::new(random, script);
    *process.threads.borrow_mut() = (0..threads).map(|number| Some(Thread::numbered(number, turns))).collect();
    process.run();
    process.end(0);
    process.tally.take()
}

impl FakeProcess {
    /// Nothing is left over: not an order, not a command, not a loan, and not an object that could be collected.
    fn end(&self, thread: usize) {
        let deadline = self.now() + 300_000_000_000;
        lock(&self.interpreter).enabled = true;
        while self.waits_for_outcome() {
            self.at(thread, Moment::Passing);
            self.with_vm(thread, |vm| vm.has_let_go());
            lock(&self.interpreter).now += 2_000_000;
            assert!(self.now() < deadline, "a command has no outcome");
        }
        if let Some(agent) = self.begin_uninstall(thread) {
            self.finish_uninstall(&agent, thread);
        }
        self.let_sampler_finish();
        for agent in self.agents.borrow().iter() {
            agent.book();
            assert!(!agent.actor.is_running(), "an order is left running");
            let orders = agent.orders.borrow();
            assert!(orders.windows(2).all(|pair| pair[0].id < pair[1].id), "numbers of orders do not increase");
            // Where the sampler is lost, the queues fill up.
            for id in agent.stops.borrow().iter().filter(|_| !agent.lost.get()) {
                assert!(orders.iter().any(|order| order.id == *id), "no order has the number {id}");
            }
            self.count(|tally| orders.iter().for_each(|order| tally.orders[number(order.decision)] += 1));
        }
        self.with_vm(thread, |vm| {
            assert!(!vm.is_collecting(), "the flag of a collection is left");
            assert_eq!(vm.thresholds(), Ok(self.own.get()), "the program's thresholds are lost");
            assert!(self.froze.get() || vm.frozen() == 0, "objects are left frozen");
        });
        self.is_over.set(true);
        self.with_vm(thread, |vm| vm.gc_collect(2));
        assert_eq!(lock(&self.interpreter).garbage(), 0, "garbage is left");
    }
}

#[test]
fn no_schedule_hangs_or_loses_a_loan() {
    let variable = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let count = variable("NEUROGC_SCHEDULES").unwrap_or(SCHEDULES);
    let first = variable("NEUROGC_SEED").unwrap_or(0);
    let mut tally = Tally::default();
    for seed in first..first + count {
        match std::panic::catch_unwind(|| play(seed)) {
            Ok(more) => tally.add(&more),
            Err(reason) => {
                eprintln!("NEUROGC_SEED={seed} NEUROGC_SCHEDULES=1 plays this schedule again");
                std::panic::resume_unwind(reason);
            }
        }
    }
    eprintln!("{count} schedules: {tally:?}");
    assert!(count < SCHEDULES || tally.has_everything(), "{tally:?}");
}
