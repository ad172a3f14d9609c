//! A run as Markdown.

use std::fmt::Write as _;

use super::tables::{self, ReportTable};
use super::{READING, drawings};
use crate::bench::record::{Measured, Run};
use crate::figures::span;

/// The whole report, with the plots that lie beside it in files, or without any.
pub(crate) fn text(run: &Run, with_plots: bool) -> String {
    let mut page = format!(
        "# NeuroGC benchmark\n\n{} NeuroGC {}. {} of each, in turns, in {}.\n\n{READING}\n",
        run.machine.sentence(),
        run.neurogc,
        runs(run.runs),
        span(run.seconds)
    );
    if run.quick {
        page.push_str("\n**Quick:** small heaps and short trials. The results are not conclusive.\n");
    }
    for measured in &run.scenarios {
        page.push('\n');
        page.push_str(&scenario(measured));
        for drawing in drawings::of(measured).iter().filter(|_| with_plots) {
            let _ = writeln!(page, "\n![{}]({})", drawing.title, drawing.path(&measured.scenario));
        }
    }
    page
}

fn runs(count: u32) -> String {
    if count == 1 { "One run".to_owned() } else { format!("{count} runs") }
}

fn scenario(measured: &Measured) -> String {
    let mut text = format!("## {}\n\n{}.\n", measured.scenario, capital(&measured.about));
    if let Some(reason) = &measured.skipped {
        let _ = writeln!(text, "\nSkipped: {reason}");
        return text;
    }
    for sentence in tables::known(measured) {
        let _ = writeln!(text, "\n{sentence}");
    }
    for table in [tables::figures(measured), tables::ratios(measured), tables::programs(measured)] {
        if table.heading.len() > 1 {
            text.push('\n');
            text.push_str(&set(&table));
        }
    }
    if let Some(spread) = tables::spread(measured) {
        let _ = writeln!(text, "\n{spread}");
    }
    for end in tables::early_ends(measured) {
        let _ = writeln!(text, "\n**Ended early:** {end}");
    }
    for doubt in tables::doubts(measured) {
        let _ = writeln!(text, "\n**Doubtful:** {doubt}");
    }
    text
}

pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn set(table: &ReportTable) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|---|{}\n", "---:|".repeat(table.heading.len() - 1));
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    format!("{}{rule}{rows}", line(&table.heading))
}

#[cfg(test)]
mod tests {
    use crate::bench::report::sample;

    #[test]
    fn report_of_a_run() {
        insta::assert_snapshot!(super::text(&sample::run(), true));
    }
}
