//! `neurogc bench`: scenarios × contenders, in turns, with a report.

pub(crate) mod compare;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};

use crate::bench::arrivals::Pattern;
use crate::bench::contender::Contender;
use crate::bench::interrupt::{self, Interrupt};
use crate::bench::machine::MachineFacts;
use crate::bench::metrics::BenchMetric;
use crate::bench::plan::{self, ScenarioPlan};
use crate::bench::progress::BenchProgress;
use crate::bench::record::{self, ContenderTrials, Measured, Run, Trial};
use crate::bench::report::{drawings, html, markdown, terminal};
use crate::bench::scenario::{CATALOGUE, Size};
use crate::bench::scripts;
use crate::bench::staged::ScriptSetup;
use crate::bench::trial::{self, ScenarioFacts, Setup, TrialEnd};
use crate::failure::{CommandResult, Failure};
use crate::figures::{bytes, span, utc};
use crate::home::Home;
use crate::probe;

/// Where runs are kept, in the working directory.
const KEPT: &str = "neurogc-bench";

/// Compare policies side by side: latency, pauses, memory, processor
///
/// Scenarios and contenders take turns, each trial in a new process. The results are kept with a report: run.json,
/// report.html, report.md and plots/. Without a scenario, the default scenarios run with their default contenders,
/// which takes half an hour. Load goes to this machine only.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "Examples:\n  neurogc bench --quick\n  neurogc bench attribution --policies default,off,gap --runs 5\n  \
    neurogc bench attribution --arrivals bursts:50,2\n  neurogc bench attribution --arrivals service.ngct\n  \
    neurogc bench attribution --load 85 --policies default,gap,neural\n  \
    neurogc bench saturated --seconds 60 --policies default,gap\n  \
    neurogc bench compare neurogc-bench/monday neurogc-bench/tuesday\n\n\
    Contenders: every policy of `neurogc run`, and without NeuroGC: default (CPython left alone), off (the latency \
    floor), each (a collection after each request: the memory floor), thread:S, freeze+threshold:G0,G1,G2. Settings of the agent follow a policy: auto@allocations=off"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Scenarios to run; --list shows all of them
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Contenders, separated by commas; each scenario has its own default
    #[arg(long, value_name = "P,…")]
    policies: Option<String>,
    /// The interpreter, with the packages that the scenarios need
    #[arg(long, value_name = "EXE")]
    python: Option<PathBuf>,
    /// Number of runs of each contender; use at least five for useful bounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Directory of the run; by default a new one in neurogc-bench/
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How requests arrive in open-loop scenarios: poisson, bursts:N,S (N at once, every S seconds), ramp:FROM,TO
    /// (percent of the capacity of the service), or a FILE with recorded arrivals: a trace, or one time in seconds per
    /// line
    #[arg(long, value_name = "A", default_value = "poisson")]
    arrivals: String,
    /// How busy the service of an open-loop scenario is kept, in percent of what it can do
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=200))]
    load: Option<u32>,
    /// Length of the measured part of each trial, in seconds; each scenario has its own default
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Small heaps and short trials; results are not conclusive
    #[arg(long)]
    quick: bool,
    /// Print the run as JSON, not as Markdown
    #[arg(long)]
    json: bool,
    /// Print the report as Markdown on a terminal, too, as in a file or a pipe
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// List the scenarios and exit
    #[arg(long)]
    list: bool,
}

