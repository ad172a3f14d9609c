//! Suspects: what holds a large part of the heap, and where below it the memory gathers.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{ObjectLine, is_transparent, object_line};
use crate::heap::Heap;
use crate::names::Names;
use crate::paths::Paths;

/// A holder of this share of the heap is a suspect.
const SUSPECT: f64 = 0.10;

/// The way down goes on while the largest child has this share of its holder.
const MOSTLY: f64 = 0.70;

/// Kinds of objects that are named below a suspect.
const PARTS: usize = 3;

/// Objects of one type below something.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SuspectPart {
    /// The type.
    #[serde(rename = "type")]
    pub class: String,
    /// How many.
    pub objects: u64,
    /// What they retain.
    pub retained: u64,
}

/// Something that holds much.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suspect {
    /// What it retains.
    pub retained: u64,
    /// The share of all that is reached.
    pub share: f64,
    /// The object; none if it is many objects of a type.
    pub holder: Option<ObjectLine>,
    /// Where below it the memory gathers.
    pub gathers: Option<ObjectLine>,
    /// The largest groups of objects there, by type.
    pub parts: Vec<SuspectPart>,
    /// The same in a sentence, without figures that a terminal writes better.
    pub text: String,
}

/// Objects of a holder by type, the largest first.
fn parts(heap: &Heap, objects: impl Iterator<Item = u32>) -> Vec<SuspectPart> {
    let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for object in objects {
        let sum = sums.entry(heap.graph.types[object as usize]).or_default();
        sum.0 += 1;
        sum.1 += heap.retained(object);
    }
    let name = |of: u32| heap.dump.tables.types[of as usize].name.clone();
    let mut parts: Vec<_> =
        sums.into_iter().map(|(of, (objects, retained))| SuspectPart { class: name(of), objects, retained }).collect();
    parts.sort_by(|one, other| other.retained.cmp(&one.retained).then_with(|| one.class.cmp(&other.class)));
    parts
}

/// The suspects of a heap, the largest first.
#[must_use]
pub fn suspects(heap: &Heap, paths: &Paths) -> Vec<Suspect> {
    let names = Names::of(heap);
    let limit = (heap.reached_bytes() as f64 * SUSPECT) as u64;
    // Modules hold everything: what counts is what they hold.
    let (mut open, mut single, mut rest) = (vec![heap.tree.root()], Vec::new(), Vec::new());
    while let Some(holder) = open.pop() {
        for child in heap.tree.children(holder) {
            let large = heap.retained(*child) >= limit.max(1);
            match (large, large && is_transparent(heap, *child)) {
                (_, true) => open.push(*child),
                (true, false) => single.push(*child),
                (false, _) => rest.push(*child),
            }
        }
    }
    single.sort_unstable_by_key(|it| (std::cmp::Reverse(heap.retained(*it)), *it));
    let mut found: Vec<Suspect> = single.into_iter().map(|holder| one(heap, &names, paths, holder)).collect();
    let many =
        parts(heap, rest.into_iter()).into_iter().filter(|part| part.retained >= limit.max(1) && part.objects > 1);
    found.extend(many.map(|part| Suspect {
        retained: part.retained,
        share: heap.share(part.retained),
        holder: None,
        gathers: None,
        text: format!("{} objects of type {} under different holders", part.objects, part.class),
        parts: vec![part],
    }));
    found.sort_by_key(|suspect| std::cmp::Reverse(suspect.retained));
    found
}

fn one(heap: &Heap, names: &Names<'_>, paths: &Paths, holder: u32) -> Suspect {
    let mut at = holder;
    // A list of a million nodes is walked down to its end: each step is one child.
    while let Some(largest) = heap.tree.children(at).iter().max_by_key(|it| heap.retained(**it)) {
        if (heap.retained(*largest) as f64) < heap.retained(at) as f64 * MOSTLY {
            break;
        }
        at = *largest;
    }
    let mut parts = parts(heap, heap.tree.children(at).iter().copied());
    parts.truncate(PARTS);
    let gathers = (at != holder).then(|| object_line(heap, names, paths, at));
    let line = object_line(heap, names, paths, holder);
    let named = |line: &ObjectLine| line.path.clone().unwrap_or_else(|| line.what.clone());
    let mut text = format!("`{}`, {} {}", named(&line), article(&line.class), line.class);
    if let Some(gathers) = &gathers {
        text.push_str(&format!("; it gathers at `{}`, {} {}", named(gathers), article(&gathers.class), gathers.class));
    }
    Suspect { retained: line.retained, share: line.share, holder: Some(line), gathers, parts, text }
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }
}
