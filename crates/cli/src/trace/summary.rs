//! What a trace holds, in figures.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use neurogc_wire::status::Cause;
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{Header, Place, Record, Trace};
use serde::Serialize;

use super::{end, kind};
use crate::figures::{bytes, count, ms, plain, shorten_front, utc};
use crate::table::{Alignment, Table};

/// Stalls that are named one by one.
const LONGEST: usize = 10;

/// The figures of one trace. Times are milliseconds and sizes bytes, as in a status report.
#[derive(Debug, Serialize)]
pub(crate) struct TraceSummary {
    header: Header,
    duration_ms: f64,
    records: BTreeMap<&'static str, u64>,
    requests: Requests,
    collections: BTreeMap<&'static str, Collections>,
    places: BTreeMap<&'static str, Durations>,
    stalls: BTreeMap<&'static str, Durations>,
    longest_stalls: Vec<LongStall>,
    gil: Gil,
    memory: Option<Memory>,
    cpu_percent: Option<f64>,
    sites: Option<Sites>,
    dropped: u64,
    damage: Vec<Damage>,
}

/// The tables of allocation sites.
#[derive(Debug, Serialize)]
struct Sites {
    tables: usize,
    /// Live memory in the last one.
    live_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Requests {
    unfinished: u64,
    per_second: f64,
    /// From arrival to last byte.
    #[serde(flatten)]
    latency: Durations,
    /// Before the application saw them; traces before version 3 have none.
    wait: Durations,
    /// Afterwards.
    service: Durations,
}

#[derive(Debug, Serialize)]
struct Collections {
    collected: u64,
    uncollectable: u64,
    #[serde(flatten)]
    pauses: Durations,
}

#[derive(Debug, Serialize)]
struct Gil {
    busy_ms: f64,
    idle_ms: f64,
    /// Share of the observed time in which no thread held it.
    gap_percent: f64,
    gaps: Durations,
}

#[derive(Debug, Serialize)]
struct Memory {
    first: u64,
    min: u64,
    max: u64,
    last: u64,
}

#[derive(Debug, Serialize)]
struct Damage {
    offset: usize,
    length: usize,
    what: &'static str,
}

/// One stall, with the names that it has in a status report.
#[derive(Debug, Serialize)]
struct LongStall {
    at_s: f64,
    ms: f64,
    cause: &'static str,
    site: String,
}

/// Exact percentiles: a trace is small enough to sort.
#[derive(Debug, Default, Serialize)]
struct Durations {
    count: u64,
    total_ms: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
}

impl Durations {
    fn of(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        let Some(&max) = ns.last() else { return Self::default() };
        // The nearest rank: a value that was really measured.
        let quantile = |share: f64| {
            let rank = (share * ns.len() as f64).ceil() as usize;
            to_ms(ns[rank.clamp(1, ns.len()) - 1])
        };
        Self {
            count: ns.len() as u64,
            total_ms: ns.iter().map(|&value| to_ms(value)).sum(),
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            p999_ms: quantile(0.999),
            max_ms: to_ms(max),
        }
    }
}

fn to_ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl TraceSummary {
    /// Sums a trace up.
    pub(crate) fn of(trace: &Trace) -> Self {
        let records = &trace.records;
        let duration_ms = to_ms(records.iter().map(end).max().unwrap_or(0));
        let mut kinds = BTreeMap::new();
        for record in records {
            *kinds.entry(kind(record)).or_default() += 1;
        }
        let damage = trace.damage.iter();
        Self {
            header: trace.header.clone(),
            duration_ms,
            records: kinds,
            requests: requests(records, duration_ms),
            collections: collections(records),
            places: places(records),
            stalls: stalls(records),
            longest_stalls: longest_stalls(records),
            gil: gil(records),
            memory: memory(records),
            cpu_percent: cpu_percent(records),
            sites: trace.sites.last().map(|last| Sites {
                tables: trace.sites.len(),
                live_bytes: last.sites.iter().map(|site| site.now.live_bytes).sum(),
            }),
            dropped: records
                .iter()
                .map(|record| if let Record::Dropped { count, .. } = record { *count } else { 0 })
                .sum(),
            damage: damage.map(|part| Damage { offset: part.offset, length: part.length, what: part.what }).collect(),
        }
    }
}

fn requests(records: &[Record], duration_ms: f64) -> Requests {
    let mut open = HashMap::new();
    let [mut latency, mut waits, mut service] = [const { Vec::new() }; 3];
    for record in records {
        match record {
            Record::RequestStart { at, id } => drop(open.insert(*id, (*at, 0))),
            Record::RequestWait { id, wait, .. } => {
                if let Some(open) = open.get_mut(id) {
                    open.1 = *wait;
                }
            }
            Record::RequestEnd { at, id } => {
                if let Some((start, wait)) = open.remove(id) {
                    let lasted = at.saturating_sub(start);
                    latency.push(lasted.saturating_add(wait));
                    waits.push(wait);
                    service.push(lasted);
                }
            }
            _ => {}
        }
    }
    let per_second = if duration_ms > 0.0 { latency.len() as f64 * 1000.0 / duration_ms } else { 0.0 };
    let [latency, wait, service] = [latency, waits, service].map(Durations::of);
    Requests { unfinished: open.len() as u64, per_second, latency, wait, service }
}

fn collections(records: &[Record]) -> BTreeMap<&'static str, Collections> {
    let mut found: BTreeMap<_, (Vec<u64>, u64, u64)> = BTreeMap::new();
    for record in records {
        if let Record::Collection { pause, kind, collected, uncollectable, .. } = record {
            let entry = found.entry(kind.name()).or_default();
            entry.0.push(*pause);
            entry.1 = entry.1.saturating_add(*collected);
            entry.2 = entry.2.saturating_add(*uncollectable);
        }
    }
    let sum_up =
        |(pauses, collected, uncollectable)| Collections { collected, uncollectable, pauses: Durations::of(pauses) };
    found.into_iter().map(|(name, parts)| (name, sum_up(parts))).collect()
}

