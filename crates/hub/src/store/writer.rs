//! The one thread that writes: everything of half a second in one transaction.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use neurogc_wire::census::Census;
use rusqlite::{Connection, params};

use super::batch::{Batch, merge_minute};
use super::schema::{Layouts, forget_processes, layouts, own_layout};
use super::tiers::{TIERS, expire, insert, roll_up};
use crate::budget::Held;
use crate::clock::unix_ms;
use crate::facts::ProcessFacts;
use crate::hub::to_text;
use crate::row::FigureRow;

/// How often is committed. What is lost when the hub is killed is at most this.
const COMMIT_EVERY: Duration = Duration::from_millis(500);

/// How often rows are rolled up, and how often old ones go.
const ROLL_EVERY: Duration = Duration::from_secs(10);
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

/// A process that is not written about for this long has been rolled up for good.
const ROLLED_UP_AFTER: Duration = Duration::from_secs(180);

/// From this share of the limit on, the oldest goes.
const FULL_PERCENT: u64 = 85;

/// Something to write about a process.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) facts: Arc<ProcessFacts>,
    pub(crate) what: StoreEntry,
    /// The memory that it takes of the budgets. It is given back with this, when it has been written.
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) held: Option<Held>,
}

/// What is written.
#[derive(Debug)]
pub(crate) enum StoreEntry {
    Row(Arc<FigureRow>),
    Events(Batch),
    /// A census of this moment.
    Census(u64, Box<Census>),
    /// For tests: tells when everything before it has been dealt with.
    #[cfg(test)]
    Mark(std::sync::mpsc::Sender<()>),
}

impl StoreEntry {
    /// Whether a test waits for it to be written.
    fn is_awaited(&self) -> bool {
        #[cfg(test)]
        return matches!(self, Self::Mark(_));
        #[cfg(not(test))]
        false
    }
}

/// How writing goes.
#[derive(Debug, Default)]
pub(crate) struct WriterProgress {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) trouble: Mutex<Option<String>>,
    /// What happened when the store was opened.
    pub(crate) notice: Mutex<Option<String>>,
}

impl WriterProgress {
    pub(super) fn note(&self, notice: String) {
        *self.notice.lock().unwrap_or_else(PoisonError::into_inner) = Some(notice);
    }

