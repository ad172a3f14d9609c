//! One trial: a scenario under one contender, started, driven, asked for its figures, and ended.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use neurogc_load::{Flow, Latencies, Load, LoadOutcome, LoadPlan, Target, Users, drive, get, go_first};
use neurogc_wire::status::Status;

use super::arrivals::Pattern;
use super::cgroup::Group;
use super::contender::{Contender, DEFAULT, EACH, OFF};
use super::course::Courses;
use super::interrupt::Interrupt;
use super::record::{FiguresByName, Trial};
use super::scenario::{DriveMode, MEASURED, OVERLOAD, Scenario, Size};
use super::staged::{ScriptSetup, Silence, Staged, Word};
use super::statistics::median;
use super::surroundings::{BusyLoops, OnOneCore, Surroundings};
use super::window::{MeasuredWindow, WindowFigures};

/// A service stands ready for a while before its first client comes.
const REST: Duration = Duration::from_millis(700);
/// How long a report may take: it ends with a full collection.
const REPORT: Duration = Duration::from_secs(60);
/// How often the memory is looked at, and a change of part noticed.
const STEP: Duration = Duration::from_millis(10);
/// More of the time without a core than this makes a service's figures doubtful.
const CORE_WAIT: f64 = 0.05;
/// How that doubt begins.
const NO_CORE: &str = "the program waited for a core";
/// The most that a cgroup has used, among the figures.
const GROUP_PEAK: &str = "group_peak";

/// How a trial ended.
#[derive(Debug)]
pub(crate) enum TrialEnd {
    Done(Box<Trial>),
    /// Something that the scenario needs is not here.
    Skipped(String),
    Failed(String),
    Interrupted,
}

impl From<Silence> for TrialEnd {
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
    pub(crate) setting: ScriptSetup<'s>,
    pub(crate) size: Size,
    pub(crate) arrivals: &'s Pattern,
    pub(crate) interrupt: &'s Interrupt,
}

/// What was found out about a scenario before its first trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ScenarioFacts {
    /// What its service can do in a second.
    pub(crate) capacity: f64,
    /// The memory limit of its cgroup, in bytes.
    pub(crate) limit: Option<u64>,
}

/// Starts a script and waits until it is ready.
fn ready(
    setup: Setup<'_>,
    scenario: &Scenario,
    contender: &Contender,
    group: Option<&Group>,
) -> Result<(Staged, Word), TrialEnd> {
    let seconds = scenario.measured(setup.size);
    let door = group.map(Group::door);
    let one_core = scenario.surroundings == Surroundings::OneCore;
    if one_core {
        // Where that cannot be done the scenario is skipped, and not failed.
        OnOneCore::pin().map_err(TrialEnd::Skipped)?;
    }
    let setting = ScriptSetup { one_core, door: door.as_deref(), ..setup.setting };
    let mut staged = Staged::start(setting, scenario.script, contender, seconds).map_err(TrialEnd::Failed)?;
    let word = staged.first(setup.interrupt)?;
    match word.skip {
        Some(reason) => Err(TrialEnd::Skipped(reason)),
        None if word.ready => Ok((staged, word)),
        None => Err(TrialEnd::Failed("the script did not say that it is ready".to_owned())),
    }
}

/// Finds out what has to be known of a scenario before its first trial.
pub(crate) fn calibrate(setup: Setup<'_>, scenario: &Scenario) -> Result<ScenarioFacts, TrialEnd> {
    let parse = |name| Contender::parse(name).map_err(TrialEnd::Failed);
    let mut known = ScenarioFacts::default();
    if scenario.needs_capacity() {
        known.capacity = capacity(setup, scenario, &parse(OFF)?)?;
    }
    if let Some(times) = scenario.surroundings.limit() {
        // The same cgroup as in the trials, so that the same things count, and without a limit.
        let group = make_group(None)?;
        let trial = serve(setup, scenario, &parse(DEFAULT)?, 0, known, Some(&group))?;
        let Some(peak) = trial.figures.get(GROUP_PEAK) else {
            return Err(TrialEnd::Skipped("the kernel does not report the memory usage of the cgroup".to_owned()));
        };
        known.limit = Some((peak * times) as u64);
    }
    Ok(known)
}

fn make_group(limit: Option<u64>) -> Result<Group, TrialEnd> {
    Group::make(Path::new("/"), limit).map_err(TrialEnd::Skipped)
}

/// What a scenario's service can do in a second with the collector off, at the best of two tries: others on the machine
/// can only take from it.
fn capacity(setup: Setup<'_>, scenario: &Scenario, off: &Contender) -> Result<f64, TrialEnd> {
    let (mut staged, word) = ready(setup, scenario, off, None)?;
    let target = target(&word)?;
    let mut best = 0.0_f64;
    for _ in 0..2 {
        let plan = scenario.saturation(target, setup.size);
        let (outcome, _) = load(setup, &plan, &mut staged, None, &mut || Ok(()))?;
        best = best.max(outcome.part(MEASURED).map_or(0.0, neurogc_load::PartOutcome::per_second));
    }
    if best > 0.0 { Ok(best) } else { Err(TrialEnd::Failed("the service answered nothing".to_owned())) }
}

