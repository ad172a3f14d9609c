//! Paths to many objects, merged where they are called the same, and the path to one object step by step.

use neurogc_ngch::Reference;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{ObjectLine, object_line};
use crate::heap::Heap;
use crate::names::{Expression, Names, PathStep};
use crate::paths::Paths;

/// Direct holders of an object that are named.
const HOLDERS: usize = 10;

/// Objects whose steps are in memory together.
const AT_A_TIME: usize = 1 << 20;

/// Names of beginnings that are kept, and how long one becomes before the rest of it is left out.
const MOST_WAYS: usize = 1 << 20;
const LONGEST_WAY: usize = 300;

/// Paths to objects that are called the same, positions and keys left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MergedPath {
    /// What they are called: `app.cache[…].items[…]`.
    pub path: String,
    /// How many of the objects.
    pub objects: u64,
    /// Their own bytes.
    pub bytes: u64,
    /// What they retain, nested ones counted twice.
    pub retained: u64,
    /// The path to the one that retains most.
    pub example: String,
    /// The address of that.
    pub address: String,
}

/// All paths to objects of a type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MergedPaths {
    /// How many objects there are.
    pub objects: u64,
    /// Objects that nothing reaches.
    pub garbage: u64,
    /// How many different paths there are.
    pub paths: usize,
    /// The paths, the one with most objects first.
    pub rows: Vec<MergedPath>,
}

/// A step of the path to an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathLine {
    /// The path so far.
    pub path: String,
    /// What is there.
    pub what: String,
    /// Its own bytes.
    pub bytes: u64,
    /// What it retains.
    pub retained: u64,
}

/// An object that refers to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HolderLine {
    /// The path to the object through this holder.
    pub path: String,
    /// What the holder is.
    pub what: String,
    /// What it retains.
    pub retained: u64,
}

/// The path to one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectPath {
    /// The object.
    pub object: ObjectLine,
    /// The steps, the root first; empty for garbage.
    pub steps: Vec<PathLine>,
    /// All that refer to it, some of them by name.
    pub holders: Vec<HolderLine>,
    /// How many refer to it.
    pub referred: usize,
}

/// The path of an object so far, while paths are merged.
struct Way {
    text: Expression,
    last: Option<PathStep>,
}

/// Merges the shortest paths to these objects.
#[must_use]
pub fn merged_paths(heap: &Heap, paths: &Paths, objects: &[u32], top: usize) -> MergedPaths {
    let names = Names::of(heap);
    let mut ways: FxHashMap<u32, Way> = FxHashMap::default();
    let mut sums: FxHashMap<String, (MergedPath, u32)> = FxHashMap::default();
    let mut garbage = 0;
    for part in objects.chunks(AT_A_TIME) {
        let steps = wanted_steps(heap, paths, part);
        for object in part {
            let Some(text) = folded(&names, paths, *object, &steps, &mut ways) else {
                garbage += 1;
                continue;
            };
            let entry = sums.entry(text).or_insert_with_key(|text| {
                let (path, none) = (text.clone(), String::new());
                let empty =
                    MergedPath { path, objects: 0, bytes: 0, retained: 0, example: none.clone(), address: none };
                (empty, *object)
            });
            entry.0.objects += 1;
            entry.0.bytes += heap.graph.sizes.of(*object);
            entry.0.retained = entry.0.retained.saturating_add(heap.retained(*object));
            if heap.retained(*object) > heap.retained(entry.1) {
                entry.1 = *object;
            }
        }
    }
    let all = sums.len();
    let mut rows: Vec<_> = sums.into_values().collect();
    rows.sort_by(|(one, _), (other, _)| other.objects.cmp(&one.objects).then_with(|| one.path.cmp(&other.path)));
    rows.truncate(top);
    let rows = rows
        .into_iter()
        .map(|(mut row, example)| {
            row.example = names.path(paths, example).unwrap_or_default();
            row.address = format!("{:#x}", heap.dump.address(example));
            row
        })
        .collect();
    MergedPaths { objects: objects.len() as u64, garbage, paths: all, rows }
}

