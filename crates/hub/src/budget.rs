//! What may be held in memory: for one process, for all of them, and what was dropped because it was over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use neurogc_wire::report::MAX_FRAME;
use serde_json::{Value, json};

/// Processes that are held at once. More are refused: a program that may report could make them up.
pub(crate) const PROCESSES: usize = 5000;

/// Processes of one user that are followed, so that one user cannot take all places.
pub(crate) const PROCESSES_OF_USER: usize = 2000;

/// Reports that are arriving, all together. A report may have `MAX_FRAME`.
pub(crate) const ARRIVING: usize = 64 << 20;

/// The latest figures of one process, and of all.
pub(crate) const FIGURES_EACH: usize = 256 << 10;
pub(crate) const FIGURES: usize = 128 << 20;

/// Events of one process, and everything, that waits to be written.
pub(crate) const WAITING_EACH: u64 = 4 << 20;
pub(crate) const WAITING: u64 = 64 << 20;

/// Messages that wait for one browser, and for all.
pub(crate) const BROWSER_EACH: usize = 8 << 20;
pub(crate) const BROWSERS: usize = 64 << 20;

/// What was dropped because it was over a budget, by which budget.
#[derive(Debug, Default)]
pub(crate) struct Over {
    pub(crate) figures_each: AtomicU64,
    pub(crate) figures_all: AtomicU64,
    pub(crate) events_each: AtomicU64,
    pub(crate) events_all: AtomicU64,
}

/// Something that takes memory while it waits, and gives its bytes back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: u64,
    each: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
}

/// Which budget had no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Each,
    All,
}

impl Held {
    /// Takes bytes of two budgets, or says which one has no room.
    pub(crate) fn take(bytes: u64, each: &Arc<AtomicU64>, all: &Arc<AtomicU64>) -> Result<Self, Full> {
        if !grow(each, bytes, WAITING_EACH) {
            return Err(Full::Each);
        }
        if !grow(all, bytes, WAITING) {
            each.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Full::All);
        }
        Ok(Self { bytes, each: Arc::clone(each), all: Arc::clone(all) })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.each.fetch_sub(self.bytes, Ordering::Relaxed);
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn grow(used: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let grown = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
}

impl Over {
    /// Counts, by budget.
    pub(crate) fn report(&self) -> Value {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "figures_of_a_process": count(&self.figures_each),
            "figures_of_all": count(&self.figures_all),
            "events_of_a_process": count(&self.events_each),
            "events_of_all": count(&self.events_all),
        })
    }
}

/// All limits, as `GET /api/v1/hub` tells them: bytes, but for the first two.
pub(crate) fn limits() -> Value {
    json!({
        "processes": PROCESSES,
        "processes_of_a_user": PROCESSES_OF_USER,
        "report": MAX_FRAME,
        "reports_arriving": ARRIVING,
        "figures_of_a_process": FIGURES_EACH,
        "figures_of_all": FIGURES,
        "events_of_a_process": WAITING_EACH,
        "events_of_all": WAITING,
        "messages_of_a_browser": BROWSER_EACH,
        "messages_of_all": BROWSERS,
        "recording": crate::shelf::LONGEST,
        "recordings_on_disk": crate::shelf::MOST,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_and_given_back() {
        let (one, other, all) = (Arc::default(), Arc::default(), Arc::default());
        let held = Held::take(WAITING_EACH, &one, &all).unwrap();
        assert_eq!(Held::take(1, &one, &all).unwrap_err(), Full::Each);
        all.store(WAITING, Ordering::Relaxed);
        assert_eq!(Held::take(1, &other, &all).unwrap_err(), Full::All);
        assert_eq!(other.load(Ordering::Relaxed), 0);
        all.store(WAITING_EACH, Ordering::Relaxed);
        drop(held);
        assert_eq!((one.load(Ordering::Relaxed), all.load(Ordering::Relaxed)), (0, 0));
    }
}
