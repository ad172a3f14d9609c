//! Histograms of durations, which a hub gets beside the status report.

use crate::buckets::Distribution;
use crate::report::Sample;

/// Takes a part of a histogram, with the value of its label.
pub type Parts<'s> = &'s mut dyn FnMut(&str, &Distribution);

/// One histogram for Prometheus and OpenTelemetry, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Histogram {
    /// Its name for Prometheus.
    pub prometheus: &'static str,
    /// Its name for OpenTelemetry.
    pub otlp: &'static str,
    /// What it is.
    pub help: &'static str,
    /// The label that tells its parts apart for Prometheus, and the attribute for OpenTelemetry.
    pub label: Option<(&'static str, &'static str)>,
    /// Its parts, each with the value of the label.
    pub read: fn(&Sample, Parts<'_>),
}

/// Requests, their waits included.
pub const REQUESTS: &str = "neurogc_request_duration_seconds";
/// Waits of requests.
pub(super) const WAITS: &str = "neurogc_request_wait_seconds";
/// Requests without their waits.
pub(super) const SERVED: &str = "neurogc_request_service_seconds";
/// Collections.
pub(super) const PAUSES: &str = "neurogc_gc_pause_seconds";
/// Stalls.
pub(super) const STALLS: &str = "neurogc_stall_seconds";

/// All of them.
pub const HISTOGRAMS: &[Histogram] = &[
    Histogram {
        prometheus: REQUESTS,
        otlp: "neurogc.request.duration",
        help: "Requests from arrival to last byte",
        label: None,
        read: |sample, to| to("", &sample.latency),
    },
    Histogram {
        prometheus: WAITS,
        otlp: "neurogc.request.wait",
        help: "Requests from arrival to the call of the application",
        label: None,
        read: |sample, to| to("", &sample.wait),
    },
    Histogram {
        prometheus: SERVED,
        otlp: "neurogc.request.service",
        help: "Requests from the call of the application to last byte",
        label: None,
        read: |sample, to| to("", &sample.service),
    },
    Histogram {
        prometheus: PAUSES,
        otlp: "neurogc.gc.pause",
        help: "Collections, by kind",
        label: Some(("kind", "neurogc.gc.kind")),
        read: |sample, to| sample.pauses.iter().for_each(|(kind, pauses)| to(kind.name(), pauses)),
    },
    Histogram {
        prometheus: STALLS,
        otlp: "neurogc.stall.duration",
        help: "Times in which the program wanted to run and could not",
        label: None,
        read: |sample, to| to("", &sample.stalls),
    },
];
