//! What is shown of a heap: each view takes a heap and gives values that can be printed or sent.

mod containers;
mod diff;
mod merged;
mod outside;
mod strings;
mod suspects;
mod threads;
mod tree;

use serde::Serialize;

pub use containers::{ContainerLine, ContainerReport, EmptyLine, containers};
pub use diff::{GrowthLine, GrowthPart, GrowthReport, PlaceTable, growth};
pub use merged::{HolderLine, MergedPath, MergedPaths, ObjectPath, PathLine, merged_paths, object_path};
pub use outside::{GarbageReport, OutsideLine, OutsideReport, garbage, outside};
pub use strings::{StringLine, StringReport, strings};
pub use suspects::{Suspect, SuspectPart, suspects};
pub use threads::{FrameLine, LocalLine, TaskLine, ThreadLine, ThreadReport, threads};
pub use tree::{TreeLine, branches};

use crate::heap::Heap;
use crate::names::Names;
use crate::paths::Paths;
use crate::roots::Reason;
use crate::tree::retained_by_type;

/// What a dump is of, and how much of it is held by what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeapSummary {
    /// The process.
    pub pid: u32,
    /// CPython's version, for instance 3.12.1.
    pub python: String,
    /// When the dump was taken, in milliseconds since 1970.
    pub taken_unix_ms: u64,
    /// When the program began, or zero.
    pub started_unix_ms: u64,
    /// Objects.
    pub objects: u64,
    /// References.
    pub references: u64,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Bytes below a root that has a name.
    pub named_bytes: u64,
    /// Bytes that only native code holds, without a name.
    pub from_c_bytes: u64,
    /// Objects that nothing reaches: garbage that is not collected yet.
    pub garbage_objects: u64,
    /// Their bytes.
    pub garbage_bytes: u64,
    /// Objects that may own memory which their sizes leave out.
    pub native_objects: u64,
    /// Resident memory of the process, or zero if that is not known.
    pub resident_bytes: u64,
    /// How long the program stood still for the dump, or zero if that is not known.
    pub pause_ms: f64,
    /// Whether strings have their text.
    pub texts: bool,
    /// What could not be read, in a sentence.
    pub missing: Option<String>,
}

/// A type and its objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeLine {
    /// The full name.
    #[serde(rename = "type")]
    pub name: String,
    /// Objects of exactly this type.
    pub objects: u64,
    /// Their own bytes.
    pub bytes: u64,
    /// What they retain together, nested ones counted once.
    pub retained: u64,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectLine {
    /// Its address, as `id()` gives it in the program.
    pub address: String,
    /// What it is.
    pub what: String,
    /// Its type.
    #[serde(rename = "type")]
    pub class: String,
    /// Its own bytes.
    pub bytes: u64,
    /// What it retains.
    pub retained: u64,
    /// The share of all that is reached.
    pub share: f64,
    /// The shortest path to it.
    pub path: Option<String>,
}

/// How types are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TypeOrder {
    /// By their own bytes.
    #[default]
    Bytes,
    /// By what they retain.
    Retained,
    /// By number.
    Objects,
}

/// Figures of a whole heap.
#[must_use]
pub fn summary(heap: &Heap) -> HeapSummary {
    let head = &heap.dump.head;
    let below = |wanted: fn(&Reason) -> bool| -> u64 {
        let roots = heap.tree.children(heap.tree.root()).iter();
        roots.filter(|it| heap.reasons.get(it).is_some_and(wanted)).map(|it| heap.retained(*it)).sum()
    };
    let from_c_bytes = below(|reason| *reason == Reason::FromC);
    let garbage = (0..heap.graph.objects() as u32).filter(|object| !heap.tree.reached(*object)).count() as u64;
    let native = |of: &u32| {
        let known = heap.dump.tables.types.get(*of as usize);
        known.is_some_and(|it| it.flags.has(neurogc_ngch::TypeFlags::NATIVE))
    };
    HeapSummary {
        pid: head.pid,
        python: python(head.python),
        taken_unix_ms: head.taken_ns / 1_000_000,
        started_unix_ms: head.started_ns / 1_000_000,
        objects: heap.graph.objects() as u64,
        references: heap.graph.links.targets.len() as u64,
        bytes: heap.bytes,
        named_bytes: heap.reached_bytes() - from_c_bytes,
        from_c_bytes,
        garbage_objects: garbage,
        garbage_bytes: heap.bytes.saturating_sub(heap.reached_bytes()),
        native_objects: heap.graph.types.iter().filter(|of| native(of)).count() as u64,
        resident_bytes: head.resident,
        pause_ms: heap.dump.totals.map_or(0.0, |totals| totals.pause_ns as f64 / 1e6),
        texts: head.flags & neurogc_ngch::TEXTS != 0,
        missing: heap.dump.missing(),
    }
}

