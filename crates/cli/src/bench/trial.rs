//! One trial: a scenario under one contender, started, driven, asked for its figures, and ended.

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use neurogc_load::{Flow, Latencies, Load, Outcome, Plan, Target, Users, drive, get, go_first};
use neurogc_wire::status::Status;

use super::arrivals::Pattern;
use super::census::{Watcher, processor_time};
use super::contender::{Contender, EACH};
use super::interrupt::Interrupt;
use super::record::{Figures, Trial};
use super::scenario::{Drive, MEASURED, OVERLOAD, Scenario, Size};
use super::staged::{Setting, Silence, Staged, Word};
use super::statistics::median;

/// A service stands ready for a while before its first client comes.
const REST: Duration = Duration::from_millis(700);
/// How long a report may take: it ends with a full collection.
const REPORT: Duration = Duration::from_secs(60);
/// How often the memory is looked at, and a change of part noticed.
const STEP: Duration = Duration::from_millis(10);
/// More of the time without a core than this makes a service's figures doubtful.
const CORE_WAIT: f64 = 0.05;

/// How a trial ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Done(Box<Trial>),
    /// Something that the scenario needs is not here.
    Skipped(String),
    Failed(String),
    Interrupted,
}

impl From<Silence> for Ended {
    fn from(silence: Silence) -> Self {
        match silence {
            Silence::Interrupted => Self::Interrupted,
            Silence::Failed(reason) => Self::Failed(reason),
        }
    }
}

/// Everything that a trial needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'s> {
    pub(crate) setting: Setting<'s>,
    pub(crate) size: Size,
    pub(crate) arrivals: &'s Pattern,
    pub(crate) interrupt: &'s Interrupt,
}

/// Starts a script and waits until it is ready.
fn ready(setup: Setup<'_>, scenario: &Scenario, contender: &Contender) -> Result<(Staged, Word), Ended> {
    let seconds = scenario.measured(setup.size);
    let mut staged = Staged::start(setup.setting, scenario.script, contender, seconds).map_err(Ended::Failed)?;
    let word = staged.first(setup.interrupt)?;
    match word.skip {
        Some(reason) => Err(Ended::Skipped(reason)),
        None if word.ready => Ok((staged, word)),
        None => Err(Ended::Failed("the script did not say that it is ready".to_owned())),
    }
}

/// What a scenario's service can do in a second with the collector off, at the best of two tries: others on the machine
/// can only take from it.
pub(crate) fn capacity(setup: Setup<'_>, scenario: &Scenario, off: &Contender) -> Result<f64, Ended> {
    let (staged, word) = ready(setup, scenario, off)?;
    let target = target(&word)?;
    let mut best = 0.0_f64;
    for _ in 0..2 {
        let plan = scenario.saturation(target, setup.size);
        let (outcome, _) = load(setup, &plan, &staged, &mut || Ok(()))?;
        best = best.max(outcome.part(MEASURED).map_or(0.0, neurogc_load::PartOutcome::per_second));
    }
    if best > 0.0 { Ok(best) } else { Err(Ended::Failed("the service answered nothing".to_owned())) }
}

/// Runs one trial.
pub(crate) fn run(setup: Setup<'_>, scenario: &Scenario, contender: &Contender, run: u32, capacity: f64) -> Ended {
    let measured = match scenario.drive {
        Drive::Loop => run_loop(setup, scenario, contender),
        _ => serve(setup, scenario, contender, run, capacity),
    };
    match measured {
        Ok(mut trial) => {
            trial.run = run;
            Ended::Done(Box::new(trial))
        }
        Err(ended) => ended,
    }
}

fn target(word: &Word) -> Result<Target, Ended> {
    word.port.map(Target::port).ok_or_else(|| Ended::Failed("the service did not say its port".to_owned()))
}

/// Asks a service for one of its reports.
pub(crate) fn ask(target: Target, path: &str) -> Result<Word, Ended> {
    let failed = |reason: String| Ended::Failed(format!("the service did not answer {path}: {reason}"));
    let text = get(target, path, REPORT).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// That the program runs under the policy that we say it does.
pub(crate) fn check(contender: &Contender, status: Option<&Status>) -> Result<(), Ended> {
    let reported = status.map(|status| status.policy.as_str());
    if contender.is_in_force(reported) {
        return Ok(());
    }
    let found = reported.map_or_else(|| "without an agent".to_owned(), |policy| format!("under {policy}"));
    Err(Ended::Failed(format!(
        "{} was asked for, and the program runs {found}. `neurogc doctor` tells what works here",
        contender.name
    )))
}

/// What the kernel saw while figures counted.
pub(crate) struct Window {
    watcher: Watcher,
    processor: Duration,
    waited: Duration,
    began: Instant,
}

impl Window {
    /// From now on.
    pub(crate) fn open(pid: u32) -> Self {
        Self {
            watcher: Watcher::new(pid),
            processor: processor_time(pid),
            waited: core_wait(pid),
            began: Instant::now(),
        }
    }

    /// Looks at the memory, where it is time to.
    pub(crate) fn look(&mut self) {
        self.watcher.look();
    }

    /// Resident memory now.
    pub(crate) fn rss_now(&self) -> u64 {
        self.watcher.rss_now()
    }

    /// The figures, and how much of the time the program wanted a core and had none.
    pub(crate) fn close(self, pid: u32) -> (Figures, f64) {
        let span = self.began.elapsed().as_secs_f64();
        let busy = processor_time(pid).saturating_sub(self.processor).as_secs_f64();
        let memory = self.watcher.memory();
        let mut figures = Figures::from([
            ("cpu_percent".to_owned(), busy / span * 100.0),
            ("cpu_s".to_owned(), busy),
            ("rss_peak".to_owned(), memory.rss_peak as f64),
            ("rss_mean".to_owned(), memory.rss_mean as f64),
        ]);
        for (name, value) in [("pss_peak", memory.pss_peak), ("pss_mean", memory.pss_mean)] {
            figures.extend(value.map(|value| (name.to_owned(), value as f64)));
        }
        (figures, core_wait(pid).saturating_sub(self.waited).as_secs_f64() / span)
    }
}

/// How long the main thread of a process has waited for a core so far.
fn core_wait(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().nth(1).and_then(|waited| waited.parse().ok()).unwrap_or(0))
}

