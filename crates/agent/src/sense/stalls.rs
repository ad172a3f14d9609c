//! Stalls: stretches in which one thread kept the interpreter, or could not get a processor, for too long.
//!
//! A pure state machine. The sampler feeds it looks at the GIL; when a stretch grows suspicious it asks for
//! evidence, and when the stretch ends it gives a verdict. Collections are known exactly and are judged by
//! themselves; the rest of a stretch is judged without them.

use neurogc_wire::status::Cause;

use super::schedule::SchedStat;
use crate::cpython::ThreadState;
use crate::cpython::frames::FrameSample;

/// Different places that are told apart within one stretch.
const SITES: usize = 8;

/// Callers that are kept beside a place.
pub(crate) const CALLERS: usize = 7;

/// One look at the GIL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) at: u64,
    pub(crate) held: bool,
    pub(crate) holder: ThreadState,
    /// A number that changes whenever the program could have done something else.
    pub(crate) progress: u64,
    pub(crate) collecting_since: Option<u64>,
    /// Processor time of the program since the last look, where the looks are too far apart to tell when it began to work.
    pub(crate) used: Option<u64>,
}

/// Where the state machine gets its evidence from.
pub(crate) trait StallEvidence {
    /// What a thread executes now.
    fn sample(&mut self, thread: ThreadState) -> Option<FrameSample>;
    /// Whether a thread stays where a sample met it, as it does in native code and without a processor.
    fn is_stuck(&mut self, thread: ThreadState, sample: &FrameSample) -> bool;
    /// Whether a thread was last seen on the very processor that asks, and so cannot be running now.
    fn shares_processor(&mut self, thread: ThreadState) -> bool;
    /// The scheduler's account of a thread.
    fn schedule(&mut self, thread: ThreadState) -> Option<SchedStat>;
    /// How often a thread has blocked.
    fn voluntary_switches(&mut self, thread: ThreadState) -> Option<u64>;
    /// Where in the code a sample is.
    fn site(&mut self, sample: &FrameSample) -> Option<String>;
    /// The places that led to a sample, the nearest caller first: at most [`CALLERS`].
    fn callers(&mut self, sample: &FrameSample) -> Vec<String>;
    /// The native function that a sampled frame calls.
    fn native_callee(&mut self, sample: &FrameSample) -> Option<String>;
}

/// A stall that has just ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedStall {
    pub(crate) at: u64,
    pub(crate) duration: u64,
    pub(crate) cause: Cause,
    pub(crate) site: String,
    /// What had called it, the nearest caller first.
    pub(crate) callers: Vec<String>,
}

/// A place in the code, and the callers that led to it.
#[derive(Clone, Debug, Default)]
struct CallStack {
    site: String,
    callers: Vec<String>,
}

/// A stretch in which one thread has kept the GIL.
#[derive(Debug)]
struct Stretch {
    since: u64,
    last: u64,
    holder: ThreadState,
    progress: u64,
    python: u64,
    native: u64,
    /// Met at the same place as before, but at a moment when it could not have moved.
    unmoved: u64,
    collecting: u64,
    waiting: u64,
    sample: Option<FrameSample>,
    voluntary: Option<u64>,
    sites: Vec<(FrameSample, CallStack, u32)>,
    native_site: Option<CallStack>,
}

/// Watches for stalls.
#[derive(Debug)]
pub(crate) struct StallWatch {
    threshold: u64,
    stretch: Option<Stretch>,
    /// The last account of the thread that held the GIL last.
    account: Option<(ThreadState, u64, SchedStat)>,
    /// The last look that found the GIL free.
    free_at: Option<u64>,
    /// Where the running collection was met.
    collection_site: Option<CallStack>,
    /// When the last collection ended.
    collected_at: u64,
}

impl StallWatch {
    pub(crate) fn new(threshold: u64) -> Self {
        Self { threshold, stretch: None, account: None, free_at: None, collection_site: None, collected_at: 0 }
    }

