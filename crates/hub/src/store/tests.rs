//! The store as its users see it: written to, killed, filled up and asked.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::mpsc::channel;
use std::time::Duration;

use neurogc_wire::report::Sample;
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{Place, Record};

use super::*;
use crate::row::FigureRow;
use crate::series::position;

const ROOMY: u64 = 64 << 20;

fn facts(id: &str) -> Arc<ProcessFacts> {
    let (policy, service, role) = ("gap".to_owned(), "shop".to_owned(), "worker 2".to_owned());
    Arc::new(ProcessFacts { id: id.to_owned(), policy, service, role, ..ProcessFacts::default() })
}

fn row(t: u64, rss: u64) -> FigureRow {
    let mut sample = Sample::default();
    sample.status.memory.rss = rss;
    sample.status.requests.count = 1;
    sample.latency.buckets.add(1_000_000, 1);
    FigureRow::between(&Sample::default(), &sample, 1.0, t)
}

fn collection(at_ms: u64, pause_ms: u64) -> Record {
    Record::Collection {
        at: at_ms * 1_000_000,
        pause: pause_ms * 1_000_000,
        kind: StopKind::Young,
        place: Place::InGap,
        collected: 0,
        uncollectable: 0,
        order: None,
    }
}

impl Store {
    /// Waits until everything before this has been written, or dropped.
    fn settle(&self) {
        let (done, settled) = channel();
        self.put(Write { facts: facts("mark"), what: StoreEntry::Mark(done), held: None });
        settled.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    fn put_rows(&self, facts: &Arc<ProcessFacts>, rows: impl IntoIterator<Item = FigureRow>) {
        rows.into_iter().for_each(|row| {
            self.put(Write { facts: Arc::clone(facts), what: StoreEntry::Row(Arc::new(row)), held: None })
        });
    }

    fn put_events(&self, facts: &Arc<ProcessFacts>, records: &[Record], epoch_ms: u64) {
        let batch = Batch::of_records(records, epoch_ms as f64).unwrap();
        self.put(Write { facts: Arc::clone(facts), what: StoreEntry::Events(batch), held: None });
    }
}

fn all(from_ms: u64, to_ms: u64, limit: usize) -> Wish {
    Wish { from_ms, to_ms, kinds: Vec::new(), min_ms: 0.0, limit }
}

#[test]
fn what_was_written_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let now = unix_ms() / 1000 * 1000;
    let store = Store::open(folder.path(), ROOMY).unwrap();
    store.put_rows(&facts("a"), (0..60).map(|second| row(now - 1000 * second, second)));
    store.put_events(&facts("a"), &[collection(5, 3)], now - 1000);
    store.settle();
    drop(store);
    let store = Store::open(folder.path(), ROOMY).unwrap();
    let course = store.course("a", Span { from_ms: now - 120_000, to_ms: now, points: 600 }).unwrap();
    assert_eq!((course.step_ms, course.rows.len()), (1000, 60));
    let found = store.events("a", &all(now - 2000, now, 10)).unwrap();
    assert_eq!((found.events.len(), found.events[0].ms()), (1, Some(3.0)));
    assert!(store.processes().unwrap().iter().any(|(kept, _)| *kept == *facts("a")));
}

#[test]
fn two_hubs_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _store = Store::open(folder.path(), ROOMY).unwrap();
    let error = Store::open(folder.path(), ROOMY).unwrap_err().to_string();
    assert!(error.contains("another hub uses it"), "{error}");
}

