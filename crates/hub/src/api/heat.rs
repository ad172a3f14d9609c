//! Latencies as heat maps want them: how many requests took how long, in each step.

use neurogc_wire::buckets::group_begins_ms;
use serde::Serialize;

use crate::row::FigureRow;

/// Counts of requests by step and by latency.
#[derive(Debug, Serialize)]
pub(crate) struct LatencyHeat {
    from_ms: u64,
    to_ms: u64,
    step_ms: u64,
    /// Where each level begins, and where the last one ends.
    levels_ms: Vec<f64>,
    t: Vec<u64>,
    /// For each step the levels that have requests, and how many.
    counts: Vec<Vec<(u16, u64)>>,
}

impl LatencyHeat {
    pub(crate) fn of(rows: &[FigureRow], (from_ms, to_ms): (u64, u64), step_ms: u64) -> Self {
        let mut counts: Vec<_> = rows.iter().map(|row| row.latency().groups()).collect();
        let least = counts.iter().filter_map(|step| step.first()).map(|(group, _)| *group).min();
        let most = counts.iter().filter_map(|step| step.last()).map(|(group, _)| *group).max();
        let levels_ms = match (least, most) {
            (Some(least), Some(most)) => (least..=most + 1).map(group_begins_ms).collect(),
            _ => Vec::new(),
        };
        for (group, _) in counts.iter_mut().flatten() {
            *group -= least.unwrap_or_default();
        }
        Self { from_ms, to_ms, step_ms, levels_ms, t: rows.iter().map(|row| row.t).collect(), counts }
    }
}