/// Runs one trial.
pub(crate) fn run(
    setup: Setup<'_>,
    scenario: &Scenario,
    contender: &Contender,
    run: u32,
    known: ScenarioFacts,
) -> TrialEnd {
    let measured = match scenario.drive {
        DriveMode::Loop => run_loop(setup, scenario, contender),
        _ => match make_group(known.limit) {
            Ok(group) => match serve(setup, scenario, contender, run, known, Some(&group)) {
                // It was killed before the measured part.
                Err(TrialEnd::Failed(reason)) if group.kills() > 0 => Ok(killed(&group, None, &reason)),
                other => other,
            },
            // Without a limit the cgroup only counts memory, which proportional memory does well enough.
            Err(_) if known.limit.is_none() => serve(setup, scenario, contender, run, known, None),
            Err(ended) => Err(ended),
        },
    };
    match measured {
        Ok(mut trial) => {
            trial.run = run;
            if scenario.surroundings.lack_cores() {
                trial.doubts.retain(|doubt| !doubt.starts_with(NO_CORE));
            }
            TrialEnd::Done(Box::new(trial))
        }
        Err(ended) => ended,
    }
}

fn target(word: &Word) -> Result<Target, TrialEnd> {
    word.port.map(Target::port).ok_or_else(|| TrialEnd::Failed("the service did not say its port".to_owned()))
}

/// Asks a service for one of its reports.
pub(crate) fn ask(target: Target, path: &str) -> Result<Word, TrialEnd> {
    let failed = |reason: String| TrialEnd::Failed(format!("the service did not answer {path}: {reason}"));
    let text = get(target, path, REPORT).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// That the program runs under the policy that we say it does.
pub(crate) fn check(contender: &Contender, status: Option<&Status>) -> Result<(), TrialEnd> {
    let reported = status.map(|status| status.policy.as_str());
    if contender.is_in_force(reported) {
        return Ok(());
    }
    let found = reported.map_or_else(|| "without an agent".to_owned(), |policy| format!("under {policy}"));
    Err(TrialEnd::Failed(format!(
        "{} was requested, but the program runs {found}. `neurogc doctor` shows what works here",
        contender.name
    )))
}

/// Makes the load of a plan in a thread that goes first, and looks at the kernel's figures of its last part. `mark` is
/// called when that part begins. It ends early where the service does.
fn load(
    setup: Setup<'_>,
    plan: &LoadPlan,
    staged: &mut Staged,
    group: Option<&Group>,
    mark: &mut dyn FnMut() -> Result<(), TrialEnd>,
) -> Result<(LoadOutcome, Option<WindowFigures>), TrialEnd> {
    const BEFORE: u8 = 0;
    const MEASURING: u8 = 1;
    const OVER: u8 = 2;
    let state = AtomicU8::new(BEFORE);
    let gone = AtomicBool::new(false);
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
        if setup.interrupt.came() || gone.load(Ordering::Relaxed) { Flow::Stop } else { Flow::On }
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
                    window = Some(MeasuredWindow::open(staged.pid(), group));
                }
                OVER => {
                    if let Some(open) = window.take() {
                        seen = Some(open.close());
                    }
                }
                _ => {}
            }
            if let Some(window) = &mut window {
                window.look();
            }
            gone.store(staged.has_ended(), Ordering::Relaxed);
            thread::sleep(STEP);
        }
        // The last look of the generator may come before the end, where nothing was left to wait for.
        if let Some(open) = window.take() {
            seen = Some(open.close());
        }
        marked?;
        match generator.join() {
            _ if setup.interrupt.came() => Err(TrialEnd::Interrupted),
            Ok(Ok(outcome)) => Ok((outcome, seen)),
            Ok(Err(error)) => Err(TrialEnd::Failed(error.to_string())),
            Err(_) => Err(TrialEnd::Failed("the load generator failed".to_owned())),
        }
    })
}

