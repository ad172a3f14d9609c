//! Latencies as heat maps want them: how many requests took how long, in each step.

use std::collections::BTreeMap;

use neurogc_wire::buckets::{Buckets, group_begins_ms};
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
    pub(crate) fn of(rows: &[FigureRow], span: (u64, u64), step_ms: u64) -> Self {
        Self::of_steps(rows.iter().map(|row| (row.t, row.latency())), span, step_ms)
    }

    /// The requests of several processes together. Their steps are those that end next.
    pub(crate) fn merged(rows: &[FigureRow], span: (u64, u64), step_ms: u64) -> Self {
        let mut steps: BTreeMap<u64, Buckets> = BTreeMap::new();
        for row in rows {
            steps.entry(row.t.div_ceil(step_ms) * step_ms).or_default().merge(row.latency());
        }
        Self::of_steps(steps.iter().map(|(t, latency)| (*t, latency)), span, step_ms)
    }

    fn of_steps<'s>(
        steps: impl Iterator<Item = (u64, &'s Buckets)>,
        (from_ms, to_ms): (u64, u64),
        step_ms: u64,
    ) -> Self {
        let (t, mut counts): (Vec<_>, Vec<_>) = steps.map(|(t, latency)| (t, latency.groups())).unzip();
        let least = counts.iter().filter_map(|step| step.first()).map(|(group, _)| *group).min();
        let most = counts.iter().filter_map(|step| step.last()).map(|(group, _)| *group).max();
        let levels_ms = match (least, most) {
            (Some(least), Some(most)) => (least..=most + 1).map(group_begins_ms).collect(),
            _ => Vec::new(),
        };
        for (group, _) in counts.iter_mut().flatten() {
            *group -= least.unwrap_or_default();
        }
        Self { from_ms, to_ms, step_ms, levels_ms, t, counts }
    }
}
