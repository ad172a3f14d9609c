//! The thread that senses: it empties the program's queue, looks at the GIL and judges stalls. It never takes the GIL;
//! what the policy orders is carried out by threads of the program.

mod attend;
mod long_clones;

use std::time::Duration;

use attend::Attendant;
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::BlockWriter;
use nix::poll::{PollFd, PollFlags};

use crate::act::acting::Acting;
use crate::book::books::Books;
use crate::cpython::frames::FrameSample;
use crate::cpython::gil::GilView;
use crate::cpython::{Interpreter, ThreadState};
use crate::host::Host;
use crate::sense::collections::SETTLE_NS;
use crate::sense::hooks::{HookEvent, Hooks};
use crate::sense::schedule::{SchedStat, Scheduler, processor, voluntary_switches};
use crate::sense::seen_requests::GapWatch;
use crate::sense::stall_log::StopFacts;
use crate::sense::stalls::{CALLERS, Look, StallEvidence, StallWatch};
use crate::sys::native::{Descriptors, monotonic_ns, process_cpu_ns, thread_cpu_ns};
use crate::sys::wake::{SAMPLER, Waiter};
use crate::sys::work::Work;
use crate::threads::ThreadControl;

/// Step of the looks; no shorter span of the GIL is seen.
pub(crate) const STEP_NS: u64 = 2_000_000;

/// Step of the looks at a stretch that may become a stall.
const CLOSE_STEP_NS: u64 = 1_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// Step of the looks when nothing has changed for a while.
const RARE_STEP_NS: u64 = 5_000_000;

/// Longest step, so that the queue is emptied in time.
const LONGEST_STEP_NS: u64 = 50_000_000;

/// A program that has been idle for this long is looked at every two seconds, unless an event wakes the sampler.
const DOZE_AFTER_NS: u64 = SECOND_NS;
const DOZE_NS: u64 = 2 * SECOND_NS;

/// A program that uses less than this share of one processor is light, as of this time: it is not looked at regularly, but
/// when it has used so much processor time.
const LIGHT: f64 = 0.25;
const LATELY_NS: f64 = 100e6;

/// A program whose GIL is held for more than this share of the time is crowded: who comes has to wait.
const CROWDED: f64 = 0.75;
const LIGHT_STEP_NS: u64 = 1_000_000_000;

/// How often the collector's counters go into the trace.
const COUNTS_NS: u64 = 100_000_000;

/// A block of the trace is closed after this long, so that no more than that is lost when the process is killed.
const BLOCK_NS: u64 = 500_000_000;

/// Senses until it is told to stop.
pub(crate) fn run(
    host: &Host,
    hooks: &Hooks,
    acting: &Acting,
    books: &Books,
    threads: &ThreadControl,
    descriptors: Descriptors,
) {
    // Let go of at once: making the policy may have something to write there.
    let cpu_before = books.ledger().sampler_cpu_ns;
    let mut sampler = Sampler {
        host,
        hooks,
        books,
        watch: StallWatch::new(host.settings.stall.as_nanos() as u64),
        eyes: Eyes { interpreter: &host.interpreter, scheduler: Scheduler::new(descriptors) },
        work: Work::new(descriptors),
        load: Load::default(),
        counts: [0; 3],
        counts_due: 0,
        block_due: monotonic_ns() + BLOCK_NS,
        cpu_before,
        idle: false,
        attendant: Attendant::new(host, hooks, acting, books),
        gap_watch: GapWatch::default(),
    };
    hooks.be_sampled_by_this_thread();
    let waiter = Waiter::new(&SAMPLER, descriptors);
    while !threads.stopping() {
        let round = threads.sampler.begin();
        let step = sampler.round();
        threads.sampler.end(round);
        // Without a look at the GIL there is nothing to be in time for, and each event would wake it.
        // Only in an idle program: one that runs on would wake it with each of its collections.
        hooks.doze(sampler.idle && step > Duration::from_nanos(LIGHT_STEP_NS));
        sampler.wait(&waiter, step);
    }
    drop(waiter);
    sampler.round();
    books.ledger().settle(u64::MAX);
    books.close_block(&mut books.ledger());
}

