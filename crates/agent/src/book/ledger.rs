//! What the agent knows: the senses' results, behind one lock that is never held for long.

use neurogc_policy::Order;
use neurogc_wire::trace::{BlockWriter, Record, WaitSource};

use crate::book::hub_batch::PendingRecords;
use crate::book::order_log::{OrderLog, is_notable, kind};
use crate::book::recent::Recent;
use crate::book::troubles::Troubles;
use crate::sense::arrivals::{Arrival, ArrivalSource, Imputation};
use crate::sense::collections::{Collection, CollectionLog};
use crate::sense::gaps::{GapLog, GapSpan};
use crate::sense::hooks::{HookEvent, Open};
use crate::sense::process::ProcessFigures;
use crate::sense::requests::{EndedRequest, RequestLog};
use crate::sense::stall_log::{StallLog, StopFacts};
use crate::sense::stalls::EndedStall;
use crate::snapshot::Latest;

/// The books of one process.
#[derive(Debug)]
pub(crate) struct Ledger {
    installed: u64,
    pub(crate) collections: CollectionLog,
    pub(crate) requests: RequestLog,
    pub(crate) gaps: GapLog,
    pub(crate) stalls: StallLog,
    pub(crate) orders: OrderLog,
    /// The last minutes.
    pub(crate) recent: Recent,
    pub(crate) seen: ProcessFigures,
    /// What went wrong while running, in words.
    pub(crate) troubles: Troubles,
    /// Processor time of the sampler and of the uplink.
    pub(crate) sampler_cpu_ns: u64,
    pub(crate) uplink_cpu_ns: u64,
    /// Trace blocks that could not be written.
    pub(crate) lost_blocks: u64,
    /// The block of the trace that is being filled, if one is recorded.
    pub(crate) trace: Option<BlockWriter>,
    /// Records that followers and hubs have not got yet; `None` while there are none.
    pub(crate) news: Option<PendingRecords>,
    imputation: Imputation,
    dropped_noted: u64,
}

impl Ledger {
    pub(crate) fn new(installed: u64, traced: bool) -> Self {
        Self {
            installed,
            collections: CollectionLog::default(),
            requests: RequestLog::default(),
            gaps: GapLog::default(),
            stalls: StallLog::default(),
            orders: OrderLog::default(),
            recent: Recent::new(installed),
            seen: ProcessFigures::default(),
            troubles: Troubles::default(),
            sampler_cpu_ns: 0,
            uplink_cpu_ns: 0,
            lost_blocks: 0,
            trace: traced.then(BlockWriter::new),
            news: None,
            imputation: Imputation::default(),
            dropped_noted: 0,
        }
    }

