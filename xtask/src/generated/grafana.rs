//! Dashboards for Grafana, written from the catalogue of figures: one with what matters for each service, and one with every
//! metric.

use neurogc_wire::catalogue::metrics::{self, PrometheusMetric};
use neurogc_wire::catalogue::{HISTOGRAMS, Histogram};
use serde_json::{Value, json};

/// Panels stand in a grid of 24 columns.
const WIDE: u32 = 12;
const HIGH: u32 = 8;

/// What the panels of a service say: a title, the metric, the rest of the expression around it, and how values are written.
/// `{}` is the metric with the chosen services.
const OVERVIEW: &[(&str, &str, &str, &str, &str)] = &[
    (
        "Request latency, p99",
        "neurogc_request_duration_seconds",
        "histogram_quantile(0.99, sum by (service, le) (rate({}[$__rate_interval])))",
        "{{service}}",
        "s",
    ),
    (
        "Requests per second",
        "neurogc_requests_total",
        "sum by (service) (rate({}[$__rate_interval]))",
        "{{service}}",
        "reqps",
    ),
    (
        "Collections inside requests, share of a core",
        "neurogc_gc_place_seconds_total",
        "sum by (service, place) (rate({}[$__rate_interval]))",
        "{{service}} {{place}}",
        "percentunit",
    ),
    (
        "Longest usual collection, p99",
        "neurogc_gc_pause_seconds",
        "histogram_quantile(0.99, sum by (service, kind, le) (rate({}[$__rate_interval])))",
        "{{service}} {{kind}}",
        "s",
    ),
    (
        "Time lost to stalls, by cause",
        "neurogc_stalled_seconds_total",
        "sum by (service, cause) (rate({}[$__rate_interval]))",
        "{{service}} {{cause}}",
        "percentunit",
    ),
    ("Resident memory", "neurogc_memory_rss_bytes", "sum by (service) ({})", "{{service}}", "bytes"),
    (
        "Memory limit used by the fullest worker",
        "neurogc_memory_rss_bytes",
        "max by (service) ({} / on (service, worker, host) neurogc_memory_limit_bytes)",
        "{{service}}",
        "percentunit",
    ),
    (
        "Findings, by how sure they are",
        "neurogc_finding",
        "max by (service, kind) ({})",
        "{{service}} {{kind}}",
        "percentunit",
    ),
    ("Processor use", "neurogc_cpu_ratio", "sum by (service) ({})", "{{service}}", "none"),
    (
        "Cost of the agents, share of a core",
        "neurogc_agent_cpu_seconds_total",
        "sum by (service) (rate({}[$__rate_interval]))",
        "{{service}}",
        "percentunit",
    ),
];

/// The dashboard with what matters.
pub(super) fn overview() -> String {
    let panels = OVERVIEW.iter().map(|(title, metric, around, legend, unit)| {
        let is_histogram = HISTOGRAMS.iter().any(|histogram| histogram.prometheus == *metric);
        let name = if is_histogram { format!("{metric}_bucket") } else { (*metric).to_owned() };
        panel(title, help_of(metric), unit, &[(around.replacen("{}", &chosen(&name), 1), (*legend).to_owned())])
    });
    dashboard("neurogc-overview", "NeuroGC: services", placed(panels.collect()))
}

/// The dashboard with every metric.
pub(super) fn figures() -> String {
    let histograms = HISTOGRAMS.iter().map(of_histogram);
    let others = metrics::prometheus();
    let others = others.iter().filter(|metric| !metric.name.ends_with("_info")).map(of_metric);
    dashboard("neurogc-figures", "NeuroGC: every figure", placed(histograms.chain(others).collect()))
}

fn of_histogram(histogram: &Histogram) -> Value {
    let label = histogram.label.map(|(label, _)| label);
    let by = label.map_or_else(|| "service, le".to_owned(), |label| format!("service, {label}, le"));
    let shown = label.map_or_else(String::new, |label| format!(" {{{{{label}}}}}"));
    let name = format!("{}_bucket", histogram.prometheus);
    let targets = [("0.5", "p50"), ("0.99", "p99"), ("0.999", "p99.9")].map(|(quantile, words)| {
        let rate = format!("sum by ({by}) (rate({}[$__rate_interval]))", chosen(&name));
        (format!("histogram_quantile({quantile}, {rate})"), format!("{{{{service}}}}{shown} {words}"))
    });
    panel(histogram.prometheus, histogram.help, "s", &targets)
}