struct Sampler<'a> {
    host: &'a Host,
    hooks: &'a Hooks,
    books: &'a Books,
    watch: StallWatch,
    eyes: Eyes<'a>,
    /// Tells when the program works, where the kernel can.
    work: Option<Work>,
    load: Load,
    counts: [u32; 3],
    counts_due: u64,
    block_due: u64,
    /// What earlier threads of this agent have used, before a fork stopped them.
    cpu_before: u64,
    /// Whether the last look found the GIL free.
    idle: bool,
    /// Looks after what the program's threads do for the policy.
    attendant: Attendant<'a>,
    gap_watch: GapWatch,
}

impl Sampler<'_> {
    /// Does one round and says how long the next may wait.
    fn round(&mut self) -> Duration {
        self.empty_queue();
        let now = monotonic_ns();
        let step = match self.host.interpreter.gil {
            Some(gil) => self.look(gil, now),
            None => {
                self.attendant.round(now, None, false);
                LONGEST_STEP_NS
            }
        };
        let is_open = self.keep_books(now);
        let is_traced = !self.idle && self.books.ledger().trace.is_some();
        let books = [(is_open, SETTLE_NS), (is_traced, BLOCK_NS)].into_iter().filter(|(is_due, _)| *is_due);
        Duration::from_nanos(books.fold(step, |step, (_, soon)| step.min(soon)))
    }

    fn empty_queue(&mut self) {
        let hooks = self.hooks;
        while let Some(event) = hooks.take() {
            self.gap_watch.event(&event);
            let verdict = match event {
                HookEvent::Collection { at, pause, .. } => self.watch.collection(at, pause, &mut self.eyes),
                HookEvent::Start { .. } | HookEvent::End { .. } => None,
            };
            let mut ledger = self.books.ledger();
            ledger.event(event);
            if let HookEvent::Collection { at, gathered, kind, .. } = event
                && kind.generation().is_some()
                && let Some(collector) = self.host.interpreter.collector.filter(|_| ledger.is_traced())
            {
                ledger.heap(at, gathered, collector.tenured(), collector.pending());
            }
            if let Some(verdict) = verdict {
                ledger.stall(verdict, self.stop_facts(event));
            }
            if ledger.trace.as_ref().is_some_and(BlockWriter::is_full) {
                self.books.close_block(&mut ledger);
            }
        }
        if self.attendant.foretells() {
            self.gap_watch.settle(hooks);
        } else {
            self.gap_watch.stop(hooks);
        }
    }

    /// What a stop was that held the program up.
    fn stop_facts(&self, event: HookEvent) -> Option<StopFacts> {
        let HookEvent::Collection { kind, gathered, collected, .. } = event else { return None };
        let old = || self.host.interpreter.collector.map_or(0, |collector| collector.tenured() + collector.pending());
        let objects = match kind {
            StopKind::Full => old() + u64::from(collected),
            StopKind::Young | StopKind::Middle => u64::from(gathered),
            StopKind::Reap => u64::from(collected),
            StopKind::Clone => 0,
        };
        Some(StopFacts { kind, objects })
    }

    /// Waits for the next round.
    fn wait(&mut self, waiter: &Waiter, step: Duration) {
        let expected = self.attendant.light_work();
        let Some(work) = self.work.as_mut().filter(|_| self.load.is_light) else {
            return waiter.wait(Vec::new(), step);
        };
        if work.expect(expected) {
            waiter.wait(vec![PollFd::new(work.descriptor(), PollFlags::POLLIN)], step);
            work.forget();
        } else {
            // It cannot be relied on any more.
            self.work = None;
        }
    }

    fn look(&mut self, gil: GilView, now: u64) -> u64 {
        let hooks = self.hooks;
        let was_light = self.load.is_light;
        let used = self.load.look(now, process_cpu_ns(), gil.is_held());
        let look = Look {
            at: now,
            held: gil.is_held(),
            holder: gil.last_holder(),
            progress: hooks.progress_made().wrapping_add(gil.switches() << 32),
            collecting_since: hooks.collecting_since(),
            used: was_light.then_some(used),
        };
        let verdict = self.watch.look(look, &mut self.eyes);
        let mut ledger = self.books.ledger();
        if let Some(gap) = ledger.gaps.look(now, look.held, look.used) {
            ledger.gap(gap);
        }
        if let Some(verdict) = verdict {
            ledger.stall(verdict, None);
        }
        let idle = ledger.gaps.idle_for();
        self.idle = !look.held;
        drop(ledger);
        let wanted = self.attendant.round(now, (!look.held).then_some(idle), was_light);
        let is_told = self.work.is_some() && !self.attendant.insists_on_looks();
        self.load.is_light = is_told && !look.held && self.load.share < LIGHT;
        hooks.is_crowded(!self.load.is_light && self.load.held > CROWDED);
        let step = next_step(Pace {
            stretch: self.watch.stretch_age(now),
            settled: self.watch.is_settled(),
            idle,
            stall: self.host.settings.stall.as_nanos() as u64,
            light: self.load.is_light,
        });
        wanted.map_or(step, |wanted| step.min(wanted))
    }

    /// Brings the books up to date. True where something is to be looked at again soon.
    fn keep_books(&mut self, now: u64) -> bool {
        if now >= self.counts_due {
            self.counts_due = now + COUNTS_NS;
            let mut ledger = self.books.ledger();
            ledger.sampler_cpu_ns = self.cpu_before + thread_cpu_ns();
            ledger.dropped(now, self.hooks.dropped());
            if let Some(collector) = self.host.interpreter.collector.filter(|_| ledger.is_traced()) {
                let counts = collector.counts();
                if counts != self.counts {
                    self.counts = counts;
                    ledger.counts(now, counts);
                }
            }
        }
        if now >= self.block_due {
            self.block_due = now + BLOCK_NS;
            self.books.close_block(&mut self.books.ledger());
        }
        let mut ledger = self.books.ledger();
        ledger.settle(now);
        ledger.collections.is_open()
    }
}

