//! Strings that are there more than once.

use std::hash::Hasher;

use neurogc_ngch::{Kind, Value};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHasher};
use serde::Serialize;

use crate::heap::Heap;
use crate::names::Names;
use crate::paths::Paths;

/// A string that is there more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StringLine {
    /// Its beginning, in quotes.
    pub text: String,
    /// How many objects have it.
    pub objects: u64,
    /// The bytes of all but one of them.
    pub wasted: u64,
    /// The path to one of them, positions and keys left out.
    pub path: Option<String>,
}

/// Duplicate strings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StringReport {
    /// All strings.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of those that are there again.
    pub wasted: u64,
    /// The largest ones.
    pub rows: Vec<StringLine>,
    /// Whether the dump has no texts to compare.
    pub withheld: bool,
}

#[derive(Clone, Copy, Default)]
struct Same {
    objects: u64,
    bytes: u64,
    example: u32,
    size: u64,
}

/// Finds duplicates. Strings that are longer than what the dump keeps are compared by their hash.
#[must_use]
pub fn strings(heap: &Heap, paths: &Paths, top: usize) -> StringReport {
    let by_block: Vec<FxHashMap<u64, Same>> =
        (0..heap.dump.block_count()).into_par_iter().map(|block| of_block(heap, block)).collect();
    let mut all: FxHashMap<u64, Same> = FxHashMap::default();
    for (hash, same) in by_block.into_iter().flatten() {
        let sum = all.entry(hash).or_default();
        if sum.objects == 0 {
            (sum.example, sum.size) = (same.example, same.size);
        }
        sum.objects += same.objects;
        sum.bytes += same.bytes;
    }
    let wasted = |same: &Same| same.bytes - same.size.min(same.bytes);
    let mut report = StringReport { objects: 0, bytes: 0, wasted: 0, rows: Vec::new(), withheld: false };
    for same in all.values() {
        report.objects += same.objects;
        report.bytes += same.bytes;
        report.wasted += wasted(same);
    }
    report.withheld = heap.dump.head.flags & neurogc_ngch::TEXTS == 0;
    let mut most: Vec<Same> = all.into_values().filter(|same| same.objects > 1).collect();
    most.sort_unstable_by_key(|same| (std::cmp::Reverse(wasted(same)), same.example));
    most.truncate(top);
    let names = Names::of(heap);
    report.rows = most
        .iter()
        .map(|same| StringLine {
            text: names.repr(same.example),
            objects: same.objects,
            wasted: wasted(same),
            path: names.folded_path(paths, same.example),
        })
        .collect();
    report
}

fn of_block(heap: &Heap, block: usize) -> FxHashMap<u64, Same> {
    let mut found: FxHashMap<u64, Same> = FxHashMap::default();
    heap.dump.each_value_of_block(block, |object, value| {
        let Value::Text(text) = value else { return };
        // A text that could not be read has no hash.
        if heap.kind(object) != Kind::Str || text.width == 0 || text.hash == Some(0) {
            return;
        }
        let mut hasher = FxHasher::default();
        hasher.write_u64(text.length);
        hasher.write_u8(text.width);
        match text.hash {
            Some(hash) => hasher.write_u64(hash),
            None => hasher.write(text.units),
        }
        let size = heap.graph.sizes.of(object);
        let same = found.entry(hasher.finish()).or_insert(Same { example: object, size, ..Same::default() });
        same.objects += 1;
        same.bytes += size;
    });
    found
}
