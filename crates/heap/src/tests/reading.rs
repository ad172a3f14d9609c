//! Reading dumps: whole ones, and such that are cut, damaged or of another version.

use neurogc_ngch::{Slot, Value};
use proptest::prelude::*;

use super::names::analysed;
use crate::reader::{Dump, DumpError};
use crate::sample::{HeapSample, Run, types};

/// A heap of chosen objects: what each refers to, and in which way.
fn heaps() -> impl Strategy<Value = HeapSample> {
    let objects = prop::collection::vec((0..6_u8, prop::collection::vec(any::<u32>(), 0..9), any::<u32>()), 0..60);
    (objects, 1..20_usize, 1..6_usize).prop_map(|(described, block, references)| {
        let mut sample = HeapSample::new().with_blocks(block, references);
        sample.class("app.Thing", &["a", "b", "c"]);
        let count = (sample.len() + described.len()) as u32;
        for (kind, targets, size) in described {
            let targets: Vec<u32> = targets.into_iter().map(|it| it % count).collect();
            let slots = || targets.iter().map(|it| (it % 3 > 0).then_some(*it)).collect::<Vec<_>>();
            let runs = match kind {
                0 => vec![Run::Plain(targets)],
                1 => vec![Run::Index(slots())],
                2 => vec![Run::Pairs(targets.windows(2).map(|pair| (pair[0], pair[1])).collect())],
                3 => vec![Run::Attributes(slots().into_iter().take(3).collect()), Run::Plain(targets)],
                4 => vec![Run::Fields(targets.iter().map(|it| (u64::from(it % 300), *it)).collect())],
                _ => vec![Run::Split(0, slots()), Run::Plain(vec![]), Run::Index(slots())],
            };
            let class = [types::SET, types::LIST, types::DICT, types::COUNT, types::COUNT, types::DICT];
            sample.object(class[usize::from(kind)], size.into(), runs);
        }
        sample
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_is_read(sample in heaps()) {
        let heap = analysed(&sample);
        prop_assert_eq!(heap.dump.missing(), None);
        prop_assert_eq!(heap.graph.objects(), sample.len());
        for (number, object) in sample.objects.iter().enumerate() {
            let number = number as u32;
            let targets: Vec<u32> = object.runs.iter().flat_map(Run::targets).collect();
            prop_assert_eq!(heap.graph.links.of(number), &targets[..]);
            let labelled: Vec<u32> = heap.dump.references(number).iter().map(|it| it.target).collect();
            prop_assert_eq!(&labelled, &targets);
            prop_assert_eq!(heap.graph.sizes.of(number), object.size);
            prop_assert_eq!(heap.graph.types[number as usize], object.class);
            prop_assert_eq!(heap.dump.at_address(heap.dump.address(number)), Some(number));
        }
        prop_assert_eq!(heap.bytes, sample.objects.iter().map(|it| it.size).sum::<u64>());
    }

    #[test]
    fn a_cut_anywhere_gives_what_is_before_it(sample in heaps(), share in 0.0..1.0_f64) {
        let whole = sample.encode();
        let cut = (whole.len() as f64 * share) as usize;
        match Dump::from_bytes(whole[..cut].to_vec()) {
            Err(error) => prop_assert!(matches!(error, DumpError::Format(_) | DumpError::Empty(_)), "{}", error),
            Ok(mut dump) => {
                let loaded = dump.load().unwrap();
                let missing = dump.missing();
                prop_assert!(missing.as_ref().is_some_and(|it| it.contains("cut off")), "{:?}", missing);
                for number in 0..dump.objects() {
                    prop_assert_eq!(loaded.graph.types[number as usize], sample.objects[number as usize].class);
                }
            }
        }
    }

    #[test]
    fn a_damaged_byte_is_told_and_stays_local(sample in heaps(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut bytes = sample.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let Ok(dump) = Dump::from_bytes(bytes) else { return Ok(()) };
        let heap = crate::heap::Heap::analyse(dump, &mut |_| {}).unwrap();
        let unreadable = heap.graph.types.iter().filter(|it| **it == heap.dump.tables.unreadable()).count();
        prop_assert!(unreadable == 0 || heap.dump.missing().is_some());
        crate::paths::Paths::find(&heap).unwrap();
    }
}

fn small() -> HeapSample {
    let mut sample = HeapSample::new().with_blocks(8, 1000);
    let texts: Vec<u32> = (0..40).map(|it| sample.text(&format!("text {it}"))).collect();
    let list = sample.list(&texts);
    sample.module("app", &[("texts", list)]);
    sample
}

#[test]
fn a_damaged_block_is_named_and_the_others_are_read() {
    let mut bytes = small().encode();
    // A block in the middle: its magic is found from the front.
    let blocks: Vec<usize> = bytes.windows(4).enumerate().filter(|(_, it)| *it == b"BLCK").map(|(at, _)| at).collect();
    bytes[blocks[2] + 120] ^= 0xff;
    let heap = crate::heap::Heap::analyse(Dump::from_bytes(bytes).unwrap(), &mut |_| {}).unwrap();
    assert_eq!(heap.graph.types.iter().filter(|it| **it == heap.dump.tables.unreadable()).count(), 8);
    let missing = heap.dump.missing().unwrap();
    assert_eq!(
        missing,
        format!(
            "1 parts of the heap dump cannot be read (the first at byte {}: the heap dump is damaged: a checksum does not fit)",
            blocks[2]
        )
    );
}

#[test]
fn other_files_and_later_versions_are_refused_with_a_reason() {
    let error = |bytes: Vec<u8>| Dump::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(error(b"{}".to_vec()), "this is not a heap dump: it does not begin with \"NGCH\"");
    let mut later = small().encode();
    later[4] = 9;
    assert_eq!(error(later), "the heap dump has format version 9, this program reads version 1: use a newer neurogc");
    assert_eq!(error(b"NGCH".to_vec()), "the heap dump is cut off");
    let whole = small().encode();
    assert_eq!(error(whole[..64].to_vec()), "the heap dump has no objects that can be read: it is empty");
    assert!(Dump::open(std::path::Path::new("/nowhere")).is_err());
}

#[test]
fn values_and_names_of_references_are_read_from_any_block() {
    let mut sample = HeapSample::new().with_blocks(3, 2);
    let wide = sample.text("größer als ☃");
    let number = sample.integer(-5);
    let big = sample.object(types::LIST, 99, vec![Run::Index(vec![Some(wide)]), Run::Plain(vec![number, wide])]);
    let heap = analysed(&sample);
    let text =
        |value| if let Some(Value::Text(text)) = value { text.characters().collect::<String>() } else { "?".into() };
    assert_eq!(text(heap.dump.value(wide, heap.kind(wide))), "größer als ☃");
    assert_eq!(heap.dump.value(number, heap.kind(number)), Some(Value::Integer(Some(-5))));
    assert_eq!(heap.dump.value(big, heap.kind(big)), None);
    let slots: Vec<_> = heap.dump.references(big).iter().map(|it| it.slot).collect();
    assert_eq!(slots, [Slot::Index(0), Slot::Plain, Slot::Plain]);
}

#[test]
fn an_object_of_more_than_four_gib_keeps_its_size() {
    let mut sample = HeapSample::new();
    let large = sample.object(types::BYTES, 5 << 30, vec![]);
    sample.module("app", &[("blob", large)]);
    let heap = analysed(&sample);
    assert_eq!(heap.graph.sizes.of(large), 5 << 30);
    assert!(heap.reached_bytes() > 5 << 30);
}