/// The step to each object that is on one of the paths. Each holder is decoded once.
fn wanted_steps(heap: &Heap, paths: &Paths, objects: &[u32]) -> FxHashMap<u32, Reference> {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let mut seen = rustc_hash::FxHashSet::default();
    for object in objects {
        let mut at = *object;
        while seen.insert(at)
            && let Some(before) = paths.before(at)
        {
            pairs.push((before, at));
            at = before;
        }
    }
    pairs.sort_unstable();
    let mut steps = FxHashMap::default();
    for group in pairs.chunk_by(|one, other| one.0 == other.0) {
        heap.dump.each_reference(group[0].0, |reference| {
            if group.binary_search(&(group[0].0, reference.target)).is_ok() {
                steps.entry(reference.target).or_insert(reference);
            }
        });
    }
    steps
}

/// The name of the path to an object; none for garbage. Names of its beginnings are kept, because most paths share them: of
/// a long list each node is passed once, not once for each node behind it.
fn folded(
    names: &Names<'_>,
    paths: &Paths,
    object: u32,
    steps: &FxHashMap<u32, Reference>,
    ways: &mut FxHashMap<u32, Way>,
) -> Option<String> {
    if ways.len() > MOST_WAYS {
        ways.clear();
    }
    let (mut at, mut unnamed) = (object, Vec::new());
    while !ways.contains_key(&at) {
        unnamed.push(at);
        let Some(before) = paths.before(at) else { break };
        at = before;
    }
    while let Some(object) = unnamed.pop() {
        let way = match paths.before(object) {
            None => Way { text: names.beginning(paths.start(object)?, object), last: None },
            Some(before) => {
                let above = ways.get(&before);
                let (text, last) = above.map(|it| (it.text.clone(), it.last.clone())).unwrap_or_default();
                let step = steps.get(&object).map(|it| names.slot_step(before, it.slot, object));
                next(names, text, last, before, step.unwrap_or(PathStep::Member), object)
            }
        };
        ways.insert(object, way);
    }
    ways.get(&object).map(|way| way.text.clone().finish())
}

fn next(
    names: &Names<'_>,
    mut text: Expression,
    last: Option<PathStep>,
    before: u32,
    step: PathStep,
    object: u32,
) -> Way {
    // A linked list is written once.
    let repeats = last.as_ref() == Some(&step) && matches!(step, PathStep::Attribute(_));
    if text.text.len() > LONGEST_WAY {
        if !text.text.ends_with('…') {
            text.text.push('…');
        }
    } else if !repeats {
        text.push(names, before, &step, object, true);
    }
    Way { text, last: Some(step) }
}

/// The path to one object, and what else refers to it.
#[must_use]
pub fn object_path(heap: &Heap, paths: &Paths, object: u32) -> ObjectPath {
    let names = Names::of(heap);
    let path = paths.to(object);
    let shown = |at: &u32| PathLine {
        path: names.path(paths, *at).unwrap_or_default(),
        what: names.object(*at),
        bytes: heap.graph.sizes.of(*at),
        retained: heap.retained(*at),
    };
    // Of a path of a million steps the ends are enough.
    let ends = |place: &usize| *place < 20 || *place + 20 >= path.len();
    let steps = path.iter().enumerate().filter(|(place, _)| ends(place)).map(|(_, at)| shown(at)).collect();
    let mut referring = heap.graph.links.holders(object);
    referring.dedup();
    let referred = referring.len();
    referring.sort_by_key(|holder| (std::cmp::Reverse(heap.retained(*holder)), *holder));
    referring.truncate(HOLDERS);
    let holders = referring
        .into_iter()
        .map(|holder| HolderLine {
            path: names.path_through(paths, holder, object).unwrap_or_else(|| "garbage".to_owned()),
            what: names.object(holder),
            retained: heap.retained(holder),
        })
        .collect();
    ObjectPath { object: object_line(heap, &names, paths, object), steps, holders, referred }
}
