//! `neurogc demo`: the main job, end to end, on this machine.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use neurogc_load::{
    Arrivals, Asks, Flow, Load, LoadOutcome as Drove, LoadPlan, PlanPart, Target, Users, drive, go_first,
};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::bench::contender::{Contender, DEFAULT};
use crate::bench::interrupt::{self, Interrupt};
use crate::bench::machine::MachineFacts;
use crate::bench::record::{ContenderTrials, Measured, Run, Trial};
use crate::bench::scenario::MEASURED;
use crate::bench::scripts;
use crate::bench::staged::{ScriptSetup, Silence, Staged};
use crate::bench::trial::{self, TrialEnd};
use crate::bench::window::MeasuredWindow;
use crate::commands::bench::moment;
use crate::demo::dashboard::{Dashboard, browse, has_screen};
use crate::demo::side::DemoSide;
use crate::demo::{leak, lines, report, screen};
use crate::failure::{CommandResult, Failure};
use crate::home::Home;
use crate::probe;

/// How busy each service is kept, as a share of what it can do: both share the machine.
const UTILISATION: f64 = 0.35;
/// How long it is tried out what they can do.
const TRYING: Duration = Duration::from_millis(700);
/// How often the screen is drawn and the memory looked at.
const STEP: Duration = Duration::from_millis(100);
/// What the first one runs under where the dashboard shall see it: CPython's own collector, measured.
const MEASURED_DEFAULT: &str = "cpython";
const SCRIPT: &str = "demo.py";

/// Run one service twice, without and with NeuroGC, side by side
///
/// Both get the same load. The figures are shown live in the terminal and, if there is a display, in the dashboard. At
/// the end there is a table and an HTML report. Nothing is installed; only Python's standard library is needed. `neurogc
/// demo leak` runs a service that leaks and the same one without the leak instead, and shows the verdicts on both.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  neurogc demo\n  neurogc demo --seconds 20 --policy gap\n  neurogc demo --dashboard\n  \
                  neurogc demo leak"
)]
pub(crate) struct Arguments {
    /// What is shown: collections, or a leak
    #[arg(value_enum, default_value = "collections")]
    what: DemoSubject,
    /// Seconds of load, 60 if it is not given. With `leak`: how long the verdict may take, 300 if it is not given
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(2..=3600))]
    seconds: Option<u64>,
    /// The policy of the second service
    #[arg(long, value_name = "P", default_value = "auto")]
    policy: String,
    /// The interpreter
    #[arg(long, value_name = "EXE")]
    python: Option<PathBuf>,
    /// Show both in the dashboard, which stays until Ctrl-C, even if there is no display to open it on. The first
    /// service then has an agent that only measures
    #[arg(long)]
    dashboard: bool,
    /// Do not start the dashboard
    #[arg(long, conflicts_with = "dashboard")]
    no_dashboard: bool,
    /// Directory of the report; by default a new one in neurogc-bench/
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the outcome as JSON at the end, and nothing else; without the dashboard
    #[arg(long, conflicts_with = "dashboard")]
    json: bool,
}

