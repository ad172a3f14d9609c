//! The report for a terminal: the same text, with tables that line up in the place of Markdown.

use crate::table::{Alignment, Table};

/// A report that was written as Markdown, for a person at a terminal.
pub(crate) fn text(markdown: &str) -> String {
    let mut text = String::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in markdown.lines().chain([""]) {
        if let Some(row) = line.strip_prefix('|') {
            let cells = row.trim_end().trim_end_matches('|').split('|');
            rows.push(cells.map(|cell| plain(cell.trim())).collect());
            continue;
        }
        text.push_str(&table(&std::mem::take(&mut rows)));
        text.push_str(&plain(line.trim_start_matches('#').trim_start()));
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The rows of one table: the head, the line below it that says on which side cells stand, and the rest.
fn table(rows: &[Vec<String>]) -> String {
    let [head, sides, rest @ ..] = rows else { return String::new() };
    let side = |column: usize| match sides.get(column) {
        Some(side) if side.ends_with(':') => Alignment::Right,
        _ => Alignment::Left,
    };
    let columns: Vec<_> = head.iter().enumerate().map(|(column, name)| (name.as_str(), side(column))).collect();
    let mut table = Table::new(&columns);
    for row in rest {
        table.row(row.iter().cloned());
    }
    table.render(2)
}

/// Text without the signs for bold and for code.
fn plain(text: &str) -> String {
    text.replace("**", "").replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up_and_signs_are_gone() {
        let markdown = "## attribution\n\nOne `policy`:\n\n| policy | p99 |\n|---|---:|\n| **gap** | 9.5 ms |\n| default | 17.8 ms |\n\nEnd.\n";
        let expected =
            "attribution\n\nOne policy:\n\n  policy       p99\n  gap       9.5 ms\n  default  17.8 ms\n\nEnd.\n";
        assert_eq!(text(markdown), expected);
    }
}