    fn tell(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

/// A process in the database: its key, what is said there about it, and when it was last written about.
struct Known {
    key: i64,
    facts: Arc<ProcessFacts>,
    written: Instant,
}

pub(super) struct Writer {
    db: Connection,
    limit: u64,
    layout: i64,
    layouts: Layouts,
    /// Processes that are in the database and were written about lately.
    known: HashMap<String, Known>,
    roll_at: Instant,
    expire_at: Instant,
    progress: Arc<WriterProgress>,
}

impl Writer {
    pub(super) fn new(db: Connection, limit: u64, progress: Arc<WriterProgress>) -> rusqlite::Result<Self> {
        let layout = own_layout(&db)?;
        let layouts = layouts(&db)?;
        let now = Instant::now();
        let known = HashMap::new();
        let mut writer =
            Self { db, limit, layout, layouts, known, roll_at: now + ROLL_EVERY, expire_at: now, progress };
        // What a hub that was killed has left undone.
        writer.catch_up()?;
        Ok(writer)
    }

    fn catch_up(&mut self) -> rusqlite::Result<()> {
        let keys: Vec<i64> =
            self.db.prepare("SELECT key FROM processes")?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let transaction = self.db.transaction()?;
        for key in keys {
            roll_up(&transaction, &self.layouts, self.layout, key, unix_ms())?;
        }
        transaction.commit()
    }

    /// Writes until all senders are gone.
    pub(super) fn run(mut self, writes: &Receiver<Write>) {
        let mut waiting = Vec::new();
        let mut commit_at = None;
        loop {
            let patience = commit_at.map_or(COMMIT_EVERY, |at: Instant| at.saturating_duration_since(Instant::now()));
            match writes.recv_timeout(patience) {
                Ok(write) => {
                    let wait = if write.what.is_awaited() { Duration::ZERO } else { COMMIT_EVERY };
                    waiting.push(write);
                    commit_at = Some(commit_at.unwrap_or(Instant::now() + wait).min(Instant::now() + wait));
                    if commit_at.is_some_and(|at| Instant::now() < at) {
                        continue;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.commit(&mut waiting);
                    return;
                }
            }
            commit_at = None;
            self.commit(&mut waiting);
            self.look_after();
        }
    }

    fn commit(&mut self, waiting: &mut Vec<Write>) {
        if waiting.is_empty() {
            return;
        }
        match self.write_all(waiting) {
            Ok(()) => {
                self.progress.written.fetch_add(waiting.len() as u64, Ordering::Relaxed);
                self.progress.tell(None);
            }
            Err(error) => {
                self.progress.dropped.fetch_add(waiting.len() as u64, Ordering::Relaxed);
                self.progress.tell(Some(format!("history is not being written: {error}")));
                // What was rolled back may have held them.
                self.known.clear();
                self.make_room();
            }
        }
        #[cfg(test)]
        for write in waiting.iter() {
            if let StoreEntry::Mark(done) = &write.what {
                let _ = done.send(());
            }
        }
        waiting.clear();
    }

    fn write_all(&mut self, waiting: &[Write]) -> rusqlite::Result<()> {
        let transaction = self.db.transaction()?;
        let mut batches: HashMap<i64, Vec<&Batch>> = HashMap::new();
        let mut seen: HashMap<i64, u64> = HashMap::new();
        for Write { facts, what, .. } in waiting {
            let key = match self.known.get_mut(&facts.id) {
                Some(known) if Arc::ptr_eq(&known.facts, facts) => {
                    known.written = Instant::now();
                    known.key
                }
                _ => {
                    let key = upsert(&transaction, facts)?;
                    let known = Known { key, facts: Arc::clone(facts), written: Instant::now() };
                    self.known.insert(facts.id.clone(), known);
                    key
                }
            };
            match what {
                StoreEntry::Row(row) => {
                    insert(&transaction, self.layout, key, TIERS[0].step_s, std::slice::from_ref(row))?;
                    seen.insert(key, row.t);
                }
                StoreEntry::Events(batch) => batches.entry(key).or_default().push(batch),
                StoreEntry::Census(t, census) => insert_census(&transaction, key, *t, census)?,
                #[cfg(test)]
                StoreEntry::Mark(_) => {}
            }
        }
        for (key, batches) in batches {
            Batch::joined(batches).iter().try_for_each(|batch| batch.insert(&transaction, key))?;
        }
        let mut update = transaction.prepare_cached("UPDATE processes SET seen = ?2 WHERE key = ?1")?;
        for (key, t) in seen {
            update.execute(params![key, t as i64])?;
        }
        drop(update);
        transaction.commit()
    }

    /// Rolls up, lets old rows go, and makes room before there is none.
    fn look_after(&mut self) {
        let now = Instant::now();
        let mut looked = Ok(());
        if now >= self.roll_at {
            self.roll_at = now + ROLL_EVERY;
            looked = self.roll_up_all();
            self.make_room();
        }
        if now >= self.expire_at && looked.is_ok() {
            self.expire_at = now + EXPIRE_EVERY;
            looked = expire(&self.db, unix_ms()).and_then(|()| forget_processes(&self.db, unix_ms()).map(drop));
        }
        if let Err(error) = looked {
            self.progress.tell(Some(format!("history is not being looked after: {error}")));
        }
    }

    fn roll_up_all(&mut self) -> rusqlite::Result<()> {
        let now = unix_ms();
        let transaction = self.db.transaction()?;
        for known in self.known.values() {
            roll_up(&transaction, &self.layouts, self.layout, known.key, now)?;
            merge_minute(&transaction, known.key, now)?;
        }
        transaction.commit()?;
        self.known.retain(|_, known| known.written.elapsed() < ROLLED_UP_AFTER);
        Ok(())
    }

    /// Lets the oldest go while there is more than there should be.
    fn make_room(&mut self) {
        for _ in 0..20 {
            let Ok(used) = self.used() else { return };
            self.progress.bytes.store(used, Ordering::Relaxed);
            if used < self.limit / 100 * FULL_PERCENT || self.drop_oldest().is_err() {
                return;
            }
        }
    }

    fn used(&self) -> rusqlite::Result<u64> {
        let number = |name: &str| self.db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok(((number("page_count")? - number("freelist_count")?) * number("page_size")?) as u64)
    }

    /// Events first, because there are most of them; then processes that are gone; then the finest rows.
    fn drop_oldest(&self) -> rusqlite::Result<()> {
        let events: i64 = self.db.query_row("SELECT count(*) FROM events", [], |row| row.get(0))?;
        if events > 0 {
            let some = (events / 10).max(1);
            self.db.execute(
                "DELETE FROM events WHERE batch IN (SELECT batch FROM events ORDER BY last LIMIT ?1)",
                params![some],
            )?;
            return Ok(());
        }
        let (key, alone): (i64, bool) = self.db.query_row(
            "SELECT key, (SELECT count(*) FROM processes) = 1 FROM processes ORDER BY seen LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        if alone || self.known.values().any(|known| known.key == key) {
            let middle: Option<i64> =
                self.db.query_row("SELECT (min(t) + max(t)) / 2 FROM samples WHERE step = 1", [], |row| row.get(0))?;
            self.db.execute("DELETE FROM samples WHERE step = 1 AND t <= ?1", params![middle])?;
        } else {
            self.db.execute("DELETE FROM samples WHERE process = ?1", params![key])?;
            self.db.execute("DELETE FROM census WHERE process = ?1", params![key])?;
            self.db.execute("DELETE FROM processes WHERE key = ?1", params![key])?;
        }
        Ok(())
    }
}

fn insert_census(db: &Connection, process: i64, t: u64, census: &Census) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached("INSERT OR REPLACE INTO census (process, t, rows) VALUES (?1, ?2, ?3)")?;
    insert.execute(params![process, t as i64, to_text(census)]).map(drop)
}

fn upsert(db: &Connection, facts: &ProcessFacts) -> rusqlite::Result<i64> {
    let mut upsert = db.prepare_cached(
        "INSERT INTO processes (id, host, pid, command, python, neurogc, policy, service, role, started, seen)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         ON CONFLICT (id) DO UPDATE SET command = ?4, python = ?5, neurogc = ?6, policy = ?7, service = ?8, role = ?9
         RETURNING key",
    )?;
    let ProcessFacts { id, host, pid, command, service, role, python, neurogc, policy, started_ms } = facts;
    upsert.query_row(
        params![id, host, pid, command, python, neurogc, policy, service, role, *started_ms as i64, unix_ms() as i64],
        |row| row.get(0),
    )
}