/// What a demo is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DemoSubject {
    /// Collections, without and with NeuroGC
    Collections,
    /// A leak, and the verdict on it
    Leak,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let may_browse = !arguments.no_dashboard && !arguments.json;
    let with_dashboard = arguments.dashboard || (may_browse && io::stdout().is_terminal() && has_screen());
    let default = if with_dashboard { MEASURED_DEFAULT } else { DEFAULT };
    let contenders = [Contender::parse(default), Contender::parse(&arguments.policy)];
    let [Ok(without), Ok(with)] = contenders else {
        let wrong = contenders.into_iter().find_map(Result::err).unwrap_or_default();
        return Err(Failure::usage(wrong));
    };
    if with.policy.is_none() {
        return Err(Failure::usage(format!("{} is not a policy of NeuroGC; use gap, for example", with.name)));
    }
    let seconds = arguments.seconds.unwrap_or(match arguments.what {
        DemoSubject::Collections => 60,
        DemoSubject::Leak => 300,
    });
    let interrupt = Interrupt::watch()?;
    let home = Home::find().map_err(Failure::failed)?;
    let python = arguments.python.clone().unwrap_or_else(probe::default_python);
    let facts = probe::ask(&python, &home).map_err(Failure::failed)?;
    let machine = MachineFacts::look(format!("{} {}", facts.implementation, facts.version));
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("neurogc-bench").join(format!("demo-{}", moment())));
    fs::create_dir_all(&folder)?;
    let scripts = scripts::write(&folder)?;
    let setting = ScriptSetup::new(&python, &home, &scripts, 1.0);
    if arguments.what == DemoSubject::Leak {
        let hub = with_dashboard.then(|| folder.join("hub"));
        return leak::run(setting, Duration::from_secs(seconds), hub.as_deref(), &interrupt, arguments.json, out);
    }
    let demo = Demo { seconds, interrupt: &interrupt, is_silent: arguments.json };
    let (mut nowhere, answer) = (io::sink(), out);
    let out: &mut dyn Write = if arguments.json { &mut nowhere } else { &mut *answer };
    writeln!(out, "starting the same service twice, without and with NeuroGC ({})…", with.name)?;
    out.flush()?;
    let mut services = demo.start(setting, [&without, &with])?;
    let pids = [services[0].staged.pid(), services[1].staged.pid()];
    let dashboard = match with_dashboard {
        true => Some(Dashboard::start(folder.join("hub"), pids).map_err(Failure::failed)?),
        false => None,
    };
    if let Some(dashboard) = &dashboard {
        let address = dashboard.side_by_side(pids).map_err(Failure::failed)?;
        writeln!(out, "Dashboard: {address}")?;
        out.flush()?;
        browse(&address);
    }
    let rate = demo.rate(&services)?;
    let sides = [DemoSide::default(), DemoSide::default()];
    let trials = demo.drive(&mut services, &sides, rate, [&without, &with], out)?;
    drop(services);
    let mut measured = Measured {
        scenario: "demo".to_owned(),
        about: format!("the service of `attribution` twice at once, {rate:.0} requests a second to each"),
        ..Measured::default()
    };
    for (contender, trial) in [&without, &with].into_iter().zip(trials) {
        let (contender, title) = (contender.name.clone(), contender.title());
        measured.entries.push(ContenderTrials { contender, title, trials: vec![trial], failed: None });
    }
    let mut run = Run::new(machine, 1, false);
    run.seconds = seconds as f64;
    run.scenarios.push(measured);
    let page = folder.join("report.html");
    fs::write(&page, report::page(&run, &sides[0].seen(), &sides[1].seen()))?;
    fs::write(folder.join(crate::bench::record::FILE), serde_json::to_vec(&run)?)?;
    if arguments.json {
        writeln!(answer, "{}", serde_json::json!({"report": page, "run": run}))?;
        return Ok(());
    }
    writeln!(out, "\n{}\nReport: {}", report::table(&run.scenarios[0]), page.display())?;
    for doubt in run.scenarios[0].entries.iter().flat_map(|entry| &entry.trials).flat_map(|trial| &trial.doubts) {
        writeln!(out, "Doubtful: {doubt}")?;
    }
    match dashboard {
        Some(dashboard) => {
            writeln!(out, "The dashboard stays until Ctrl-C.")?;
            out.flush()?;
            dashboard.stay();
        }
        None => writeln!(out, "The same in a browser: neurogc demo --dashboard")?,
    }
    Ok(())
}

/// A running service and where it listens.
struct Service {
    staged: Staged,
    target: Target,
}

struct Demo<'d> {
    seconds: u64,
    interrupt: &'d Interrupt,
    /// Only the outcome is wanted.
    is_silent: bool,
}

