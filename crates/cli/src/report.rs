//! A status report as text for a person.

use std::fmt::{self, Write};

use neurogc_wire::status::{Bound, Child, Forecasts, PauseTotals, Pauses, Spans, Status};

use crate::figures::{bytes, count, ms, plain, span};
use crate::gpu::listing;
use crate::table::{Alignment, Table};
use crate::verdict::{self, lately};
use crate::{latency, stalls};

/// The whole report. `room` is how wide a line may be.
pub(crate) fn text(status: &Status, room: Option<usize>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, status, room);
    text
}

fn write(to: &mut String, status: &Status, room: Option<usize>) -> fmt::Result {
    let findings = verdict::findings(status);
    findings.iter().try_for_each(|finding| writeln!(to, "{}", verdict::line(finding)))?;
    if !findings.is_empty() {
        writeln!(to)?;
    }
    writeln!(to, "process {}: {}", status.pid, plain(&status.command))?;
    if !status.service.is_empty() {
        writeln!(to, "  service {}, {}", plain(&status.service), plain(&status.role))?;
    }
    let (python, neurogc) = (plain(&status.python), plain(&status.neurogc));
    writeln!(
        to,
        "  {python}, neurogc {neurogc}, policy {}, up {}",
        plain(&status.policy_shown()),
        span(status.uptime_s)
    )?;
    degraded(to, status)?;
    requests(to, status)?;
    collections(to, status)?;
    conduct(to, status)?;
    bound(to, &status.bound)?;
    stalls::write(to, status, room)?;
    memory(to, status)?;
    gpu(to, status)?;
    gil(to, status)?;
    traffic(to, status)?;
    children(to, status)?;
    agent(to, status)
}

fn degraded(to: &mut String, status: &Status) -> fmt::Result {
    if !status.degraded.is_empty() {
        writeln!(to, "\ndegraded")?;
    }
    status.degraded.iter().try_for_each(|reason| writeln!(to, "  - {}", plain(reason)))
}

fn requests(to: &mut String, status: &Status) -> fmt::Result {
    let requests = &status.requests;
    writeln!(to, "\nrequests, since the start")?;
    if requests.count == 0 && requests.in_flight == 0 {
        return writeln!(to, "  none seen yet");
    }
    let finished = count(requests.count);
    writeln!(to, "  {finished} finished, {} in flight, {:.1} per second now", requests.in_flight, requests.rps)?;
    latency::parts(to, requests)?;
    latency::lately(to, status)?;
    latency::routes(to, requests)?;
    latency::slowest(to, status)
}

