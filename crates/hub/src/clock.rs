//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    exact_unix_ms() as u64
}

/// The same with the fraction.
pub(crate) fn exact_unix_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1e3)
}
