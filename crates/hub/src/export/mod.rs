//! Figures for other systems: Prometheus asks for them, collectors of OpenTelemetry are sent them.

pub(crate) mod otlp;
pub(crate) mod prometheus;

use neurogc_wire::buckets::Distribution;

/// The upper bounds of histograms, in milliseconds.
const BOUNDS_MS: [f64; 17] = [
    0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0, 30_000.0,
    60_000.0,
];

/// How many of a distribution are not longer than each bound, and then how many there are in all.
fn cumulative(distribution: &Distribution) -> Vec<u64> {
    let within = BOUNDS_MS.iter().map(|ms| distribution.buckets.within((ms * 1e6) as u64));
    within.chain([distribution.buckets.count()]).collect()
}
