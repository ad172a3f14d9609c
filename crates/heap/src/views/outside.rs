//! What native code holds, by library, and garbage that is not collected yet.

use neurogc_ngch::{InterpreterPart, RootKind, TypeFlags};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{ObjectLine, TypeLine, object_line};
use crate::heap::Heap;
use crate::names::Names;
use crate::paths::Paths;
use crate::roots::Reason;

/// Objects that native code holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutsideLine {
    /// The library, or who it is otherwise.
    pub by: String,
    /// How many objects it holds.
    pub objects: u64,
    /// What they retain.
    pub retained: u64,
    /// The largest of them.
    pub largest: Vec<ObjectLine>,
}

/// What native code holds and no module or frame reaches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutsideReport {
    /// What all of them retain.
    pub retained: u64,
    /// By library.
    pub rows: Vec<OutsideLine>,
}

/// Objects that are named for a library.
const NAMED: usize = 3;

/// What native code holds.
#[must_use]
pub fn outside(heap: &Heap, paths: &Paths, top: usize) -> OutsideReport {
    let names = Names::of(heap);
    let mut groups: FxHashMap<String, Vec<u32>> = FxHashMap::default();
    for object in heap.tree.children(heap.tree.root()) {
        let by = match (heap.named_root(*object), heap.reasons.get(object)) {
            (Some(root), _) if root.kind == RootKind::Image => names.image(root.a),
            (None, Some(Reason::FromC)) => "native code without a name".to_owned(),
            _ => continue,
        };
        groups.entry(by).or_default().push(*object);
    }
    let mut rows: Vec<OutsideLine> = groups
        .into_iter()
        .map(|(by, mut objects)| {
            objects.sort_unstable_by_key(|it| (std::cmp::Reverse(heap.retained(*it)), *it));
            OutsideLine {
                by,
                objects: objects.len() as u64,
                retained: objects.iter().map(|it| heap.retained(*it)).sum(),
                largest: objects.iter().take(NAMED).map(|it| object_line(heap, &names, paths, *it)).collect(),
            }
        })
        .collect();
    rows.sort_by(|one, other| other.retained.cmp(&one.retained).then_with(|| one.by.cmp(&other.by)));
    let retained = rows.iter().map(|row| row.retained).sum();
    rows.truncate(top);
    OutsideReport { retained, rows }
}

/// Garbage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GarbageReport {
    /// Objects that nothing reaches.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// By type; what they retain is not known, and is zero.
    pub types: Vec<TypeLine>,
    /// Types among them that have a finalizer.
    pub finalizers: Vec<String>,
    /// Objects in `gc.garbage`: the collector found them unreachable and could not, or was told not to, free them.
    pub kept: Vec<ObjectLine>,
    /// How many those are.
    pub kept_objects: u64,
}

/// Objects that nothing reaches, and those in `gc.garbage`.
#[must_use]
pub fn garbage(heap: &Heap, paths: &Paths, top: usize) -> GarbageReport {
    let names = Names::of(heap);
    let types = &heap.dump.tables.types;
    let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for object in (0..heap.graph.objects() as u32).filter(|object| !heap.tree.reached(*object)) {
        let sum = sums.entry(heap.graph.types[object as usize]).or_default();
        sum.0 += 1;
        sum.1 += heap.graph.sizes.of(object);
    }
    let has_finalizer = |of: &&u32| types[**of as usize].flags.has(TypeFlags::FINALIZER);
    let mut finalizers: Vec<String> =
        sums.keys().filter(has_finalizer).map(|of| types[*of as usize].name.clone()).collect();
    finalizers.sort();
    let (objects, bytes) = sums.values().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let mut lines: Vec<TypeLine> = sums
        .into_iter()
        .map(|(of, (objects, bytes))| TypeLine { name: types[of as usize].name.clone(), objects, bytes, retained: 0 })
        .collect();
    lines.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&other.name)));
    lines.truncate(top);
    let list = heap
        .dump
        .tables
        .roots
        .iter()
        .find(|root| root.kind == RootKind::Interpreter && root.a == InterpreterPart::Garbage as u32);
    let items = list.map(|root| heap.graph.links.of(root.object)).unwrap_or_default();
    let kept = items.iter().take(top).map(|it| object_line(heap, &names, paths, *it)).collect();
    GarbageReport { objects, bytes, types: lines, finalizers, kept, kept_objects: items.len() as u64 }
}
