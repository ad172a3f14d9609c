//! What runs inside the program's own threads: a few atomics and a bounded queue.
//!
//! Everything here is called with the program waiting: no waiting for locks, no allocation, and no system call but those
//! that ask the kernel when a request arrived and how much processor time a thread has used, and the one that wakes a
//! dozing sampler. An event that finds the queue full is counted and forgotten.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;

use crossbeam_queue::ArrayQueue;
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::Place;

use super::arrivals::{Arrival, ArrivalSource, Before, Lately, since_sent, wait_of};
use super::routes::{RouteId, RouteNames};
use super::seen_requests::SeenRequests;
use super::training::LoopProgress;
use crate::sys::native::{monotonic_ns, thread_cpu_ns};
use crate::sys::sockets::{Peers, Way};
use crate::sys::wake::SAMPLER;

/// How many events may wait for the sampler. It empties the queue at least every 50 ms, so this lasts for 20 000
/// requests per second. A longer queue would cost the program more: every event goes to memory that is not in its cache.
/// Tests make many agents that live for a few events.
const QUEUE: usize = if cfg!(test) { 128 } else { 2048 };

/// For so long after a request that had not waited, those that follow in its thread have not waited either, unless a
/// collection stopped the program: the thread was waiting for requests just before. What they may have waited is less than
/// a tick, in which the kernel counts.
const CALM_NS: u64 = 2_000_000;

/// For a request about whose thread nothing is known: no time that it worked follows from this.
const NOTHING_SERVED: ((u64, u64), u64) = ((0, 0), u64::MAX);

thread_local! {
    /// When the kernel last said that a request of this thread has not waited.
    static CALM_AT: Cell<u64> = const { Cell::new(0) };

    /// From when to when this thread served its last request, and the processor time that it had used at its end.
    static SERVED: Cell<((u64, u64), u64)> = const { Cell::new(((0, 0), 0)) };
}

/// Something that happened in the program. Times are `monotonic_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookEvent {
    /// A request began.
    Start { at: u64, id: u64, wait: u64, known: ArrivalSource },
    /// A request ended.
    End { at: u64, open: Open, route: RouteId },
    /// A collection or another stop ended. `order` is the id of the order that led to it, 0 where none is known.
    Collection {
        at: u64,
        pause: u64,
        kind: StopKind,
        place: Place,
        /// The order that led to it; zero for none of ours.
        order: u64,
        gathered: u32,
        collected: u32,
        uncollectable: u32,
    },
}

/// Who ordered a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordered {
    /// CPython by itself, or the program.
    ByOthers,
    /// The policy, in a gap.
    InGap,
    /// The policy, wherever it fell.
    Anywhere,
    /// A guard.
    ByGuard,
    /// A slice of what a snapshot found, of which it is a part.
    InSlice,
}

/// The program's side of the agent.
#[derive(Debug)]
pub(crate) struct Hooks {
    events: ArrayQueue<HookEvent>,
    dropped: AtomicU64,
    in_flight: AtomicU64,
    next_id: AtomicU64,
    progress: AtomicU64,
    collecting_since: AtomicU64,
    /// The thread that collects, as `pthread_self` has it.
    collecting_in: AtomicUsize,
    gathered: AtomicU32,
    /// From when to when the program was stopped last.
    stop: [AtomicU64; 2],
    /// The GIL was held nearly all the time lately.
    crowded: AtomicBool,
    peers: Peers,
    pub(crate) routes: RouteNames,
    /// What forecasts go by.
    pub(crate) seen: Arc<SeenRequests>,
    /// How far a training loop has come.
    pub(crate) training: LoopProgress,
    /// The sampler, while it dozes.
    dozing: AtomicBool,
    sampler: Mutex<Option<Thread>>,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            events: ArrayQueue::new(QUEUE),
            dropped: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            next_id: AtomicU64::new(0),
            progress: AtomicU64::new(0),
            collecting_since: AtomicU64::new(0),
            collecting_in: AtomicUsize::new(0),
            gathered: AtomicU32::new(0),
            stop: [AtomicU64::new(0), AtomicU64::new(0)],
            crowded: AtomicBool::new(false),
            peers: Peers::default(),
            routes: RouteNames::default(),
            seen: Arc::default(),
            training: LoopProgress::default(),
            dozing: AtomicBool::new(false),
            sampler: Mutex::new(None),
        }
    }
}

/// A request that has begun; its owner must end it exactly once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) id: u64,
    pub(crate) began: u64,
    pub(crate) arrival: Arrival,
}