/// What the step to the next look depends on. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// How long the GIL has been held by one thread.
    stretch: u64,
    /// Whether that stretch needs no more evidence.
    settled: bool,
    /// How long the GIL has been free.
    idle: u64,
    /// What counts as a stall.
    stall: u64,
    /// Whether the program uses its processors little, and more of it would end the wait.
    light: bool,
}

/// Looks are close together while something may become a stall, and grow rarer the longer nothing changes.
fn next_step(pace: Pace) -> u64 {
    let rare = pace.stall.min(RARE_STEP_NS);
    let usual = STEP_NS.min(rare);
    let close = CLOSE_STEP_NS.min(pace.stall / 2);
    let (step, shortest, longest) = match pace {
        Pace { stretch, settled: true, .. } if stretch > 0 => (stretch / 4, close, LONGEST_STEP_NS),
        Pace { stretch, .. } if stretch > SECOND_NS => (stretch / 200, close, LONGEST_STEP_NS),
        Pace { stretch, .. } if stretch > pace.stall / 4 => (stretch / 8, close, rare),
        Pace { stretch, .. } if stretch > 0 => (usual, usual, rare),
        // A request or a collection wakes it; only other work may go unseen for so long.
        Pace { idle, .. } if idle > DOZE_AFTER_NS => (idle, LONGEST_STEP_NS, DOZE_NS),
        Pace { light: true, .. } => (LIGHT_STEP_NS, LIGHT_STEP_NS, LIGHT_STEP_NS),
        Pace { idle, .. } => (idle / 32, usual, rare),
    };
    step.clamp(shortest, longest.max(shortest))
}

/// How much the program uses its processors.
#[derive(Debug, Default)]
struct Load {
    /// The last look, and the processor time of the process then.
    last: Option<(u64, u64)>,
    /// The share of one processor that it has used lately.
    share: f64,
    /// The share of the time in which the GIL was held lately.
    held: f64,
    /// Whether that is so little that looks are far apart now.
    is_light: bool,
}

