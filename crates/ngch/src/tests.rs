//! What the encoders write, the decoders read; what is cut or damaged gives an error and never a panic.

use proptest::prelude::*;

use crate::*;

#[test]
fn numbers_come_back() {
    for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        let mut from = Cursor::new(&bytes);
        assert_eq!(from.varint(), Ok(value));
        assert!(from.is_empty());
        assert_eq!(Cursor::new(&bytes[..bytes.len() - 1]).varint(), Err(FormatError::Cut));
    }
    for value in [0, -1, 1, i64::MIN, i64::MAX] {
        assert_eq!(unzigzag(zigzag(value)), value);
    }
}

#[test]
fn a_number_longer_than_64_bits_is_damage() {
    assert!(matches!(Cursor::new(&[0xff; 12]).varint(), Err(FormatError::Damaged(_))));
    assert!(matches!(
        Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint(),
        Err(FormatError::Damaged(_))
    ));
}

#[test]
fn the_head_comes_back() {
    let head = DumpHead {
        python: 0x030c_01f0,
        flags: TEXTS,
        text_limit: 64,
        pid: 7,
        started_ns: 1,
        taken_ns: 2,
        objects: 3,
        resident: 4,
    };
    let mut bytes = head.encode();
    assert_eq!(DumpHead::decode(&bytes), Ok(head));
    bytes[40] ^= 1;
    assert_eq!(DumpHead::decode(&bytes), Err(FormatError::Checksum));
    bytes[4] = 2;
    assert_eq!(DumpHead::decode(&bytes), Err(FormatError::Newer(2)));
    assert_eq!(DumpHead::decode(b"PK"), Err(FormatError::NotADump));
    assert_eq!(DumpHead::decode(b"NGCH"), Err(FormatError::Cut));
}

/// Runs of every kind, as the clone writes them for object 10 of 20.
fn runs() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut predicted = Predicted::start(10);
    RunKind::Fields.put(&mut bytes, 1);
    put_varint(&mut bytes, 3);
    predicted.put(&mut bytes, 2);
    RunKind::Index.put(&mut bytes, 3);
    for slot in [Some(4), None, Some(5)] {
        predicted.put_slot(&mut bytes, slot);
    }
    RunKind::Pairs.put(&mut bytes, 1);
    predicted.put_key(&mut bytes, 11);
    predicted.put(&mut bytes, 19);
    RunKind::Attributes.put(&mut bytes, 2);
    predicted.put_slot(&mut bytes, None);
    predicted.put_slot(&mut bytes, Some(0));
    RunKind::Split.put(&mut bytes, 1);
    put_varint(&mut bytes, 7);
    predicted.put_slot(&mut bytes, Some(1));
    RunKind::More.put(&mut bytes, 1);
    put_varint(&mut bytes, 1000);
    predicted.put_slot(&mut bytes, Some(6));
    RunKind::Plain.put(&mut bytes, 1);
    predicted.put(&mut bytes, 10);
    Predicted::end(&mut bytes);
    bytes
}

