//! A report on allocation sites as text.

use neurogc_sites::{CodeLine, GroupBy, Measure, SiteFigures, SiteReport, SiteRow, short_path};

use crate::figures::{bytes, change, count, plain, shorten_front, span};
use crate::table::{Alignment, Table};

/// Callers that are named below a stack.
const CALLERS: usize = 12;

/// The text of a report, in lines of at most `room` columns.
pub(crate) fn text(report: &SiteReport<'_>, room: Option<usize>) -> String {
    let mut text = head(report);
    if report.rows.is_empty() {
        text.push_str("\n  nothing was met yet: sampling meets one block in some thousands\n");
        return text;
    }
    text.push('\n');
    text.push_str(&rows(report, room));
    if report.groups > report.rows.len() {
        text.push_str(&format!(
            "  … and {} more; --top shows more\n",
            count((report.groups - report.rows.len()) as u64)
        ));
    }
    text
}

/// What was measured, and how.
fn head(report: &SiteReport<'_>) -> String {
    let seconds = |from: u64| span(report.head.taken_unix_ms.saturating_sub(from) as f64 / 1e3);
    let total = &report.total;
    let mut text = format!("process {}: {} live", report.head.pid, bytes(total.live_bytes));
    if let (Some(growth), Some(compared)) = (total.growth_bytes, report.head.compared_unix_ms) {
        text.push_str(&format!(", {} in {}", change(growth), seconds(compared)));
    }
    if has_rate(report) {
        text.push_str(&format!(", {}/s allocated", bytes(total.rate_bytes_s as u64)));
    }
    text.push('\n');
    let what = match report.head.mode {
        "native" => "Python and native memory",
        "off" => "nothing",
        _ => "memory of CPython's allocators",
    };
    let distance = bytes(report.head.sample_bytes);
    text.push_str(&format!("  {what}, sampled for {}, a point every {distance}", seconds(report.head.since_unix_ms)));
    if report.head.lost > 0 {
        text.push_str(&format!(", {} points lost", count(report.head.lost)));
    }
    text.push('\n');
    text
}

fn rows(report: &SiteReport<'_>, room: Option<usize>) -> String {
    let compared = report.head.compared_unix_ms.is_some();
    let mut columns = vec![("LIVE", Alignment::Right), ("BLOCKS", Alignment::Right)];
    if compared {
        columns.push(("GROWTH", Alignment::Right));
    }
    if has_rate(report) || report.measure == Measure::Rate {
        columns.push(("RATE", Alignment::Right));
    }
    // The column that rows are ordered by comes first.
    let first = columns.iter().position(|(name, _)| *name == ordered_by(report.measure)).unwrap_or(0);
    columns[..=first].rotate_right(1);
    columns.insert(1, ("SHARE", Alignment::Right));
    columns.push(("ALLOCATOR", Alignment::Left));
    columns.push((title(report.by), Alignment::Left));
    let mut table = Table::new(&columns);
    let cell = |row: &SiteRow<'_>, name: &str| match name {
        "SHARE" => format!("{:.1} %", row.share * 100.0),
        "ALLOCATOR" => row.domains.join(","),
        name => figure(&row.figures, name),
    };
    for row in &report.rows {
        let (places, names) = (places(row, report.by), &columns[..columns.len() - 1]);
        for (index, place) in places.into_iter().enumerate() {
            let blank = index > 0;
            let cells = names.iter().map(|(name, _)| if blank { String::new() } else { cell(row, name) });
            table.row(cells.chain([place]));
        }
    }
    table.fit_last(2, room, shorten_front);
    table.render(2)
}

/// Whether it is known what is allocated in a second: not for the difference of two recordings.
fn has_rate(report: &SiteReport<'_>) -> bool {
    report.total.rate_bytes_s > 0.0
}

fn ordered_by(measure: Measure) -> &'static str {
    match measure {
        Measure::Live => "LIVE",
        Measure::Growth => "GROWTH",
        Measure::Rate => "RATE",
    }
}

fn title(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Line => "LINE",
        GroupBy::Function => "FUNCTION",
        GroupBy::File => "FILE",
        GroupBy::Stack => "STACK",
        GroupBy::Domain => "",
    }
}

fn figure(figures: &SiteFigures, name: &str) -> String {
    match name {
        "LIVE" => bytes(figures.live_bytes),
        "BLOCKS" => count(figures.live_blocks),
        "GROWTH" => change(figures.growth_bytes.unwrap_or(0)),
        _ => format!("{}/s", bytes(figures.rate_bytes_s as u64)),
    }
}

/// The lines that say where a group is: one, or a stack.
fn places(row: &SiteRow<'_>, by: GroupBy) -> Vec<String> {
    let Some(inner) = row.places.first() else { return vec![String::new()] };
    let mut lines = vec![match by {
        GroupBy::File if inner.file.is_empty() => plain(inner.function),
        GroupBy::File => plain(short_path(inner.file)),
        _ => place(inner),
    }];
    let callers = row.places.len() - 1;
    lines.extend(row.places.iter().skip(1).take(CALLERS).map(|caller| format!("  {}", place(caller))));
    if callers > CALLERS {
        lines.push(format!("  … {} callers more", callers - CALLERS));
    }
    lines
}

/// `app/cache.py:41 in add`.
pub(crate) fn place(place: &CodeLine<'_>) -> String {
    let (file, function) = (plain(short_path(place.file)), plain(place.function));
    match (file.as_str(), place.line) {
        ("", _) => function,
        (_, 0) => format!("{file} in {function}"),
        (_, line) => format!("{file}:{line} in {function}"),
    }
}

#[cfg(test)]
mod tests {
    use neurogc_sites::{SiteChoice, SiteFilter, compare};
    use neurogc_wire::sites::SiteTable;

    use super::*;
    use crate::samples;

    fn shown(table: &SiteTable, by: GroupBy, measure: Measure) -> String {
        text(&SiteReport::of(table, &SiteChoice { by, measure, keep: SiteFilter::All, top: 4 }), Some(100))
    }

    #[test]
    fn live_memory_by_line() {
        insta::assert_snapshot!(shown(&samples::sites(1), GroupBy::Line, Measure::Live));
    }

    #[test]
    fn growth_by_stack() {
        let table = compare(&samples::sites(1), &samples::sites(2));
        insta::assert_snapshot!(shown(&table, GroupBy::Stack, Measure::Growth));
    }

    #[test]
    fn rate_by_allocator() {
        insta::assert_snapshot!(shown(&samples::sites(1), GroupBy::Domain, Measure::Rate));
    }

    #[test]
    fn a_table_without_sites_says_so() {
        insta::assert_snapshot!(shown(&SiteTable { pid: 7, ..SiteTable::default() }, GroupBy::Line, Measure::Live));
    }
}
