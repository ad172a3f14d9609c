//! `neurogc doctor`: what works on this machine, what does not, and why.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use neurogc_settings::{CATALOGUE, Effective};
use neurogc_wire::control;
use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use crate::failure::{CommandResult, Failure};
use crate::figures::{bytes, plain};
use crate::home::Home;
use crate::kernel::{self, Check, Verdict};
use crate::probe::{self, InterpreterFacts};
use crate::process::{kernel_text, own_uid};
use crate::table::{Alignment, Table};
use crate::{agents, paint, sources};

/// Show what works here, what is degraded and why
///
/// Runs the interpreter with the agent, checks the kernel, and lists the settings in force. The exit code is 0 if the
/// agent works, degraded or not, and 1 if it cannot run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc doctor\n  neurogc doctor --python /usr/bin/python3.12 --json")]
pub(crate) struct Arguments {
    /// The interpreter [default: that of the virtual environment, else python3]
    #[arg(long, value_name = "EXE")]
    python: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// All findings.
#[derive(Debug, Serialize)]
struct Findings {
    /// Whether the agent runs here, and if not why.
    works: bool,
    reason: Option<String>,
    package: Option<PathBuf>,
    python: Option<InterpreterFacts>,
    checks: Vec<Check>,
    settings: Vec<Setting>,
    settings_error: Option<String>,
}

#[derive(Debug, Serialize)]
struct Setting {
    name: &'static str,
    value: String,
    origin: String,
    help: &'static str,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let findings = look(arguments);
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&findings)?)?;
    } else {
        let text = findings.to_string();
        write!(out, "{}", if paint::is_wanted() { paint::report(&text, None) } else { text })?;
    }
    match findings.reason {
        None => Ok(()),
        Some(reason) => {
            out.flush()?;
            Err(Failure::failed(reason))
        }
    }
}

fn look(arguments: &Arguments) -> Findings {
    let python = arguments.python.clone().unwrap_or_else(probe::default_python);
    let (sources, unread) = sources::gather(Vec::new());
    let settings = neurogc_settings::resolve(&sources).map_err(|error| error.to_string()).and_then(|effective| {
        // An agent passes over what is wrong; here it is to be seen.
        let wrong: Vec<_> = unread.iter().chain(&effective.complaints).map(String::as_str).collect();
        if wrong.is_empty() { Ok(effective) } else { Err(wrong.join(". ")) }
    });
    let home = Home::find();
    let facts = home.as_ref().map_err(Clone::clone).and_then(|home| probe::ask(&python, home));
    let reason = match (&settings, &facts) {
        (Err(error), _) => Some(format!("the settings are wrong: {error}")),
        (_, Err(error)) => Some(error.clone()),
        (_, Ok(facts)) => failure(facts),
    };
    Findings {
        works: reason.is_none(),
        reason,
        package: home.ok().map(|home| home.folder().to_owned()),
        python: facts.ok(),
        checks: checks(),
        settings: settings.as_ref().map(effective).unwrap_or_default(),
        settings_error: settings.err(),
    }
}

/// Why the agent does not run in an interpreter that answered.
fn failure(facts: &InterpreterFacts) -> Option<String> {
    let InterpreterFacts { version, implementation, executable, status, error } = facts;
    if status.is_some() {
        return None;
    }
    Some(match error {
        Some(error) => format!("the agent does not run in {executable} ({implementation} {version}): {}", plain(error)),
        None => format!(
            "{implementation} {version} ({executable}) is not supported; CPython 3.10 or newer is. \
             Name another interpreter with --python"
        ),
    })
}

fn effective(effective: &Effective) -> Vec<Setting> {
    let settings = CATALOGUE.iter().zip(&effective.origins).map(|(setting, (_, origin))| Setting {
        name: setting.name,
        value: (setting.show)(&effective.settings),
        origin: origin.to_string(),
        help: setting.help,
    });
    settings.collect()
}

fn checks() -> Vec<Check> {
    let text = |path: &str| kernel_text(path);
    let groups = text("/proc/self/cgroup").unwrap_or_default();
    let pids_max = kernel::pids_max_path(&groups).and_then(|path| kernel_text(&path));
    vec![
        kernel::cores(std::thread::available_parallelism().ok().map(std::num::NonZero::get)),
        kernel::cgroups(text("/proc/self/mounts").as_deref()),
        kernel::memory_detail(text("/proc/self/smaps_rollup").as_deref()),
        kernel::swap(text("/proc/meminfo").as_deref()),
        kernel::overcommit(text("/proc/sys/vm/overcommit_memory").as_deref()),
        kernel::huge_pages(text("/sys/kernel/mm/transparent_hugepage/enabled").as_deref()),
        kernel::run_queue(text("/proc/self/schedstat").as_deref()),
        kernel::processes(text("/proc/self/limits").as_deref(), pids_max.as_deref()),
        kernel::ptrace(text("/proc/sys/kernel/yama/ptrace_scope").as_deref()),
        kernel::perf_events(text("/proc/sys/kernel/perf_event_paranoid").as_deref()),
        socket_folder(),
    ]
}