impl Demo<'_> {
    /// Both at once, because building their heaps takes a moment.
    fn start(&self, setting: ScriptSetup<'_>, contenders: [&Contender; 2]) -> Result<[Service; 2], Failure> {
        let length = Duration::from_secs(self.seconds);
        let begin = |contender| Staged::start(setting, SCRIPT, contender, length).map_err(Failure::failed);
        let [without, with] = contenders;
        let (without, with) = (begin(without)?, begin(with)?);
        Ok([self.ready(without)?, self.ready(with)?])
    }

    fn ready(&self, mut staged: Staged) -> Result<Service, Failure> {
        let word = staged.first(self.interrupt).map_err(silent)?;
        let port = word.port.ok_or_else(|| Failure::failed("the demo's service did not say its port"))?;
        Ok(Service { staged, target: Target::port(port) })
    }

    /// How many requests a second each of them gets. Both are tried out alike.
    fn rate(&self, services: &[Service; 2]) -> Result<f64, Failure> {
        let mut best = 0.0_f64;
        for service in services {
            let trying = LoadPlan {
                load: Load::Users(Users::closed(2)),
                parts: vec![PlanPart { name: MEASURED, lasts: TRYING }],
                ..self.plan(service.target, 1.0)
            };
            let outcome = drive(&trying, &mut |_| self.flow())?;
            best = best.max(outcome.part(MEASURED).map_or(0.0, neurogc_load::PartOutcome::per_second));
        }
        if self.interrupt.came() {
            return Err(interrupted());
        }
        if best <= 0.0 {
            return Err(Failure::failed("the demo's services do not answer"));
        }
        Ok((best * UTILISATION).max(1.0))
    }

    fn flow(&self) -> Flow {
        if self.interrupt.came() { Flow::Stop } else { Flow::On }
    }

    fn plan(&self, target: Target, per_second: f64) -> LoadPlan {
        LoadPlan {
            target,
            asks: Asks::of("/explain/{}"),
            load: Load::Open(Arrivals::Poisson { per_second }),
            parts: vec![PlanPart { name: MEASURED, lasts: Duration::from_secs(self.seconds) }],
            patience: Duration::from_secs(5),
            connections: 512,
            shed: false,
            seed: 1,
        }
    }

    /// Drives both and shows them.
    fn drive(
        &self,
        services: &mut [Service; 2],
        sides: &[DemoSide; 2],
        rate: f64,
        contenders: [&Contender; 2],
        out: &mut dyn Write,
    ) -> Result<Vec<Trial>, Failure> {
        let mut before = Vec::new();
        for (service, contender) in services.iter().zip(contenders) {
            let word = trial::ask(service.target, "/mark").map_err(failed)?;
            trial::check(contender, word.neurogc.as_ref()).map_err(failed)?;
            before.push(word.neurogc);
        }
        let mut windows: Vec<MeasuredWindow<'_>> =
            services.iter().map(|service| MeasuredWindow::open(service.staged.pid(), None)).collect();
        let enough = std::sync::atomic::AtomicBool::new(false);
        let drove = thread::scope(|scope| {
            let generators: Vec<_> = services
                .iter()
                .zip(sides)
                .map(|(service, side)| {
                    let plan = self.plan(service.target, rate);
                    let enough = &enough;
                    scope.spawn(move || {
                        go_first();
                        drive(&plan, &mut |live| {
                            side.seen().take(live);
                            let stop = enough.load(std::sync::atomic::Ordering::Relaxed);
                            if stop { Flow::Stop } else { self.flow() }
                        })
                    })
                })
                .collect();
            let mut look = || {
                for (window, side) in windows.iter_mut().zip(sides) {
                    window.look();
                    side.seen().rss_now = window.rss_now();
                }
                !generators.iter().all(thread::ScopedJoinHandle::is_finished)
            };
            let shown = self.show(sides, rate, &mut look, out);
            enough.store(true, std::sync::atomic::Ordering::Relaxed);
            let drove: Vec<_> = generators.into_iter().map(thread::ScopedJoinHandle::join).collect();
            shown.map(|()| drove)
        })?;
        if self.interrupt.came() {
            return Err(interrupted());
        }
        let mut trials = Vec::new();
        for ((((drove, window), service), before), side) in
            drove.into_iter().zip(windows).zip(services).zip(before).zip(sides)
        {
            let outcome: Drove = drove.map_err(|_| Failure::failed("the load generator failed"))??;
            let seen = window.close();
            let word = trial::ask(service.target, "/report").map_err(failed)?;
            let mut trial = trial::of_service(&outcome, Some(seen), before.as_ref(), &word).map_err(failed)?;
            // It may have been ended before its time.
            trial.figures.insert("per_second".to_owned(), side.seen().per_second());
            trials.push(trial);
        }
        Ok(trials)
    }

    /// Shows both sides until they are done, or the user ends the demo.
    fn show(
        &self,
        sides: &[DemoSide; 2],
        rate: f64,
        look: &mut dyn FnMut() -> bool,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if !self.is_silent && io::stdout().is_terminal() && io::stdin().is_terminal() {
            // From here on a panic gives the terminal back before it prints.
            let mut terminal = ratatui::try_init()?;
            let shown = self.show_screen(sides, rate, look, &mut terminal);
            ratatui::restore();
            return shown;
        }
        writeln!(out, "{rate:.0} requests a second to each, for {} s", self.seconds)?;
        let mut told = 0;
        while look() && !self.interrupt.came() {
            let (without, with) = (sides[0].seen(), sides[1].seen());
            let second = without.slowest.len().min(with.slowest.len());
            if second > told {
                told = second;
                writeln!(out, "{}", lines::line(second, &without, &with))?;
                out.flush()?;
            }
            drop((without, with));
            thread::sleep(STEP);
        }
        Ok(())
    }

    fn show_screen(
        &self,
        sides: &[DemoSide; 2],
        rate: f64,
        look: &mut dyn FnMut() -> bool,
        terminal: &mut DefaultTerminal,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        while look() && !self.interrupt.came() {
            let second = usize::try_from(began.elapsed().as_secs()).unwrap_or(0);
            let head = screen::ScreenHead { second, seconds: self.seconds, per_second: rate };
            terminal.draw(|frame| screen::draw(head, &sides[0].seen(), &sides[1].seen(), frame))?;
            if !event::poll(STEP)? {
                continue;
            }
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => self.interrupt.note(),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn interrupted() -> Failure {
    Failure::with_code(interrupt::CODE, "interrupted: both services are stopped")
}

fn silent(silence: Silence) -> Failure {
    match silence {
        Silence::Interrupted => interrupted(),
        Silence::Failed(reason) => Failure::failed(format!("the demo's service did not start: {reason}")),
    }
}

fn failed(ended: TrialEnd) -> Failure {
    match ended {
        TrialEnd::Failed(reason) | TrialEnd::Skipped(reason) => Failure::failed(reason),
        TrialEnd::Interrupted | TrialEnd::Done(_) => interrupted(),
    }
}
