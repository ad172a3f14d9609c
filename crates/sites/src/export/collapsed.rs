//! Collapsed stacks: a line for each stack, the outermost frame first, and a number. Many flame graph tools read them.

use std::fmt::Write;

use neurogc_wire::sites::SiteTable;

use crate::group::{GroupBy, SiteFilter, group};
use crate::measure::{Measure, seconds};

/// The lines of a table. What has shrunk has no line: the tools know no negative numbers.
#[must_use]
pub fn encode(table: &SiteTable, measure: Measure, keep: SiteFilter) -> String {
    let seconds = seconds(table);
    let mut lines: Vec<(String, f64)> = group(table, GroupBy::Stack, keep)
        .into_iter()
        .map(|stack| {
            let names: Vec<String> = stack.places.iter().rev().map(|place| name(&place.text())).collect();
            (names.join(";"), measure.amount(&stack.now, &stack.before, seconds).bytes.round())
        })
        .filter(|(_, value)| *value >= 1.0)
        .collect();
    lines.sort_by(|one, other| one.0.cmp(&other.0));
    lines.into_iter().fold(String::new(), |mut text, (stack, value)| {
        let _ = writeln!(text, "{stack} {value}");
        text
    })
}

/// A name without what separates frames and lines.
fn name(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            ';' => ':',
            letter if letter.is_control() => ' ',
            letter => letter,
        })
        .collect()
}
