//! Containers: the longest ones, and the room that empty ones take.

use neurogc_ngch::{Kind, TypeFlags};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{ObjectLine, object_line};
use crate::heap::Heap;
use crate::names::Names;
use crate::paths::Paths;

/// A container with its length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContainerLine {
    /// How many items it has.
    pub length: u64,
    /// The object.
    #[serde(flatten)]
    pub object: ObjectLine,
}

/// Empty containers of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EmptyLine {
    /// The type.
    #[serde(rename = "type")]
    pub class: String,
    /// How many are empty.
    pub objects: u64,
    /// How many there are.
    pub all: u64,
    /// The bytes of the empty ones.
    pub bytes: u64,
}

/// What is said of containers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContainerReport {
    /// The longest.
    pub longest: Vec<ContainerLine>,
    /// Empty ones by type.
    pub empty: Vec<EmptyLine>,
}

/// The longest containers that the program fills, and the empty ones.
#[must_use]
pub fn containers(heap: &Heap, paths: &Paths, top: usize) -> ContainerReport {
    let types = &heap.dump.tables.types;
    let filled: Vec<bool> = types.iter().map(|it| it.flags.has(TypeFlags::CONTAINER)).collect();
    let mut empty: FxHashMap<u32, (u64, u64, u64)> = FxHashMap::default();
    let mut longest: Vec<(u64, u32)> = Vec::new();
    let mut least = 0;
    for (object, of) in heap.graph.types.iter().enumerate() {
        if !filled[*of as usize] {
            continue;
        }
        let object = object as u32;
        let length = length(heap, object);
        let sums = empty.entry(*of).or_default();
        sums.1 += 1;
        // A bytearray has no references: its length is not known.
        if length == 0 && types[*of as usize].kind != Kind::ByteArray {
            sums.0 += 1;
            sums.2 += heap.graph.sizes.of(object);
        }
        if length > least && heap.tree.reached(object) {
            longest.push((length, object));
            if longest.len() >= 4 * top.max(16) {
                longest.sort_unstable_by_key(|(length, object)| (std::cmp::Reverse(*length), *object));
                longest.truncate(top);
                least = longest.last().map_or(0, |(length, _)| *length);
            }
        }
    }
    longest.sort_unstable_by_key(|(length, object)| (std::cmp::Reverse(*length), *object));
    longest.truncate(top);
    let names = Names::of(heap);
    let line = |(length, object)| ContainerLine { length, object: object_line(heap, &names, paths, object) };
    let mut empty: Vec<EmptyLine> = empty
        .into_iter()
        .filter(|(_, sums)| sums.0 > 0)
        .map(|(of, (objects, all, bytes))| EmptyLine { class: types[of as usize].name.clone(), objects, all, bytes })
        .collect();
    empty.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.class.cmp(&other.class)));
    ContainerReport { longest: longest.into_iter().map(line).collect(), empty }
}

/// How many items a container has, as far as references tell.
fn length(heap: &Heap, object: u32) -> u64 {
    let references = heap.graph.links.of(object).len() as u64;
    match heap.kind(object) {
        // Keys and values.
        Kind::Dict | Kind::OrderedDict => references.div_ceil(2),
        _ => references,
    }
}
