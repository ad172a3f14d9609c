//! Questions to the store.

use rusqlite::{Connection, OptionalExtension, params};

use neurogc_wire::census::Census;
use neurogc_wire::report::read_blocks;

use super::schema::{Layouts, layouts};
use super::tiers::{TIERS, choose, last_of};
use crate::event::Event;
use crate::facts::ProcessFacts;
use crate::row::{FigureRow, fold_into_steps};

/// A while of which so many points are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    pub(crate) points: u64,
}

/// Rows of a while, and the length of their steps.
#[derive(Debug, Default)]
pub(crate) struct StoredRows {
    pub(crate) step_ms: u64,
    pub(crate) rows: Vec<FigureRow>,
}

/// Which events are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    /// Empty for all.
    pub(crate) kinds: Vec<String>,
    pub(crate) min_ms: f64,
    pub(crate) limit: usize,
}

impl Wish {
    /// Whether an event is among them.
    pub(crate) fn grants(&self, event: &Event) -> bool {
        let within = event.t >= self.from_ms as f64 && event.t <= self.to_ms as f64;
        let long_enough = event.ms().is_none_or(|ms| ms >= self.min_ms);
        within && long_enough && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == event.kind()))
    }
}

/// Events, and how many more there are.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) events: Vec<Event>,
    pub(crate) left_out: u64,
}

/// The key of a process.
pub(super) fn key_of(db: &Connection, id: &str) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT key FROM processes WHERE id = ?1")?.query_row(params![id], |row| row.get(0)).optional()
}

/// The latest processes with history, and when each was last seen.
pub(super) fn processes(db: &Connection) -> rusqlite::Result<Vec<(ProcessFacts, u64)>> {
    let mut select = db.prepare_cached(
        "SELECT id, host, pid, command, python, neurogc, policy, started, service, role, seen FROM processes
         ORDER BY seen DESC LIMIT 1000",
    )?;
    select.query_map([], read_process)?.collect()
}

/// One process with history, and when it was last seen.
pub(super) fn process(db: &Connection, id: &str) -> rusqlite::Result<Option<(ProcessFacts, u64)>> {
    let mut select = db.prepare_cached(
        "SELECT id, host, pid, command, python, neurogc, policy, started, service, role, seen FROM processes
         WHERE id = ?1",
    )?;
    select.query_row(params![id], read_process).optional()
}

fn read_process(row: &rusqlite::Row<'_>) -> rusqlite::Result<(ProcessFacts, u64)> {
    let facts = ProcessFacts {
        id: row.get(0)?,
        host: row.get(1)?,
        pid: row.get(2)?,
        command: row.get(3)?,
        python: row.get(4)?,
        neurogc: row.get(5)?,
        policy: row.get(6)?,
        started_ms: row.get::<_, i64>(7)? as u64,
        service: row.get(8)?,
        role: row.get(9)?,
    };
    Ok((facts, row.get::<_, i64>(10)? as u64))
}

/// The course of a process over a while, down-sampled to the number of points that is wanted.
pub(super) fn course(db: &Connection, id: &str, span: Span, now_ms: u64) -> rusqlite::Result<StoredRows> {
    let length = span.to_ms.saturating_sub(span.from_ms).max(1);
    let wanted = length.div_ceil(span.points.max(1));
    let tier = choose(span.from_ms, now_ms, wanted);
    let tier_ms = tier.step_s * 1000;
    let step_ms = wanted.div_ceil(tier_ms).max(1) * tier_ms;
    let Some(process) = key_of(db, id)? else { return Ok(StoredRows { step_ms, rows: Vec::new() }) };
    let layouts = layouts(db)?;
    let mut rows = read_rows(db, &layouts, process, tier.step_s, span.from_ms, span.to_ms)?;
    if tier != TIERS[0] {
        // What has not been rolled up yet.
        let done = last_of(db, process, tier.step_s)?.max(span.from_ms);
        rows.extend(read_rows(db, &layouts, process, TIERS[0].step_s, done, span.to_ms)?);
    }
    Ok(StoredRows { step_ms, rows: fold_into_steps(rows, step_ms) })
}

