//! The part of a status report that tells what held the program up.

use std::fmt::{self, Write};

use neurogc_wire::status::{Cause, Stall, Status};

use crate::figures::{count, ms, plain, shorten_front, span};
use crate::table::{Alignment, Table};
use crate::verdict::lately;

/// Places of the last minutes that are shown; `--json` has more.
const SHOWN_SITES: usize = 5;

/// Everything about stalls: by cause, the places of the last minutes, and the longest since the start.
pub(crate) fn write(to: &mut String, status: &Status, room: Option<usize>) -> fmt::Result {
    let stalls = &status.stalls;
    writeln!(to, "\nstalls")?;
    if stalls.count == 0 {
        return writeln!(to, "  none");
    }
    causes(to, status);
    sites(to, status, room)?;
    longest(to, status, room)?;
    stack(to, status, room)
}

fn causes(to: &mut String, status: &Status) {
    use Alignment::{Left, Right};
    let (whole, window) = (&status.stalls, &status.window.stalls);
    let seen = status.window.seconds > 0.0;
    let columns = [("CAUSE", Left), ("COUNT", Right), ("TIME", Right), ("LATELY", Right), ("TIME", Right)];
    let mut table = Table::new(if seen { &columns } else { &columns[..3] });
    let (mut counts, mut lately_counts) = (whole.by_cause, window.by_cause);
    for cause in Cause::ALL {
        let number = *counts.of(cause);
        if number > 0 {
            let cells = [cause.name().to_owned(), count(number), ms(whole.time_ms_by_cause.of(cause))];
            let recent = [count(*lately_counts.of(cause)), ms(window.time_ms_by_cause.of(cause))];
            table.row(cells.into_iter().chain(recent.into_iter().filter(|_| seen)));
        }
    }
    to.push_str(&table.render(2));
    let lately = if seen { format!("; LATELY: in the {}", lately(status)) } else { String::new() };
    let _ = writeln!(to, "  {} since the start, longest {}{lately}", count(whole.count), ms(whole.max_ms));
}

fn sites(to: &mut String, status: &Status, room: Option<usize>) -> fmt::Result {
    use Alignment::{Left, Right};
    let sites = &status.window.stalls.sites;
    if sites.is_empty() {
        return Ok(());
    }
    writeln!(to, "\nwhere it stalled, {}", lately(status))?;
    let columns = [("COUNT", Right), ("TIME", Right), ("LONGEST", Right), ("CAUSE", Left), ("SITE", Left)];
    let mut table = Table::new(&columns);
    for site in sites.iter().take(SHOWN_SITES) {
        let cause = site.cause.name().to_owned();
        table.row([count(site.count), ms(site.total_ms), ms(site.max_ms), cause, place(&site.site, &site.stop)]);
    }
    table.fit_last(2, room, shorten_front);
    to.push_str(&table.render(2));
    Ok(())
}

fn longest(to: &mut String, status: &Status, room: Option<usize>) -> fmt::Result {
    use Alignment::{Left, Right};
    let longest = longest_first(status);
    if longest.is_empty() {
        return Ok(());
    }
    writeln!(to, "\nlongest stalls since the start")?;
    let mut table = Table::new(&[("AGO", Right), ("LASTED", Right), ("CAUSE", Left), ("SITE", Left)]);
    for stall in longest {
        let ago = span(status.uptime_s - stall.at_s);
        table.row([ago, ms(stall.ms), stall.cause.name().to_owned(), place(&stall.site, &stall.stop)]);
    }
    table.fit_last(2, room, shorten_front);
    to.push_str(&table.render(2));
    Ok(())
}

/// The stack at which the program has stalled longest. One frame alone is in the tables above.
fn stack(to: &mut String, status: &Status, room: Option<usize>) -> fmt::Result {
    let Some(stack) = status.stalls.stacks.first().filter(|stack| stack.frames.len() > 1) else { return Ok(()) };
    let (total, times, cause) = (ms(stack.total_ms), count(stack.count), stack.cause.name());
    writeln!(to, "\nthe stack that stalled longest: {total} in {times} stalls ({cause})")?;
    let fit =
        |frame: &String| room.map_or_else(|| plain(frame), |room| shorten_front(&plain(frame), room.saturating_sub(4)));
    writeln!(to, "  {}", stack.frames.iter().map(fit).collect::<Vec<_>>().join("\n    "))
}

/// The longest stalls of a report, longest first. An older agent tells only the latest ones.
pub(crate) fn longest_first(status: &Status) -> Vec<&Stall> {
    let stalls = &status.stalls;
    let mut longest: Vec<_> = if stalls.longest.is_empty() { &stalls.recent } else { &stalls.longest }.iter().collect();
    longest.sort_by(|one, other| other.ms.total_cmp(&one.ms));
    longest.truncate(10);
    longest
}

fn place(site: &str, stop: &str) -> String {
    match (plain(site), plain(stop)) {
        (site, stop) if site.is_empty() && stop.is_empty() => "-".to_owned(),
        (site, stop) if site.is_empty() => stop,
        (site, stop) if stop.is_empty() => site,
        (site, stop) => format!("{stop}: {site}"),
    }
}
