//! How figures of memory have changed since an earlier moment, as text.

use neurogc_wire::memory_verdict::{FigureThenAndNow, MemoryChange};

use crate::figures::{bytes, change, count, plain, shorten_front, span};
use crate::table::{Alignment, Table};

/// Sizes that have changed by less are not told.
const LEAST_BYTES: f64 = 64.0 * 1024.0;

/// The text: what is compared, and each figure then and now.
pub(crate) fn text(found: &MemoryChange, asked_s: u32, room: Option<usize>) -> String {
    let mut text = format!("since {} ago", span(found.ago_s));
    if found.watched_s == 0.0 {
        return format!("since {} ago   the agent has not looked at memory twice yet\n", span(f64::from(asked_s)));
    }
    if found.watched_s + 30.0 < f64::from(asked_s) {
        text.push_str(&format!(
            ", not {}: the process has been watched for {}",
            span(f64::from(asked_s)),
            span(found.watched_s)
        ));
    }
    text.push('\n');
    let columns = [
        ("CHANGE", Alignment::Right),
        ("THEN", Alignment::Right),
        ("NOW", Alignment::Right),
        ("WHAT", Alignment::Left),
    ];
    let mut table = Table::new(&columns);
    let process = found.process.iter().filter(|it| is_worth_a_line(it));
    for it in process.chain(&found.containers).chain(&found.types) {
        let what = match it.unit.as_str() {
            "entries" => format!("entries of {}", plain(&it.what)),
            "objects" if found.types.contains(it) => format!("objects of type {}", plain(&it.what)),
            _ => plain(&it.what),
        };
        let before = it.before.map_or_else(|| "not known".to_owned(), |value| figure(it, value));
        let changed = it.change().map_or_else(String::new, |value| signed(it, value));
        table.row([changed, before, figure(it, it.now), what]);
    }
    table.fit_last(2, room, shorten_front);
    text.push_str(&table.render(2));
    text
}

fn is_worth_a_line(it: &FigureThenAndNow) -> bool {
    let Some(change) = it.change() else { return false };
    // The resident set is told in any case: "it has not grown" is an answer.
    it.what == "resident memory" || change.abs() >= if it.unit == "bytes" { LEAST_BYTES } else { 1.0 }
}

fn figure(it: &FigureThenAndNow, value: f64) -> String {
    let value = value.max(0.0) as u64;
    if it.unit == "bytes" { bytes(value) } else { count(value) }
}

fn signed(it: &FigureThenAndNow, value: f64) -> String {
    if it.unit == "bytes" {
        return change(value as i64);
    }
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{}", count(value.abs() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(what: &str, unit: &str, before: Option<f64>, now: f64) -> FigureThenAndNow {
        FigureThenAndNow { what: what.to_owned(), unit: unit.to_owned(), before, now }
    }

    fn found() -> MemoryChange {
        MemoryChange {
            ago_s: 3610.0,
            watched_s: 7200.0,
            process: vec![
                one("resident memory", "bytes", Some(4.7e9), 4.8e9),
                one("free memory in malloc", "bytes", Some(3e8), 3e8 + 100.0),
                one("threads", "threads", Some(9.0), 8.0),
                one("child processes", "processes", None, 2.0),
            ],
            containers: vec![one("app.stats.running_stats", "entries", Some(1_180_000.0), 1_900_000.0)],
            types: vec![one("app.Token", "objects", Some(10.0), 720_010.0)],
        }
    }

    #[test]
    fn then_and_now_side_by_side() {
        insta::assert_snapshot!(text(&found(), 3600, Some(100)));
    }

    #[test]
    fn less_than_was_asked_for_is_told() {
        let found = MemoryChange { ago_s: 600.0, watched_s: 605.0, ..found() };
        let text = text(&found, 3600, None);
        assert!(text.starts_with("since 10 m 00 s ago, not 1 h 00 m: the process has been watched for 10 m 05 s\n"));
        assert!(super::text(&MemoryChange::default(), 60, None).contains("has not looked"));
    }
}
