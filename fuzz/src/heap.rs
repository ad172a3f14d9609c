//! What must hold for any bytes that are read as a heap dump.

use neurogc_heap::sample::{HeapSample, ReferenceRun, types};
use neurogc_heap::views::{self, PlaceTable, TypeOrder};
use neurogc_heap::{Dump, Heap, HeapPlaces, NONE, Names, Paths};

/// A heap dump: it is refused, or every view of it can be made, and what is retained adds up.
pub fn check_heap(bytes: &[u8]) {
    let Ok(dump) = Dump::from_bytes(bytes.to_vec()) else { return };
    let Ok(heap) = Heap::analyse(dump, &mut |_| {}) else { return };
    let Ok(paths) = Paths::find(&heap) else { return };
    let objects = heap.graph.objects() as u32;
    let reached: u128 = (0..objects)
        .filter(|object| heap.tree.holders[*object as usize] != NONE)
        .map(|object| u128::from(heap.graph.sizes.of(object)))
        .sum();
    assert!(reached > u128::from(u64::MAX) || reached == u128::from(heap.reached_bytes()), "what is retained adds up");
    for object in 0..objects {
        assert_eq!(heap.tree.reached(object), !paths.to(object).is_empty(), "a path leads to what is reached");
        let names = Names::of(&heap);
        let _ = (names.object(object), names.path(&paths, object), heap.dump.address(object));
    }
    let summary = views::summary(&heap);
    let _ =
        (views::types(&heap, TypeOrder::Retained), views::suspects(&heap, &paths), views::largest(&heap, &paths, 9));
    let _ = (views::threads(&heap, 9), views::strings(&heap, &paths, 9), views::containers(&heap, &paths, 9));
    let _ = (views::outside(&heap, &paths, 9), views::garbage(&heap, &paths, 9), views::branches(&heap, None, 9));
    let all: Vec<u32> = (0..objects).collect();
    let _ = (views::merged_paths(&heap, &paths, &all, 9), views::object_path(&heap, &paths, 0));
    let Ok(places) = HeapPlaces::of(&heap, &paths) else { return };
    let table = PlaceTable::new(&places, &summary);
    assert!(views::growth(&table, &table, None, 9).rows.is_empty(), "nothing grew since itself");
}

/// Small dumps with a bit of everything.
pub(crate) fn heap_seeds() -> Vec<Vec<u8>> {
    let mut sample = HeapSample::new().with_blocks(16, 6);
    let node = sample.class("app.Node", &["next", "data"]);
    let text = sample.text("größer ☃");
    let number = sample.integer(-7);
    let (list, set) = (sample.list(&[text, number]), sample.set(&[text]));
    let first = sample.instance(node, &[list, set]);
    sample.link(list, ReferenceRun::Plain(vec![first, first, list, set, text, text]));
    let code = sample.code("run", &["a", "b"]);
    let cell = sample.object(types::CELL, 40, vec![ReferenceRun::Fields(vec![(2, first)])]);
    let closure = sample.tuple(&[cell]);
    let function = sample.object(types::FUNCTION, 160, vec![ReferenceRun::Fields(vec![(6, code), (10, closure)])]);
    let dict = sample.object(types::DICT, 104, vec![ReferenceRun::Split(0, vec![Some(text), None])]);
    sample.module("app", &[("first", first), ("run", function), ("dict", dict)]);
    sample.frame(0, code, &[Some(text), Some(cell)]);
    sample.hold(set);
    let image = sample.image("/lib/x.so");
    sample.root(neurogc_heap::RootKind::Image, image, 8, set);
    vec![HeapSample::new().encode(), sample.encode()]
}
