//! `neurogc demo leak`: a service that leaks and the same one without the leak, and the verdicts on both.

use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use neurogc_wire::memory_verdict::MemoryVerdict;

use super::dashboard::{Dashboard, browse};
use crate::agents::Rendezvous;
use crate::bench::contender::Contender;
use crate::bench::interrupt::Interrupt;
use crate::bench::staged::{ScriptSetup, Silence, Staged};
use crate::failure::{CommandResult, Failure};
use crate::figures;
use crate::memory::diagnosis;

/// The scripts: the leak first.
const SCRIPTS: [&str; 2] = ["leak_service.py", "leak_service_fixed.py"];

/// How often the verdicts are asked for, and how long an agent may take to answer.
const ASK_EVERY: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(100);

/// Runs both until the leak is found, or for so long.
pub(crate) fn run(
    setting: ScriptSetup<'_>,
    longest: Duration,
    hub: Option<&Path>,
    interrupt: &Interrupt,
    json: bool,
    out: &mut dyn Write,
) -> CommandResult {
    let (mut nowhere, answer) = (io::sink(), out);
    let out: &mut dyn Write = if json { &mut nowhere } else { &mut *answer };
    let observe = Contender::parse("observe").map_err(Failure::failed)?;
    writeln!(out, "starting a service that leaks, and the same one without the leak…")?;
    out.flush()?;
    let mut services = Vec::new();
    for script in SCRIPTS {
        services.push(Staged::start(setting, script, &observe, longest).map_err(Failure::failed)?);
    }
    for service in &mut services {
        service.first(interrupt).map_err(|silence| match silence {
            Silence::Interrupted => Failure::failed("interrupted"),
            Silence::Failed(reason) => Failure::failed(reason),
        })?;
    }
    let pids = [services[0].pid(), services[1].pid()];
    let dashboard = hub.map(|data| Dashboard::start(data.to_owned(), pids)).transpose().map_err(Failure::failed)?;
    if let Some(dashboard) = &dashboard {
        let address = dashboard.memory_of(pids[0]).map_err(Failure::failed)?;
        writeln!(out, "Dashboard: {address}")?;
        browse(&address);
    }
    writeln!(out, "The verdict needs about a minute, and is surer the longer they run.")?;
    let verdicts = watch(pids, longest, interrupt, out)?;
    if json {
        let [leaks, fixed] = &verdicts;
        writeln!(answer, "{}", serde_json::json!({"leaks": leaks, "without_the_leak": fixed}))?;
        return Ok(());
    }
    for (name, verdict) in ["the service that leaks", "the same one without the leak"].into_iter().zip(&verdicts) {
        writeln!(out, "\n{name}\n{}", diagnosis::text(verdict, figures::room()))?;
    }
    writeln!(out, "As for any process: neurogc memory PID. `--why 1` shows the series behind the first finding.")?;
    if let Some(dashboard) = dashboard {
        writeln!(out, "Both services run on, and the dashboard stays, until Ctrl-C.")?;
        out.flush()?;
        dashboard.stay();
    }
    Ok(())
}

/// Prints how both grow until the leak is found, and gives the last verdicts.
fn watch(
    pids: [u32; 2],
    longest: Duration,
    interrupt: &Interrupt,
    out: &mut dyn Write,
) -> Result<[MemoryVerdict; 2], Failure> {
    let (began, mut due) = (Instant::now(), ASK_EVERY);
    let mut verdicts = [MemoryVerdict::default(), MemoryVerdict::default()];
    while began.elapsed() < longest && !interrupt.came() {
        if began.elapsed() < due {
            thread::sleep(STEP);
            continue;
        }
        due += ASK_EVERY;
        for (verdict, pid) in verdicts.iter_mut().zip(pids) {
            let asked = Rendezvous::of_this_machine().verdict(pid, PATIENCE).map_err(Failure::failed)?;
            *verdict = asked.unwrap_or_default();
        }
        let [leaking, fixed] = verdicts.each_ref().map(|verdict| figures::bytes(verdict.rss));
        let says = verdicts[0].findings.first().map_or("", |first| first.finding.text.as_str());
        writeln!(
            out,
            "{:>5}  {leaking}, without the leak {fixed}: {says}",
            figures::span(began.elapsed().as_secs_f64())
        )?;
        out.flush()?;
        if verdicts[0].findings.first().is_some_and(|it| it.finding.is_alarm()) {
            break;
        }
    }
    Ok(verdicts)
}
