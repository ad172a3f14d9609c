//! What the demo leaves: a table on the terminal, and an HTML page.

use super::side::SideFigures;
use crate::bench::metrics::{BenchMetric, Better};
use crate::bench::record::{Measured, Run};
use crate::bench::report::html;
use crate::bench::report::plots::{self, Curve, escape};
use crate::table::{Alignment, Table};

/// What the table shows.
const SHOWN: [&str; 13] = [
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "p999_ms",
    "max_ms",
    "per_second",
    "in_request_ms",
    "in_request_max_ms",
    "cpu_each_ms",
    "rss_peak",
    "rss_mean",
    "pss_mean",
    "garbage",
];

/// Both sides in a table. The first entry is the one without.
pub(crate) fn table(measured: &Measured) -> String {
    let [without, with] = measured.entries.as_slice() else { return String::new() };
    let mut table = Table::new(&[
        ("", Alignment::Left),
        ("WITHOUT", Alignment::Right),
        ("WITH", Alignment::Right),
        ("RATIO", Alignment::Right),
    ]);
    for metric in SHOWN.iter().filter_map(|name| BenchMetric::find(name)) {
        let (Some(before), Some(after)) = (without.median(metric.name), with.median(metric.name)) else { continue };
        let title = match metric.name {
            "in_request_ms" => "GC in requests",
            "in_request_max_ms" => "longest of it",
            _ => metric.title,
        };
        let ratio = if before > 0.0 && metric.better != Better::Neither {
            format!("{:.2}", after / before)
        } else {
            String::new()
        };
        table.row([title.to_owned(), metric.show(before), metric.show(after), ratio]);
    }
    table.render(0)
}

/// The page.
pub(crate) fn page(run: &Run, without: &SideFigures, with: &SideFigures) -> String {
    let curves = |of: fn(&SideFigures) -> Vec<f64>| {
        let points =
            |seen: &SideFigures| of(seen).into_iter().enumerate().map(|(at, value)| (at as f64, value)).collect();
        [("without NeuroGC", without), ("with NeuroGC", with)]
            .map(|(name, seen)| Curve { name: name.to_owned(), points: points(seen) })
    };
    let slowest = curves(|seen| seen.slowest.clone());
    let mut body = format!(
        "<p>{}</p>\n<p class=\"faint\">One run of both at the same time on one machine: a demonstration. For figures \
         with bounds, run <code>neurogc bench attribution</code>.</p>\n",
        escape(&run.machine.sentence())
    );
    body.push_str("<h3>Slowest answer of each second</h3>\n");
    body.push_str(&plots::course("Slowest answer of each second", "ms", &slowest));
    body.extend(run.scenarios.iter().map(html::scenario));
    html::frame("NeuroGC demo: without and with", &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::sample;

    fn two() -> Run {
        let mut run = sample::run();
        run.scenarios.truncate(1);
        run.scenarios[0].entries.retain(|entry| ["default", "gap"].contains(&entry.contender.as_str()));
        run
    }

    #[test]
    fn table_of_both_sides() {
        insta::assert_snapshot!(table(&two().scenarios[0]));
    }

    #[test]
    fn the_page_has_all_courses_and_loads_nothing() {
        let seen =
            |slowest: f64| SideFigures { slowest: vec![slowest; 3], rss: vec![1 << 28; 3], ..SideFigures::default() };
        let page = page(&two(), &seen(130.0), &seen(5.0));
        // Slowest answers, latency, resident memory, and memory with children: two lines each.
        assert_eq!(page.matches("<polyline").count(), 8);
        assert!(!page.contains("http"), "nothing is loaded");
    }
}
