//! Memory of GPUs: whether it grows from step to step, what holds it, and whether it is in pieces.

mod growth;
mod patterns;
mod series;
mod verdict;

pub use growth::{StepGrowth, step_growth};
pub use series::{StepFigures, StepSeries};
pub use verdict::{GpuEvidence, diagnose_gpu};

#[cfg(test)]
mod tests;