/// The rows of one tier after one moment and up to another.
pub(super) fn read_rows(
    db: &Connection,
    layouts: &Layouts,
    process: i64,
    step_s: u64,
    after: u64,
    until: u64,
) -> rusqlite::Result<Vec<FigureRow>> {
    let mut select = db.prepare_cached(
        "SELECT t, layout, figures, latency FROM samples
         WHERE process = ?1 AND step = ?2 AND t > ?3 AND t <= ?4 ORDER BY t",
    )?;
    let mut found = select.query(params![process, step_s as i64, after as i64, until as i64])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let layout: i64 = row.get(1)?;
        let order = layouts.iter().find(|(id, _)| *id == layout).map(|(_, order)| order);
        let (figures, latency) = (row.get_ref(2)?.as_blob()?, row.get_ref(3)?.as_blob()?);
        rows.extend(
            order.and_then(|order| FigureRow::from_bytes(row.get::<_, i64>(0).ok()? as u64, figures, latency, order)),
        );
    }
    Ok(rows)
}

/// The events of a process, the longest of them where there are too many.
pub(super) fn events(db: &Connection, id: &str, wish: &Wish) -> rusqlite::Result<Found> {
    let Some(process) = key_of(db, id)? else { return Ok(Found::default()) };
    let mut select = db.prepare_cached(
        "SELECT batch, longest, notes, count FROM events INDEXED BY events_of
         WHERE process = ?1 AND last >= ?2 AND first <= ?3 ORDER BY notes > 0 DESC, longest DESC",
    )?;
    let batches = select.query_map(params![process, wish.from_ms as i64, wish.to_ms as i64], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?))
    })?;
    let mut blocks = db.prepare_cached("SELECT epoch, blocks FROM events WHERE batch = ?1")?;
    let mut choice = Choice::new(wish.limit);
    for batch in batches {
        let (batch, longest, notes, count) = batch?;
        if longest < wish.min_ms && notes == 0 {
            continue;
        }
        if notes == 0 && choice.is_full_of_longer(longest) {
            choice.left_out += count as u64;
            continue;
        }
        let (epoch, blocks): (f64, Vec<u8>) = blocks.query_row(params![batch], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let records = read_blocks(&blocks).unwrap_or_default();
        for event in records.iter().filter_map(|record| Event::of(record, epoch)).filter(|event| wish.grants(event)) {
            choice.offer(event);
        }
    }
    Ok(choice.made())
}

/// The censuses of a process between two moments, in the order of time. One that cannot be read is left out.
pub(super) fn censuses(
    db: &Connection,
    id: &str,
    (from_ms, to_ms): (u64, u64),
) -> rusqlite::Result<Vec<(u64, Census)>> {
    let Some(process) = key_of(db, id)? else { return Ok(Vec::new()) };
    let mut select =
        db.prepare_cached("SELECT t, rows FROM census WHERE process = ?1 AND t >= ?2 AND t <= ?3 ORDER BY t")?;
    let mut found = select.query(params![process, from_ms as i64, to_ms as i64])?;
    let mut censuses = Vec::new();
    while let Some(row) = found.next()? {
        let t = row.get::<_, i64>(0)? as u64;
        let census = serde_json::from_str(row.get_ref(1)?.as_str()?);
        censuses.extend(census.ok().map(|census| (t, census)));
    }
    Ok(censuses)
}

/// The longest of many events; those without a duration count as longer than all.
#[derive(Debug)]
pub(crate) struct Choice {
    limit: usize,
    events: Vec<Event>,
    /// The shortest that is kept, known since the last time it was cut.
    shortest: f64,
    pub(crate) left_out: u64,
}

impl Choice {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, events: Vec::new(), shortest: 0.0, left_out: 0 }
    }

    fn is_full_of_longer(&self, than: f64) -> bool {
        self.events.len() >= self.limit && than <= self.shortest
    }

    pub(crate) fn offer(&mut self, event: Event) {
        if self.is_full_of_longer(rank(&event)) {
            self.left_out += 1;
            return;
        }
        self.events.push(event);
        if self.events.len() >= 2 * self.limit.max(1) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.events.len() > self.limit {
            self.events.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
            self.left_out += (self.events.len() - self.limit) as u64;
            self.events.truncate(self.limit);
            self.shortest = self.events.last().map_or(0.0, rank);
        }
    }

    /// What was chosen, in the order of time.
    pub(crate) fn made(mut self) -> Found {
        self.cut();
        self.events.sort_by(|a, b| a.t.total_cmp(&b.t));
        Found { events: self.events, left_out: self.left_out }
    }
}

fn rank(event: &Event) -> f64 {
    event.ms().unwrap_or(f64::INFINITY)
}