    /// How long the running stretch has lasted.
    pub(crate) fn stretch_age(&self, now: u64) -> u64 {
        self.stretch.as_ref().map_or(0, |stretch| now.saturating_sub(stretch.since))
    }

    /// Whether more looks would hardly change the verdict on the running stretch: it is long, and it is Python, whose
    /// interruptions show in the scheduler's account.
    pub(crate) fn is_settled(&self) -> bool {
        self.stretch.as_ref().is_some_and(|stretch| stretch.python > self.threshold + 4 * stretch.native)
    }

    /// A collection has ended. Must be called before the next look.
    pub(crate) fn collection(&mut self, at: u64, pause: u64, evidence: &mut impl StallEvidence) -> Option<EndedStall> {
        let CallStack { site, callers } = self.collection_site.take().unwrap_or_default();
        self.collected_at = at + pause;
        if let Some(stretch) = self.stretch.as_mut().filter(|stretch| at + pause > stretch.since) {
            stretch.collecting += pause.min(at + pause - stretch.since);
        }
        if pause < self.threshold {
            return None;
        }
        let waited = self.take_wait(at + pause, evidence);
        let cause = if waited * 2 > pause { Cause::CpuStarved } else { Cause::Gc };
        Some(EndedStall { at, duration: pause, cause, site, callers })
    }

    /// Takes a look and gives the stall that it ends, if any.
    pub(crate) fn look(&mut self, look: Look, evidence: &mut impl StallEvidence) -> Option<EndedStall> {
        let Some(stretch) = &self.stretch else {
            let slices_before = self.slices_of(look.holder);
            let starved = self.look_between(look, evidence);
            if look.held {
                // It began between the two looks: in the middle, on average.
                let before = (look.at - self.free_at.unwrap_or(look.at)) / 2;
                let slices = slices_before.zip(self.slices_of(look.holder)).map(|(then, now)| now.saturating_sub(then));
                let since = look.at - look.used.map_or(before, |used| one_piece(used, slices).min(before));
                self.begin(look, since.max(self.collected_at).min(look.at));
            }
            self.free_at = (!look.held).then_some(look.at);
            return starved;
        };
        let same = look.held && look.holder == stretch.holder && look.progress == stretch.progress;
        let last = stretch.last;
        if same && self.continues(look, evidence) {
            return None;
        }
        // It ended between the two looks: in the middle, on average. One that blocked and came back did so, too.
        let verdict = self.end(last + (look.at - last) / 2, look.at, evidence);
        self.free_at = (!look.held).then_some(look.at);
        if look.held {
            self.begin(look, look.at);
        }
        verdict
    }

    fn begin(&mut self, look: Look, since: u64) {
        self.stretch = Some(Stretch {
            since,
            last: look.at,
            holder: look.holder,
            progress: look.progress,
            python: 0,
            native: 0,
            unmoved: 0,
            collecting: 0,
            waiting: 0,
            sample: None,
            voluntary: None,
            sites: Vec::new(),
            native_site: None,
        });
    }

    /// The GIL was free at the last look. A thread without a CPU could not ask for it.
    fn look_between(&mut self, look: Look, evidence: &mut impl StallEvidence) -> Option<EndedStall> {
        let due = self.account.is_none_or(|(_, at, _)| look.at.saturating_sub(at) >= self.threshold / 2);
        if !due {
            return None;
        }
        let since = self.account.map_or(0, |(_, at, _)| look.at.saturating_sub(at));
        let waited = self.take_wait_of(look.holder, look.at, evidence);
        // Many short waits in a long time without a look are no stall.
        (waited >= self.threshold && 2 * waited > since).then(|| EndedStall {
            at: look.at.saturating_sub(waited),
            duration: waited,
            cause: Cause::CpuStarved,
            site: String::new(),
            callers: Vec::new(),
        })
    }

