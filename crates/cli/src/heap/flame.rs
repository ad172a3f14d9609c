//! The places of a heap as a flame graph, for the page that also draws allocation sites.

use std::collections::HashMap;

use neurogc_heap::views::HeapSummary;
use neurogc_heap::{HeapPlaces, TOP};
use neurogc_sites::{Flame, FlameFrame, FlameMeasure, FlameNode, TableHead};

/// Boxes that are drawn at most.
const MOST_BOXES: usize = 8000;

/// Boxes of less than this share of the whole would be narrower than a pixel.
const LEAST_SHARE: f64 = 1.0 / 20_000.0;

/// The graph: a box for each place, as wide as what it retains.
pub(crate) fn graph(places: &HeapPlaces, summary: &HeapSummary) -> Flame {
    let total = places.nodes[TOP as usize].retained;
    let mut sizes: Vec<u64> = places.nodes.iter().map(|node| node.retained).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let crowded = sizes.get(MOST_BOXES).copied().unwrap_or(0);
    let least = ((total as f64 * LEAST_SHARE) as u64).max(crowded);
    let mut frames = Vec::new();
    let mut known: HashMap<FlameFrameKey, u32> = HashMap::new();
    let mut nodes: Vec<FlameNode> = Vec::new();
    let mut homes = vec![None; places.nodes.len()];
    for (place, node) in places.nodes.iter().enumerate() {
        let number = place as u32;
        let parent: Option<u32> = if number == TOP { Some(0) } else { homes[node.parent as usize] };
        // A place whose objects are all below others of a nested place retains nothing more.
        let (Some(parent), true) = (parent, number == TOP || node.retained > least) else { continue };
        let key = match number {
            TOP => (format!("all of {}", summary.python), String::new()),
            _ => (places.name(number), places.class(number).to_owned()),
        };
        let frame = *known.entry(key).or_insert_with_key(|(function, file)| {
            frames.push(FlameFrame { function: function.clone(), file: file.clone(), line: 0 });
            frames.len() as u32 - 1
        });
        homes[place] = Some(nodes.len() as u32);
        let value = node.retained as f64;
        nodes.push(FlameNode { parent, frame, value, blocks: node.objects as f64, change: 0.0 });
    }
    Flame {
        head: TableHead {
            pid: summary.pid,
            taken_unix_ms: summary.taken_unix_ms,
            since_unix_ms: summary.started_unix_ms,
            ..TableHead::default()
        },
        measure: FlameMeasure::Retained,
        frames,
        nodes,
    }
}

/// A name and a type.
type FlameFrameKey = (String, String);