/// What is done with kept runs
#[derive(Debug, Subcommand)]
enum Verb {
    Compare(compare::Arguments),
    /// Write the report of a kept run again
    Report {
        /// The folder of the run
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> CommandResult {
    match arguments.verb {
        Some(Verb::Compare(compare)) => return compare::run(&compare, out),
        Some(Verb::Report { folder }) => {
            let run = Run::read(&folder).map_err(Failure::failed)?;
            write_reports(&run, &folder)?;
            return Ok(writeln!(out, "Report: {}", folder.join("report.html").display())?);
        }
        None => {}
    }
    if arguments.list {
        for scenario in CATALOGUE {
            let mark = if scenario.by_default { "" } else { " (only when named)" };
            writeln!(out, "{:<15} {}{mark}", scenario.name, scenario.about(&Pattern::default()))?;
        }
        return Ok(());
    }
    let named = arguments.policies.as_deref().map(Contender::parse_list).transpose().map_err(Failure::usage)?;
    let heats = plan::heats(&arguments.scenarios, named.as_deref()).map_err(Failure::usage)?;
    let arrivals = arguments.arrivals.parse::<Pattern>().map_err(Failure::usage)?;
    let arrivals = match arguments.load {
        Some(percent) => arrivals.busy(f64::from(percent) / 100.0),
        None => arrivals,
    };
    let home = Home::find().map_err(Failure::failed)?;
    let python = arguments.python.clone().unwrap_or_else(probe::default_python);
    let facts = probe::ask(&python, &home).map_err(Failure::failed)?;
    let machine = MachineFacts::look(format!("{} {}", facts.implementation, facts.version));
    let folder = folder(arguments.out.as_deref())?;
    let scripts = scripts::write(&folder)?;
    let interrupt = Interrupt::watch()?;
    let size = Size { quick: arguments.quick, measured: arguments.seconds.map(Duration::from_secs) };
    let setting = ScriptSetup::new(&python, &home, &scripts, size.heap());
    let setup = Setup { setting, size, arrivals: &arrivals, interrupt: &interrupt };
    let mut bench = Bench::new(setup, heats, Run::new(machine, arguments.runs, arguments.quick), &folder);
    let ended = bench.run();
    bench.write()?;
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&bench.run)?)?;
    } else {
        let text = markdown::text(&bench.run, false);
        let for_a_person = io::stdout().is_terminal() && !arguments.markdown;
        write!(out, "{}", if for_a_person { terminal::text(&text) } else { text })?;
        writeln!(out, "\nReport: {}", folder.join("report.html").display())?;
    }
    out.flush()?;
    ended
}

/// A new folder, or the one that was named.
fn folder(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = named.map_or_else(|| Path::new(KEPT).join(moment()), PathBuf::from);
    if folder.join(record::FILE).exists() {
        let shown = folder.display();
        return Err(Failure::usage(format!("{shown} already contains a run. Name another directory, or remove it")));
    }
    fs::create_dir_all(&folder)
        .map_err(|error| Failure::failed(format!("cannot make the folder {}: {error}", folder.display())))?;
    Ok(folder)
}

/// Now, as a name for a folder.
pub(crate) fn moment() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = utc(u64::try_from(now.as_nanos()).unwrap_or(0));
    text.trim_end_matches(" UTC").replace(' ', "-").replace(':', "")
}

/// A bench under way.
struct Bench<'b> {
    setup: Setup<'b>,
    heats: Vec<ScenarioPlan>,
    known: Vec<ScenarioFacts>,
    run: Run,
    folder: &'b Path,
    failures: Vec<String>,
}

impl<'b> Bench<'b> {
    fn new(setup: Setup<'b>, heats: Vec<ScenarioPlan>, mut run: Run, folder: &'b Path) -> Self {
        run.scenarios = heats
            .iter()
            .map(|heat| Measured {
                scenario: heat.scenario.name.to_owned(),
                about: heat.scenario.about(setup.arrivals),
                entries: heat
                    .contenders
                    .iter()
                    .map(|it| ContenderTrials {
                        contender: it.name.clone(),
                        title: it.title(),
                        ..ContenderTrials::default()
                    })
                    .collect(),
                ..Measured::default()
            })
            .collect();
        Self { setup, known: vec![ScenarioFacts::default(); heats.len()], heats, run, folder, failures: Vec::new() }
    }

    fn run(&mut self) -> CommandResult {
        let began = Instant::now();
        let (runs, size) = (self.run.runs, self.setup.size);
        let expected = plan::seconds(&self.heats, runs, size);
        let mut progress = BenchProgress::new(expected);
        let turns = plan::turns(&self.heats, runs);
        progress.say(&format!("{} trials, about {}, kept in {}", turns.len(), span(expected), self.folder.display()));
        let mut ended = self.calibrate(&mut progress);
        for turn in turns {
            let heat = self.heats[turn.heat].clone();
            let (scenario, contender) = (heat.scenario, &heat.contenders[turn.contender]);
            let seconds = scenario.trial_seconds(size);
            let measured = &mut self.run.scenarios[turn.heat];
            if measured.skipped.is_some() || measured.entries[turn.contender].failed.is_some() || ended.is_err() {
                continue;
            }
            let what = format!("{}, run {}/{runs}, {}", scenario.name, turn.run + 1, contender.name);
            progress.begin(&what);
            match trial::run(self.setup, scenario, contender, turn.run, self.known[turn.heat]) {
                TrialEnd::Done(trial) => {
                    progress.done(seconds, &format!("{what}: {}", in_short(&trial)));
                    for remark in trial.ended_early.iter().chain(&trial.doubts) {
                        progress.say(&format!("      {remark}"));
                    }
                    measured.entries[turn.contender].trials.push(*trial);
                }
                TrialEnd::Skipped(reason) => {
                    progress.done(seconds, &format!("{what}: skipped: {reason}"));
                    measured.entries[turn.contender].failed = Some(format!("skipped: {reason}"));
                }
                TrialEnd::Failed(reason) => {
                    progress.done(seconds, &format!("{what}: failed: {reason}"));
                    self.failures.push(format!("{what}: {reason}"));
                    measured.entries[turn.contender].failed = Some(reason);
                }
                TrialEnd::Interrupted => ended = Err(interrupted()),
            }
            self.run.seconds = began.elapsed().as_secs_f64();
            if self.keep().is_err() {
                progress.say("the run could not be saved; it continues");
            }
        }
        progress.end();
        self.tidy();
        ended?;
        match self.failures.first() {
            None => Ok(()),
            Some(first) => {
                Err(Failure::failed(format!("{} of the contenders failed, the first: {first}", self.failures.len())))
            }
        }
    }