    /// Gathers evidence on a stretch that goes on. False when it turns out to have been interrupted.
    fn continues(&mut self, look: Look, evidence: &mut impl StallEvidence) -> bool {
        let Some(stretch) = &mut self.stretch else { return false };
        let step = look.at - std::mem::replace(&mut stretch.last, look.at);
        if look.at - stretch.since < self.threshold / 2 {
            return true;
        }
        let slices_before = self.account.map(|(.., account)| account.slices);
        let waited = self.take_wait_of(look.holder, look.at, evidence);
        let scheduled = slices_before != self.account.map(|(.., account)| account.slices);
        let Some(stretch) = &mut self.stretch else { return false };
        stretch.waiting += waited;
        if let Some(since) = look.collecting_since {
            if look.at.saturating_sub(since) >= self.threshold / 2 && self.collection_site.is_none() {
                self.collection_site = evidence.sample(stretch.holder).and_then(|sample| stack(&sample, evidence));
            }
            stretch.sample = None;
            return true;
        }
        let Some(sample) = evidence.sample(stretch.holder) else { return true };
        let Some(before) = stretch.sample.replace(sample) else {
            stretch.voluntary = evidence.voluntary_switches(stretch.holder);
            return true;
        };
        if before == sample && evidence.is_stuck(stretch.holder, &sample) {
            if evidence.shares_processor(stretch.holder) {
                stretch.unmoved += step;
            } else {
                stretch.native += step;
            }
            if stretch.native_site.is_none() {
                stretch.native_site = native_site(&sample, evidence);
            }
            return true;
        }
        stretch.python += step;
        // Finding the place of a sample takes a while, and most stretches never become stalls.
        if look.at - stretch.since >= self.threshold {
            note_site(&mut stretch.sites, sample, evidence);
        }
        if !scheduled {
            return true;
        }
        // A thread that blocked and yet moved on has let others run in between.
        let voluntary = evidence.voluntary_switches(stretch.holder);
        let blocked = stretch.voluntary.zip(voluntary).is_some_and(|(before, now)| now > before);
        stretch.voluntary = voluntary;
        !blocked
    }

    fn end(&mut self, end: u64, now: u64, evidence: &mut impl StallEvidence) -> Option<EndedStall> {
        let mut stretch = self.stretch.take()?;
        if end - stretch.since < self.threshold {
            return None;
        }
        stretch.waiting += self.take_wait_of(stretch.holder, now, evidence);
        let duration = (end - stretch.since).saturating_sub(stretch.collecting);
        if duration < self.threshold {
            return None;
        }
        if let Some(sample) = stretch.sample.filter(|_| stretch.sites.is_empty()) {
            note_site(&mut stretch.sites, sample, evidence);
        }
        let (cause, CallStack { site, callers }) = stretch.judge(duration);
        Some(EndedStall { at: stretch.since, duration, cause, site, callers })
    }

    fn take_wait(&mut self, now: u64, evidence: &mut impl StallEvidence) -> u64 {
        let holder = self.stretch.as_ref().map(|stretch| stretch.holder).or(self.account.map(|(holder, ..)| holder));
        holder.map_or(0, |holder| self.take_wait_of(holder, now, evidence))
    }

    /// How often a thread had been put on a processor when it was last asked.
    fn slices_of(&self, thread: ThreadState) -> Option<u64> {
        self.account.filter(|(known, ..)| *known == thread).map(|(.., account)| account.slices)
    }

    /// How long a thread has waited for a processor since it was last asked.
    fn take_wait_of(&mut self, thread: ThreadState, now: u64, evidence: &mut impl StallEvidence) -> u64 {
        let account = evidence.schedule(thread);
        let before = self.account.take().filter(|(known, ..)| *known == thread);
        self.account = account.map(|account| (thread, now, account));
        match (before, account) {
            (Some((_, _, before)), Some(account)) => account.wait_ns.saturating_sub(before.wait_ns),
            _ => 0,
        }
    }
}

