//! What has happened since those who follow this process were last told.

use neurogc_wire::trace::{BlockWriter, Record};

use crate::sys::wake::UPLINK;

/// More than this is not kept from one round of the uplink to the next.
const MOST: usize = 64 * 1024;

/// Records that the uplink has not sent to hubs and followers yet.
#[derive(Debug, Default)]
pub(crate) struct PendingRecords {
    block: BlockWriter,
    events: u64,
    missed: u64,
    /// Nothing had happened when the uplink last looked, so that it sleeps until it is told.
    quiet: bool,
    /// Whether everything is kept that a trace records, because hubs keep traces of this process.
    whole: bool,
}

/// A closed block and what it holds.
#[derive(Debug, Default)]
pub(crate) struct Bulletin {
    pub(crate) block: Vec<u8>,
    pub(crate) events: u64,
    /// Events that found no room.
    pub(crate) missed: u64,
}

impl PendingRecords {
    /// Nothing yet.
    pub(crate) fn new(whole: bool) -> Self {
        Self { whole, ..Self::default() }
    }

    /// Whether everything is kept that a trace records.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Adds what is news to a hub. Requests and gaps are too many for that, unless it keeps a trace; figures tell of them.
    pub(crate) fn take_in(&mut self, record: &Record) {
        let news = self.whole
            || matches!(
                record,
                Record::Collection { .. } | Record::Stall { .. } | Record::Order { .. } | Record::Dropped { .. }
            );
        if !news {
            return;
        }
        if std::mem::take(&mut self.quiet) {
            UPLINK.wake();
        }
        if self.block.size() > MOST {
            self.missed += 1;
            return;
        }
        self.block.push(record);
        self.events += 1;
    }

    /// Whether nothing has happened.
    pub(crate) fn is_empty(&self) -> bool {
        self.block.is_empty() && self.missed == 0
    }

    /// Hands out what there is, and starts anew.
    pub(crate) fn take(&mut self) -> Bulletin {
        self.quiet = self.is_empty();
        let block = if self.block.is_empty() { Vec::new() } else { self.block.take() };
        Bulletin { block, events: std::mem::take(&mut self.events), missed: std::mem::take(&mut self.missed) }
    }
}

impl Bulletin {
    /// Whether there is nothing to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.events == 0 && self.missed == 0
    }
}

#[cfg(test)]
mod tests {
    use neurogc_wire::trace::read_block;

    use super::*;

    #[test]
    fn a_hub_that_keeps_a_trace_is_sent_all_of_it() {
        let told = |whole| {
            let mut news = PendingRecords::new(whole);
            news.take_in(&Record::RequestStart { at: 1, id: 1 });
            news.take_in(&Record::Dropped { at: 2, count: 1 });
            news.take_in(&Record::Heap { at: 3, gathered: 1, tenured: 2, pending: 3 });
            news.take().events
        };
        assert_eq!((told(false), told(true)), (1, 3));
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut news = PendingRecords::default();
        for at in 0..100_000 {
            news.take_in(&Record::Dropped { at, count: 1 });
            news.take_in(&Record::RequestStart { at, id: at });
        }
        let told = news.take();
        assert_eq!(told.events + told.missed, 100_000);
        assert!(told.missed > 0 && told.block.len() < MOST + 100);
        assert_eq!(read_block(&told.block).map(|(_, records)| records.len() as u64), Ok(told.events));
        assert_eq!((news.take().events, news.take().block.len()), (0, 0));
    }
}
