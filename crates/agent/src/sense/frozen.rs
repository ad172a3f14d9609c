//! How many objects the program has frozen, which only a walk along all of them tells.

use super::seldom::Seldom;
use crate::cpython::collector::Collector;

/// The last count.
#[derive(Debug, Default)]
pub(crate) struct Frozen {
    count: Seldom<u64>,
    ends: Option<(usize, usize)>,
}

impl Frozen {
    /// The number of frozen objects. A walk that lost its way leaves the last one standing.
    pub(crate) fn count(&mut self, collector: Collector) -> u64 {
        let ends = collector.frozen_ends();
        if ends != self.ends {
            self.ends = ends;
            self.count.expire();
        }
        self.count.get(|last| collector.frozen().unwrap_or(last))
    }
}