impl Stretch {
    fn judge(&self, duration: u64) -> (Cause, CallStack) {
        let python_site = || most_frequent(&self.sites).unwrap_or_default();
        if self.waiting * 2 > duration {
            return (Cause::CpuStarved, self.native_site.clone().unwrap_or_else(python_site));
        }
        // A thread without a processor does not move either, and looked like native code meanwhile.
        let native = self.native.saturating_sub(self.waiting);
        let unmoved = self.unmoved.saturating_sub(self.waiting.saturating_sub(self.native));
        if self.python + native + unmoved == 0 {
            return (Cause::Unknown, CallStack::default());
        }
        // Native code is met standing still at nearly every look; chance and a busy machine make Python look so at some.
        let is_native = native > 2 * self.python || native + unmoved > 4 * self.python;
        if is_native {
            (Cause::GilNative, self.native_site.clone().unwrap_or_default())
        } else {
            (Cause::Python, python_site())
        }
    }
}

/// How long a thread has worked since it last slept, on average, where the program has used so much processor time since the
/// last look and the thread was put on a processor so often. Looks at a light program come after a sum of work, which is
/// that of many short pieces as often as that of one long piece. The work of a thread that was not known is not known.
fn one_piece(used: u64, slices: Option<u64>) -> u64 {
    slices.map_or(0, |slices| used / slices.max(1))
}

fn stack(sample: &FrameSample, evidence: &mut impl StallEvidence) -> Option<CallStack> {
    Some(CallStack { site: evidence.site(sample)?, callers: evidence.callers(sample) })
}

fn native_site(sample: &FrameSample, evidence: &mut impl StallEvidence) -> Option<CallStack> {
    let CallStack { site, callers } = stack(sample, evidence)?;
    let site = match evidence.native_callee(sample) {
        Some(callee) => format!("{site} → {callee}"),
        None => site,
    };
    Some(CallStack { site, callers })
}

fn note_site(sites: &mut Vec<(FrameSample, CallStack, u32)>, sample: FrameSample, evidence: &mut impl StallEvidence) {
    if let Some(known) = sites.iter_mut().find(|(known, ..)| known.same_instruction(&sample)) {
        known.2 += 1;
    } else if sites.len() < SITES
        && let Some(site) = evidence.site(&sample)
    {
        let same_call = sites.iter().find(|(known, ..)| known.same_call(&sample));
        let callers = same_call.map(|(_, stack, _)| stack.callers.clone());
        let callers = callers.unwrap_or_else(|| evidence.callers(&sample));
        sites.push((sample, CallStack { site, callers }, 1));
    }
}

