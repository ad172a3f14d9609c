//! Memory against the goal of the pacer.

use neurogc_wire::finding::{Finding, FindingKind};
use neurogc_wire::status::Bound;

use crate::words;

/// How far above its goal the heap must be, as a share of its room, to be worth a finding.
const OVER: f64 = 0.25;

pub(crate) fn look(bound: &Bound) -> Option<Finding> {
    if bound.over < OVER || bound.goal_objects == 0 {
        return None;
    }
    let [objects, goal, live] = [bound.objects, bound.goal_objects, bound.live_objects].map(words::count);
    let text = format!(
        "The heap is above its goal: about {objects} objects where {goal} were allowed; the last collection of everything \
         left {live} ({}).",
        words::bytes(bound.live_bytes)
    );
    let advice = "See `bound` and `conduct` in the report: what kept the policy from collecting.".to_owned();
    Some(Finding { kind: FindingKind::MemoryOverGoal, confidence: 0.6, text, advice, ..Finding::default() })
}
