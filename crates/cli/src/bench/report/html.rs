//! A run as one HTML page that loads nothing.

use std::fmt::Write as _;

use super::plots::escape;
use super::tables::{self, ReportTable};
use super::{READING, drawings, markdown};
use crate::bench::metrics::BenchMetric;
use crate::bench::record::{Measured, Run};
use crate::figures::span;

const STYLE: &str = "
:root { color-scheme: light dark; --faint: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--faint); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.86rem; margin: 1rem 0; }
.scroll { overflow-x: auto; } th, td { padding: 0.25rem 0.6rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: Canvas; }
tr:nth-child(even) td { background: color-mix(in srgb, Canvas 94%, CanvasText); } th { border-bottom: 2px solid var(--faint); }
svg { width: 100%; max-width: 760px; display: block; margin: 1rem 0; } svg text { font-size: 11.5px; fill: currentColor; }
svg .rule { stroke: var(--faint); stroke-width: 1; } .faint { opacity: 0.75; font-size: 0.9rem; }
.doubt { border-left: 3px solid #d55e00; padding-left: 0.7rem; } .good { color: #007a59; } .bad { color: #c04f00; }
@media (prefers-color-scheme: dark) { .good { color: #3fce9f; } .bad { color: #ff9a4d; } }
";

/// The whole page.
pub(crate) fn page(run: &Run) -> String {
    let quick = "<p class=\"doubt\"><b>Quick:</b> small heaps and short trials. The results are not conclusive.</p>\n";
    let body: String = run.scenarios.iter().map(scenario).collect();
    frame(
        "NeuroGC benchmark",
        &format!(
            "<p>{} NeuroGC {}. {} × each, in turns, in {}.</p>\n<p class=\"faint\">{READING}</p>\n{}{body}",
            escape(&run.machine.sentence()),
            escape(&run.neurogc),
            run.runs,
            span(run.seconds),
            if run.quick { quick } else { "" },
        ),
    )
}

/// A page with a title around a body.
pub(crate) fn frame(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n\
         {body}</body></html>\n"
    )
}

/// One scenario with its plots and tables.
pub(crate) fn scenario(measured: &Measured) -> String {
    let about = markdown::capital(&measured.about);
    let mut text = format!("<h2>{}</h2>\n<p>{}.</p>\n", escape(&measured.scenario), escape(&about));
    if let Some(reason) = &measured.skipped {
        let _ = writeln!(text, "<p class=\"faint\">Skipped: {}</p>", escape(reason));
        return text;
    }
    for sentence in tables::known(measured) {
        let _ = writeln!(text, "<p class=\"faint\">{}</p>", escape(&sentence));
    }
    for drawing in drawings::of(measured) {
        let _ = write!(text, "<h3>{}</h3>\n{}", drawing.title, drawing.svg);
    }
    let figures = tables::figures(measured);
    if figures.heading.len() > 1 {
        let _ = write!(text, "<h3>Figures</h3>\n{}", table(&figures, measured));
    }
    let ratios = tables::ratios(measured);
    if ratios.heading.len() > 1 {
        let _ = write!(text, "<h3>Ratios</h3>\n{}", table(&ratios, measured));
    }
    let programs = tables::programs(measured);
    if programs.heading.len() > 1 {
        let _ = write!(text, "<h3>Programs</h3>\n{}", table(&programs, measured));
    }
    if let Some(spread) = tables::spread(measured) {
        let _ = writeln!(text, "<p class=\"faint\">{}</p>", escape(&spread));
    }
    for end in tables::early_ends(measured) {
        let _ = writeln!(text, "<p class=\"doubt\">Ended early: {}</p>", escape(&end));
    }
    for doubt in tables::doubts(measured) {
        let _ = writeln!(text, "<p class=\"doubt\">{}</p>", escape(&doubt));
    }
    text
}

fn table(table: &ReportTable, measured: &Measured) -> String {
    let mut text = "<div class=\"scroll\"><table>\n<tr>".to_owned();
    for cell in &table.heading {
        let _ = write!(text, "<th>{}</th>", escape(cell));
    }
    text.push_str("</tr>\n");
    for row in &table.rows {
        let entry = measured.entries.iter().find(|entry| Some(&entry.title) == row.first());
        text.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let metric = table.heading.get(at).and_then(|title| metric_of(title));
            let better = metric.zip(entry).and_then(|(metric, it)| tables::better(measured, &it.contender, metric));
            let class = match better {
                Some(true) => " class=\"good\"",
                Some(false) => " class=\"bad\"",
                None => "",
            };
            let _ = write!(text, "<td{class}>{}</td>", escape(&cell.replace('`', "")));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table></div>\n");
    text
}

/// The metric that a heading of figures stands for; headings of ratios to other limits stand for none.
fn metric_of(title: &str) -> Option<&'static BenchMetric> {
    let title = title.strip_suffix(" ÷ default").unwrap_or(title);
    crate::bench::metrics::CATALOGUE.iter().find(|metric| metric.title == title && !["for", "longest"].contains(&title))
}

#[cfg(test)]
mod tests {
    use crate::bench::report::sample;

    #[test]
    fn page_of_a_run() {
        insta::assert_snapshot!(super::page(&sample::run()));
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = super::page(&sample::run());
        for word in ["http://", "https://", "<script", "<link", "url(", "@import", "src="] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