fn most_frequent(sites: &[(FrameSample, CallStack, u32)]) -> Option<CallStack> {
    let weight =
        |site: &str| sites.iter().filter(|(_, other, _)| other.site == site).map(|(.., count)| count).sum::<u32>();
    sites.iter().map(|(_, stack, _)| stack).rev().max_by_key(|stack| weight(&stack.site)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const THREAD: ThreadState = ThreadState(1);

    /// What the thread does from some moment on.
    #[derive(Clone, Copy)]
    enum Doing {
        Python,
        Native,
        WithoutProcessor,
        /// Python that blocks for a moment between two looks.
        Blocking,
    }

    /// A thread whose doings are known.
    struct Fake {
        now: u64,
        doing: Doing,
        waited: u64,
        slices: u64,
        shared: bool,
    }

    impl StallEvidence for Fake {
        fn sample(&mut self, _: ThreadState) -> Option<FrameSample> {
            Some(match self.doing {
                Doing::Python | Doing::Blocking => FrameSample::fake(self.now as usize % 7, self.now),
                Doing::Native => FrameSample::fake(100, 0),
                Doing::WithoutProcessor => FrameSample::fake(5, 0),
            })
        }

        fn is_stuck(&mut self, _: ThreadState, _: &FrameSample) -> bool {
            matches!(self.doing, Doing::Native | Doing::WithoutProcessor)
        }

        fn shares_processor(&mut self, _: ThreadState) -> bool {
            self.shared
        }

        fn schedule(&mut self, _: ThreadState) -> Option<SchedStat> {
            Some(SchedStat { run_ns: 0, wait_ns: self.waited, slices: self.slices })
        }

        fn voluntary_switches(&mut self, _: ThreadState) -> Option<u64> {
            Some(self.slices)
        }

        fn site(&mut self, sample: &FrameSample) -> Option<String> {
            Some(if sample.same_instruction(&FrameSample::fake(100, 0)) { "n.py:1" } else { "p.py:1" }.to_owned())
        }

        fn callers(&mut self, _: &FrameSample) -> Vec<String> {
            vec!["main.py:2 in main".to_owned()]
        }

        fn native_callee(&mut self, _: &FrameSample) -> Option<String> {
            Some("sort".to_owned())
        }
    }

    /// Plays doings of so many milliseconds each, with the GIL free before and after, and gives the verdicts.
    fn check(doings: &[(u64, Doing)]) -> Vec<(Cause, u64, String)> {
        play(doings, false)
    }

    /// The same where the watcher and the thread share a processor.
    fn check_on_one(doings: &[(u64, Doing)]) -> Vec<(Cause, u64, String)> {
        play(doings, true)
    }

    fn play(doings: &[(u64, Doing)], shared: bool) -> Vec<(Cause, u64, String)> {
        let mut watch = StallWatch::new(5 * MS);
        let mut fake = Fake { now: 100 * MS, doing: Doing::Python, waited: 0, slices: 0, shared };
        let mut verdicts = Vec::new();
        let mut look = |fake: &mut Fake, held| {
            let look = Look { at: fake.now, held, holder: THREAD, progress: 0, collecting_since: None, used: None };
            verdicts.extend(watch.look(look, fake));
            fake.now += MS;
        };
        look(&mut fake, false);
        for &(length, doing) in doings {
            fake.doing = doing;
            for _ in 0..length {
                if matches!(doing, Doing::WithoutProcessor) {
                    fake.waited += MS;
                }
                fake.slices += u64::from(matches!(doing, Doing::Blocking));
                look(&mut fake, true);
            }
        }
        look(&mut fake, false);
        assert!(verdicts.iter().all(|verdict| verdict.site.is_empty() == verdict.callers.is_empty()));
        verdicts.into_iter().map(|verdict| (verdict.cause, verdict.duration / MS, verdict.site)).collect()
    }

    #[test]
    fn python_that_runs_on() {
        assert_eq!(check(&[(30, Doing::Python)]), [(Cause::Python, 30, "p.py:1".to_owned())]);
    }

    #[test]
    fn native_code_with_the_gil() {
        let both = [(2, Doing::Python), (30, Doing::Native)];
        assert_eq!(check(&both), [(Cause::GilNative, 32, "n.py:1 → sort".to_owned())]);
    }

    #[test]
    fn mostly_python_with_a_native_call() {
        assert_eq!(check(&[(30, Doing::Python), (10, Doing::Native)])[0].0, Cause::Python);
    }

    #[test]
    fn a_thread_without_a_processor() {
        assert_eq!(
            check(&[(4, Doing::Python), (20, Doing::WithoutProcessor), (1, Doing::Python)])[0].0,
            Cause::CpuStarved
        );
    }

    #[test]
    fn some_waiting_does_not_make_python_native() {
        let mixed = [(10, Doing::Python), (12, Doing::WithoutProcessor), (8, Doing::Python)];
        assert_eq!(check(&mixed)[0].0, Cause::Python);
    }

    #[test]
    fn on_one_processor_native_code_is_told_by_never_moving() {
        assert_eq!(check_on_one(&[(2, Doing::Python), (30, Doing::Native)])[0].0, Cause::GilNative);
        let now_and_then = [(4, Doing::Native), (2, Doing::Python)].repeat(5);
        assert_eq!(check_on_one(&now_and_then)[0].0, Cause::Python);
    }

    #[test]
    fn short_holds_are_no_stalls() {
        assert_eq!(check(&[(4, Doing::Python)]), []);
    }

    #[test]
    fn a_thread_that_blocks_in_between_is_no_stall() {
        assert_eq!(check(&[(40, Doing::Blocking)]), []);
    }

    #[test]
    fn progress_ends_a_stretch() {
        let mut watch = StallWatch::new(5 * MS);
        let mut fake = Fake { now: 0, doing: Doing::Python, waited: 0, slices: 0, shared: false };
        for step in 0..40 {
            fake.now = step * MS;
            let look = Look {
                at: fake.now,
                held: true,
                holder: THREAD,
                progress: step / 4,
                collecting_since: None,
                used: None,
            };
            assert_eq!(watch.look(look, &mut fake), None);
        }
    }

    #[test]
    fn waiting_for_a_processor_without_the_gil_is_a_stall_too() {
        let mut watch = StallWatch::new(5 * MS);
        let mut fake = Fake { now: 0, doing: Doing::Python, waited: 0, slices: 0, shared: false };
        let mut look = |fake: &mut Fake, at: u64| {
            let look =
                Look { at: at * MS, held: false, holder: THREAD, progress: 0, collecting_since: None, used: None };
            watch.look(look, fake)
        };
        assert_eq!(look(&mut fake, 0), None);
        fake.waited = 40 * MS;
        let verdict = look(&mut fake, 50).map(|verdict| (verdict.cause, verdict.duration));
        assert_eq!(verdict, Some((Cause::CpuStarved, 40 * MS)));
        assert_eq!(look(&mut fake, 60), None);
    }

    /// A light program is looked at when it has used some processor time, in one piece or in many.
    #[test]
    fn many_short_pieces_of_work_between_two_looks_are_no_stall() {
        for (slices, expected_ms) in [(1, Some(12)), (12, None)] {
            let mut watch = StallWatch::new(5 * MS);
            let mut fake = Fake { now: 0, doing: Doing::Python, waited: 0, slices: 0, shared: false };
            let mut look = |fake: &mut Fake, at: u64, held, used: u64| {
                let (at, used) = (at * MS, Some(used * MS));
                watch.look(Look { at, held, holder: THREAD, progress: 0, collecting_since: None, used }, fake)
            };
            assert_eq!(look(&mut fake, 0, false, 0), None);
            fake.slices = slices;
            assert_eq!(look(&mut fake, 100, true, 12), None);
            let verdict = look(&mut fake, 101, false, 1);
            assert_eq!(verdict.map(|verdict| verdict.duration / MS), expected_ms, "{slices} slices");
        }
    }

    #[test]
    fn a_long_collection_is_a_stall_of_its_own() {
        let mut watch = StallWatch::new(5 * MS);
        let mut fake = Fake { now: 0, doing: Doing::Python, waited: 0, slices: 0, shared: false };
        let look = |at: u64, held, collecting_since| Look {
            at: at * MS,
            held,
            holder: THREAD,
            progress: 0,
            collecting_since,
            used: None,
        };
        watch.look(look(0, false, None), &mut fake);
        (1..5).for_each(|at| assert_eq!(watch.look(look(at, true, Some(MS)), &mut fake), None));
        watch.look(look(20, true, Some(MS)), &mut fake);
        let verdict = watch.collection(MS, 30 * MS, &mut fake).map(|verdict| (verdict.cause, verdict.site));
        assert_eq!(verdict, Some((Cause::Gc, "p.py:1".to_owned())));
        // What is left of the stretch is too short to count.
        assert_eq!(watch.look(look(33, false, None), &mut fake), None);
        assert_eq!(watch.collection(40 * MS, 4 * MS, &mut fake), None);
        // No stretch begins before the end of a collection.
        for (at, held) in [(45, true), (46, false)] {
            assert_eq!(watch.look(look(at, held, None), &mut fake), None);
        }
    }
}
