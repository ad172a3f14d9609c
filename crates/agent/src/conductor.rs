//! The thread that senses: it empties the program's queue, looks at the GIL and judges stalls. It never takes the GIL.

use std::sync::atomic::Ordering;
use std::time::Duration;

use neurogc_wire::trace::BlockWriter;

use crate::agent::Agent;
use crate::cpython::frames::Sample;
use crate::cpython::gil::Gil;
use crate::cpython::native::{monotonic_ns, thread_cpu_ns};
use crate::cpython::{Interpreter, ThreadState};
use crate::hooks::Event;
use crate::senses::schedule::{Schedule, Scheduler, processor, voluntary_switches};
use crate::senses::stalls::{Evidence, Look, Watch};

/// Step of the looks while something is going on.
pub(crate) const STEP_NS: u64 = 1_000_000;

/// Step of the looks when nothing has changed for a while.
const RARE_STEP_NS: u64 = 5_000_000;

/// Longest step of the looks while the program is idle.
const DOZE_STEP_NS: u64 = 20_000_000;

/// Longest step, so that the queue is emptied in time.
const LONGEST_STEP_NS: u64 = 50_000_000;

/// How often the collector's counters go into the trace.
const COUNTS_NS: u64 = 100_000_000;

/// A block of the trace is closed after this long, so that no more than that is lost when the process is killed.
const BLOCK_NS: u64 = 500_000_000;

/// Senses until it is told to stop.
pub(crate) fn run(agent: &Agent) {
    let mut conductor = Conductor {
        agent,
        watch: Watch::new(agent.settings.stall.as_nanos() as u64),
        eyes: Eyes { interpreter: &agent.interpreter, scheduler: Scheduler::default() },
        counts: [0; 3],
        counts_due: 0,
        block_due: monotonic_ns() + BLOCK_NS,
        cpu_before: agent.ledger().conductor_cpu_ns,
    };
    agent.hooks.conduct();
    while !agent.stopping() {
        let step = conductor.round();
        agent.rounds.conductor.fetch_add(1, Ordering::AcqRel);
        agent.hooks.doze(step > Duration::from_nanos(RARE_STEP_NS));
        std::thread::park_timeout(step);
    }
    conductor.round();
    agent.close_block(&mut agent.ledger());
}

struct Conductor<'a> {
    agent: &'a Agent,
    watch: Watch,
    eyes: Eyes<'a>,
    counts: [u32; 3],
    counts_due: u64,
    block_due: u64,
    /// What earlier threads of this agent have used, before a fork stopped them.
    cpu_before: u64,
}

impl Conductor<'_> {
    /// Does one round and says how long the next may wait.
    fn round(&mut self) -> Duration {
        self.empty_queue();
        let now = monotonic_ns();
        let step = match self.agent.interpreter.gil {
            Some(gil) => self.look(gil, now),
            None => LONGEST_STEP_NS,
        };
        self.keep_books(now);
        Duration::from_nanos(step)
    }

    fn empty_queue(&mut self) {
        while let Some(event) = self.agent.hooks.take() {
            let verdict = match event {
                Event::Collection { at, pause, .. } => self.watch.collection(at, pause, &mut self.eyes),
                Event::Start { .. } | Event::End { .. } => None,
            };
            let mut ledger = self.agent.ledger();
            ledger.event(event);
            if let Some(verdict) = verdict {
                ledger.stall(verdict);
            }
            if ledger.trace.as_ref().is_some_and(BlockWriter::is_full) {
                self.agent.close_block(&mut ledger);
            }
        }
    }

    fn look(&mut self, gil: Gil, now: u64) -> u64 {
        let hooks = &self.agent.hooks;
        let look = Look {
            at: now,
            held: gil.is_held(),
            holder: gil.last_holder(),
            progress: hooks.progress_made().wrapping_add(gil.switches() << 32),
            collecting_since: hooks.collecting_since(),
        };
        let verdict = self.watch.look(look, &mut self.eyes);
        let mut ledger = self.agent.ledger();
        if let Some(gap) = ledger.gaps.look(now, look.held) {
            ledger.gap(gap);
        }
        if let Some(verdict) = verdict {
            ledger.stall(verdict);
        }
        next_step(self.watch.stretch_age(now), ledger.gaps.idle_for(), self.agent.settings.stall.as_nanos() as u64)
    }

    fn keep_books(&mut self, now: u64) {
        if now >= self.counts_due {
            self.counts_due = now + COUNTS_NS;
            let mut ledger = self.agent.ledger();
            ledger.conductor_cpu_ns = self.cpu_before + thread_cpu_ns();
            ledger.dropped(now, self.agent.hooks.dropped());
            if let Some(collector) = self.agent.interpreter.collector {
                let counts = collector.counts();
                if counts != self.counts {
                    self.counts = counts;
                    ledger.counts(now, counts);
                }
            }
        }
        if now >= self.block_due {
            self.block_due = now + BLOCK_NS;
            self.agent.close_block(&mut self.agent.ledger());
        }
    }
}

