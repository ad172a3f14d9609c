//! The metrics that a hub exports, put together from the figures.

use super::figure::{Attribute, Figure, FigureKind, ReadEach, Sink, Unit};
use super::{Across, figures};
use crate::report::Sample;

/// Where the values of a metric come from.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A figure.
    Figure(&'static Figure),
    /// A computation.
    Computed(ReadEach),
}

/// A metric for Prometheus.
#[derive(Clone, Debug)]
pub struct PrometheusMetric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// Labels besides those of the process.
    pub labels: Vec<&'static str>,
    parts: Vec<Part>,
}

impl PrometheusMetric {
    /// All its values.
    pub fn read(&self, sample: &Sample, to: Sink<'_>) {
        for part in &self.parts {
            match part {
                Part::Figure(figure) => figure.values(sample, to),
                Part::Computed(read) => read(sample, to),
            }
        }
    }
}

/// Every metric for Prometheus but histograms.
#[must_use]
pub fn prometheus() -> Vec<PrometheusMetric> {
    let mut metrics = vec![PrometheusMetric {
        name: "neurogc_process_info",
        help: "What a process is; always 1",
        kind: "gauge",
        labels: figures().filter_map(|figure| figure.info).collect(),
        parts: vec![Part::Computed(|sample, to| {
            let labels = figures().filter_map(|figure| Some((figure.info?, (figure.read_text)(sample)?)));
            to(&labels.collect::<Vec<_>>(), 1.0);
        })],
    }];
    for figure in figures() {
        let Some(metric) = figure.prometheus else { continue };
        if let Some(known) = metrics.iter_mut().find(|known| known.name == metric.name) {
            known.parts.push(Part::Figure(figure));
            continue;
        }
        let labels =
            figure.each.map_or_else(|| metric.labels.iter().map(|(name, _)| *name).collect(), |it| it.0.to_vec());
        metrics.push(PrometheusMetric {
            name: metric.name,
            help: if metric.help.is_empty() { figure.help } else { metric.help },
            kind: if figure.kind == FigureKind::Counter { "counter" } else { "gauge" },
            labels,
            parts: vec![Part::Figure(figure)],
        });
    }
    // The exact sums come beside the report.
    metrics.push(PrometheusMetric {
        name: "neurogc_gil_seconds_total",
        help: "Time in which a thread held the GIL, or none",
        kind: "counter",
        labels: vec!["state"],
        parts: vec![Part::Computed(|sample, to| {
            to(&[("state", "busy")], sample.gil_busy_ms / 1e3);
            to(&[("state", "idle")], sample.gil_idle_ms / 1e3);
        })],
    });
    metrics
}

/// How OpenTelemetry adds values up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Values of several processes can be added, and each only grows.
    Counter,
    /// Values of several processes can be added.
    UpDownCounter,
    /// They cannot.
    Gauge,
}

/// A metric for OpenTelemetry.
#[derive(Clone, Debug)]
pub struct OtlpMetric {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// How values are added up.
    pub form: Form,
    figures: Vec<&'static Figure>,
}

impl OtlpMetric {
    /// All its values, each with what tells it apart.
    pub fn read(&self, sample: &Sample, mut to: impl FnMut(f64, Option<(&'static str, Attribute<'_>)>)) {
        for figure in &self.figures {
            if let (Some((_, each)), Some(key)) = (figure.each, figure.otlp.and_then(|it| it.label)) {
                each(sample, &mut |labels, value| {
                    // A label is a text; a number is told as one.
                    let told = |text| str::parse(text).map_or(Attribute::Text(text), Attribute::Integer);
                    to(value * figure.unit.to_base(), labels.first().map(|(_, text)| (key, told(*text))));
                });
            } else if let Some(value) = (figure.read)(sample) {
                to(value * figure.unit.to_base(), figure.otlp.and_then(|it| it.attribute));
            }
        }
    }
}

