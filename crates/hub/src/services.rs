//! Services: the processes that report now under one name, with their latencies merged.

use std::collections::BTreeMap;

use neurogc_wire::buckets::Buckets;
use serde::{Serialize, Serializer};

use crate::process::{Presence, View};
use crate::series::{CATALOGUE, Fold, position};

/// Series that are added up over the processes of a service.
const SUMS: [&str; 5] = ["requests.rps", "requests.in_flight", "gc.in_request_ms", "memory.rss", "cpu.percent"];

/// Series of which the largest value of its processes is told.
const LARGEST: [&str; 2] = ["gc.max_ms", "gil.busy_percent"];

/// One service.
#[derive(Debug, Serialize)]
pub(crate) struct ServiceSummary<'p> {
    service: &'p str,
    processes: usize,
    latest: ServiceFigures,
}

/// The figures of all its processes in their latest second, by the names of the series.
#[derive(Debug, Default)]
struct ServiceFigures {
    sums: [Option<f32>; SUMS.len()],
    largest: [Option<f32>; LARGEST.len()],
    latency: Buckets,
}

/// The services of the processes that report now, by name. A percentile is that of all requests of the service: those of
/// its processes are not averaged.
pub(crate) fn services(views: &[View]) -> Vec<ServiceSummary<'_>> {
    let mut found: BTreeMap<&str, ServiceSummary<'_>> = BTreeMap::new();
    for view in views.iter().filter(|view| view.state == Presence::Live) {
        let name = view.facts.service.as_str();
        let service = found.entry(name).or_insert(ServiceSummary {
            service: name,
            processes: 0,
            latest: ServiceFigures::default(),
        });
        service.processes += 1;
        let Some(row) = &view.row else { continue };
        let value = |name| position(name).and_then(|place| row.value(place));
        for (sum, name) in service.latest.sums.iter_mut().zip(SUMS) {
            *sum = value(name).map_or(*sum, |value| Some(sum.unwrap_or(0.0) + value));
        }
        for (largest, name) in service.latest.largest.iter_mut().zip(LARGEST) {
            *largest = value(name).map_or(*largest, |value| Some(largest.map_or(value, |most| most.max(value))));
        }
        service.latest.latency.merge(row.latency());
    }
    found.into_values().collect()
}

impl Serialize for ServiceFigures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let percentiles = CATALOGUE.iter().filter_map(|series| match series.fold {
            Fold::Quantile(share) => Some((series.name, self.latency.quantile_ms(share).map(|ms| ms as f32))),
            _ => None,
        });
        let largest = LARGEST.into_iter().zip(self.largest);
        to.collect_map(SUMS.into_iter().zip(self.sums).chain(largest).chain(percentiles))
    }
}
