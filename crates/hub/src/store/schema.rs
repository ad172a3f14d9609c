//! The tables, and how the database is opened.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use super::tiers::MAX_AGE_S;
use crate::series::{CATALOGUE, position};

/// What each version of the database adds to the one before it: the first one makes the tables. A file of an older version
/// gets what it lacks when it is opened. What stands here is never changed, only added to.
const STEPS: &[&str] = &[TABLES, SERVICES, CENSUS];

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS layouts (id INTEGER PRIMARY KEY, names TEXT NOT NULL UNIQUE);
    CREATE TABLE IF NOT EXISTS processes (
        key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, host TEXT NOT NULL, pid INTEGER NOT NULL, command TEXT NOT NULL,
        python TEXT NOT NULL, neurogc TEXT NOT NULL, policy TEXT NOT NULL, started INTEGER NOT NULL, seen INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS samples (
        process INTEGER NOT NULL, step INTEGER NOT NULL, t INTEGER NOT NULL, layout INTEGER NOT NULL,
        figures BLOB NOT NULL, latency BLOB NOT NULL, PRIMARY KEY (process, step, t)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS events (
        batch INTEGER PRIMARY KEY, process INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        epoch REAL NOT NULL, longest REAL NOT NULL, notes INTEGER NOT NULL, count INTEGER NOT NULL, blocks BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS events_of ON events (process, last, first, longest, notes, count);
    CREATE INDEX IF NOT EXISTS events_by_age ON events (last);
";

const SERVICES: &str = "
    ALTER TABLE processes ADD COLUMN service TEXT NOT NULL DEFAULT '';
    ALTER TABLE processes ADD COLUMN role TEXT NOT NULL DEFAULT '';
";

const CENSUS: &str = "
    CREATE TABLE census (
        process INTEGER NOT NULL, t INTEGER NOT NULL, rows TEXT NOT NULL, PRIMARY KEY (process, t)) WITHOUT ROWID;
";

/// How values were ordered when rows were written: for each, its place in the catalogue of this version.
pub(super) type Layouts = Vec<(i64, Vec<Option<usize>>)>;

/// Why a database cannot be written to.
#[derive(Debug)]
pub(super) enum Unfit {
    /// A later NeuroGC has made it.
    Newer {
        version: usize,
        known: usize,
    },
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Unfit {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Unfit {
    /// Whether the file is no database, or not whole.
    pub(super) fn is_broken(&self) -> bool {
        let code = |error: &rusqlite::Error| error.sqlite_error_code();
        let broken = [Some(ErrorCode::NotADatabase), Some(ErrorCode::DatabaseCorrupt)];
        matches!(self, Self::Sqlite(error) if broken.contains(&code(error)))
    }
}

/// Opens the database for the one who writes. `limit` is what the file may grow to.
pub(super) fn open_to_write(path: &Path, limit: u64) -> Result<Connection, Unfit> {
    let mut db = Connection::open(path)?;
    db.busy_timeout(Duration::from_secs(5))?;
    // Before anything is changed: a later version may keep something else here.
    check_version(&db, STEPS)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // A commit that survives the end of this process is enough; what a power cut takes are the last moments.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "journal_size_limit", 16 << 20)?;
    db.pragma_update(None, "wal_autocheckpoint", 2000)?;
    db.pragma_update(None, "cache_size", -8192)?;
    let page: i64 = db.pragma_query_value(None, "page_size", |row| row.get(0))?;
    db.pragma_update(None, "max_page_count", (limit as i64 / page).max(64))?;
    migrate(&mut db, STEPS)?;
    Ok(db)
}

/// The version of a database, if this NeuroGC knows it.
fn check_version(db: &Connection, steps: &[&str]) -> Result<usize, Unfit> {
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let (version, known) = (usize::try_from(version).unwrap_or(usize::MAX), steps.len());
    if version > known { Err(Unfit::Newer { version, known }) } else { Ok(version) }
}

/// Brings a database to the latest version, whole or not at all.
fn migrate(db: &mut Connection, steps: &[&str]) -> Result<(), Unfit> {
    let version = check_version(db, steps)?;
    let transaction = db.transaction()?;
    for step in &steps[version..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", steps.len() as i64)?;
    Ok(transaction.commit()?)
}

/// Opens the database for one who reads.
pub(super) fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(Duration::from_millis(500))?;
    db.pragma_update(None, "cache_size", -4096)?;
    Ok(db)
}

/// The number of the order in which this version writes values.
pub(super) fn own_layout(db: &Connection) -> rusqlite::Result<i64> {
    let names = CATALOGUE.iter().map(|series| series.name).collect::<Vec<_>>().join(",");
    db.execute("INSERT OR IGNORE INTO layouts (names) VALUES (?1)", params![names])?;
    db.query_row("SELECT id FROM layouts WHERE names = ?1", params![names], |row| row.get(0))
}

/// All orders in which values were ever written.
pub(super) fn layouts(db: &Connection) -> rusqlite::Result<Layouts> {
    let mut select = db.prepare_cached("SELECT id, names FROM layouts")?;
    let layouts = select.query_map([], |row| {
        let names: String = row.get(1)?;
        Ok((row.get(0)?, names.split(',').map(position).collect()))
    })?;
    layouts.collect()
}

/// Forgets processes of which nothing is kept any more.
pub(super) fn forget_processes(db: &Connection, now_ms: u64) -> rusqlite::Result<usize> {
    db.execute("DELETE FROM processes WHERE seen < ?1", params![now_ms.saturating_sub(MAX_AGE_S * 1000) as i64])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn an_older_database_gets_what_it_lacks_and_keeps_what_it_has() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db, STEPS).unwrap();
        db.execute("INSERT INTO layouts (names) VALUES ('a,b')", []).unwrap();
        let later = [STEPS, &["ALTER TABLE layouts ADD COLUMN note TEXT NOT NULL DEFAULT 'none'"]].concat();
        for _ in 0..2 {
            migrate(&mut db, &later).unwrap();
            let kept: (String, String) =
                db.query_row("SELECT names, note FROM layouts", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(kept, ("a,b".to_owned(), "none".to_owned()));
        }
        assert_eq!(check_version(&db, &later).unwrap(), later.len());
        // This NeuroGC does not know what the later one has added.
        assert!(matches!(migrate(&mut db, STEPS), Err(Unfit::Newer { version: 4, known: 3 })));
    }

    #[test]
    fn a_process_of_an_older_database_is_of_no_service() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db, &STEPS[..1]).unwrap();
        let old = "INSERT INTO processes VALUES (1, 'a', 'host', 7, 'python', '3.12', '0.1', 'gap', 1, 2)";
        db.execute(old, []).unwrap();
        migrate(&mut db, STEPS).unwrap();
        let kept: (String, String, String) = db
            .query_row("SELECT id, service, role FROM processes", [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap();
        assert_eq!(kept, ("a".to_owned(), String::new(), String::new()));
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let mut db = Connection::open_in_memory().unwrap();
        let bad = [STEPS, &["CREATE TABLE more (x); CREATE TABLE more (x)"]].concat();
        assert!(migrate(&mut db, &bad).is_err());
        assert_eq!(check_version(&db, STEPS).unwrap(), 0);
        migrate(&mut db, STEPS).unwrap();
    }
}
