//! The tree behind a flame graph: call stacks merged from the outermost frame on.

use std::collections::HashMap;

use neurogc_wire::sites::SiteTable;
use neurogc_wire::stacks::StallStack;
use serde::Serialize;

use crate::group::SiteFilter;
use crate::head::TableHead;
use crate::measure::{Measure, seconds};
use crate::place::{CodeLine, DEEPEST, TableStacks};

/// Nodes that are given at most; the smallest are left out first.
const MOST_NODES: usize = 8000;

/// Nodes of less than this share of the whole are left out: they would be narrower than a pixel.
const LEAST_SHARE: f64 = 1.0 / 20_000.0;

/// A flame graph as data. The page in `dashboard/src/flame` draws it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flame {
    /// What it is a view of.
    #[serde(flatten)]
    pub head: TableHead,
    /// What the widths are.
    pub measure: FlameMeasure,
    /// Places that nodes refer to.
    pub frames: Vec<FlameFrame>,
    /// The tree. The first node is the root and a parent comes before its children.
    pub nodes: Vec<FlameNode>,
}

/// What the widths of a flame graph are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlameMeasure {
    /// Live bytes.
    Live,
    /// By how many bytes live memory has grown; what has shrunk has no width.
    Growth,
    /// Bytes allocated in a second.
    Rate,
    /// Milliseconds in stalls.
    Stalls,
    /// Bytes that the objects of a place retain.
    Retained,
}

impl From<Measure> for FlameMeasure {
    fn from(measure: Measure) -> Self {
        match measure {
            Measure::Live => Self::Live,
            Measure::Growth => Self::Growth,
            Measure::Rate => Self::Rate,
        }
    }
}

/// A place in the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlameFrame {
    /// The function.
    pub function: String,
    /// The file.
    pub file: String,
    /// The line, or 0.
    pub line: u32,
}

/// A frame below its callers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FlameNode {
    /// The node of the caller; the root is its own.
    pub parent: u32,
    /// The place.
    pub frame: u32,
    /// The width: bytes, bytes in a second, or milliseconds, of this node and all below it.
    pub value: f64,
    /// Blocks, blocks in a second, or stalls.
    pub blocks: f64,
    /// By how many bytes the live memory has changed since the moment of comparison; 0 without one.
    pub change: f64,
}

impl Flame {
    /// Merges the stacks of a table.
    #[must_use]
    pub fn of(table: &SiteTable, measure: Measure, keep: SiteFilter) -> Self {
        let mut tree = Tree::default();
        let homes = tree.add_nodes(table);
        let seconds = seconds(table);
        for site in table.sites.iter().filter(|site| keep.takes(site)) {
            let home = homes.get(site.node as usize).copied();
            let home = home.unwrap_or_else(|| tree.child(0, TableStacks(table).place(site.node)));
            let amount = measure.amount(&site.now, &site.before, seconds);
            let node = &mut tree.nodes[home as usize];
            node.value += amount.bytes.max(0.0);
            node.blocks += amount.blocks.max(0.0);
            if table.compared_unix_ms.is_some() {
                node.change += site.now.live_bytes as f64 - site.before.live_bytes as f64;
            }
        }
        let (nodes, frames) = tree.finish();
        Self { head: TableHead::of(table), measure: measure.into(), frames, nodes }
    }

    /// Merges the stacks of stalls. The innermost frame is the cause.
    #[must_use]
    pub fn of_stalls(pid: u32, taken_unix_ms: u64, since_unix_ms: u64, stacks: &[StallStack]) -> Self {
        let mut tree = Tree::default();
        for stack in stacks {
            let outer = stack.frames.iter().rev().map(|frame| code_line(frame));
            let called = outer.fold(0, |parent, place| tree.child(parent, place));
            let cause = CodeLine { function: stack.cause.name(), ..CodeLine::default() };
            let node = tree.child(called, cause) as usize;
            tree.nodes[node].value += stack.total_ms.max(0.0);
            tree.nodes[node].blocks += stack.count as f64;
        }
        let (nodes, frames) = tree.finish();
        let head = TableHead { pid, taken_unix_ms, since_unix_ms, ..TableHead::default() };
        Self { head, measure: FlameMeasure::Stalls, frames, nodes }
    }
}