fn places(records: &[Record]) -> BTreeMap<&'static str, Durations> {
    by_name(records, |record| match record {
        Record::Collection { pause, place, .. } => Some((place.name(), *pause)),
        _ => None,
    })
}

fn stalls(records: &[Record]) -> BTreeMap<&'static str, Durations> {
    by_name(records, |record| match record {
        Record::Stall { duration, cause, .. } => Some((cause.name(), *duration)),
        _ => None,
    })
}

/// The longest stalls, longest first.
fn longest_stalls(records: &[Record]) -> Vec<LongStall> {
    let stall = |record: &Record| match record {
        Record::Stall { at, duration, cause, site } => {
            Some(LongStall { at_s: to_ms(*at) / 1000.0, ms: to_ms(*duration), cause: cause.name(), site: site.clone() })
        }
        _ => None,
    };
    let mut stalls: Vec<_> = records.iter().filter_map(stall).collect();
    stalls.sort_by(|one, other| other.ms.total_cmp(&one.ms));
    stalls.truncate(LONGEST);
    stalls
}

fn by_name(
    records: &[Record],
    pick: impl Fn(&Record) -> Option<(&'static str, u64)>,
) -> BTreeMap<&'static str, Durations> {
    let mut found: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for (name, ns) in records.iter().filter_map(pick) {
        found.entry(name).or_default().push(ns);
    }
    found.into_iter().map(|(name, ns)| (name, Durations::of(ns))).collect()
}

fn gil(records: &[Record]) -> Gil {
    let mut busy_ms = 0.0;
    let mut gaps = Vec::new();
    for record in records {
        if let Record::Gap { busy, idle, .. } = record {
            busy_ms += to_ms(*busy);
            gaps.push(*idle);
        }
    }
    let gaps = Durations::of(gaps);
    let observed = busy_ms + gaps.total_ms;
    let gap_percent = if observed > 0.0 { gaps.total_ms * 100.0 / observed } else { 0.0 };
    Gil { busy_ms, idle_ms: gaps.total_ms, gap_percent, gaps }
}

