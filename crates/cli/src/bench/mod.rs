//! Benchmarks: scenarios × contenders, in turns, repeated; what came of them is kept and reported.
//!
//! `scenario` and `contender` say what there is, `plan` in which order; `trial` runs one of them, with `staged` (its
//! script), `surroundings` and `cgroup` (where it runs), `window`, `census` and `course` (what is seen of it); `record`
//! keeps it, `statistics` compares whole runs, and `report` shows it.

pub(crate) mod arrivals;
pub(crate) mod census;
pub(crate) mod cgroup;
pub(crate) mod compare;
pub(crate) mod contender;
pub(crate) mod course;
pub(crate) mod interrupt;
pub(crate) mod machine;
pub(crate) mod metrics;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod scenario;
pub(crate) mod scripts;
pub(crate) mod staged;
pub(crate) mod statistics;
pub(crate) mod surroundings;
pub(crate) mod trial;
pub(crate) mod window;