#[test]
fn others_cannot_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = Store::open(folder.path(), ROOMY).unwrap();
    store.put_rows(&facts("a"), [row(unix_ms(), 1)]);
    store.settle();
    for file in ["hub.db", "hub.db-wal"] {
        assert_eq!(fs::metadata(folder.path().join(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_file_that_is_no_database_is_moved_aside_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db");
    let garbage = vec![0x5a; 100_000];
    fs::write(&path, &garbage).unwrap();
    let store = Store::open(folder.path(), ROOMY).unwrap();
    let notice = store.report().notice.unwrap();
    assert!(notice.contains("hub.db.broken"), "{notice}");
    assert_eq!(fs::read(folder.path().join("hub.db.broken")).unwrap(), garbage);
    store.put_rows(&facts("a"), [row(unix_ms(), 1)]);
    store.settle();
    assert_eq!(store.processes().unwrap().iter().filter(|(facts, _)| facts.id == "a").count(), 1);
}

#[test]
fn a_database_of_a_later_version_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db");
    drop(Store::open(folder.path(), ROOMY).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&path).unwrap();
    let error = Store::open(folder.path(), ROOMY).unwrap_err().to_string();
    assert!(error.contains("later version of NeuroGC (its schema is 99"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_damaged_database_loses_what_it_held_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db");
    let now = unix_ms() / 1000 * 1000;
    let store = Store::open(folder.path(), ROOMY).unwrap();
    store.put_rows(&facts("a"), (0..3000).map(|second| row(now - 1000 * second, second)));
    store.settle();
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    let (middle, page) = (bytes.len() / 2, 4096);
    for start in (middle..bytes.len() - page).step_by(2 * page) {
        bytes[start..start + page].fill(0x5a);
    }
    fs::write(&path, &bytes).unwrap();
    // It is refused with a reason, or goes on and says what it cannot do.
    match Store::open(folder.path(), ROOMY) {
        Err(error) => assert!(error.to_string().contains("Move it away"), "{error}"),
        Ok(store) => {
            store.put_rows(&facts("b"), [row(now, 1)]);
            store.settle();
            let _ = store.course("a", Span { from_ms: now - 7_200_000, to_ms: now, points: 600 });
            let report = store.report();
            assert!(report.trouble.is_some() || report.written > 0, "{report:?}");
        }
    }
}

#[test]
fn a_long_while_is_drawn_from_coarse_rows_and_ends_with_the_latest_second() {
    let folder = tempfile::tempdir().unwrap();
    let now = unix_ms() / 1000 * 1000;
    {
        let store = Store::open(folder.path(), ROOMY).unwrap();
        store.put_rows(&facts("a"), (0..600).rev().map(|second| row(now - 1000 * second, 600 - second)));
        store.settle();
    }
    // What has passed is rolled up when the store is opened.
    let store = Store::open(folder.path(), ROOMY).unwrap();
    let course = store.course("a", Span { from_ms: now - 86_400_000, to_ms: now + 1000, points: 600 }).unwrap();
    assert_eq!(course.step_ms % 60_000, 0);
    let rss = |row: &FigureRow| row.value(position("memory.rss").unwrap()).unwrap();
    assert_eq!(course.rows.last().map(rss), Some(600.0));
    let requests: f32 =
        course.rows.iter().map(|row| row.value(position("requests.rps").unwrap()).unwrap()).sum::<f32>();
    assert!((requests / course.rows.len() as f32 - 1.0).abs() < 0.01);
}

#[test]
fn the_longest_events_stay_when_there_are_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let now = unix_ms();
    let store = Store::open(folder.path(), ROOMY).unwrap();
    for batch in 0..50 {
        let records: Vec<_> = (0..20).map(|at| collection(at, batch + at)).collect();
        store.put_events(&facts("a"), &records, now - 60_000 + batch * 100);
    }
    store.put_events(&facts("a"), &[Record::Dropped { at: 0, count: 7 }], now - 60_000);
    store.settle();
    let found = store.events("a", &all(now - 120_000, now, 11)).unwrap();
    assert_eq!((found.events.len(), found.left_out), (11, 990));
    assert!(found.events.iter().all(|event| event.ms().is_none_or(|ms| ms >= 65.0)), "{:?}", found.events);
    assert_eq!(found.events[0].kind(), "dropped");
    assert!(found.events.is_sorted_by(|a, b| a.t <= b.t));
    let long = Wish { min_ms: 60.0, kinds: vec!["collection".to_owned()], ..all(0, now, 1000) };
    assert_eq!(store.events("a", &long).unwrap().events.len(), 45);
}

#[test]
fn a_full_store_lets_the_oldest_go_and_says_what_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let now = unix_ms();
    let store = Store::open(folder.path(), 1 << 20).unwrap();
    for round in 0..40 {
        let records: Vec<_> = (0..5000).map(|at| collection(at, 1)).collect();
        store.put_events(&facts("a"), &records, now - 400_000 + round * 10_000);
        store.settle();
    }
    store.put_rows(&facts("a"), [row(now, 1)]);
    store.settle();
    let size = fs::metadata(folder.path().join("hub.db")).unwrap().len();
    assert!(size <= 1 << 20, "{size}");
    let found = store.events("a", &all(0, now, 20_000)).unwrap();
    assert!(!found.events.is_empty() && found.events[0].t > (now - 390_000) as f64);
    assert_eq!(store.course("a", Span { from_ms: now - 1000, to_ms: now, points: 10 }).unwrap().rows.len(), 1);
}

#[test]
fn small_batches_of_a_minute_become_one() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(
        "CREATE TABLE events (batch INTEGER PRIMARY KEY, process, first, last, epoch, longest, notes, count, blocks)",
    )
    .unwrap();
    for second in 0..60 {
        Batch::of_records(&[collection(second * 1000, 1)], 60_000.0).unwrap().insert(&db, 1).unwrap();
    }
    batch::merge_minute(&db, 1, 120_000).unwrap();
    let (rows, events): (i64, i64) =
        db.query_row("SELECT count(*), sum(count) FROM events", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!((rows, events), (1, 60));
}
