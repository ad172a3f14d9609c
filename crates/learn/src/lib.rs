//! From traces to better policies: what a program does and what its collections cost (`fit`), played again under any
//! policy (`simulate`), the best schedule that is known (`oracle`), and what no schedule can be below (`bound`).
//!
//! A simulated program is a `Workload` (what is asked of it) and a `HeapModel` (what its heap is like). Both come from a
//! recorded trace, or are made up. Nothing here opens a file or reads a clock; the same seed gives the same figures.

#![forbid(unsafe_code)]

mod arrivals;
mod bound;
mod cost;
pub mod course;
mod fit;
mod generate;
mod heap;
mod lessons;
mod line;
mod looks;
mod machine;
mod model;
pub mod models;
mod oracle;
mod outcome;
mod record;
mod simulate;
mod visits;
mod workload;

pub use bound::lower_bound;
pub use cost::{DEFAULT_LAMBDA, cost};
pub use fit::{Fit, FitError, Unseen, fit, fit_with};
pub use generate::{ShapeError, TrafficShape, imagined};
pub use lessons::Lesson;
pub use line::Line;
pub use model::{Costs, Disturbed, HeapModel, Lifetimes, ObjectSizes, Sweep};
pub use oracle::{BestSchedule, Planned, Resolution, oracle};
pub use outcome::{SimulatedPauses, SimulatedProcessorTime, SimulationOutcome};
pub use simulate::{Scene, lessons, never, record, record_arrivals, simulate, simulate_policy};
pub use workload::{Pace, Request, Start, Workload};
