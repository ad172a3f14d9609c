//! `neurogc ps`: the processes that have an agent.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use neurogc_wire::status::Status;

use crate::agents::Rendezvous;
use crate::columns::{self, Column};
use crate::failure::CommandResult;
use crate::figures::{self, plain};
use crate::notice::say;
use crate::paint;
use crate::table::{Alignment, Table};

/// How long one agent may take: a listing should not hang on one stopped process.
const PATIENCE: Duration = Duration::from_millis(500);

/// A longer name of a service would take the room of the figures.
const LONGEST_SERVICE: usize = 24;

/// A terminal with fewer columns than this is narrow.
const NARROW: usize = 100;

/// List the processes on this machine that have an agent
///
/// Lists your own processes; as root, those of all users.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  neurogc run -- uvicorn app:app &\n  neurogc ps\n  neurogc ps --columns gc.full.max_ms,bound.over"
)]
pub(crate) struct Arguments {
    /// Print the full status of each process as a JSON list
    #[arg(long)]
    json: bool,
    /// Also show these figures of the status report, by their paths in it, separated by commas
    #[arg(long, value_name = "PATH,…", value_delimiter = ',')]
    columns: Vec<Column>,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let (reports, warnings) = Rendezvous::of_this_machine().ask_all(PATIENCE);
    warnings.iter().for_each(say);
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&reports)?)?;
    } else if reports.is_empty() {
        writeln!(out, "No process of yours with an agent is running. Start one with `neurogc run -- python app.py`.")?;
    } else {
        let text = listing(&reports, &arguments.columns, figures::room());
        write!(out, "{}", if paint::is_wanted() { paint::listing(&text) } else { text })?;
    }
    Ok(())
}

fn listing(reports: &[Status], more: &[Column], room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    // A narrow terminal needs its room for the command; `status` has what is left out.
    let narrow = room.is_some_and(|room| room < NARROW);
    let wanted = |column: &str| !(narrow && ["ROLE", "PYTHON", "POLICY"].contains(&column));
    let columns = [
        ("SERVICE", Left),
        ("ROLE", Left),
        ("PID", Right),
        ("PYTHON", Left),
        ("POLICY", Left),
        ("UPTIME", Right),
        ("RSS", Right),
        ("REQ/S", Right),
        ("P99", Right),
        ("GC MAX", Right),
        ("COMMAND", Left),
    ];
    let mut shown: Vec<_> = columns.into_iter().filter(|(name, _)| wanted(name)).collect();
    // The command stays last: it is cut where a line is too long.
    shown.splice(shown.len() - 1..shown.len() - 1, more.iter().map(|column| (column.title(), column.side())));
    let mut table = Table::new(&shown);
    let mut above = "";
    for status in by_service(reports) {
        // A service is named once, above its processes.
        let service = std::mem::replace(&mut above, &status.service);
        let service = if *service == *status.service { String::new() } else { plain(&status.service) };
        let measured = status.requests.count > 0;
        let cells = [
            figures::shorten(&service, LONGEST_SERVICE),
            plain(&status.role),
            status.pid.to_string(),
            plain(&status.python),
            plain(&status.policy_shown()),
            figures::span(status.uptime_s),
            figures::bytes(status.memory.rss),
            if measured { format!("{:.1}", status.requests.rps) } else { "-".to_owned() },
            if measured { figures::ms(status.requests.p99_ms) } else { "-".to_owned() },
            longest_pause(status),
        ];
        let cells = columns.iter().zip(cells).filter(|((name, _), _)| wanted(name)).map(|(_, cell)| cell);
        table.row(cells.chain(columns::cells(more, status)).chain([plain(&status.command)]));
    }
    table.fit_last(0, room, figures::shorten);
    table.render(0)
}

/// The processes of each service beside each other: the master first, then the workers by their number.
fn by_service(reports: &[Status]) -> Vec<&Status> {
    let rank = |status: &Status| {
        let number = status.role.strip_prefix("worker ").and_then(|number| number.parse::<u32>().ok());
        let first = !matches!(&*status.role, "master" | "main") as u32;
        (first, number.unwrap_or(u32::MAX), status.pid)
    };
    let mut sorted: Vec<_> = reports.iter().collect();
    sorted.sort_by(|one, other| one.service.cmp(&other.service).then_with(|| rank(one).cmp(&rank(other))));
    sorted
}

fn longest_pause(status: &Status) -> String {
    let kinds = [status.gc.young, status.gc.middle, status.gc.full, status.gc.reap];
    if kinds.iter().all(|kind| kind.count == 0) {
        return "-".to_owned();
    }
    figures::ms(kinds.iter().map(|kind| kind.max_ms).fold(0.0, f64::max))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_narrow_terminal_is_kept_to() {
        let mut service = samples::service();
        service.command = format!("python /srv/shop/venv/bin/uvicorn {}", "x".repeat(100));
        let text = listing(&[service, samples::idle()], &[], Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("python /srv/shop/") && text.contains('…') && !text.contains("POLICY"), "{text}");
    }

    #[test]
    fn processes_of_a_service_stand_together() {
        let of = |pid, service: &str, role: &str| Status {
            pid,
            service: service.to_owned(),
            role: role.to_owned(),
            ..samples::idle()
        };
        let reports = [
            of(4, "shop", "worker 10"),
            of(5, "api", "main"),
            of(6, "shop", "worker 2"),
            of(7, "shop", "resource tracker"),
            of(8, "shop", "master"),
        ];
        let pids: Vec<_> = by_service(&reports).iter().map(|status| status.pid).collect();
        assert_eq!(pids, [5, 8, 6, 4, 7]);
        let text = listing(&reports, &[], None);
        assert_eq!(text.matches("shop").count(), 1, "{text}");
    }

    #[test]
    fn listing_lines_up() {
        insta::assert_snapshot!(listing(&[samples::service(), samples::idle()], &[], None));
    }

    #[test]
    fn figures_that_were_asked_for_stand_before_the_command() {
        let more = ["gc.full.max_ms".parse().unwrap(), "memory.limit".parse().unwrap()];
        insta::assert_snapshot!(listing(&[samples::service(), samples::idle()], &more, None));
    }
}
