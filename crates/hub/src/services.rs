//! Services: the processes that report now under one name, with their latencies merged.

use std::collections::BTreeMap;

use neurogc_wire::buckets::Buckets;
use serde::{Serialize, Serializer};

use crate::process::{Presence, View};
use crate::series::{CATALOGUE, Fold, position};

/// Series that are added up over the processes of a service.
const SUMS: [&str; 2] = ["requests.rps", "requests.in_flight"];

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
        for (sum, name) in service.latest.sums.iter_mut().zip(SUMS) {
            let value = position(name).and_then(|place| row.value(place));
            *sum = value.map_or(*sum, |value| Some(sum.unwrap_or(0.0) + value));
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
        to.collect_map(SUMS.into_iter().zip(self.sums).chain(percentiles))
    }
}
