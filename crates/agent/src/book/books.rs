//! All books of one process, and the blocks of its trace that wait to be written.

use std::sync::{Mutex, MutexGuard};

use crossbeam_queue::ArrayQueue;

use super::census::CensusBook;
use super::growth::GrowthBook;
use super::ledger::Ledger;
use crate::act::census::OwnCensus;
use crate::host::Host;
use crate::sense::sensors::Sensors;
use crate::sys::locks::lock;
use crate::sys::wake::UPLINK;

/// Trace blocks that may wait to be written.
const BLOCKS: usize = 16;

/// What is recorded.
#[derive(Debug)]
pub(crate) struct Books {
    ledger: Mutex<Ledger>,
    /// What the latest censuses have found.
    pub(crate) census: Mutex<CensusBook>,
    /// How memory grows.
    pub(crate) growth: Mutex<GrowthBook>,
    /// Blocks of the trace on their way to the file.
    pub(crate) blocks: ArrayQueue<Vec<u8>>,
}

impl Books {
    /// Empty ones, of a process that is traced or not.
    pub(crate) fn new(installed: u64, traced: bool) -> Self {
        Self {
            ledger: Mutex::new(Ledger::new(installed, traced)),
            census: Mutex::default(),
            growth: Mutex::default(),
            blocks: ArrayQueue::new(BLOCKS),
        }
    }

    /// The ledger. A thread that panicked while it held it has left it readable.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// Follows how memory grows, if that is due.
    pub(crate) fn attend_growth(&self, host: &Host, sensors: &Sensors, census: &OwnCensus, now: u64) {
        lock(&self.growth).attend(host, sensors, &self.ledger, census, now);
    }

    /// Closes the trace's block and hands it to the uplink; one that finds no room is lost and counted.
    pub(crate) fn close_block(&self, ledger: &mut Ledger) {
        if let Some(trace) = ledger.trace.as_mut().filter(|trace| !trace.is_empty()) {
            if self.blocks.push(trace.take()).is_err() {
                ledger.lost_blocks += 1;
            }
            UPLINK.wake();
        }
    }
}