impl Load {
    /// Takes note of a look and gives what was used since the last one.
    fn look(&mut self, now: u64, total: u64, held: bool) -> u64 {
        let Some((at, before)) = self.last.replace((now, total)) else {
            self.share = 1.0;
            return 0;
        };
        let (passed, used) = (now.saturating_sub(at).max(1), total.saturating_sub(before));
        let weight = (passed as f64 / LATELY_NS).min(1.0);
        self.held += weight * (f64::from(u8::from(held)) - self.held);
        self.share += weight * (used as f64 / passed as f64 - self.share);
        used
    }
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

impl StallEvidence for Eyes<'_> {
    fn sample(&mut self, thread: ThreadState) -> Option<FrameSample> {
        self.interpreter.frames?.sample(thread)
    }

    fn is_stuck(&mut self, thread: ThreadState, sample: &FrameSample) -> bool {
        self.interpreter.frames.is_some_and(|frames| frames.is_stuck(thread, sample))
    }

    fn shares_processor(&mut self, thread: ThreadState) -> bool {
        let processor = self.thread_id(thread).and_then(processor);
        processor.is_some() && processor == nix::sched::sched_getcpu().ok()
    }

    fn schedule(&mut self, thread: ThreadState) -> Option<SchedStat> {
        let id = self.thread_id(thread)?;
        self.scheduler.schedule(id)
    }

    fn voluntary_switches(&mut self, thread: ThreadState) -> Option<u64> {
        voluntary_switches(self.thread_id(thread)?)
    }

    fn site(&mut self, sample: &FrameSample) -> Option<String> {
        self.interpreter.frames?.site(sample)
    }

    fn callers(&mut self, sample: &FrameSample) -> Vec<String> {
        self.interpreter.frames.map(|frames| frames.callers(sample, CALLERS)).unwrap_or_default()
    }

    fn native_callee(&mut self, sample: &FrameSample) -> Option<String> {
        self.interpreter.frames?.native_callee(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn check(pace: Pace, expected_ms: f64) {
        assert_eq!(next_step(Pace { stall: 5 * MS, ..pace }) as f64 / MS as f64, expected_ms, "{pace:?}");
    }

    #[test]
    fn looks_are_closest_where_a_stretch_may_become_a_stall() {
        check(Pace { stretch: 1, ..Pace::default() }, 2.0);
        check(Pace { stretch: 2 * MS, ..Pace::default() }, 1.0);
        check(Pace { stretch: 16 * MS, ..Pace::default() }, 2.0);
        check(Pace { stretch: 400 * MS, ..Pace::default() }, 5.0);
        check(Pace { stretch: 400 * MS, settled: true, ..Pace::default() }, 50.0);
        check(Pace { stretch: 10_000 * MS, ..Pace::default() }, 50.0);
    }

    #[test]
    fn an_idle_program_is_looked_at_seldom() {
        check(Pace::default(), 2.0);
        check(Pace { idle: 900 * MS, ..Pace::default() }, 5.0);
        check(Pace { idle: 2_100 * MS, ..Pace::default() }, 2000.0);
    }

    #[test]
    fn a_light_program_is_looked_at_when_it_works() {
        check(Pace { light: true, idle: MS, ..Pace::default() }, 1000.0);
        check(Pace { light: true, stretch: 2 * MS, ..Pace::default() }, 1.0);
        let mut load = Load::default();
        for at in 0..1_000 {
            load.look(at * 2 * MS, at * MS / 5, false);
        }
        assert!((load.share - 0.1).abs() < 0.01, "{}", load.share);
        (0..50).for_each(|at| _ = load.look((2_000 + 2 * at) * MS, 200 * MS + 2 * at * MS, true));
        assert!(load.share > 0.5, "{}", load.share);
    }

    #[test]
    fn a_short_threshold_is_looked_at_in_time() {
        assert_eq!(next_step(Pace { stall: MS, ..Pace::default() }), MS);
        assert_eq!(next_step(Pace { stall: MS, stretch: MS / 2, ..Pace::default() }), MS / 2);
    }
}