fn collections(to: &mut String, status: &Status) -> fmt::Result {
    use Alignment::{Left, Right};
    let gc = &status.gc;
    writeln!(to, "\ncollections, since the start")?;
    let mut table =
        Table::new(&[("", Left), ("COUNT", Right), ("TOTAL", Right), ("P50", Right), ("P99", Right), ("MAX", Right)]);
    for (name, pauses) in [("young", gc.young), ("middle", gc.middle), ("full", gc.full), ("reap", gc.reap)] {
        // Reaping is rare; an empty line for it would only ask for an explanation.
        if pauses.count > 0 || name != "reap" {
            table.row(pause_cells(name, pauses));
        }
    }
    let places = [
        ("in requests", gc.in_request),
        ("in gaps, requests waited", gc.in_gap_arrivals),
        ("in gaps", gc.in_gap),
        ("forced", gc.forced),
    ];
    for (name, place) in places {
        // The same holds for these two.
        if place.count > 0 || name == "in requests" || name == "in gaps" {
            table.row(place_cells(name, place));
        }
    }
    to.push_str(&table.render(2));
    let window = &status.window;
    if window.seconds > 0.0 {
        let places = [
            ("in requests", window.gc.in_request),
            ("in gaps while requests waited", window.gc.in_gap_arrivals),
            ("in gaps", window.gc.in_gap),
            ("forced", window.gc.forced),
        ];
        let told =
            |(name, place): &(&str, PauseTotals)| format!("{name} {} ({})", count(place.count), ms(place.total_ms));
        let places: Vec<_> = places.iter().filter(|(_, place)| place.count > 0).map(told).collect();
        let places = if places.is_empty() { "none".to_owned() } else { places.join(", ") };
        writeln!(to, "  {}: {places}", lately(status))?;
    }
    let snapshot = &gc.snapshot;
    if snapshot.count + snapshot.failed > 0 {
        writeln!(
            to,
            "  {} snapshots ({} failed), clone p50 {} max {}, flight p50 {}, {} lost to copies, {} candidates, {} freed",
            count(snapshot.count),
            count(snapshot.failed),
            ms(snapshot.clone_p50_ms),
            ms(snapshot.clone_max_ms),
            ms(snapshot.flight_p50_ms),
            ms(snapshot.copied_ms),
            count(snapshot.candidates),
            count(snapshot.freed)
        )?;
    }
    for failure in &snapshot.failures {
        let ago = span(status.uptime_s - failure.last_s);
        writeln!(to, "    failed: {}, last {ago} ago: {}", count(failure.count), plain(&failure.reason))?;
    }
    write!(to, "  objects: {} freed, {} uncollectable", count(gc.collected), count(gc.uncollectable))?;
    if gc.tracked > 0 {
        write!(to, ", {} tracked", count(gc.tracked))?;
    }
    if gc.frozen > 0 {
        write!(to, ", {} frozen", count(gc.frozen))?;
    }
    writeln!(to)
}

fn conduct(to: &mut String, status: &Status) -> fmt::Result {
    let conduct = &status.conduct;
    if !conduct.acting && conduct.orders.is_empty() {
        return Ok(());
    }
    writeln!(to, "\nconduct, since the start")?;
    let mut table = Table::new(&[
        ("COUNT", Alignment::Right),
        ("LAST", Alignment::Right),
        ("WHAT", Alignment::Left),
        ("WHY", Alignment::Left),
    ]);
    for orders in &conduct.orders {
        let ago = span(status.uptime_s - orders.last_s);
        let guard = if orders.guard { "guard: " } else { "" };
        table.row([count(orders.count), ago, plain(&orders.what), format!("{guard}{}", plain(&orders.reason))]);
    }
    to.push_str(&table.render(2));
    if conduct.due.is_empty() {
        write!(to, "  nothing is due")?;
    } else {
        write!(to, "  due: {}", plain(&conduct.due))?;
    }
    if conduct.overdue_s > 0.0 {
        write!(to, ", a full collection for {}", span(conduct.overdue_s))?;
    }
    write!(to, "; {} gaps missed", count(conduct.missed))?;
    if conduct.deferred > 0 {
        write!(to, ", {} collections of the program put off", count(conduct.deferred))?;
    }
    writeln!(to)?;
    let training = conduct.training;
    if training.ranks > 1 {
        let (ranks, next) = (training.ranks, count(training.next_step));
        write!(to, "  aligned with {} ranks at step {}, next at step {next}", ranks, count(training.step))?;
        let [aligned, unaligned] = [training.aligned, training.unaligned].map(count);
        writeln!(to, "; {aligned} stops at steps that they share, {unaligned} at others")?;
    }
    conduct.model.as_ref().map_or(Ok(()), |model| forecasts(to, model))
}

fn forecasts(to: &mut String, model: &Forecasts) -> fmt::Result {
    let list = |values: Vec<String>| values.join(", ");
    let gaps = list(model.gap_ms.iter().map(|gap| ms(*gap)).collect());
    let covered = list(model.covered.iter().map(|share| format!("{:.0} %", share * 100.0)).collect());
    writeln!(to, "  model {}: 10, 25, 50, 75, 90 % of gaps like this one are over after {gaps}", plain(&model.family))?;
    write!(to, "  of {} gaps lately over by then: {covered}", count(model.gaps))?;
    let drifts = if model.drifts == 1 { "once" } else { "times" };
    match (model.drifted, model.drifts) {
        (true, _) => writeln!(to, "; it cannot be relied on now, so gap decides"),
        (false, 0) => writeln!(to),
        (false, 1) => writeln!(to, "; it could not be relied on {drifts}"),
        (false, many) => writeln!(to, "; it could not be relied on {many} {drifts}"),
    }
}