/// `PY_VERSION_HEX` as a person writes it.
fn python(hex: u32) -> String {
    let [major, minor, micro, release] = hex.to_be_bytes();
    let level = match release >> 4 {
        0xa => "a",
        0xb => "b",
        0xc => "rc",
        _ => return format!("{major}.{minor}.{micro}"),
    };
    format!("{major}.{minor}.{micro}{level}{}", release & 15)
}

/// All types that have objects.
#[must_use]
pub fn types(heap: &Heap, order: TypeOrder) -> Vec<TypeLine> {
    let tables = &heap.dump.tables.types;
    let retained = retained_by_type(&heap.graph, &heap.tree, tables.len());
    let mut lines: Vec<TypeLine> = tables
        .iter()
        .zip(retained)
        .map(|(it, retained)| TypeLine { name: it.name.clone(), objects: 0, bytes: 0, retained })
        .collect();
    for (object, of) in heap.graph.types.iter().enumerate() {
        let line = &mut lines[*of as usize];
        line.objects += 1;
        line.bytes += heap.graph.sizes.of(object as u32);
    }
    lines.retain(|line| line.objects > 0);
    let key = |line: &TypeLine| match order {
        TypeOrder::Bytes => (line.bytes, line.retained),
        TypeOrder::Retained => (line.retained, line.bytes),
        TypeOrder::Objects => (line.objects, line.bytes),
    };
    lines.sort_by(|one, other| key(other).cmp(&key(one)).then_with(|| one.name.cmp(&other.name)));
    lines
}

/// The objects that retain most, without `sys.modules`, modules and their globals, which hold everything.
#[must_use]
pub fn largest(heap: &Heap, paths: &Paths, top: usize) -> Vec<ObjectLine> {
    let names = Names::of(heap);
    let is_whole = |object: &u32| is_transparent(heap, *object);
    let mut best: Vec<u32> = Vec::new();
    let mut least = 0;
    // The few largest are kept while all are passed once.
    for object in (0..heap.graph.objects() as u32).filter(|object| heap.tree.reached(*object)) {
        if heap.retained(object) > least && !is_whole(&object) {
            best.push(object);
            if best.len() >= 4 * top.max(16) {
                best.sort_unstable_by_key(|it| (std::cmp::Reverse(heap.retained(*it)), *it));
                best.truncate(top);
                least = best.last().map_or(0, |it| heap.retained(*it));
            }
        }
    }
    best.sort_unstable_by_key(|it| (std::cmp::Reverse(heap.retained(*it)), *it));
    best.truncate(top);
    best.into_iter().map(|object| object_line(heap, &names, paths, object)).collect()
}

/// What is said of an object.
#[must_use]
pub fn object_line(heap: &Heap, names: &Names<'_>, paths: &Paths, object: u32) -> ObjectLine {
    ObjectLine {
        address: format!("{:#x}", heap.dump.address(object)),
        what: names.object(object),
        class: heap.type_of(object).name.clone(),
        bytes: heap.graph.sizes.of(object),
        retained: heap.retained(object),
        share: heap.share(heap.retained(object)),
        path: names.path(paths, object),
    }
}

/// Whether an object stands for the whole program or a module, so that it says nothing that it holds much.
pub(crate) fn is_transparent(heap: &Heap, object: u32) -> bool {
    use neurogc_ngch::{Kind, RootKind};
    if object == heap.tree.root() || heap.kind(object) == Kind::Module {
        return true;
    }
    if heap.kind(object) != Kind::Dict {
        return false;
    }
    if heap.named_root(object).is_some_and(|root| matches!(root.kind, RootKind::Modules | RootKind::Interpreter)) {
        return true;
    }
    let holder = heap.tree.holders[object as usize];
    if holder < heap.tree.root() && heap.kind(holder) == Kind::Module {
        return true;
    }
    // The globals of a module that something else refers to as well.
    Names::of(heap).object(object).starts_with("globals of ")
}