fn of_metric(metric: &PrometheusMetric) -> Value {
    let by: Vec<&str> = std::iter::once("service").chain(metric.labels.iter().copied()).collect();
    let legend: Vec<String> = by.iter().map(|label| format!("{{{{{label}}}}}")).collect();
    let is_counter = metric.kind == "counter";
    let base = metric.name.trim_end_matches("_total");
    let unit = match () {
        () if base.ends_with("_bytes") && is_counter => "Bps",
        () if base.ends_with("_bytes") => "bytes",
        () if base.ends_with("_seconds") && is_counter => "percentunit",
        () if base.ends_with("_seconds") => "s",
        () if base.ends_with("_ratio") => "percentunit",
        () if is_counter => "cps",
        () => "short",
    };
    let chosen = chosen(metric.name);
    // The largest of several processes says more than the sum of confidences, ages and limits.
    let add_up = if is_counter || unit == "bytes" || unit == "short" { "sum" } else { "max" };
    let value = if is_counter { format!("rate({chosen}[$__rate_interval])") } else { chosen };
    panel(metric.name, metric.help, unit, &[(format!("{add_up} by ({}) ({value})", by.join(", ")), legend.join(" "))])
}

/// A metric of the services that are chosen at the top of the page.
fn chosen(metric: &str) -> String {
    format!("{metric}{{service=~\"$service\"}}")
}

fn help_of(metric: &str) -> &'static str {
    let histogram = HISTOGRAMS.iter().find(|histogram| histogram.prometheus == metric).map(|histogram| histogram.help);
    let known = || metrics::prometheus().into_iter().find(|known| known.name == metric).map(|known| known.help);
    histogram.or_else(known).unwrap_or_default()
}

fn panel(title: &str, help: &str, unit: &str, targets: &[(String, String)]) -> Value {
    let targets: Vec<Value> = targets
        .iter()
        .enumerate()
        .map(|(index, (expression, legend))| {
            let name = char::from(b'A' + u8::try_from(index).unwrap_or(0)).to_string();
            json!({"refId": name, "expr": expression, "legendFormat": legend, "datasource": source()})
        })
        .collect();
    json!({
        "type": "timeseries",
        "title": title,
        "description": help,
        "datasource": source(),
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 8, "lineWidth": 1}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
    })
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// Two panels in each row, with a number each.
fn placed(panels: Vec<Value>) -> Vec<Value> {
    let number = (0..).zip(panels);
    let place = |(index, mut panel): (u32, Value)| {
        panel["id"] = json!(index + 1);
        panel["gridPos"] = json!({"x": index % 2 * WIDE, "y": index / 2 * HIGH, "w": WIDE, "h": HIGH});
        panel
    };
    number.map(place).collect()
}

fn dashboard(id: &str, title: &str, panels: Vec<Value>) -> String {
    let services = json!({
        "name": "service",
        "label": "Service",
        "type": "query",
        "datasource": source(),
        "query": {"query": "label_values(neurogc_process_info, service)", "refId": "services"},
        "refresh": 2,
        "includeAll": true,
        "multi": true,
        "current": {"text": "All", "value": "$__all"},
    });
    let sources = json!({"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"});
    let whole = json!({
        "uid": id,
        "title": title,
        "description": "Written by `cargo run -p xtask -- docs` from the catalogue of figures in crates/wire. Change it there.",
        "tags": ["neurogc"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [sources, services]},
        "annotations": {"list": []},
        "panels": panels,
    });
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_of_the_overview_is_in_the_catalogue() {
        for (title, metric, around, ..) in OVERVIEW {
            assert!(!help_of(metric).is_empty(), "{title}: there is no {metric}");
            assert_eq!(around.matches("{}").count(), 1, "{title}");
        }
    }

    #[test]
    fn every_metric_has_a_panel() {
        let text = figures();
        let histograms = HISTOGRAMS.iter().map(|histogram| histogram.prometheus);
        let others = metrics::prometheus();
        for name in histograms.chain(others.iter().map(|metric| metric.name)).filter(|name| !name.ends_with("_info")) {
            assert!(text.contains(&format!("\"title\": \"{name}\"")), "{name}");
        }
        assert!(serde_json::from_str::<Value>(&text).is_ok());
    }
}