fn looks(records: &[Record]) -> impl Iterator<Item = (u64, u64, u64)> {
    records.iter().filter_map(|record| match record {
        Record::Process { at, rss, cpu_us } => Some((*at, *rss, *cpu_us)),
        _ => None,
    })
}

fn memory(records: &[Record]) -> Option<Memory> {
    let sizes: Vec<_> = looks(records).map(|(_, rss, _)| rss).collect();
    Some(Memory { first: *sizes.first()?, min: *sizes.iter().min()?, max: *sizes.iter().max()?, last: *sizes.last()? })
}

fn cpu_percent(records: &[Record]) -> Option<f64> {
    let (start, _, before) = looks(records).next()?;
    let (end, _, after) = looks(records).last()?;
    (end > start).then(|| after.saturating_sub(before) as f64 * 1e5 / (end - start) as f64)
}

/// The width asked for, if any, is the room that a line has.
impl fmt::Display for TraceSummary {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = &self.header;
        writeln!(to, "trace of process {}: {}", header.pid, plain(&header.command))?;
        let (python, neurogc) = (plain(&header.python), plain(&header.neurogc));
        writeln!(to, "  {python}, neurogc {neurogc}, policy {}", plain(&header.policy))?;
        writeln!(to, "  from {} for {}", utc(header.started_unix_ns), ms(self.duration_ms))?;
        let [young, middle, full] = header.thresholds;
        writeln!(to, "  thresholds {young}, {middle}, {full}; GIL seen every {}", ms(to_ms(header.gil_step_ns)))?;
        let records: Vec<_> = self.records.iter().map(|(kind, n)| format!("{kind} {}", count(*n))).collect();
        writeln!(to, "\nrecords\n  {}", if records.is_empty() { "none".to_owned() } else { records.join(", ") })?;
        if self.dropped > 0 {
            writeln!(to, "  {} events were lost while recording", count(self.dropped))?;
        }
        self.write_requests(to)?;
        self.write_collections(to)?;
        writeln!(to, "\nstalls")?;
        to.write_str(&durations_table(Cause::ALL.map(Cause::name), &self.stalls))?;
        self.write_longest_stalls(to)?;
        self.write_process(to)?;
        if !self.damage.is_empty() {
            let lost: usize = self.damage.iter().map(|part| part.length).sum();
            writeln!(to, "\ndamage\n  {} could not be read, in places: {}", bytes(lost as u64), self.damage.len())?;
        }
        Ok(())
    }
}

impl TraceSummary {
    fn write_requests(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Requests { unfinished, per_second, latency, wait, service } = &self.requests;
        writeln!(to, "\nrequests")?;
        if latency.count + unfinished == 0 {
            return writeln!(to, "  none");
        }
        writeln!(
            to,
            "  {} finished, {} unfinished, {per_second:.1} per second",
            count(latency.count),
            count(*unfinished)
        )?;
        let mut line = |name: &str, of: &Durations| {
            let [p50, p95, p99] = [of.p50_ms, of.p95_ms, of.p99_ms].map(ms);
            let (p999, max) = (ms(of.p999_ms), ms(of.max_ms));
            writeln!(to, "  {name:7}  p50 {p50}   p95 {p95}   p99 {p99}   p99.9 {p999}   max {max}")
        };
        line("latency", latency)?;
        if wait.max_ms > 0.0 {
            line("wait", wait)?;
            line("service", service)?;
        }
        Ok(())
    }

    fn write_collections(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Alignment::{Left, Right};
        writeln!(to, "\ncollections")?;
        if self.collections.is_empty() {
            return writeln!(to, "  none");
        }
        let columns = [
            ("", Left),
            ("COUNT", Right),
            ("TOTAL", Right),
            ("P50", Right),
            ("P99", Right),
            ("MAX", Right),
            ("FREED", Right),
        ];
        let mut table = Table::new(&columns);
        for name in StopKind::ALL.map(StopKind::name) {
            if let Some(found) = self.collections.get(name) {
                table.row(cells(name, &found.pauses).into_iter().chain([count(found.collected)]));
            }
        }
        let places = [
            (Place::InRequest, "in requests"),
            (Place::InGapArrivals, "in gaps, requests waited"),
            (Place::InGap, "in gaps"),
            (Place::Forced, "forced"),
        ];
        for (place, title) in places {
            if let Some(found) = self.places.get(place.name()) {
                table.row(cells(title, found).into_iter().chain([String::new()]));
            }
        }
        to.write_str(&table.render(2))?;
        let uncollectable: u64 = self.collections.values().map(|found| found.uncollectable).sum();
        if uncollectable > 0 { writeln!(to, "  uncollectable objects: {}", count(uncollectable)) } else { Ok(()) }
    }

