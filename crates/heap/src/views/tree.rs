//! The tree of dominators, one level at a time.

use serde::Serialize;

use crate::heap::Heap;
use crate::names::{Names, PathStep, is_identifier};
use crate::roots::Reason;

/// An object below its holder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TreeLine {
    /// The object's number in the dump.
    pub object: u32,
    /// Its address.
    pub address: String,
    /// How it is reached from its holder, as a programmer would write it; empty if the holder does not refer to it
    /// itself.
    pub step: String,
    /// What it is.
    pub what: String,
    /// Its own bytes.
    pub bytes: u64,
    /// What it retains.
    pub retained: u64,
    /// The share of all that is reached.
    pub share: f64,
    /// How many objects it holds alone.
    pub children: u64,
}

/// The largest objects that one holds alone; of the root above all without a holder.
#[must_use]
pub fn branches(heap: &Heap, holder: Option<u32>, top: usize) -> Vec<TreeLine> {
    let names = Names::of(heap);
    let at = holder.unwrap_or(heap.tree.root());
    let children = heap.tree.largest(at, top);
    let line = |object: u32| TreeLine {
        object,
        address: format!("{:#x}", heap.dump.address(object)),
        step: match holder {
            Some(holder) => step(&names, heap, holder, object),
            None => top_step(&names, heap, object),
        },
        what: names.object(object),
        bytes: heap.graph.sizes.of(object),
        retained: heap.retained(object),
        share: heap.share(heap.retained(object)),
        children: heap.tree.children(object).len() as u64,
    };
    children.into_iter().map(line).collect()
}

fn step(names: &Names<'_>, heap: &Heap, holder: u32, object: u32) -> String {
    let Some(slot) = heap.dump.slot(holder, object) else { return String::new() };
    match names.slot_step(holder, slot, object) {
        PathStep::Attribute(name) => format!(".{name}"),
        PathStep::Namespace => ".__dict__".to_owned(),
        PathStep::Index(place) => format!("[{place}]"),
        PathStep::Item(_, Some(name)) if super::is_transparent(heap, holder) && is_identifier(&name) => {
            format!(".{name}")
        }
        PathStep::Item(key, _) => format!("[{key}]"),
        PathStep::Key(key) => format!("key {key}"),
        PathStep::Variable(name) => format!("(): {name}"),
        PathStep::Coroutine(_) => ".get_coro()".to_owned(),
        PathStep::Cell => ".cell_contents".to_owned(),
        PathStep::Member => String::new(),
        PathStep::Word(word) => format!(".<word {word}>"),
    }
}

fn top_step(names: &Names<'_>, heap: &Heap, object: u32) -> String {
    match heap.reasons.get(&object) {
        Some(Reason::Claim(_)) => heap.named_root(object).map(|root| names.root_name(root)).unwrap_or_default(),
        Some(Reason::Class) => "its instances".to_owned(),
        Some(Reason::Immortal) => "interpreter".to_owned(),
        Some(Reason::FromC) => "held from C".to_owned(),
        None => String::new(),
    }
}