fn serve(
    setup: Setup<'_>,
    scenario: &Scenario,
    contender: &Contender,
    run: u32,
    known: ScenarioFacts,
    group: Option<&Group>,
) -> Result<Trial, TrialEnd> {
    let (mut staged, word) = ready(setup, scenario, contender, group)?;
    let target = target(&word)?;
    thread::sleep(REST);
    let _busy = match scenario.surroundings {
        Surroundings::Busy(count) => Some(BusyLoops::start(count)),
        _ => None,
    };
    let mut before = None;
    // All contenders get the same arrivals in one run, and different ones in the next.
    let mut plan = scenario.plan(target, known.capacity, setup.arrivals, 1 + u64::from(run), setup.size);
    if contender.name == EACH {
        // It cannot bear the load of the others, and requests that queue up would hide how little it can do with.
        plan.load = Load::Users(Users::closed(1));
    }
    let (outcome, seen) = load(setup, &plan, &mut staged, group, &mut || {
        let word = ask(target, "/mark")?;
        check(contender, word.neurogc.as_ref())?;
        before = word.neurogc;
        Ok(())
    })?;
    // The report collects and takes memory itself: what the cgroup has seen until now is the trial's.
    let (peak, kills) = group.map_or((None, 0), |group| (group.peak(), group.kills()));
    if let Some(group) = group.filter(|_| kills > 0 && staged.has_ended()) {
        return Ok(killed(group, seen, "the kernel killed the service"));
    }
    let report = ask(target, "/report").map_err(|ended| match ended {
        TrialEnd::Failed(reason) => TrialEnd::Failed(staged.what_it_said(&reason)),
        other => other,
    })?;
    let mut trial = of_service(&outcome, seen, before.as_ref(), &report)?;
    if known.limit.is_some() {
        trial.figures.insert("killed".to_owned(), 0.0);
    }
    if group.is_some() {
        trial.figures.extend(group_peak(peak, &trial.courses));
        if kills > 0 {
            trial
                .doubts
                .push(format!("the service lived, but the kernel killed {kills} of its children: out of memory"));
        }
    }
    Ok(trial)
}

/// The most that a cgroup has used, files that were read included: by the kernel's own record, or by what was seen mapped
/// where it keeps none.
fn group_peak(recorded: Option<u64>, courses: &Courses) -> Option<(String, f64)> {
    let seen = courses.tree.iter().map(|(_, mapped)| *mapped).reduce(f64::max);
    recorded.map(|peak| peak as f64).or(seen).map(|peak| (GROUP_PEAK.to_owned(), peak))
}

/// The trial of a service that did not outlive it: only its memory counts.
fn killed(group: &Group, seen: Option<WindowFigures>, reason: &str) -> Trial {
    let mut trial = Trial::default();
    let after = seen.as_ref().map_or("before the measured part".to_owned(), |seen| {
        format!("after {:.1} s of the measured part", seen.span.as_secs_f64())
    });
    if let Some(seen) = seen {
        let memory = |(name, _): &(String, f64)| name.starts_with("rss_") || name.starts_with("all_");
        trial.figures = seen.figures.into_iter().filter(memory).collect();
        trial.courses = seen.courses;
    }
    trial.figures.insert("killed".to_owned(), 1.0);
    trial.figures.extend(group_peak(group.peak(), &trial.courses));
    trial.ended_early = Some(format!("out of memory {after}: {reason}"));
    trial
}

/// The trial of a service, from what the generator, the kernel and the service itself saw.
pub(crate) fn of_service(
    outcome: &LoadOutcome,
    seen: Option<WindowFigures>,
    before: Option<&Status>,
    report: &Word,
) -> Result<Trial, TrialEnd> {
    let Some(part) = outcome.part(MEASURED) else { return Err(TrialEnd::Failed("nothing was measured".to_owned())) };
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
        trial.doubts.push(format!("{some} of {all} requests were never answered: the load exceeds its capacity"));
    }
    finish(&mut trial, seen, part.answered, before, report);
    Ok(trial)
}

fn run_loop(setup: Setup<'_>, scenario: &Scenario, contender: &Contender) -> Result<Trial, TrialEnd> {
    let (mut staged, _) = ready(setup, scenario, contender, None)?;
    thread::sleep(REST);
    let mut window = MeasuredWindow::open(staged.pid(), None);
    let patience = scenario.measured(setup.size) * 4 + Duration::from_secs(600);
    let done = staged.ask("go", patience, setup.interrupt, &mut || window.look())?;
    window.look();
    let seen = window.close();
    let report = staged.ask("report", REPORT, setup.interrupt, &mut || {})?;
    check(contender, report.neurogc.as_ref())?;
    if !done.done || done.steps_ms.is_empty() {
        return Err(TrialEnd::Failed("the loop made no step".to_owned()));
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
    trial.ended_early = done.ended_early;
    let before = done.before;
    finish(&mut trial, Some(seen), latencies.count(), before.as_ref(), &report);
    Ok(trial)
}

fn latency_figures(figures: &mut FiguresByName, latencies: &Latencies) {
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
fn finish(trial: &mut Trial, seen: Option<WindowFigures>, done: u64, before: Option<&Status>, report: &Word) {
    let collections = &report.collections;
    if let Some(seen) = seen {
        trial.figures.extend(seen.figures);
        if done > 0 {
            trial.figures.insert("cpu_each_ms".to_owned(), seen.busy.as_secs_f64() * 1000.0 / done as f64);
        }
        trial.courses = seen.courses;
        if seen.core_wait > CORE_WAIT {
            let share = seen.core_wait * 100.0;
            trial.doubts.push(format!("{NO_CORE} {share:.0} % of the time: other processes use it"));
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
    let own = report.neurogc.as_ref().map_or(0.0, |status| status.gc.snapshot.clone_max_ms.max(status.gc.reap.max_ms));
    add("stop_max_ms", collections.in_request.max_ms.max(collections.in_gap.max_ms).max(own));
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