/// How large the heap may get, where a bound is kept.
fn bound(to: &mut String, bound: &Bound) -> fmt::Result {
    if bound.goal_bytes + bound.goal_objects == 0 {
        return Ok(());
    }
    writeln!(to, "\nbound, now")?;
    let (goal, live) = (bytes(bound.goal_bytes), bytes(bound.live_bytes));
    writeln!(to, "  memory may grow to {goal}; {live} were alive when everything was last collected")?;
    let [objects, goal, live] = [bound.objects, bound.goal_objects, bound.live_objects].map(count);
    let over =
        if bound.over > 0.0 { format!(" (over by {:.0} % of its room)", bound.over * 100.0) } else { String::new() };
    writeln!(to, "  {objects} objects of at most {goal}{over}; {live} were alive")?;
    let (launches, backstops) = (count(bound.launches), count(bound.backstops));
    writeln!(to, "  to keep it: snapshots {launches}, full collections {backstops}")?;
    if bound.held_back > 0 {
        let held_back = count(bound.held_back);
        writeln!(
            to,
            "  put off near the memory ceiling, so that collections take at most half of the time: {held_back}"
        )?;
    }
    let (throttled, assisted) = (ms(bound.throttled_ms), ms(bound.assisted_ms));
    writeln!(to, "  threads that allocate waited {throttled} and helped to free for {assisted}")
}

fn pause_cells(name: &str, pauses: Pauses) -> [String; 6] {
    let measured = |value: f64| if pauses.count > 0 { ms(value) } else { "-".to_owned() };
    let [total, p50, p99, max] = [pauses.total_ms, pauses.p50_ms, pauses.p99_ms, pauses.max_ms].map(measured);
    [name.to_owned(), count(pauses.count), total, p50, p99, max]
}

fn place_cells(name: &str, place: PauseTotals) -> [String; 6] {
    let measured = |value: f64| if place.count > 0 { ms(value) } else { "-".to_owned() };
    let [total, max] = [place.total_ms, place.max_ms].map(measured);
    [name.to_owned(), count(place.count), total, String::new(), String::new(), max]
}

fn memory(to: &mut String, status: &Status) -> fmt::Result {
    let memory = &status.memory;
    let known = |size: Option<u64>| size.map_or_else(|| "not known".to_owned(), bytes);
    writeln!(to, "\nmemory, now")?;
    write!(to, "  rss {} (peak {})", bytes(memory.rss), bytes(memory.peak_rss))?;
    match memory.limit {
        Some(limit) if limit > 0 => {
            writeln!(to, ", {:.0} % of the limit of {}", memory.rss as f64 * 100.0 / limit as f64, bytes(limit))?;
        }
        _ => writeln!(to, ", no limit")?,
    }
    let (pss, uss) = (known(memory.pss), known(memory.uss));
    writeln!(to, "  pss {pss}, uss {uss}, address space {}, swapped {}", bytes(memory.vms), bytes(memory.swap))
}

/// Memory of GPUs, where any is used.
fn gpu(to: &mut String, status: &Status) -> fmt::Result {
    let text = listing::of_status(&status.gpu);
    if text.is_empty() { Ok(()) } else { write!(to, "\ngpu memory, now\n{text}") }
}

fn gil(to: &mut String, status: &Status) -> fmt::Result {
    let gil = &status.gil;
    writeln!(to, "\ngil, since the start")?;
    if gil.busy.count + gil.idle.count == 0 {
        return writeln!(to, "  not observed");
    }
    let spans = |spans: Spans| {
        format!(
            "{} spans, p50 {}, p99 {}, max {}",
            count(spans.count),
            ms(spans.p50_ms),
            ms(spans.p99_ms),
            ms(spans.max_ms)
        )
    };
    writeln!(to, "  held {:.1} % of the time: {}", gil.busy_percent, spans(gil.busy))?;
    writeln!(to, "  free in between: {}", spans(gil.idle))
}