/// Every metric for OpenTelemetry but histograms.
#[must_use]
pub fn otlp() -> Vec<OtlpMetric> {
    let mut metrics: Vec<OtlpMetric> = Vec::new();
    for figure in figures() {
        let Some(otlp) = figure.otlp else { continue };
        if let Some(known) = metrics.iter_mut().find(|known| known.name == otlp.name) {
            known.figures.push(figure);
            continue;
        }
        let form = match (figure.kind, figure.across) {
            (FigureKind::Counter, _) => Form::Counter,
            // The conventions have utilization as a gauge, although cores can be added up.
            (_, Across::Sum) if figure.unit != Unit::Percent => Form::UpDownCounter,
            _ => Form::Gauge,
        };
        metrics.push(OtlpMetric { name: otlp.name, unit: otlp.unit, form, figures: vec![figure] });
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_share_a_metric_are_its_values() {
        let metrics = prometheus();
        let mut sample = Sample::default();
        sample.status.gc.in_gap.total_ms = 1500.0;
        let mut seen = Vec::new();
        let places = metrics.iter().find(|metric| metric.name == "neurogc_gc_place_seconds_total");
        places.into_iter().for_each(|metric| {
            metric.read(&sample, &mut |labels, value| seen.push((labels[0].1.to_owned(), value)));
        });
        let expected = [("in_request", 0.0), ("in_gap", 1.5), ("in_gap_arrivals", 0.0), ("forced", 0.0)];
        assert_eq!(seen, expected.map(|(place, value)| (place.to_owned(), value)));
    }

    #[test]
    fn forms_are_those_of_the_conventions() {
        let metrics = otlp();
        let form = |name: &str| metrics.iter().find(|metric| metric.name == name).map(|metric| metric.form);
        assert_eq!(form("cpython.gc.collections"), Some(Form::Counter));
        assert_eq!(form("process.memory.usage"), Some(Form::UpDownCounter));
        assert_eq!(form("process.cpu.utilization"), Some(Form::Gauge));
        assert_eq!(form("process.uptime"), Some(Form::Gauge));
    }

    /// Two devices, of which every figure has another value.
    fn with_two_gpus() -> Sample {
        let mut sample = Sample::default();
        let device = |device: u32| crate::gpu::GpuDevice {
            device,
            allocated_bytes: 1,
            peak_bytes: 2,
            reserved_bytes: 3,
            active_bytes: 4,
            inactive_bytes: 5,
            blocks: 6,
            retries: 7,
            ooms: 8,
            card_bytes: 9,
            card_free_bytes: 10 + u64::from(device),
            other_processes: Some(15),
            other_processes_bytes: Some(16 + u64::from(device)),
        };
        sample.status.gpu = crate::gpu::Gpu {
            steps: 11,
            pinned_bytes: Some(12),
            ooms: 13,
            ooms_handled: 14,
            devices: vec![device(0), device(3)],
            ..crate::gpu::Gpu::default()
        };
        sample
    }

    #[test]
    fn every_figure_of_gpus_has_its_name_in_prometheus_and_in_opentelemetry() {
        let own = |figure: &&&Figure| {
            let is_number = matches!(figure.kind, FigureKind::Counter | FigureKind::Gauge(_) | FigureKind::Largest);
            let is_moment = figure.path.starts_with("gpu.recent") || figure.path == "gpu.at_s";
            figure.path.starts_with("gpu.") && is_number && !is_moment && figure.path != "gpu.devices[].device"
        };
        let all: Vec<_> = figures().collect();
        // What is there for each device is not told as a sum, too.
        let sums = ["gpu.allocated_bytes", "gpu.reserved_bytes", "gpu.inactive_bytes"];
        for figure in all.iter().filter(own).filter(|figure| !sums.contains(&figure.path)) {
            assert!(figure.prometheus.is_some() && figure.otlp.is_some(), "{} has no name", figure.path);
        }
        assert_eq!(all.iter().filter(own).count(), 19);
    }

    #[test]
    fn both_ways_tell_the_same_of_every_device() {
        let sample = with_two_gpus();
        let mut told: Vec<(Option<u32>, u64)> = Vec::new();
        for metric in otlp().iter().filter(|metric| metric.name.starts_with("neurogc.gpu.")) {
            metric.read(&sample, |value, attribute| {
                let device = attribute.map(|it| match it {
                    ("neurogc.gpu.device", Attribute::Integer(number)) => number,
                    other => panic!("{other:?} of {}", metric.name),
                });
                told.push((device, value as u64));
            });
        }
        let mut scraped: Vec<(Option<u32>, u64)> = Vec::new();
        for metric in prometheus().iter().filter(|metric| metric.name.starts_with("neurogc_gpu_")) {
            metric.read(&sample, &mut |labels, value| {
                scraped.push((labels.first().and_then(|(_, number)| number.parse().ok()), value as u64));
            });
        }
        told.sort_unstable();
        scraped.sort_unstable();
        let of = |device: u32| {
            let own = u64::from(device);
            (1..=9).chain([10 + own, 15, 16 + own]).map(move |value| (Some(device), value))
        };
        let process = (11..=14).map(|value| (None, value));
        assert_eq!(told, process.chain(of(0)).chain(of(3)).collect::<Vec<_>>());
        assert_eq!(scraped, told);
        // A process without a GPU has no values of devices.
        for metric in otlp().iter().filter(|metric| metric.name.starts_with("neurogc.gpu.memory")) {
            metric.read(&Sample::default(), |value, _| panic!("{value} of {}", metric.name));
        }
    }
}