    /// Finds out what each service can do and needs, once: every contender meets the same load and the same limit.
    fn calibrate(&mut self, progress: &mut BenchProgress) -> CommandResult {
        for at in 0..self.heats.len() {
            let scenario = self.heats[at].scenario;
            if scenario.calibrations() == 0 {
                continue;
            }
            let what = format!("{}: capacity of its service:", scenario.name);
            progress.begin(&what);
            let seconds = scenario.trial_seconds(self.setup.size) * f64::from(scenario.calibrations());
            let measured = &mut self.run.scenarios[at];
            match trial::calibrate(self.setup, scenario) {
                Ok(known) => {
                    let limit = known.limit.map_or_else(String::new, |limit| format!(", limit {}", bytes(limit)));
                    progress.done(seconds, &format!("{what} {:.0} requests a second{limit}", known.capacity));
                    self.known[at] = known;
                    measured.capacity = Some(known.capacity);
                    measured.limit = known.limit;
                }
                Err(TrialEnd::Skipped(reason)) => {
                    progress.done(seconds, &format!("{}: skipped: {reason}", scenario.name));
                    measured.skipped = Some(reason);
                }
                Err(TrialEnd::Failed(reason)) => {
                    progress.done(seconds, &format!("{}: failed: {reason}", scenario.name));
                    self.failures.push(format!("{}: {reason}", scenario.name));
                    measured.skipped = Some(format!("it failed: {reason}"));
                }
                Err(_) => return Err(interrupted()),
            }
        }
        Ok(())
    }

    /// Marks a scenario as skipped if none of its contenders could run.
    fn tidy(&mut self) {
        for measured in &mut self.run.scenarios {
            if measured.skipped.is_none() && measured.entries.iter().all(|entry| entry.trials.is_empty()) {
                let reason = measured.entries.iter().find_map(|entry| entry.failed.clone());
                measured.skipped = reason.map(|it| it.trim_start_matches("skipped: ").to_owned());
            }
            if measured.skipped.is_some() {
                measured.entries.clear();
            }
        }
    }

    /// Writes the figures down, so that a run that is cut off is not lost.
    fn keep(&self) -> Result<(), Failure> {
        let new = self.folder.join(".run.new");
        fs::write(&new, serde_json::to_vec(&self.run)?)?;
        Ok(fs::rename(new, self.folder.join(record::FILE))?)
    }

    /// Writes everything.
    fn write(&self) -> CommandResult {
        self.keep()?;
        write_reports(&self.run, self.folder)
    }
}

/// The report of a run, beside it.
fn write_reports(run: &Run, folder: &Path) -> CommandResult {
    fs::create_dir_all(folder.join(drawings::FOLDER))?;
    for measured in &run.scenarios {
        for drawing in drawings::of(measured) {
            fs::write(folder.join(drawing.path(&measured.scenario)), drawing.alone())?;
        }
    }
    fs::write(folder.join("report.md"), markdown::text(run, true))?;
    Ok(fs::write(folder.join("report.html"), html::page(run))?)
}

fn interrupted() -> Failure {
    Failure::with_code(interrupt::CODE, "interrupted: the results so far are kept")
}

/// One trial in a few words.
fn in_short(trial: &Trial) -> String {
    let names = [
        "p50_ms",
        "p99_ms",
        "p999_ms",
        "max_ms",
        "time_ms",
        "in_request_max_ms",
        "in_gap_max_ms",
        "per_second",
        "killed",
        "rss_peak",
        "rss_trend",
        "group_peak",
    ];
    let parts = names.iter().filter_map(|name| {
        let metric = BenchMetric::find(name)?;
        let title = match *name {
            "in_request_max_ms" => "GC in requests up to",
            "in_gap_max_ms" => "in gaps up to",
            _ => metric.title,
        };
        Some(format!("{title} {}", metric.show(*trial.figures.get(*name)?)))
    });
    parts.collect::<Vec<_>>().join(", ")
}
