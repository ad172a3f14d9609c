//! The verdict on a process's memory as text, and the series behind a finding.

use std::fmt::Write;

use neurogc_sites::short_path;
use neurogc_wire::memory_verdict::{EvidenceSeries, ExplainedFinding, MemoryLimit, MemoryVerdict, Rate};

use crate::figures::{bytes, change, count, plain, span, wrap};

/// Lines of one explanation of a finding.
const MOST_LINES: usize = 4;

/// Columns of a drawn series.
const COLUMNS: usize = 60;

/// Heights that a column of a drawn series may have.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The verdict: what leaks first, then what does not, the limit, and the size.
pub(crate) fn text(report: &MemoryVerdict, room: Option<usize>) -> String {
    let mut text = String::new();
    for (index, it) in report.findings.iter().enumerate() {
        write_finding(&mut text, index + 1, it, room);
    }
    text.push('\n');
    let growth =
        report.growth.map_or_else(|| "does not grow steadily".to_owned(), |rate| format!("grows by {}", an_hour(rate)));
    let watched = span(report.watched_s);
    line(&mut text, "memory", &format!("{} resident, {growth}; watched for {watched}", bytes(report.rss)), room);
    if let Some(limit) = report.limit {
        line(&mut text, "limit", &limit_text(limit), room);
    }
    text
}

/// What has changed since the look before.
pub(crate) fn changes(changes: &[String], room: Option<usize>) -> String {
    let mut text = String::new();
    for (index, it) in changes.iter().enumerate() {
        line(&mut text, if index == 0 { "changed" } else { "" }, it, room);
    }
    text
}

fn write_finding(text: &mut String, number: usize, it: &ExplainedFinding, room: Option<usize>) {
    let finding = &it.finding;
    let width = room.unwrap_or(usize::MAX).saturating_sub(3);
    for (index, part) in wrap(&plain(&finding.text), width, MOST_LINES).iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = if index == 0 { writeln!(text, "{number:>2} {part}") } else { writeln!(text, "   {part}") };
    }
    if !finding.kind.is_leak() {
        if !finding.advice.is_empty() {
            line(text, "what to do", &finding.advice, room);
        }
        return;
    }
    if !finding.site.is_empty() {
        let share = if finding.share > 0.0 {
            format!("  ({:.0} % of all growth)", finding.share * 100.0)
        } else {
            String::new()
        };
        line(text, "filled at", &format!("{}{share}", short_site(&finding.site)), room);
    }
    for (name, value) in [("pattern", &finding.pattern), ("what to do", &finding.advice), ("read more", &finding.doc)] {
        if !value.is_empty() {
            line(text, name, value, room);
        }
    }
}

/// A name and what there is to say, on as many lines as it takes.
fn line(text: &mut String, name: &str, value: &str, room: Option<usize>) {
    let width = room.unwrap_or(usize::MAX).saturating_sub(16).max(20);
    for (index, part) in wrap(&plain(value), width, MOST_LINES).iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        let _ = writeln!(text, "   {name:<12} {part}");
    }
}

/// A place without the front of its path.
fn short_site(site: &str) -> String {
    match site.rsplit_once(':') {
        Some((path, rest)) => format!("{}:{rest}", short_path(path)),
        None => site.to_owned(),
    }
}

fn limit_text(limit: MemoryLimit) -> String {
    let size = bytes(limit.bytes);
    let Some(reached) = limit.reached_in_s else { return format!("{size}; nothing says that it will be reached") };
    let bounds = match (limit.earliest_s, limit.latest_s) {
        (Some(earliest), Some(latest)) => format!(", between {} and {}", span(earliest), span(latest)),
        (Some(earliest), None) => format!(", at the earliest in {}", span(earliest)),
        _ => String::new(),
    };
    format!("{size}: reached in {} at this rate{bounds}", span(reached))
}

/// A rate of bytes.
fn an_hour(rate: Rate) -> String {
    let signed = |value: f64| change(value as i64);
    match (rate.low, rate.high) {
        (Some(low), Some(high)) => format!("{} an hour ({} to {})", signed(rate.per_hour), signed(low), signed(high)),
        _ => format!("{} an hour", signed(rate.per_hour)),
    }
}

/// Why a finding was made: its series, drawn.
pub(crate) fn why(it: &ExplainedFinding) -> String {
    let mut text = format!("{}\n", plain(&it.finding.text));
    for series in &it.evidence {
        let _ = writeln!(text, "\n{}: {}", plain(&series.what), plain(&series.shape));
        if series.points.len() < 2 {
            let _ = writeln!(text, "  was not measured");
            continue;
        }
        let shown = |value: f64| match series.unit.as_str() {
            "bytes" => bytes(value.max(0.0) as u64),
            unit => format!("{} {unit}", count(value.max(0.0) as u64)),
        };
        let first = series.points.first().map_or(0.0, |point| point.1);
        let (drawn, lasted) = draw(&series.points);
        let _ = writeln!(text, "  {drawn}");
        let _ =
            writeln!(text, "  {} {} ago, {} now; {}", shown(first), span(lasted), shown(series.now), rate_text(series));
    }
    text
}