    fn write_longest_stalls(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.longest_stalls.is_empty() {
            return Ok(());
        }
        let columns = [
            ("AT", Alignment::Right),
            ("LASTED", Alignment::Right),
            ("CAUSE", Alignment::Left),
            ("SITE", Alignment::Left),
        ];
        let mut table = Table::new(&columns);
        for stall in &self.longest_stalls {
            let site = if stall.site.is_empty() { "-".to_owned() } else { plain(&stall.site) };
            table.row([format!("{:.3} s", stall.at_s), ms(stall.ms), stall.cause.to_owned(), site]);
        }
        table.fit_last(2, to.width(), shorten_front);
        writeln!(to, "  the longest:")?;
        to.write_str(&table.render(2))
    }

    fn write_process(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "\ngil")?;
        let Gil { busy_ms, idle_ms, gap_percent, gaps } = &self.gil;
        if gaps.count == 0 {
            writeln!(to, "  not observed")?;
        } else {
            writeln!(to, "  held {}, free {} ({gap_percent:.1} % of the time)", ms(*busy_ms), ms(*idle_ms))?;
            let (p50, p99, max) = (ms(gaps.p50_ms), ms(gaps.p99_ms), ms(gaps.max_ms));
            writeln!(to, "  {} gaps, p50 {p50}, p99 {p99}, max {max}", count(gaps.count))?;
        }
        writeln!(to, "\nprocess")?;
        match &self.memory {
            Some(Memory { first, min, max, last }) => {
                let [first, min, max, last] = [first, min, max, last].map(|size| bytes(*size));
                writeln!(to, "  rss from {first} to {last} (least {min}, most {max})")?;
            }
            None => writeln!(to, "  memory not observed")?,
        }
        if let Some(percent) = self.cpu_percent {
            writeln!(to, "  cpu {percent:.1} % of a core")?;
        }
        let Some(Sites { tables, live_bytes }) = &self.sites else { return Ok(()) };
        let (tables, live) = (count(*tables as u64), bytes(*live_bytes));
        writeln!(
            to,
            "  allocation sites: {tables} tables, {live} live in the last; `neurogc memory sites FILE` shows them"
        )
    }
}

fn durations_table<const N: usize>(order: [&'static str; N], found: &BTreeMap<&'static str, Durations>) -> String {
    use Alignment::{Left, Right};
    if found.is_empty() {
        return "  none\n".to_owned();
    }
    let mut table =
        Table::new(&[("", Left), ("COUNT", Right), ("TOTAL", Right), ("P50", Right), ("P99", Right), ("MAX", Right)]);
    for name in order {
        if let Some(durations) = found.get(name) {
            table.row(cells(name, durations));
        }
    }
    table.render(2)
}

fn cells(name: &str, of: &Durations) -> [String; 6] {
    [name.to_owned(), count(of.count), ms(of.total_ms), ms(of.p50_ms), ms(of.p99_ms), ms(of.max_ms)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn summary_of_a_small_trace() {
        insta::assert_snapshot!(TraceSummary::of(&samples::trace()).to_string());
    }

    #[test]
    fn summary_of_a_trace_without_records() {
        insta::assert_snapshot!(TraceSummary::of(&Trace { records: Vec::new(), ..samples::trace() }).to_string());
    }

    #[test]
    fn percentiles_are_measured_values() {
        let durations = Durations::of((1..=1000).map(|n| n * 1_000_000).collect());
        assert_eq!(
            [durations.p50_ms, durations.p99_ms, durations.p999_ms, durations.max_ms],
            [500.0, 990.0, 999.0, 1000.0]
        );
    }
}
