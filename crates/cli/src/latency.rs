//! The part of a status report that tells how long requests took, and what the slow ones waited for.

use std::fmt::{self, Write};

use neurogc_wire::status::{Latency, Requests, SlowRequest, Status};

use crate::figures::{count, ms, plain, shorten, span};
use crate::table::{Alignment, Table};
use crate::verdict;

/// Routes and slow requests that are shown; `--json` has them all.
const SHOWN_ROUTES: usize = 10;
const SHOWN_SLOW: usize = 5;

/// A longer name would push the figures off the screen.
const LONGEST_ROUTE: usize = 40;

/// The total, the wait and the service.
pub(crate) fn parts(to: &mut String, requests: &Requests) -> fmt::Result {
    let Requests { p50_ms, p95_ms, p99_ms, p999_ms, max_ms, .. } = *requests;
    let total = Latency { p50_ms, p95_ms, p99_ms, p999_ms, max_ms };
    let mut table = Table::new(&[
        ("", Alignment::Left),
        ("P50", Alignment::Right),
        ("P95", Alignment::Right),
        ("P99", Alignment::Right),
        ("P99.9", Alignment::Right),
        ("MAX", Alignment::Right),
    ]);
    for (name, part) in [("latency", total), ("wait", requests.wait), ("service", requests.service)] {
        let Latency { p50_ms, p95_ms, p99_ms, p999_ms, max_ms } = part;
        table.row([name.to_owned()].into_iter().chain([p50_ms, p95_ms, p99_ms, p999_ms, max_ms].map(ms)));
    }
    to.push_str(&table.render(2));
    let waits = requests.waits;
    let named = [("measured", waits.measured), ("estimated", waits.estimated), ("unknown", waits.unknown)];
    let named: Vec<_> = named.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{} {name}", count(*n))).collect();
    if named.is_empty() { Ok(()) } else { writeln!(to, "  waits: {}", named.join(", ")) }
}

/// The same for the last minutes, in a line.
pub(crate) fn lately(to: &mut String, status: &Status) -> fmt::Result {
    let requests = &status.window.requests;
    if requests.count == 0 {
        return Ok(());
    }
    let (window, total) = (verdict::lately(status), requests.total);
    let [p50, p99, wait, service, max] =
        [total.p50_ms, total.p99_ms, requests.wait.p99_ms, requests.service.p99_ms, total.max_ms].map(ms);
    let finished = count(requests.count);
    writeln!(to, "  {window}: {finished} finished, p50 {p50}, p99 {p99} (wait {wait}, service {service}), max {max}")
}

/// The most frequent routes.
pub(crate) fn routes(to: &mut String, requests: &Requests) -> fmt::Result {
    if requests.routes.iter().all(|route| route.route == "other") {
        return Ok(());
    }
    let columns = [("ROUTE", Alignment::Left)]
        .into_iter()
        .chain(["COUNT", "P50", "P99", "WAIT P99", "IN GC", "IN STALLS"].map(|name| (name, Alignment::Right)));
    let mut table = Table::new(&columns.collect::<Vec<_>>());
    for route in requests.routes.iter().take(SHOWN_ROUTES) {
        let figures = [route.p50_ms, route.p99_ms, route.wait_p99_ms, route.gc_ms, route.stall_ms].map(ms);
        let name = shorten(&plain(&route.route), LONGEST_ROUTE);
        table.row([name, count(route.count)].into_iter().chain(figures));
    }
    writeln!(to)?;
    to.push_str(&table.render(2));
    let all = requests.routes.len();
    if all > SHOWN_ROUTES {
        writeln!(to, "  the {SHOWN_ROUTES} most frequent of {all}; --json has them all")
    } else {
        Ok(())
    }
}

/// The slowest requests of the last minutes.
pub(crate) fn slowest(to: &mut String, status: &Status) -> fmt::Result {
    let slowest = &status.requests.slowest;
    if slowest.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("SLOWEST", Alignment::Left),
        ("AGO", Alignment::Right),
        ("LASTED", Alignment::Right),
        ("OF THAT", Alignment::Left),
        ("TRACE ID", Alignment::Left),
    ]);
    for slow in slowest.iter().take(SHOWN_SLOW) {
        let trace = if slow.trace_id.is_empty() { "-".to_owned() } else { plain(&slow.trace_id) };
        let ago = span(status.uptime_s - slow.at_s);
        let name = shorten(&plain(&slow.route), LONGEST_ROUTE);
        table.row([name, ago, ms(slow.total_ms), waited_for(slow), trace]);
    }
    writeln!(to)?;
    to.push_str(&table.render(2));
    Ok(())
}

/// What a slow request waited for, in words.
fn waited_for(slow: &SlowRequest) -> String {
    let parts = [
        ("wait", slow.wait_ms),
        ("gc", slow.gc_ms),
        ("gil_native", slow.gil_native_ms),
        ("python", slow.python_ms),
        ("cpu_starved", slow.cpu_starved_ms),
    ];
    let parts: Vec<_> =
        parts.iter().filter(|(_, part)| *part >= 0.5).map(|(name, part)| format!("{name} {}", ms(*part))).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}
