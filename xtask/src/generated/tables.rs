//! Tables of figures, series, metrics and policies for the pages in docs/.

use std::fmt::Write as _;

use neurogc_policy::POLICIES;
use neurogc_wire::catalogue::{Figure, HISTOGRAMS, SECTIONS, metrics, series};

/// The figures of a section.
pub(super) fn figures(section: &str) -> Option<String> {
    let section = SECTIONS.iter().find(|known| known.name == section)?;
    let mut table = "| field | unit | kind | over processes | what it is |\n|---|---|---|---|---|\n".to_owned();
    for rows in section.figures.chunk_by(stand_together) {
        let figure = rows[0];
        let several = |each: fn(&Figure) -> &'static str| {
            let mut words: Vec<_> = rows.iter().map(each).filter(|word| !word.is_empty()).collect();
            words.dedup();
            words.join(", ")
        };
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} | {} |",
            path(rows),
            figure.unit.name(),
            several(|figure| figure.kind.name()),
            several(|figure| figure.across.name()),
            cell(&sentence(figure.help, figure.note))
        );
    }
    Some(table)
}

/// Whether two figures that follow each other can share a row: they differ in the last word of their paths only.
fn stand_together(one: &Figure, other: &Figure) -> bool {
    let before = |figure: &Figure| figure.path.rsplit_once('.').map(|(before, _)| before);
    (before(one), one.help, one.note, one.unit) == (before(other), other.help, other.note, other.unit)
        && before(one).is_some()
}

fn path(rows: &[Figure]) -> String {
    let [first, others @ ..] = rows else { return String::new() };
    if others.is_empty() {
        return first.path.to_owned();
    }
    let last = |figure: &Figure| figure.path.rsplit_once('.').map_or(figure.path, |(_, last)| last);
    let before = first.path.rsplit_once('.').map_or("", |(before, _)| before);
    format!("{before}.{{{}}}", rows.iter().map(last).collect::<Vec<_>>().join(","))
}

fn sentence(help: &str, note: &str) -> String {
    if note.is_empty() { help.to_owned() } else { format!("{help}. {note}") }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The series of the hub.
pub(super) fn series() -> String {
    let mut table = "| series | unit | fold | what it is |\n|---|---|---|---|\n".to_owned();
    for series in series::all() {
        let fold = series.fold.name();
        let _ = writeln!(table, "| `{}` | {} | {fold} | {} |", series.name, series.unit, cell(series.help));
    }
    table
}

/// The metrics for Prometheus.
pub(super) fn prometheus() -> String {
    let mut table = "| metric | kind | what it is |\n|---|---|---|\n".to_owned();
    let mut row = |name: &str, labels: &str, kind: &str, help: &str| {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(table, "| `{name}{labels}` | {kind} | {} |", cell(help));
    };
    for histogram in HISTOGRAMS {
        let label = histogram.label.map_or("", |(label, _)| label);
        row(histogram.prometheus, label, "histogram", histogram.help);
    }
    for metric in metrics::prometheus() {
        row(metric.name, &metric.labels.join(","), metric.kind, metric.help);
    }
    table
}

/// The metrics for OpenTelemetry.
pub(super) fn otlp() -> String {
    let mut table = "| metric | unit | kind |\n|---|---|---|\n".to_owned();
    for metric in metrics::otlp() {
        let form = match metric.form {
            metrics::Form::Counter => "counter",
            metrics::Form::UpDownCounter => "up-down counter",
            metrics::Form::Gauge => "gauge",
        };
        let _ = writeln!(table, "| `{}` | `{}` | {form} |", metric.name, metric.unit);
    }
    for histogram in HISTOGRAMS {
        let _ = writeln!(table, "| `{}` | `s` | histogram |", histogram.otlp);
    }
    table
}

/// The policies.
pub(super) fn policies() -> String {
    let yes = |it: bool| if it { "yes" } else { "" };
    let mut table = "| policy | acts | snapshots | what it does |\n|---|---|---|---|\n".to_owned();
    for entry in POLICIES {
        let help = cell(&sentence(entry.help, entry.note));
        let _ = writeln!(table, "| `{}` | {} | {} | {help} |", entry.written, yes(entry.acts), yes(entry.snapshots));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_stands_in_a_table() {
        for section in SECTIONS {
            let table = figures(section.name).unwrap_or_default();
            for figure in section.figures {
                let last = figure.path.rsplit('.').next().unwrap_or_default();
                assert!(table.contains(last), "{} is not in\n{table}", figure.path);
            }
        }
        assert_eq!(figures("nothing"), None);
    }

    #[test]
    fn figures_that_differ_in_their_last_word_share_a_row() {
        let table = figures("gc").unwrap_or_default();
        let row = "| `gc.young.{total_ms,p50_ms,p99_ms,max_ms}` | ms | counter, quantile, maximum |";
        assert!(table.contains(row), "{table}");
    }
}