impl Hooks {
    /// When a request has arrived that the application sees now, and its peer where that had to be asked for.
    pub(crate) fn arrival(&self, peer: impl FnOnce() -> Option<SocketAddr>) -> (Arrival, Option<SocketAddr>) {
        let [began, ended] = [0, 1].map(|edge: usize| self.stop[edge].load(Ordering::Relaxed));
        let crowded = self.crowded.load(Ordering::Relaxed);
        let calm_at = CALM_AT.get();
        if !crowded && ended <= calm_at && monotonic_ns() < calm_at + CALM_NS && self.collecting_since().is_none() {
            return (Arrival { known: ArrivalSource::Socket, ..Arrival::default() }, None);
        }
        let peer = peer();
        let Some(told) = peer.and_then(|peer| self.peers.last_data(peer, Way::Received)) else {
            return (Arrival { known: ArrivalSource::Unknown, ..Arrival::default() }, peer);
        };
        if told.ticks == 0 {
            CALM_AT.set(told.now);
        }
        let (request, used) = SERVED.get();
        let before = Before { request, worked: thread_cpu_ns().saturating_sub(used) };
        let wait = wait_of(told, Lately { crowded, stop: (began, ended), before });
        (Arrival { wait, known: ArrivalSource::Socket, ..Arrival::default() }, peer)
    }

    /// A request begins.
    pub(crate) fn begin(&self, arrival: Arrival) -> Open {
        let open = Open { id: self.next_id.fetch_add(1, Ordering::Relaxed), began: monotonic_ns(), arrival };
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.push(HookEvent::Start { at: open.began, id: open.id, wait: arrival.wait, known: arrival.known });
        self.progress();
        open
    }

    /// A request has sent its last byte. Sending lets go of the GIL: where other threads want it, the client has its answer
    /// long before this thread runs again, and the kernel knows since when.
    pub(crate) fn end(&self, open: Open, route: RouteId, peer: Option<SocketAddr>) {
        let mut at = monotonic_ns();
        if let Some(peer) = peer.filter(|_| self.crowded.load(Ordering::Relaxed))
            && let Some(told) = self.peers.last_data(peer, Way::Sent)
        {
            at = at.saturating_sub(since_sent(told, at.saturating_sub(open.began)));
        }
        // Where the kernel was not asked, it is not asked for the next request either, or too late for this to matter.
        SERVED.set(peer.map_or(NOTHING_SERVED, |_| ((open.began, at), thread_cpu_ns())));
        self.push(HookEvent::End { at, open, route });
        self.seen.end(route, self.in_flight() == 1);
        // Only now: what is not in flight any more can be counted.
        self.in_flight.fetch_sub(1, Ordering::Release);
        self.progress();
    }