/// Makes the load of a plan in a thread that goes first, and looks at the kernel's figures of its last part. `mark` is
/// called when that part begins.
fn load(
    setup: Setup<'_>,
    plan: &Plan,
    staged: &Staged,
    mark: &mut dyn FnMut() -> Result<(), Ended>,
) -> Result<(Outcome, Option<(Figures, f64)>), Ended> {
    const BEFORE: u8 = 0;
    const MEASURING: u8 = 1;
    const OVER: u8 = 2;
    let state = AtomicU8::new(BEFORE);
    let last = plan.parts.len().saturating_sub(1);
    let whole: Duration = plan.parts.iter().map(|part| part.lasts).sum();
    let mut watch = |live: &neurogc_load::Live<'_>| {
        let now = if live.elapsed >= whole {
            OVER
        } else if live.part == last {
            MEASURING
        } else {
            BEFORE
        };
        state.store(now, Ordering::Relaxed);
        if setup.interrupt.came() { Flow::Stop } else { Flow::On }
    };
    thread::scope(|scope| {
        let generator = scope.spawn(|| {
            go_first();
            drive(plan, &mut watch)
        });
        let (mut window, mut seen, mut marked) = (None, None, Ok(()));
        while !generator.is_finished() {
            match state.load(Ordering::Relaxed) {
                MEASURING if window.is_none() && seen.is_none() => {
                    marked = mark();
                    window = Some(Window::open(staged.pid()));
                }
                OVER => {
                    if let Some(open) = window.take() {
                        seen = Some(open.close(staged.pid()));
                    }
                }
                _ => {}
            }
            if let Some(window) = &mut window {
                window.look();
            }
            thread::sleep(STEP);
        }
        // The last look of the generator may come before the end, where nothing was left to wait for.
        if let Some(open) = window.take() {
            seen = Some(open.close(staged.pid()));
        }
        marked?;
        match generator.join() {
            _ if setup.interrupt.came() => Err(Ended::Interrupted),
            Ok(Ok(outcome)) => Ok((outcome, seen)),
            Ok(Err(error)) => Err(Ended::Failed(error.to_string())),
            Err(_) => Err(Ended::Failed("the load generator broke down".to_owned())),
        }
    })
}

fn serve(
    setup: Setup<'_>,
    scenario: &Scenario,
    contender: &Contender,
    run: u32,
    capacity: f64,
) -> Result<Trial, Ended> {
    let (mut staged, word) = ready(setup, scenario, contender)?;
    let target = target(&word)?;
    thread::sleep(REST);
    let mut before = None;
    // Everybody meets the same arrivals in a run, and others in the next.
    let mut plan = scenario.plan(target, capacity, setup.arrivals, 1 + u64::from(run), setup.size);
    if contender.name == EACH {
        // It cannot bear the load of the others, and requests that queue up would hide how little it can do with.
        plan.load = Load::Users(Users::closed(1));
    }
    let (outcome, seen) = load(setup, &plan, &staged, &mut || {
        let word = ask(target, "/mark")?;
        check(contender, word.neurogc.as_ref())?;
        before = word.neurogc;
        Ok(())
    })?;
    let report = ask(target, "/report").map_err(|ended| match ended {
        Ended::Failed(reason) => Ended::Failed(staged.what_it_said(&reason)),
        other => other,
    })?;
    of_service(&outcome, seen, before.as_ref(), &report)
}

