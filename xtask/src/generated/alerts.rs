//! Alert rules for Prometheus, written from the catalogue of figures and the kinds of findings.

use std::fmt::Write as _;

use neurogc_wire::finding::FindingKind as Kind;

/// What says that something grows that should not.
const GROWTH: [Kind; 15] = [
    Kind::UnboundedContainer,
    Kind::UnboundedCache,
    Kind::Callbacks,
    Kind::StoredExceptions,
    Kind::Logging,
    Kind::Contexts,
    Kind::Modules,
    Kind::Tasks,
    Kind::Threads,
    Kind::Descriptors,
    Kind::Children,
    Kind::CyclicGarbage,
    Kind::PythonGrowth,
    Kind::NativeGrowth,
    Kind::GpuLeak,
];

/// What says that an allocator keeps what was freed.
const KEPT: [Kind; 3] = [Kind::ArenaExplosion, Kind::MallocFree, Kind::PymallocPinned];

/// A rule, as Prometheus reads it.
struct PrometheusRule {
    name: &'static str,
    /// Lines of the expression. `{growth}` and `{kept}` are the kinds of findings.
    expression: &'static [&'static str],
    lasts: Option<&'static str>,
    severity: &'static str,
    summary: &'static str,
    description: &'static str,
}

/// Groups of rules by name.
const GROUPS: &[(&str, &[PrometheusRule])] =
    &[("neurogc-memory", MEMORY), ("neurogc-latency", LATENCY), ("neurogc-hub", HUB)];

const MEMORY: &[PrometheusRule] = &[
    PrometheusRule {
        name: "NeurogcLeak",
        expression: &["max by (service, worker, host, kind) (", "neurogc_finding{kind=~\"{growth}\"}", ") >= 0.9"],
        lasts: Some("5m"),
        severity: "warning",
        summary: "{{ $labels.service }} leaks ({{ $labels.kind }})",
        description: "Worker {{ $labels.worker }} on {{ $labels.host }}. `neurogc memory PID` says what holds the memory and which line fills it.",
    },
    PrometheusRule {
        name: "NeurogcFreedMemoryKept",
        expression: &["max by (service, worker, host, kind) (", "neurogc_finding{kind=~\"{kept}\"}", ") >= 0.9"],
        lasts: Some("30m"),
        severity: "info",
        summary: "{{ $labels.service }} keeps memory that was freed ({{ $labels.kind }})",
        description: "Worker {{ $labels.worker }} on {{ $labels.host }}. `neurogc memory PID` says how to get it back.",
    },
    PrometheusRule {
        name: "NeurogcMemoryGrows",
        expression: &[
            "deriv(neurogc_memory_rss_bytes[1h]) * 3600 > 100e6",
            "and on (service, worker, host) neurogc_uptime_seconds > 2 * 3600",
        ],
        lasts: Some("1h"),
        severity: "info",
        summary: "{{ $labels.service }} grows by {{ $value | humanize1024 }}B/h",
        description: "Resident memory of worker {{ $labels.worker }} on {{ $labels.host }} has grown for more than an hour.",
    },
    PrometheusRule {
        name: "NeurogcMemoryLimitNear",
        expression: &[
            "predict_linear(neurogc_memory_rss_bytes[1h], 6 * 3600) > on (service, worker, host) neurogc_memory_limit_bytes",
            "and on (service, worker, host) neurogc_uptime_seconds > 3600",
        ],
        lasts: Some("15m"),
        severity: "critical",
        summary: "{{ $labels.service }} reaches its memory limit within 6 hours",
        description: "Worker {{ $labels.worker }} on {{ $labels.host }}, at the growth of the last hour.",
    },
    PrometheusRule {
        name: "NeurogcMemoryLimitAlmostReached",
        expression: &["neurogc_memory_rss_bytes / on (service, worker, host) neurogc_memory_limit_bytes > 0.9"],
        lasts: Some("5m"),
        severity: "critical",
        summary: "{{ $labels.service }} uses {{ $value | humanizePercentage }} of its memory limit",
        description: "Worker {{ $labels.worker }} on {{ $labels.host }}.",
    },
    PrometheusRule {
        name: "NeurogcUncollectableObjects",
        expression: &["increase(neurogc_gc_uncollectable_objects_total[1h]) > 0"],
        lasts: None,
        severity: "warning",
        summary: "{{ $labels.service }} has objects that no collection can free",
        description: "Worker {{ $labels.worker }} on {{ $labels.host }}: they are in gc.garbage.",
    },
];

