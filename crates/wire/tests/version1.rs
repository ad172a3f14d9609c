//! Traces of version 1 stay readable.

use neurogc_wire::status::Cause;
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{OrderKind, Place, Record, encode, read};

/// Every kind of record, as the last build that wrote version 1 wrote it.
const FILE: &[u8] = include_bytes!("fixtures/version1.ngct");

fn collection(kind: StopKind, place: Place) -> Record {
    let (at, uncollectable) = (1_000_000 + u64::from(kind.number()), u64::from(kind == StopKind::Full));
    Record::Collection { at, pause: 250_000, kind, place, collected: 10, uncollectable, order: None }
}

fn order(at: u64, guard: bool, what: OrderKind, reason: &str) -> Record {
    Record::Order { at, id: 0, guard, what, reason: reason.to_owned() }
}

fn expected() -> Vec<Record> {
    vec![
        Record::RequestStart { at: 1_000, id: 1 },
        Record::RequestEnd { at: 901_000, id: 1 },
        Record::Gap { at: 500, busy: 900_500, idle: 20_000_000 },
        Record::Counts { at: 910_000, counts: [512, 3, 1] },
        Record::Process { at: 920_000, rss: 80 << 20, cpu_us: 1_000_000 },
        Record::Stall { at: 930_000, duration: 9_000_000, cause: Cause::Python, site: "app.py:3 in f".to_owned() },
        Record::Dropped { at: 940_000, count: 4 },
        Record::Heap { at: 950_000, gathered: 701, tenured: 300_000, pending: 20_000 },
        Record::Flight { at: 960_000, lasted: 90_000_000, faults: 40, objects: 320_000, found: 9_000 },
        collection(StopKind::Young, Place::InRequest),
        collection(StopKind::Middle, Place::InGap),
        collection(StopKind::Full, Place::Forced),
        collection(StopKind::Reap, Place::InGap),
        collection(StopKind::Clone, Place::InRequest),
        order(2_000_000, true, OrderKind::Young, "young objects have gathered"),
        order(2_000_001, true, OrderKind::Middle, "middle objects have gathered"),
        order(2_000_002, true, OrderKind::Full, "memory is near its ceiling"),
        order(2_000_003, false, OrderKind::Freeze, "the program has started: its heap stays"),
        order(2_000_004, false, OrderKind::Snapshot, "the old heap → has grown"),
        order(2_000_005, false, OrderKind::Reap, "a snapshot has found garbage"),
        Record::Policy { at: 2_000_006, before: "observe".to_owned(), after: "gap".to_owned() },
    ]
}

#[test]
fn a_file_of_version_1_is_read() {
    assert_eq!(FILE[8..10], [1, 0], "the fixture is of version 1");
    let trace = read(FILE).expect("it is readable");
    assert_eq!((trace.header.pid, trace.header.policy.as_str()), (4242, "gap"));
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
    assert_eq!(trace.records, expected());
}

#[test]
fn what_was_read_is_written_as_the_latest_version() {
    let trace = read(FILE).expect("it is readable");
    let bytes = encode(&trace.header, &trace.records);
    assert_eq!(bytes[8..10], [4, 0]);
    assert_eq!(read(&bytes).expect("it is readable").records, expected());
}
