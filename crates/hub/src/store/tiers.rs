//! How fine history is kept for how long, and how seconds become minutes.

use rusqlite::{Connection, params};
use serde::Serialize;

use super::reader::read_rows;
use super::schema::Layouts;
use crate::row::{FigureRow, fold_into_steps};

/// Rows of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Tier {
    pub(crate) step_s: u64,
    pub(crate) keep_s: u64,
}

/// From fine to coarse.
pub(crate) const TIERS: [Tier; 3] = [
    Tier { step_s: 1, keep_s: 2 * 3600 },
    Tier { step_s: 10, keep_s: 24 * 3600 },
    Tier { step_s: 60, keep_s: MAX_AGE_S },
];

/// Nothing is kept for longer.
pub(crate) const MAX_AGE_S: u64 = 7 * 24 * 3600;

/// The tier to draw a while from: the coarsest that is fine enough, among those that reach back to its begin.
pub(super) fn choose(from_ms: u64, now_ms: u64, wanted_ms: u64) -> Tier {
    let age_s = now_ms.saturating_sub(from_ms) / 1000;
    let finest = TIERS.iter().position(|tier| tier.keep_s >= age_s).unwrap_or(TIERS.len() - 1);
    let reaching = &TIERS[finest..];
    *reaching.iter().rev().find(|tier| tier.step_s * 1000 <= wanted_ms).unwrap_or(&reaching[0])
}

/// Makes coarse rows of fine ones, as far as whole steps have passed, for one process.
pub(super) fn roll_up(
    db: &Connection,
    layouts: &Layouts,
    layout: i64,
    process: i64,
    now_ms: u64,
) -> rusqlite::Result<()> {
    for tier in &TIERS[1..] {
        let step = tier.step_s * 1000;
        let done = last_of(db, process, tier.step_s)?;
        // The second that is coming in may still be written.
        let until = now_ms.saturating_sub(2000) / step * step;
        if done + step > until {
            continue;
        }
        let rows = read_rows(db, layouts, process, TIERS[0].step_s, done, until)?;
        insert(db, layout, process, tier.step_s, &fold_into_steps(rows, step))?;
    }
    Ok(())
}

/// The end of what a process has of a tier.
pub(super) fn last_of(db: &Connection, process: i64, step_s: u64) -> rusqlite::Result<u64> {
    let mut select = db.prepare_cached("SELECT max(t) FROM samples WHERE process = ?1 AND step = ?2")?;
    let last: Option<i64> = select.query_row(params![process, step_s as i64], |row| row.get(0))?;
    Ok(last.unwrap_or(0) as u64)
}

/// Writes rows of one process.
pub(super) fn insert(
    db: &Connection,
    layout: i64,
    process: i64,
    step_s: u64,
    rows: &[FigureRow],
) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached(
        "INSERT OR REPLACE INTO samples (process, step, t, layout, figures, latency) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for row in rows {
        let (figures, latency) = row.to_bytes();
        insert.execute(params![process, step_s as i64, row.t as i64, layout, figures, latency])?;
    }
    Ok(())
}

/// Deletes what is too old.
pub(super) fn expire(db: &Connection, now_ms: u64) -> rusqlite::Result<()> {
    let processes: Vec<i64> =
        db.prepare_cached("SELECT key FROM processes")?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut delete = db.prepare_cached("DELETE FROM samples WHERE process = ?1 AND step = ?2 AND t < ?3")?;
    for process in processes {
        for tier in TIERS {
            let before = now_ms.saturating_sub(tier.keep_s * 1000);
            delete.execute(params![process, tier.step_s as i64, before as i64])?;
        }
    }
    let before = now_ms.saturating_sub(MAX_AGE_S * 1000) as i64;
    db.execute("DELETE FROM events WHERE last < ?1", params![before])?;
    db.execute("DELETE FROM census WHERE t < ?1", params![before])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarsest_that_is_fine_enough_is_drawn_from() {
        let now = 10_000_000_000;
        let ago = |seconds: u64| now - seconds * 1000;
        assert_eq!(choose(ago(60), now, 100).step_s, 1);
        assert_eq!(choose(ago(3600), now, 6_000).step_s, 1);
        assert_eq!(choose(ago(6 * 3600), now, 36_000).step_s, 10);
        assert_eq!(choose(ago(7 * 86_400), now, 1_000_000).step_s, 60);
        assert_eq!(choose(ago(3 * 86_400), now, 100).step_s, 60);
        assert_eq!(choose(ago(8 * 86_400), now, 100).step_s, 60);
    }
}