/// A frame that the agent wrote as `file.py:12 in handler`. What is written otherwise becomes the function.
fn code_line(text: &str) -> CodeLine<'_> {
    let parsed = text.split_once(" in ").and_then(|(place, function)| {
        let (file, line) = place.rsplit_once(':')?;
        Some(CodeLine { file, function, line: line.parse().ok()?, first_line: 0 })
    });
    parsed.unwrap_or(CodeLine { function: text, ..CodeLine::default() })
}

/// Nodes by the text of their places.
struct Tree<'t> {
    nodes: Vec<FlameNode>,
    depths: Vec<usize>,
    children: HashMap<(u32, CodeLine<'t>), u32>,
    frames: HashMap<CodeLine<'t>, u32>,
    places: Vec<CodeLine<'t>>,
}

impl Default for Tree<'_> {
    fn default() -> Self {
        let root = FlameNode { parent: 0, frame: 0, value: 0.0, blocks: 0.0, change: 0.0 };
        let all = CodeLine { function: "all", ..CodeLine::default() };
        Self {
            nodes: vec![root],
            depths: vec![0],
            children: HashMap::new(),
            frames: HashMap::from([(all, 0)]),
            places: vec![all],
        }
    }
}

impl<'t> Tree<'t> {
    /// Adds every node of a table and says where each has gone.
    fn add_nodes(&mut self, table: &'t SiteTable) -> Vec<u32> {
        let stacks = TableStacks(table);
        let mut homes: Vec<u32> = Vec::with_capacity(table.nodes.len());
        for node in 0..table.nodes.len() as u32 {
            let parent = stacks.parent(node).map_or(0, |parent| homes[parent as usize]);
            homes.push(self.child(parent, stacks.place(node)));
        }
        homes
    }

    /// The child of a node for a place. What is too deep belongs to the deepest frame that is kept.
    fn child(&mut self, parent: u32, place: CodeLine<'t>) -> u32 {
        let depth = self.depths[parent as usize] + 1;
        if depth > DEEPEST {
            return parent;
        }
        let place = CodeLine { first_line: 0, ..place };
        let Self { nodes, depths, children, frames, places } = self;
        *children.entry((parent, place)).or_insert_with(|| {
            let frame = *frames.entry(place).or_insert_with(|| {
                places.push(place);
                places.len() as u32 - 1
            });
            nodes.push(FlameNode { parent, frame, value: 0.0, blocks: 0.0, change: 0.0 });
            depths.push(depth);
            nodes.len() as u32 - 1
        })
    }

    /// Adds everything up towards the root and leaves out what is too small to be seen.
    fn finish(mut self) -> (Vec<FlameNode>, Vec<FlameFrame>) {
        for index in (1..self.nodes.len()).rev() {
            let FlameNode { parent, value, blocks, change, .. } = self.nodes[index];
            let above = &mut self.nodes[parent as usize];
            above.value += value;
            above.blocks += blocks;
            above.change += change;
        }
        let mut values: Vec<f64> = self.nodes.iter().map(|node| node.value).collect();
        values.sort_by(|one, other| other.total_cmp(one));
        let crowded = values.get(MOST_NODES).copied().unwrap_or(0.0);
        let least = (self.nodes[0].value * LEAST_SHARE).max(crowded);
        // A parent is at least as large as its child, so that one is never kept without the other.
        let (mut kept, mut homes) = (Vec::new(), vec![0; self.nodes.len()]);
        let (mut frames, mut frame_homes) = (Vec::new(), HashMap::new());
        for (index, node) in self.nodes.iter().enumerate() {
            if index > 0 && node.value <= least {
                continue;
            }
            let place = self.places[node.frame as usize];
            let frame = *frame_homes.entry(node.frame).or_insert_with(|| {
                frames.push(FlameFrame {
                    function: place.function.to_owned(),
                    file: place.file.to_owned(),
                    line: place.line,
                });
                frames.len() as u32 - 1
            });
            homes[index] = kept.len() as u32;
            kept.push(FlameNode { parent: homes[node.parent as usize], frame, ..*node });
        }
        (kept, frames)
    }
}
