//! What other systems get: Prometheus asks for figures or is sent them, collectors of OpenTelemetry are sent them, stores of
//! profiles are sent allocation sites, and object storage is sent heap dumps, recordings and traces.

pub(crate) mod objects;
pub(crate) mod otlp;
mod otlp_messages;
pub(crate) mod profiles;
pub(crate) mod prometheus;
pub(crate) mod remote_write;

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

/// Whether a server takes what it is sent. Its user is told once when it does not, and not again before it does.
#[derive(Debug)]
struct Outage {
    what: &'static str,
    to: String,
    is_told: bool,
}

impl Outage {
    fn new(what: &'static str, to: &impl std::fmt::Display) -> Self {
        Self { what, to: to.to_string(), is_told: false }
    }

    fn note(&mut self, sent: Result<(), impl std::fmt::Display>) {
        match sent {
            Ok(()) => self.is_told = false,
            Err(reason) if !self.is_told => {
                self.is_told = true;
                eprintln!("neurogc: {} do not reach {}: {reason}. They are tried again", self.what, self.to);
            }
            Err(_) => {}
        }
    }
}