const LATENCY: &[PrometheusRule] = &[
    PrometheusRule {
        name: "NeurogcSlowRequests",
        expression: &[
            "histogram_quantile(0.99, sum by (service, le) (rate(neurogc_request_duration_seconds_bucket[5m]))) > 0.25",
        ],
        lasts: Some("5m"),
        severity: "warning",
        summary: "p99 of {{ $labels.service }} is {{ $value | humanizeDuration }}",
        description: "`neurogc status PID` says what held its requests up.",
    },
    PrometheusRule {
        name: "NeurogcCollectionsInRequests",
        expression: &["sum by (service) (rate(neurogc_gc_place_seconds_total{place=\"in_request\"}[5m])) > 0.02"],
        lasts: Some("15m"),
        severity: "info",
        summary: "{{ $labels.service }} spends {{ $value | humanizePercentage }} of a core on collections in requests",
        description: "The policy `gap` moves them between requests: docs/policies.md.",
    },
    PrometheusRule {
        name: "NeurogcStalls",
        expression: &["sum by (service, cause) (rate(neurogc_stalled_seconds_total[5m])) > 0.05"],
        lasts: Some("10m"),
        severity: "warning",
        summary: "{{ $labels.service }} is held up for {{ $value | humanizePercentage }} of the time ({{ $labels.cause }})",
        description: "`neurogc status PID` names the code site.",
    },
];

const HUB: &[PrometheusRule] = &[
    PrometheusRule {
        name: "NeurogcHubMissing",
        expression: &["absent(neurogc_hub_reports_total)"],
        lasts: Some("5m"),
        severity: "warning",
        summary: "Prometheus has no metrics of the NeuroGC hub",
        description: "The hub is not running, or Prometheus has no token for it: docs/hub.md.",
    },
    PrometheusRule {
        name: "NeurogcHubDropsHistory",
        expression: &["increase(neurogc_hub_store_dropped_total[15m]) > 0"],
        lasts: None,
        severity: "warning",
        summary: "The NeuroGC hub could not write its history",
        description: "The disk is full or slow.",
    },
    PrometheusRule {
        name: "NeurogcAlertsNotSent",
        expression: &["increase(neurogc_alert_failed_total[15m]) + increase(neurogc_alert_dropped_total[15m]) > 0"],
        lasts: None,
        severity: "warning",
        summary: "Alerts of the NeuroGC hub do not arrive by the channel {{ $labels.channel }}",
        description: "GET /api/v1/alerts has the last error.",
    },
];

/// The file of rules.
pub(super) fn rules() -> String {
    let names = |kinds: &[Kind]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join("|");
    let (growth, kept) = (names(&GROWTH), names(&KEPT));
    let mut text = "# Alert rules for Prometheus, for the metrics of `neurogc hub` (docs/hub.md). Change the thresholds to yours.\n\
         # Without Prometheus, the hub sends alerts itself: docs/alerts.md.\n\
         # Written by `cargo run -p xtask -- docs` from the catalogue of figures: change it in xtask.\n\
         groups:\n"
        .to_owned();
    // Writing to a string cannot fail.
    for (group, rules) in GROUPS {
        let _ = write!(text, "  - name: {group}\n    rules:\n");
        for rule in *rules {
            let _ = write!(text, "      - alert: {}\n        expr: >-\n", rule.name);
            for line in rule.expression {
                let line = line.replace("{growth}", &growth).replace("{kept}", &kept);
                let _ = writeln!(text, "          {line}");
            }
            if let Some(lasts) = rule.lasts {
                let _ = writeln!(text, "        for: {lasts}");
            }
            let _ = write!(
                text,
                "        labels:\n          severity: {}\n        annotations:\n          summary: \"{}\"\n          description: \"{}\"\n",
                rule.severity, rule.summary, rule.description
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use neurogc_wire::catalogue::{HISTOGRAMS, metrics};

    use super::*;

    /// Those of the hub itself are not in the catalogue; a test of the hub compares them with what it exports.
    #[test]
    fn every_metric_of_a_process_is_in_the_catalogue() {
        let known = metrics::prometheus();
        let is_known = |name: &str| {
            known.iter().any(|metric| metric.name == name)
                || HISTOGRAMS.iter().any(|histogram| name.strip_suffix("_bucket") == Some(histogram.prometheus))
        };
        let text = rules();
        let is_part = |it: char| it.is_ascii_lowercase() || it == '_';
        let mut seen = 0;
        for (at, _) in text.match_indices("neurogc_") {
            let name = text[at..].split(|it| !is_part(it)).next().unwrap_or_default();
            if !name.starts_with("neurogc_hub_") && !name.starts_with("neurogc_alert_") {
                assert!(is_known(name), "{name}");
                seen += 1;
            }
        }
        assert!(seen >= 10);
    }

    #[test]
    fn every_kind_says_that_something_grows_or_is_kept() {
        assert!(GROWTH.iter().all(|kind| kind.is_growth()));
        assert!(KEPT.iter().all(|kind| kind.is_leak() && !kind.is_growth()));
    }
}