#[test]
fn references_come_back_with_their_names() {
    let bytes = runs();
    let mut seen = Vec::new();
    References::new(Cursor::new(&bytes), 20).object(10, |it| seen.push((it.target, it.slot))).unwrap();
    let expected = [
        (2, Slot::Field(3)),
        (4, Slot::Index(0)),
        (5, Slot::Index(2)),
        (11, Slot::Key),
        (19, Slot::Value(11)),
        (0, Slot::Attribute(1)),
        (1, Slot::Shared { shape: 7, attribute: 0 }),
        (6, Slot::Index(1000)),
        (10, Slot::Plain),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_reference_to_no_object_is_damage() {
    let bytes = runs();
    let read = References::new(Cursor::new(&bytes), 19).object(10, |_| ());
    assert!(matches!(read, Err(FormatError::Damaged(_))));
}

#[test]
fn values_come_back() {
    let mut bytes = Vec::new();
    put_text_head(&mut bytes, 2, 2, 1, 0);
    bytes.extend_from_slice(b"ab");
    put_text_head(&mut bytes, 1, 9, 4, 42);
    bytes.extend_from_slice(&('ж' as u32).to_le_bytes());
    put_withheld(&mut bytes, 5);
    put_integer(&mut bytes, Some(-3));
    put_integer(&mut bytes, None);
    let mut from = Cursor::new(&bytes);
    let mut next = |kind| Value::read(&mut from, kind).unwrap();
    let text = |value| match value {
        Some(Value::Text(text)) => (text.length, text.hash, text.width, text.characters().collect::<String>()),
        other => panic!("{other:?}"),
    };
    assert_eq!(text(next(Kind::Str)), (2, None, 1, "ab".to_owned()));
    assert_eq!(text(next(Kind::Str)), (9, Some(42), 4, "ж".to_owned()));
    assert_eq!(text(next(Kind::Str)), (5, None, 0, String::new()));
    assert_eq!(next(Kind::List), None);
    assert_eq!(next(Kind::Int), Some(Value::Integer(Some(-3))));
    assert_eq!(next(Kind::Int), Some(Value::Integer(None)));
    assert!(from.is_empty());
}

fn section(tag: Tag, payload: &[u8]) -> Vec<u8> {
    let mut bytes = put_section_head(tag, crc32fast::hash(payload), payload.len() as u64).to_vec();
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len() + padding(payload.len() as u64), 0);
    bytes
}

/// A dump of two objects.
fn small_dump() -> Vec<u8> {
    let mut dump = DumpHead { objects: 2, ..DumpHead::default() }.encode().to_vec();
    let mut types = Vec::new();
    put_varint(&mut types, 1);
    let row = TypeRow {
        object: Some(1),
        kind: Kind::List,
        flags: TypeFlags(TypeFlags::COLLECTED),
        basic: 40,
        item: 0,
        objects: 1,
        shape: None,
        base: None,
        name: b"list",
        members: Members::none(),
    };
    row.put(&mut types);
    put_varint(&mut types, 1);
    TypeMember { word: 3, name: b"items" }.put(&mut types);
    let mut offsets = vec![dump.len() as u64];
    dump.extend(section(Tag::Types, &types));
    let mut columns: [Vec<u8>; COLUMNS] = Default::default();
    let mut before = 4096;
    for (number, address) in [(0, 4096), (1, 4160)] {
        ObjectRow { number, address, class: 0, tracked: true, size: 56, count: 1 }.encode(before, &mut columns);
        Predicted::end(&mut columns[DumpColumn::References as usize]);
        before = address;
    }
    let lengths = std::array::from_fn(|i| columns[i].len() as u64);
    let head = BlockHead { objects: 2, first: 0, references: 0, address: 4096, bytes: 112, continues: false, lengths };
    let mut block = head.encode().to_vec();
    columns.iter().for_each(|column| block.extend_from_slice(column));
    offsets.push(dump.len() as u64);
    dump.extend(section(Tag::Block, &block));
    let mut foot = Vec::new();
    Foot::put(&Totals { objects: 2, passes_ns: [1, 2, 3, 4, 5], ..Totals::default() }, 2, &mut foot);
    let mut at = 0;
    for offset in offsets {
        put_varint(&mut foot, offset - at);
        at = offset;
    }
    let foot_at = dump.len() as u64;
    dump.extend(section(Tag::Foot, &foot));
    dump.extend(put_tail(foot_at));
    dump
}

/// Reads everything that a dump says; only errors matter.
fn read_all(dump: &[u8]) -> Result<u32, FormatError> {
    let head = DumpHead::decode(dump)?;
    let mut rows = 0;
    for section in Sections::of(dump) {
        let section = section?;
        let bytes = section.verified()?;
        match section.tag {
            Some(Tag::Types) => {
                TableRows::<TypeRow<'_>>::new(bytes)?.try_for_each(|row| row.map(|row| row.members.for_each(drop)))?
            }
            Some(Tag::Block) => {
                let block = DumpBlock::decode(bytes)?;
                let mut references = References::new(block.column(DumpColumn::References), head.objects);
                for row in block.rows() {
                    references.object(row?.number, |_| ())?;
                    rows += 1;
                }
            }
            Some(Tag::Foot) => Foot::decode(bytes)?.offsets().try_for_each(|offset| offset.map(drop))?,
            _ => {}
        }
    }
    Ok(rows)
}

#[test]
fn a_small_dump_comes_back() {
    let dump = small_dump();
    assert_eq!(read_all(&dump), Ok(2));
    let foot = DumpSection::at(&dump, foot_offset(&dump).unwrap()).unwrap();
    let foot = Foot::decode(foot.verified().unwrap()).unwrap();
    assert_eq!(foot.totals.passes_ns, [1, 2, 3, 4, 5]);
    let tags: Vec<_> = foot.offsets().map(|offset| DumpSection::at(&dump, offset.unwrap()).unwrap().tag).collect();
    assert_eq!(tags, [Some(Tag::Types), Some(Tag::Block)]);
}

#[test]
fn a_cut_dump_is_read_as_far_as_it_goes() {
    let dump = small_dump();
    let ends: Vec<_> = Sections::of(&dump)
        .map(|it| it.unwrap())
        .map(|it| it.offset as usize + SECTION_HEAD + it.unverified().len())
        .collect();
    for length in HEAD..dump.len() - TAIL {
        assert_eq!(foot_offset(&dump[..length]), None);
        let whole = Sections::of(&dump[..length]).flatten().filter(|it| it.verified().is_ok()).count();
        assert_eq!(whole, ends.iter().filter(|end| **end <= length).count(), "{length} bytes");
    }
}

proptest! {
    #[test]
    fn damage_never_panics(at in 0_usize..600, to in any::<u8>()) {
        let mut dump = small_dump();
        let at = at % dump.len();
        dump[at] = to;
        let _ = read_all(&dump);
        let _ = foot_offset(&dump).map(|offset| DumpSection::at(&dump, offset));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_all(&bytes);
        let _ = DumpBlock::decode(&bytes).map(|block| block.rows().for_each(drop));
        let _ = References::new(Cursor::new(&bytes), 100).object(5, |_| ());
        let _ = Foot::decode(&bytes).map(|foot| foot.offsets().for_each(drop));
        let mut from = Cursor::new(&bytes);
        while Value::read(&mut from, Kind::Str).is_ok() && !from.is_empty() {}
    }
}