/// The trial of a service, from what the generator, the kernel and the service itself saw.
pub(crate) fn of_service(
    outcome: &Outcome,
    seen: Option<(Figures, f64)>,
    before: Option<&Status>,
    report: &Word,
) -> Result<Trial, Ended> {
    let Some(part) = outcome.part(MEASURED) else { return Err(Ended::Failed("nothing was measured".to_owned())) };
    let mut trial = Trial { curve: part.latencies.curve(), ..Trial::default() };
    let figures = &mut trial.figures;
    latency_figures(figures, &part.latencies);
    figures.insert("per_second".to_owned(), part.per_second());
    if let Some(rush) = outcome.part(OVERLOAD) {
        figures.insert("overload_per_second".to_owned(), rush.per_second());
    }
    let failed = part.failures.total();
    figures.insert("failed".to_owned(), failed as f64);
    figures.insert("unanswered".to_owned(), part.unanswered as f64);
    figures.insert("lateness_p99_ms".to_owned(), part.lateness.at_ms(0.99));
    trial.doubts.extend(part.complaint());
    if failed > 0 {
        trial.doubts.push(format!("{failed} of {} requests failed: {:?}", part.sent, part.failures));
    }
    if part.unanswered > 0 {
        let (some, all) = (part.unanswered, part.sent);
        trial.doubts.push(format!("{some} of {all} requests were never answered: this load is more than it can bear"));
    }
    finish(&mut trial, seen, part.answered, before, report);
    Ok(trial)
}

fn run_loop(setup: Setup<'_>, scenario: &Scenario, contender: &Contender) -> Result<Trial, Ended> {
    let (mut staged, _) = ready(setup, scenario, contender)?;
    thread::sleep(REST);
    let pid = staged.pid();
    let mut window = Window::open(pid);
    let patience = scenario.measured(setup.size) * 4 + Duration::from_secs(600);
    let done = staged.ask("go", patience, setup.interrupt, &mut || window.look())?;
    window.look();
    let seen = window.close(pid);
    let report = staged.ask("report", REPORT, setup.interrupt, &mut || {})?;
    check(contender, report.neurogc.as_ref())?;
    if !done.done || done.steps_ms.is_empty() {
        return Err(Ended::Failed("the loop made no step".to_owned()));
    }
    let mut latencies = Latencies::new();
    for step in &done.steps_ms {
        latencies.record(Duration::from_secs_f64(step.max(0.0) / 1000.0));
    }
    let mut trial = Trial { curve: latencies.curve(), ..Trial::default() };
    let middle = |(name, times): (&String, &Vec<f64>)| Some((name.clone(), median(times.iter().copied())?));
    trial.programs = done.programs.iter().filter_map(middle).collect();
    if trial.programs.is_empty() {
        latency_figures(&mut trial.figures, &latencies);
        trial.figures.insert("per_second".to_owned(), latencies.count() as f64 / done.seconds);
    } else {
        // Programs of different lengths: each counts the same.
        let logs = trial.programs.values().map(|each| each.ln()).sum::<f64>();
        trial.figures.insert("time_ms".to_owned(), (logs / trial.programs.len() as f64).exp());
        trial.curve.clear();
    }
    let before = done.before;
    finish(&mut trial, Some(seen), latencies.count(), before.as_ref(), &report);
    Ok(trial)
}

fn latency_figures(figures: &mut Figures, latencies: &Latencies) {
    let all = latencies.figures();
    for (name, value) in [
        ("p50_ms", all.p50_ms),
        ("p95_ms", all.p95_ms),
        ("p99_ms", all.p99_ms),
        ("p999_ms", all.p999_ms),
        ("max_ms", all.max_ms),
    ] {
        figures.insert(name.to_owned(), value);
    }
}

/// What the kernel, the script's own callback and the agent saw.
fn finish(trial: &mut Trial, seen: Option<(Figures, f64)>, done: u64, before: Option<&Status>, report: &Word) {
    let collections = &report.collections;
    if let Some((mut figures, core_wait)) = seen {
        if let Some(busy) = figures.remove("cpu_s").filter(|_| done > 0) {
            figures.insert("cpu_each_ms".to_owned(), busy * 1000.0 / done as f64);
        }
        trial.figures.extend(figures);
        if core_wait > CORE_WAIT {
            let share = core_wait * 100.0;
            trial.doubts.push(format!("the program waited for a core {share:.0} % of the time: others use it too"));
        }
    }
    let mut add = |name: &str, value: f64| trial.figures.insert(name.to_owned(), value);
    add("in_request_count", collections.in_request.count as f64);
    add("in_request_ms", collections.in_request.total_ms);
    add("in_request_max_ms", collections.in_request.max_ms);
    add("in_gap_count", collections.in_gap.count as f64);
    add("in_gap_ms", collections.in_gap.total_ms);
    add("in_gap_max_ms", collections.in_gap.max_ms);
    add("full_count", collections.full.count as f64);
    if let Some(garbage) = report.garbage {
        add("garbage", garbage as f64);
    }
    if let Some(after) = &report.neurogc {
        let nothing = Status::default();
        let before = before.unwrap_or(&nothing);
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64;
        add("forced_count", since(after.gc.forced.count, before.gc.forced.count));
        add("snapshot_count", since(after.gc.snapshot.count, before.gc.snapshot.count));
        add("clone_max_ms", after.gc.snapshot.clone_max_ms);
        add("stalls", since(after.stalls.count, before.stalls.count));
    }
}