fn socket_folder() -> Check {
    let folder = control::socket_folder(own_uid());
    let usable = agents::check_folder(&folder, own_uid()).and_then(|exists| {
        // Only looked at, not created: an agent that starts just now must not find a folder that goes away again.
        let above = folder.parent().unwrap_or(&folder);
        match access(above, AccessFlags::W_OK | AccessFlags::X_OK) {
            _ if exists => Ok("is there"),
            Ok(()) => Ok("can be created"),
            Err(error) => Err(format!("{} cannot be created: {}", folder.display(), error.desc())),
        }
    });
    let (verdict, found, consequence) = match usable {
        Ok(how) => (Verdict::Ok, format!("{} {how}", folder.display()), "`neurogc ps`, `status` and `top` find agents"),
        Err(flaw) => (Verdict::Degraded, flaw, "agents cannot be asked; programs run and record traces all the same"),
    };
    Check { name: "socket folder", verdict, found, consequence: consequence.to_owned() }
}

impl fmt::Display for Findings {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "interpreter")?;
        match &self.python {
            Some(facts) => write_python(to, facts)?,
            None => writeln!(to, "  not known")?,
        }
        match &self.reason {
            None => writeln!(to, "  the agent works")?,
            Some(reason) => writeln!(to, "  the agent does not work: {}", plain(reason))?,
        }
        if let Some(package) = &self.package {
            writeln!(to, "  package {}", package.display())?;
        }
        writeln!(to, "\nmachine")?;
        for check in &self.checks {
            writeln!(to, "  {:<8}  {}: {}", check.verdict.word(), check.name, plain(&check.found))?;
            writeln!(to, "            {}", check.consequence)?;
        }
        writeln!(to, "\nsettings")?;
        if let Some(error) = &self.settings_error {
            return writeln!(to, "  {}", plain(error));
        }
        let columns = ["NAME", "VALUE", "FROM", "MEANING"].map(|name| (name, Alignment::Left));
        let mut table = Table::new(&columns);
        for setting in &self.settings {
            let value = if setting.value.is_empty() { "-".to_owned() } else { plain(&setting.value) };
            table.row([setting.name.to_owned(), value, plain(&setting.origin), setting.help.to_owned()]);
        }
        to.write_str(&table.render(2))
    }
}

fn write_python(to: &mut fmt::Formatter<'_>, facts: &InterpreterFacts) -> fmt::Result {
    writeln!(to, "  {} {} ({})", plain(&facts.implementation), plain(&facts.version), plain(&facts.executable))?;
    let Some(status) = &facts.status else { return Ok(()) };
    writeln!(to, "  neurogc {}, policy {}", plain(&status.neurogc), plain(&status.policy_shown()))?;
    match status.memory.limit {
        Some(limit) => writeln!(to, "  memory limit {}", bytes(limit))?,
        None => writeln!(to, "  no memory limit")?,
    }
    status.degraded.iter().try_for_each(|reason| writeln!(to, "  degraded: {}", plain(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn facts(version: &str, works: bool) -> InterpreterFacts {
        InterpreterFacts {
            version: version.to_owned(),
            implementation: "CPython".to_owned(),
            executable: "/usr/bin/python3".to_owned(),
            status: works.then(samples::service),
            error: None,
        }
    }

    fn findings(python: InterpreterFacts) -> Findings {
        let reason = failure(&python);
        Findings {
            works: reason.is_none(),
            reason,
            package: Some("/opt/neurogc".into()),
            python: Some(python),
            checks: vec![
                kernel::swap(Some("SwapTotal: 0 kB")),
                kernel::memory_detail(None),
                kernel::overcommit(Some("2")),
            ],
            settings: neurogc_settings::resolve(&neurogc_settings::Sources::default())
                .map(|found| effective(&found))
                .unwrap_or_default(),
            settings_error: None,
        }
    }

    #[test]
    fn report_where_the_agent_works() {
        insta::assert_snapshot!(findings(facts("3.12.1", true)).to_string());
    }

    #[test]
    fn report_of_an_old_interpreter() {
        insta::assert_snapshot!(findings(facts("3.9.18", false)).to_string());
    }

    #[test]
    fn the_agents_own_error_is_passed_on() {
        let mut facts = facts("3.12.1", false);
        facts.error = Some("ImportError: no agent".to_owned());
        assert!(failure(&facts).is_some_and(|reason| reason.ends_with("ImportError: no agent")));
    }
}