fn traffic(to: &mut String, status: &Status) -> fmt::Result {
    writeln!(to, "\nprocessor now, traffic since the start")?;
    writeln!(to, "  cpu {:.1} % of a core, {} threads, {} open files", status.cpu.percent, status.threads, status.fds)?;
    let (io, net) = (&status.io, &status.net);
    writeln!(to, "  storage {} read, {} written", bytes(io.read_bytes), bytes(io.write_bytes))?;
    let (received, sent) = (bytes(net.recv_bytes), bytes(net.sent_bytes));
    writeln!(to, "  network {received} received, {sent} sent, by everything in its network namespace")
}

fn children(to: &mut String, status: &Status) -> fmt::Result {
    if status.children.is_empty() {
        return Ok(());
    }
    let total = status.children.iter().map(|child| child.rss).fold(0, u64::saturating_add);
    writeln!(to, "\nchildren: {}, rss together {}", status.children.len(), bytes(total))?;
    let mut shown = vec![false; status.children.len()];
    branch(to, &status.children, status.pid, 1, &mut shown)?;
    // A child whose parent is missing from the report still has to be seen.
    let orphans = status.children.iter().zip(shown).filter(|(_, shown)| !shown);
    orphans.map(|(child, _)| child).try_for_each(|child| leaf(to, child, 1))
}

fn branch(to: &mut String, all: &[Child], parent: u32, depth: usize, shown: &mut [bool]) -> fmt::Result {
    for (index, child) in all.iter().enumerate().filter(|(_, child)| child.ppid == parent) {
        // A report is not trusted to hold a tree: each child is written once, whatever it claims.
        if !std::mem::replace(&mut shown[index], true) {
            leaf(to, child, depth)?;
            branch(to, all, child.pid, depth + 1, shown)?;
        }
    }
    Ok(())
}

fn leaf(to: &mut String, child: &Child, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth.min(20));
    write!(to, "{indent}{} {}  rss {}", child.pid, plain(&child.command), bytes(child.rss))?;
    match child.pss {
        Some(pss) => writeln!(to, ", pss {}", bytes(pss)),
        None => writeln!(to),
    }
}

fn agent(to: &mut String, status: &Status) -> fmt::Result {
    let agent = &status.agent;
    writeln!(to, "\ncost of the agent, since the start")?;
    let share = if status.uptime_s > 0.0 { agent.cpu_ms / (status.uptime_s * 10.0) } else { 0.0 };
    let (cpu, rss) = (ms(agent.cpu_ms), bytes(agent.rss_bytes));
    writeln!(to, "  cpu {cpu} ({share:.2} % of a core), memory {rss}, {} events dropped", count(agent.dropped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn report_of_a_busy_service() {
        insta::assert_snapshot!(text(&samples::service(), None));
    }

    #[test]
    fn report_of_an_idle_process() {
        insta::assert_snapshot!(text(&samples::idle(), None));
    }

    #[test]
    fn sites_fit_into_the_terminal() {
        let mut status = samples::service();
        status.stalls.longest[0].site = format!("/srv/{}/rank.py:88 in score", "deep/".repeat(30));
        let report = text(&status, Some(80));
        let site = report.lines().find(|line| line.ends_with("deep//rank.py:88 in score"));
        assert!(site.is_some_and(|line| line.chars().count() == 80 && line.contains("  …")), "{report}");
    }

    #[test]
    fn children_in_a_circle_are_shown_once() {
        let mut status = samples::idle();
        status.children = vec![
            Child { pid: 1, ppid: 2, ..Child::default() },
            Child { pid: 2, ppid: 1, ..Child::default() },
            Child { pid: 77, ppid: 77, ..Child::default() },
        ];
        let report = text(&status, None);
        assert_eq!(report.matches("  rss 0 B").count(), 3, "{report}");
    }
}