    /// The program came to a point where it could have done something else.
    pub(crate) fn progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
        self.rouse();
    }

    /// A collection begins in a thread, with so many young objects gathered.
    pub(crate) fn collection_starts(&self, gathered: u32, thread: usize) {
        self.collecting_in.store(thread, Ordering::Relaxed);
        self.gathered.store(gathered, Ordering::Relaxed);
        self.rouse();
        self.collecting_since.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// The collection that began last is over; gives when it began. `order` is the id of the
    /// order that led to it, or 0.
    pub(crate) fn collection_stops(
        &self,
        kind: StopKind,
        ordered: Ordered,
        order: u64,
        collected: u32,
        uncollectable: u32,
    ) -> Option<u64> {
        let began = self.collecting_since.swap(0, Ordering::Relaxed);
        // Without a start (the agent came in the middle of a collection) there is nothing to report.
        if began == 0 {
            return None;
        }
        self.stopped(kind, began, ordered, order, collected, uncollectable);
        Some(began)
    }

    /// Young objects that had gathered when the last collection began.
    pub(crate) fn gathered(&self) -> u32 {
        self.gathered.load(Ordering::Relaxed)
    }

    /// The thread that is in a collection now, if one is.
    pub(crate) fn collecting_thread(&self) -> Option<usize> {
        self.collecting_since().map(|_| self.collecting_in.load(Ordering::Relaxed))
    }

    /// Requests that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.next_id.load(Ordering::Relaxed).saturating_sub(self.in_flight())
    }

    /// The program stood still from `began` until now. `order` is the id of the order that led to it, or 0.
    pub(crate) fn stopped(
        &self,
        kind: StopKind,
        began: u64,
        ordered: Ordered,
        order: u64,
        collected: u32,
        uncollectable: u32,
    ) {
        let place = match ordered {
            // It is a part of a slice, which is noted as a whole.
            Ordered::InSlice => return,
            Ordered::ByGuard => Place::Forced,
            Ordered::InGap => Place::InGap,
            Ordered::ByOthers | Ordered::Anywhere if self.in_flight() > 0 => Place::InRequest,
            Ordered::ByOthers | Ordered::Anywhere => Place::InGap,
        };
        let ended = monotonic_ns();
        self.stop[0].store(began, Ordering::Relaxed);
        self.stop[1].store(ended, Ordering::Relaxed);
        self.push(HookEvent::Collection {
            at: began,
            pause: ended.saturating_sub(began),
            kind,
            place,
            order,
            gathered: self.gathered.load(Ordering::Relaxed),
            collected,
            uncollectable,
        });
    }

    /// Wakes the sampler if it dozes, which it does only after a long idle time.
    fn rouse(&self) {
        if self.dozing.load(Ordering::Relaxed) && self.dozing.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the sampler, without waiting for it.
    pub(crate) fn wake(&self) {
        SAMPLER.wake();
        if let Ok(sampler) = self.sampler.try_lock()
            && let Some(sampler) = &*sampler
        {
            sampler.unpark();
        }
    }

    /// The sampler says whether the GIL is held nearly all the time.
    pub(crate) fn is_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// The sampler says that it may sleep long, or that it is awake.
    pub(crate) fn doze(&self, dozing: bool) {
        self.dozing.store(dozing, Ordering::Relaxed);
    }

    /// The calling thread is the sampler from now on.
    pub(crate) fn be_sampled_by_this_thread(&self) {
        if let Ok(mut sampler) = self.sampler.lock() {
            *sampler = Some(std::thread::current());
        }
    }

    fn push(&self, event: HookEvent) {
        if self.events.push(event).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes the oldest event from the queue.
    pub(crate) fn take(&self) -> Option<HookEvent> {
        self.events.pop()
    }

    /// Requests being served now.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Gaps between requests so far, where the program is in one and no event waits.
    pub(crate) fn gaps_if_quiet(&self) -> Option<u64> {
        let begun = self.next_id.load(Ordering::Acquire);
        let is_quiet = || self.events.is_empty() && self.in_flight() == 0;
        let gaps = is_quiet().then(|| self.seen.gaps());
        gaps.filter(|_| is_quiet() && self.next_id.load(Ordering::Acquire) == begun)
    }

    /// How often the program has come to a point where it could have done something else.
    pub(crate) fn progress_made(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// When the collection that is running now began.
    pub(crate) fn collecting_since(&self) -> Option<u64> {
        let since = self.collecting_since.load(Ordering::Relaxed);
        (since != 0).then_some(since)
    }

    /// Events that found the queue full.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts() {
        let hooks = Hooks::default();
        for _ in 0..QUEUE + 10 {
            hooks.collection_starts(9, 1);
            hooks.collection_stops(StopKind::Young, Ordered::ByOthers, 0, 1, 0);
        }
        assert_eq!(hooks.dropped(), 10);
        assert_eq!(std::iter::from_fn(|| hooks.take()).count(), QUEUE);
    }

    #[test]
    fn a_collection_in_a_request_says_so() {
        let hooks = Hooks::default();
        let open = hooks.begin(Arrival::default());
        hooks.collection_starts(9, 1);
        hooks.collection_stops(StopKind::Full, Ordered::Anywhere, 5, 7, 0);
        hooks.end(open, RouteId::default(), None);
        let events: Vec<_> = std::iter::from_fn(|| hooks.take()).collect();
        assert!(matches!(
            events[1],
            HookEvent::Collection {
                kind: StopKind::Full,
                order: 5,
                place: Place::InRequest,
                gathered: 9,
                collected: 7,
                ..
            }
        ));
        assert_eq!((events.len(), hooks.in_flight()), (3, 0));
    }

    #[test]
    fn the_kernel_is_not_asked_right_after_a_request_that_had_not_waited() {
        let hooks = Hooks::default();
        let asks = |hooks: &Hooks| {
            let asked = Cell::new(false);
            hooks.arrival(|| {
                asked.set(true);
                None
            });
            asked.get()
        };
        assert!(asks(&hooks), "nothing is known yet");
        // Ahead of time, so that a slow machine is not too late.
        CALM_AT.set(monotonic_ns() + 60_000_000_000);
        assert!(!asks(&hooks));
        hooks.is_crowded(true);
        assert!(asks(&hooks), "threads compete for the GIL");
        hooks.is_crowded(false);
        hooks.collection_starts(9, 1);
        assert!(asks(&hooks), "a finalizer of a collection lets requests begin");
        hooks.collection_stops(StopKind::Full, Ordered::ByOthers, 0, 7, 0);
        CALM_AT.set(monotonic_ns() - CALM_NS);
        assert!(asks(&hooks), "it is too long ago");
        CALM_AT.set(hooks.stop[1].load(Ordering::Relaxed) - 1);
        assert!(asks(&hooks), "a collection has stopped the program since then");
    }

    #[test]
    fn a_stop_without_a_start_is_no_collection() {
        let hooks = Hooks::default();
        hooks.collection_stops(StopKind::Full, Ordered::ByOthers, 0, 7, 0);
        assert_eq!(hooks.take(), None);
    }
}
