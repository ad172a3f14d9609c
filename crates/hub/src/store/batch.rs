//! Events on their way into the store: blocks of a trace, with what must be known to find them again.

use neurogc_wire::trace::{BlockWriter, Record};
use rusqlite::{Connection, params};

use crate::event::Event;

/// Events of one process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch {
    /// The moment that the records count from, in milliseconds since 1970.
    epoch_ms: f64,
    first_ms: u64,
    last_ms: u64,
    longest_ms: f64,
    /// Events without a duration.
    notes: u64,
    count: u64,
    blocks: Vec<u8>,
}

impl Batch {
    /// Records and the blocks they came in; `None` where no event is among them.
    pub(crate) fn of(records: &[Record], blocks: &[u8], epoch_ms: f64) -> Option<Self> {
        let mut batch = Self {
            epoch_ms,
            first_ms: u64::MAX,
            last_ms: 0,
            longest_ms: 0.0,
            notes: 0,
            count: 0,
            blocks: blocks.to_vec(),
        };
        for event in records.iter().filter_map(|record| Event::of(record, epoch_ms)) {
            batch.first_ms = batch.first_ms.min(event.t as u64);
            batch.last_ms = batch.last_ms.max(event.t as u64);
            batch.longest_ms = batch.longest_ms.max(event.ms().unwrap_or(0.0));
            batch.notes += u64::from(event.ms().is_none());
            batch.count += 1;
        }
        (batch.count > 0).then_some(batch)
    }

    /// The same for records that did not come in blocks.
    pub(crate) fn of_records(records: &[Record], epoch_ms: f64) -> Option<Self> {
        let mut writer = BlockWriter::new();
        records.iter().for_each(|record| writer.push(record));
        Self::of(records, &writer.take(), epoch_ms)
    }

    /// What it takes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        (std::mem::size_of::<Self>() + self.blocks.capacity()) as u64
    }

    /// As few batches as possible: one for each epoch.
    pub(super) fn joined<'b>(batches: impl IntoIterator<Item = &'b Self>) -> Vec<Self> {
        let mut joined: Vec<Self> = Vec::new();
        for batch in batches {
            match joined.iter_mut().find(|other| other.epoch_ms == batch.epoch_ms) {
                Some(other) => other.join(batch),
                None => joined.push(batch.clone()),
            }
        }
        joined
    }

    fn join(&mut self, other: &Self) {
        self.first_ms = self.first_ms.min(other.first_ms);
        self.last_ms = self.last_ms.max(other.last_ms);
        self.longest_ms = self.longest_ms.max(other.longest_ms);
        self.notes += other.notes;
        self.count += other.count;
        self.blocks.extend_from_slice(&other.blocks);
    }

    pub(super) fn insert(&self, db: &Connection, process: i64) -> rusqlite::Result<()> {
        let mut insert = db.prepare_cached(
            "INSERT INTO events (process, first, last, epoch, longest, notes, count, blocks)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        insert.execute(params![
            process,
            self.first_ms as i64,
            self.last_ms as i64,
            self.epoch_ms,
            self.longest_ms,
            self.notes as i64,
            self.count as i64,
            self.blocks
        ])?;
        Ok(())
    }
}

/// Puts the small batches of the minute before this one together: a week of one process is then ten thousand batches and
/// not a million.
pub(super) fn merge_minute(db: &Connection, process: i64, now_ms: u64) -> rusqlite::Result<()> {
    const MINUTE: u64 = 60_000;
    let until = now_ms / MINUTE * MINUTE;
    let from = until.saturating_sub(MINUTE);
    let mut select = db.prepare_cached(
        "SELECT batch, epoch, first, last, longest, notes, count, blocks FROM events
         WHERE process = ?1 AND last >= ?2 AND last < ?3",
    )?;
    let found = select.query_map(params![process, from as i64, until as i64], |row| {
        let number = |column| row.get::<_, i64>(column).map(|number| number as u64);
        let batch = Batch {
            epoch_ms: row.get(1)?,
            first_ms: number(2)?,
            last_ms: number(3)?,
            longest_ms: row.get(4)?,
            notes: number(5)?,
            count: number(6)?,
            blocks: row.get(7)?,
        };
        Ok((row.get::<_, i64>(0)?, batch))
    })?;
    let (keys, batches): (Vec<i64>, Vec<Batch>) = found.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().unzip();
    let joined = Batch::joined(&batches);
    if joined.len() == batches.len() {
        return Ok(());
    }
    let mut delete = db.prepare_cached("DELETE FROM events WHERE batch = ?1")?;
    for key in keys {
        delete.execute(params![key])?;
    }
    joined.iter().try_for_each(|batch| batch.insert(db, process))
}
