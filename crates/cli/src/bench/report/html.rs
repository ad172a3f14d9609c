//! A run as one HTML page that loads nothing.

use std::fmt::Write as _;

use super::plots::{self, Curve, Dot, escape};
use super::tables::{self, Table};
use super::{READING, markdown};
use crate::bench::contender::DEFAULT;
use crate::bench::metrics::Metric;
use crate::bench::record::{Entry, Measured, Run};
use crate::bench::statistics::median;
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
    let quick = "<p class=\"doubt\"><b>Quick:</b> small heaps and short trials. It shows that everything works, and \
                 proves nothing.</p>\n";
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
    if let Some(capacity) = measured.capacity {
        let _ = writeln!(
            text,
            "<p class=\"faint\">With the collector off, the service can do {capacity:.0} requests a second.</p>"
        );
    }
    for metric in ["p99_ms", "p999_ms", "time_ms", "rss_peak", "cpu_each_ms"] {
        let title = Metric::find(metric).map_or(metric, |metric| metric.title);
        let dots: Vec<Dot> = measured
            .entries
            .iter()
            .filter(|entry| entry.contender != DEFAULT)
            .filter_map(|entry| {
                let ratio = tables::ratio(measured, &entry.contender, DEFAULT, metric)?;
                Some(Dot { name: entry.title.replace('`', ""), mean: ratio.mean, low: ratio.low, high: ratio.high })
            })
            .collect();
        if !dots.is_empty() {
            let title = format!("{title} ÷ CPython default");
            let _ = write!(text, "<h3>{title}</h3>\n{}", plots::ratios(&title, &dots));
        }
    }
    let curves: Vec<Curve> = measured
        .entries
        .iter()
        .filter(|entry| entry.trials.iter().any(|trial| !trial.curve.is_empty()))
        .map(|entry| Curve { name: entry.title.replace('`', ""), points: middle_curve(entry) })
        .collect();
    let drawn = plots::percentiles(&curves);
    if !drawn.is_empty() {
        let _ = write!(text, "<h3>Latency by percentile</h3>\n{drawn}");
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
    for doubt in tables::doubts(measured) {
        let _ = writeln!(text, "<p class=\"doubt\">{}</p>", escape(&doubt));
    }
    text
}

/// The middle of the curves of all runs, where most of them have a point.
fn middle_curve(entry: &Entry) -> Vec<(f64, f64)> {
    let curves: Vec<_> = entry.trials.iter().map(|trial| &trial.curve).filter(|curve| !curve.is_empty()).collect();
    // All curves have the same shares, as far as their number of requests allows; the last point is the maximum.
    let longest = curves.iter().map(|curve| curve.len() - 1).max().unwrap_or(0);
    (0..longest)
        .filter_map(|at| {
            let here: Vec<_> = curves.iter().filter(|curve| at + 1 < curve.len()).map(|curve| curve[at]).collect();
            let enough = here.len() * 2 > curves.len();
            let ms = median(here.iter().map(|(_, ms)| *ms)).filter(|_| enough)?;
            Some((here[0].0, ms))
        })
        .collect()
}

fn table(table: &Table, measured: &Measured) -> String {
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
fn metric_of(title: &str) -> Option<&'static Metric> {
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
