//! The one cost by which policies are compared.

/// What a megabyte of garbage is worth: so many milliseconds of delay for every request.
pub const DEFAULT_LAMBDA: f64 = neurogc_policy::MEMORY_PRICE;

/// Delay and memory in one number: the mean delay that collections cause a request, in milliseconds, plus λ times the
/// mean of the memory that is held in vain (garbage, and pages copied for snapshots), in megabytes.
#[must_use]
pub fn cost(delay_ms: f64, held_mb: f64, lambda: f64) -> f64 {
    delay_ms + lambda * held_mb
}
