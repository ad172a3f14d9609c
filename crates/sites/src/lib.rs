//! Tables of allocation sites: grouped by place, compared with each other, made into flame graphs, and exported.
//!
//! Everything here takes a table and gives a value: there is no clock, no file and no process. A table may come from a
//! file or from another user's process, so no index in it is trusted.

#![forbid(unsafe_code)]

mod builder;
mod compare;
pub mod export;
mod flame;
mod group;
mod head;
mod measure;
mod place;
mod report;
#[cfg(test)]
mod samples;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

pub use builder::TableBuilder;
pub use compare::compare;
pub use flame::{Flame, FlameFrame, FlameMeasure, FlameNode};
pub use group::{GroupBy, SiteFilter, SiteGroup, group};
pub use head::TableHead;
pub use measure::{Amount, Measure, seconds};
pub use place::{CodeLine, NO_FRAME, TableStacks, short_path};
pub use report::{SiteChoice, SiteFigures, SiteReport, SiteRow};
