//! Every series there is, as the catalogue of figures has them: they are kept, down-sampled, served and described.

use std::sync::LazyLock;

pub(crate) use neurogc_wire::catalogue::series::{Fold, Interval, Series};

/// All series. Their order may change: what is kept says by which order it was written.
pub(crate) static CATALOGUE: LazyLock<Vec<Series>> = LazyLock::new(neurogc_wire::catalogue::series::all);

/// Those that a trace can tell.
pub(crate) const TRACED: &[&str] = &["requests.", "gc.", "stalls.", "gil.", "memory.rss", "cpu.", "agent.dropped"];

/// Where a series stands in the catalogue.
#[must_use]
pub(crate) fn position(name: &str) -> Option<usize> {
    CATALOGUE.iter().position(|series| series.name == name)
}