/// Looks are close together while something runs, and grow rarer the longer nothing changes.
fn next_step(stretch_age: u64, idle_for: u64, stall: u64) -> u64 {
    const SECOND_NS: u64 = 1_000_000_000;
    let rare = stall.min(RARE_STEP_NS);
    let (step, longest) = if stretch_age > SECOND_NS {
        (stretch_age / 200, LONGEST_STEP_NS)
    } else if stretch_age > 0 {
        (stretch_age / 8, rare)
    } else if idle_for > SECOND_NS {
        // A request or a collection wakes it; only other work may go unseen for this long.
        (idle_for / 200, DOZE_STEP_NS)
    } else {
        (idle_for / 32, rare)
    };
    step.clamp(STEP_NS.min(stall / 2), longest)
}

/// Evidence from the running process.
struct Eyes<'a> {
    interpreter: &'a Interpreter,
    scheduler: Scheduler,
}

impl Eyes<'_> {
    fn thread_id(&self, thread: ThreadState) -> Option<i32> {
        self.interpreter.thread_ids?.of(thread).filter(|id| *id > 0)
    }
}

impl Evidence for Eyes<'_> {
    fn sample(&mut self, thread: ThreadState) -> Option<Sample> {
        self.interpreter.frames?.sample(thread)
    }

    fn is_stuck(&mut self, thread: ThreadState, sample: &Sample) -> bool {
        self.interpreter.frames.is_some_and(|frames| frames.is_stuck(thread, sample))
    }

    fn shares_processor(&mut self, thread: ThreadState) -> bool {
        let processor = self.thread_id(thread).and_then(processor);
        processor.is_some() && processor == nix::sched::sched_getcpu().ok()
    }

    fn schedule(&mut self, thread: ThreadState) -> Option<Schedule> {
        let id = self.thread_id(thread)?;
        self.scheduler.schedule(id)
    }

    fn voluntary_switches(&mut self, thread: ThreadState) -> Option<u64> {
        voluntary_switches(self.thread_id(thread)?)
    }

    fn site(&mut self, sample: &Sample) -> Option<String> {
        self.interpreter.frames?.site(sample)
    }

    fn native_callee(&mut self, sample: &Sample) -> Option<String> {
        self.interpreter.frames?.native_callee(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn looks_grow_rarer_when_nothing_changes() {
        let stall = 5 * MS;
        assert_eq!(next_step(0, 0, stall), MS);
        assert_eq!(next_step(2 * MS, 0, stall), MS);
        assert_eq!(next_step(40 * MS, 0, stall), 5 * MS);
        assert_eq!(next_step(10_000 * MS, 0, stall), 50 * MS);
        assert_eq!(next_step(0, 100 * MS, stall), 100 * MS / 32);
        assert_eq!(next_step(0, 900 * MS, stall), 5 * MS);
        assert_eq!(next_step(0, 2_000 * MS, stall), 10 * MS);
        assert_eq!(next_step(0, 50_000 * MS, stall), 20 * MS);
    }

    #[test]
    fn a_short_threshold_is_looked_at_in_time() {
        assert_eq!(next_step(0, 0, MS), MS / 2);
        assert_eq!(next_step(0, 500 * MS, 60_000 * MS), 5 * MS);
    }
}