fn rate_text(series: &EvidenceSeries) -> String {
    let window = span(series.seconds);
    if series.unit == "bytes" {
        return format!("{} over {window}", an_hour(series.growth));
    }
    let bounds = match (series.growth.low, series.growth.high) {
        (Some(low), Some(high)) => format!(" ({low:+.0} to {high:+.0})"),
        _ => String::new(),
    };
    format!("{:+.0} an hour{bounds} over {window}", series.growth.per_hour)
}

/// A series as a row of columns, by time, and how long it is.
pub(crate) fn draw(points: &[(f64, f64)]) -> (String, f64) {
    let values = || points.iter().map(|point| point.1);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let start = points.first().map_or(0.0, |point| point.0);
    let lasted = points.last().map_or(0.0, |point| point.0) - start;
    let mut columns = [None; COLUMNS];
    for (at, value) in points {
        let column = ((at - start) / lasted.max(1e-9) * (COLUMNS - 1) as f64) as usize;
        columns[column.min(COLUMNS - 1)] = Some(*value);
    }
    let mut last = 0;
    let mut symbol = |value: &Option<f64>| {
        if let Some(value) = value {
            let height = (value - low) / (high - low).max(1e-9) * (HEIGHTS.len() - 1) as f64;
            last = (height.round().max(0.0) as usize).min(HEIGHTS.len() - 1);
        }
        HEIGHTS[last]
    };
    (columns.iter().map(&mut symbol).collect(), lasted)
}

#[cfg(test)]
mod tests {
    use neurogc_wire::finding::{Finding, FindingKind};

    use super::*;

    fn report() -> MemoryVerdict {
        let rate = Rate { per_hour: 98e6, low: Some(95e6), high: Some(101e6) };
        let evidence = EvidenceSeries {
            what: "entries of app.stats.running_stats".to_owned(),
            unit: "entries".to_owned(),
            shape: "grows steadily".to_owned(),
            growth: Rate { per_hour: 720_000.0, ..Rate::default() },
            now: 1_900_000.0,
            seconds: 3600.0,
            points: (0..20).map(|at| (f64::from(at) * 180.0, 1_180_000.0 + 36_000.0 * f64::from(at))).collect(),
        };
        let leak = Finding {
            kind: FindingKind::UnboundedContainer,
            confidence: 0.95,
            text: "Leak, certain: global app.stats.running_stats (dict) grows by 98 MiB/h, 12,000 entries a minute; it has \
                   1,900,000 entries and 1.9 GiB now."
                .to_owned(),
            holder: "app.stats.running_stats".to_owned(),
            site: "/srv/shop/app/stats.py:41 in process_request".to_owned(),
            rate_bytes_h: 98e6,
            pattern: "accumulation: entries are added all the time, and none is removed".to_owned(),
            advice: "Bound it.".to_owned(),
            doc: "docs/leaks.md#unbounded-container".to_owned(),
            share: 0.86,
            ..Finding::default()
        };
        let calm = Finding {
            kind: FindingKind::Plateau,
            confidence: 0.8,
            text: "Not a leak: app.log.records (collections.deque) has reached its bound of 10,000 entries and is flat for 41 \
                   minutes."
                .to_owned(),
            ..Finding::default()
        };
        MemoryVerdict {
            pid: 4242,
            watched_s: 4000.0,
            rss: 4_800_000_000,
            growth: Some(rate),
            limit: Some(MemoryLimit {
                bytes: 16 << 30,
                reached_in_s: Some(363_000.0),
                earliest_s: Some(340_000.0),
                latest_s: Some(380_000.0),
            }),
            findings: vec![
                ExplainedFinding { finding: leak, evidence: vec![evidence] },
                ExplainedFinding { finding: calm, evidence: Vec::new() },
            ],
        }
    }

    #[test]
    fn one_screen_says_it_all() {
        insta::assert_snapshot!(text(&report(), Some(100)));
    }

    #[test]
    fn a_finding_is_explained_by_its_series() {
        insta::assert_snapshot!(why(&report().findings[0]));
    }

    #[test]
    fn a_limit_that_is_not_reached_is_said() {
        let limit = MemoryLimit { bytes: 1 << 30, ..MemoryLimit::default() };
        assert_eq!(limit_text(limit), "1.0 GiB; nothing says that it will be reached");
    }
}