    /// Whether everything is recorded that a trace holds, for a file or for hubs.
    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some() || self.news.as_ref().is_some_and(PendingRecords::is_whole)
    }

    /// Adds a trouble once.
    pub(crate) fn trouble(&mut self, what: String) {
        self.troubles.add(what);
    }

    /// Books an event from the program.
    pub(crate) fn event(&mut self, event: HookEvent) {
        match event {
            HookEvent::Start { at, id, wait, known } => self.begins(at, id, wait, known),
            HookEvent::End { at, open: Open { id, began, arrival }, route } => {
                let imputed = self.imputation.ends(at, id);
                let Arrival { wait, known, trace } = arrival;
                let wait = imputed.unwrap_or(wait);
                let served = EndedRequest { began, ended: at, wait, known, gc: 0, route, trace };
                let gc = self.collections.during(served.span());
                let served = EndedRequest { gc, ..served };
                self.requests.add(&served, self.second(at));
                self.recent.request(&served);
                self.record(at, |at| Record::RequestEnd { at, id });
            }
            HookEvent::Collection { at, pause, kind, order, place, collected, uncollectable, .. } => {
                let collection = Collection { at, pause, kind, place, collected, uncollectable, order };
                self.collections.add(collection, self.second(at + pause));
                self.requests.collected((at, at + pause));
                self.imputation.stopped(at, at + pause);
                self.settle(at + pause);
            }
        }
    }

    fn begins(&mut self, at: u64, id: u64, wait: u64, known: ArrivalSource) {
        self.record(at, |at| Record::RequestStart { at, id });
        self.recent.begins(at);
        let imputed = self.imputation.begins(at, id, known == ArrivalSource::Unknown);
        let wait = imputed.unwrap_or(wait);
        if wait == 0 {
            return;
        }
        self.collections.waited(at.saturating_sub(wait), at);
        let source = match known {
            ArrivalSource::Socket => WaitSource::Socket,
            ArrivalSource::Proxy => WaitSource::Proxy,
            ArrivalSource::Inside | ArrivalSource::Unknown => WaitSource::Estimated,
        };
        self.record(at, |at| Record::RequestWait { at, id, wait, source });
    }

    /// Records the stops of which it is known by now whether requests waited for them.
    pub(crate) fn settle(&mut self, now: u64) {
        while let Some(settled) = self.collections.settle(now) {
            self.recent.stop(&settled);
            let Collection { at, pause, kind, place, collected, uncollectable, order } = settled;
            self.record(at, |at| Record::Collection {
                at,
                pause,
                kind,
                place,
                collected: u64::from(collected),
                uncollectable: u64::from(uncollectable),
                order: (order != 0).then_some(order),
            });
        }
    }

    /// The second of the agent's life that a moment falls into.
    pub(crate) fn second(&self, at: u64) -> u64 {
        at.saturating_sub(self.installed) / 1_000_000_000
    }

    /// Books a stall, and the stop that it was.
    pub(crate) fn stall(&mut self, verdict: EndedStall, stop: Option<StopFacts>) {
        self.stalls.add(&verdict, stop, self.installed);
        self.recent.stall(&verdict, stop);
        // A collection is beside its requests already.
        if !self.collections.is_one(verdict.at, verdict.duration) {
            self.requests.stalled((verdict.at, verdict.at + verdict.duration), verdict.cause);
        }
        let EndedStall { at, duration, cause, site, .. } = verdict;
        self.record(at, |at| Record::Stall { at, duration, cause, site });
    }

    /// Books an order that was carried out.
    pub(crate) fn order(&mut self, at: u64, order: Order) {
        self.orders.add(order, at.saturating_sub(self.installed));
        let Order { reason, forced: guard, id, .. } = order;
        if let Some(what) = kind(order).filter(|_| is_notable(order)) {
            self.record(at, |at| Record::Order { at, id, guard, what, reason: reason.to_owned() });
        }
    }

    /// Books a busy-idle pair of the GIL.
    pub(crate) fn gap(&mut self, gap: GapSpan) {
        self.record(gap.at, |at| Record::Gap { at, busy: gap.busy, idle: gap.idle });
    }

    /// Books the collector's counters.
    pub(crate) fn counts(&mut self, at: u64, counts: [u32; 3]) {
        self.record(at, |at| Record::Counts { at, counts });
    }

    /// Books what a collection found and left.
    pub(crate) fn heap(&mut self, at: u64, gathered: u32, tenured: u64, pending: u64) {
        self.record(at, |at| Record::Heap { at, gathered: u64::from(gathered), tenured, pending });
    }

    /// Books a snapshot that has been walked.
    pub(crate) fn flight(&mut self, at: u64, latest: &Latest) {
        let Latest { flight_ns: lasted, faults, tracked: objects, candidates: found, .. } = *latest;
        self.record(at, |at| Record::Flight { at, lasted, faults, objects, found });
    }

    /// Books a look at the process.
    pub(crate) fn process(&mut self, at: u64, seen: ProcessFigures) {
        self.seen = seen;
        self.record(at, |at| Record::Process { at, rss: seen.memory.rss, cpu_us: seen.cpu_us });
    }

    /// Books what the queue has dropped so far.
    pub(crate) fn dropped(&mut self, at: u64, total: u64) {
        let count = total - std::mem::replace(&mut self.dropped_noted, total);
        if count > 0 {
            self.record(at, |at| Record::Dropped { at, count });
        }
    }

    fn record(&mut self, at: u64, record: impl FnOnce(u64) -> Record) {
        if self.trace.is_none() && self.news.is_none() {
            return;
        }
        let record = record(at.saturating_sub(self.installed));
        if let Some(news) = &mut self.news {
            news.take_in(&record);
        }
        if let Some(trace) = &mut self.trace {
            trace.push(&record);
        }
    }
}

#[cfg(test)]
mod tests {
    use neurogc_policy::Decision;
    use neurogc_wire::stop::StopKind;
    use neurogc_wire::trace::{OrderKind, Place, read_block};

    use super::*;

    #[test]
    fn an_order_and_what_it_led_to_share_an_id() {
        let mut ledger = Ledger::new(100, true);
        let order = Order { id: 7, ..Order::forced(Decision::Full, "memory: near its ceiling") };
        ledger.order(105, order);
        let (kind, place) = (StopKind::Full, Place::Forced);
        let (at, pause, collected, uncollectable) = (105, 9, 3, 0);
        let gathered = 1;
        let event = HookEvent::Collection { at, pause, kind, order: 7, place, gathered, collected, uncollectable };
        ledger.event(event);
        let block = ledger.trace.as_mut().map(BlockWriter::take).unwrap_or_default();
        let reason = "memory: near its ceiling".to_owned();
        let expected = vec![
            Record::Order { at: 5, id: 7, guard: true, what: OrderKind::Full, reason },
            Record::Collection { at: 5, pause, kind, place, collected: 3, uncollectable: 0, order: Some(7) },
        ];
        assert_eq!(read_block(&block), Ok((block.len(), expected)));
    }
}
