//! Who comes to the interpreter, and in which order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::workload::{Pace, Request, Workload};

/// A request that comes to the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Visit {
    /// When.
    pub(crate) ready: u64,
    /// With which request.
    pub(crate) index: usize,
    /// How often it has been there before.
    pub(crate) number: u32,
    /// When it came first, and when its first turn was.
    pub(crate) came: u64,
    pub(crate) began: u64,
}

/// Who comes, in the order in which they come: new requests, and those that have waited for others. Users who wait for
/// answers come when they have got them.
pub(crate) struct IncomingRequests<'w> {
    requests: &'w [Request],
    next: usize,
    open: bool,
    /// All whose time is known and who are not in the list of requests.
    later: BinaryHeap<Reverse<Visit>>,
}

impl<'w> IncomingRequests<'w> {
    pub(crate) fn new(workload: &'w Workload) -> Self {
        let mut arrivals = Self { requests: &workload.requests, next: 0, open: true, later: BinaryHeap::new() };
        if let Pace::Closed(count) = workload.pace {
            arrivals.open = false;
            (0..count).for_each(|_| arrivals.answered(workload.start.at));
        }
        arrivals
    }

    pub(crate) fn next(&mut self) -> Option<Visit> {
        let new = self.requests.get(self.next).filter(|_| self.open);
        match (new, self.later.peek()) {
            (Some(new), later) if later.is_none_or(|later| new.at <= later.0.ready) => {
                self.next += 1;
                Some(Visit::first(self.next - 1, new.at))
            }
            _ => self.later.pop().map(|later| later.0),
        }
    }

    /// A request will go on.
    pub(crate) fn returns(&mut self, visit: Visit) {
        self.later.push(Reverse(visit));
    }

    /// A user has got an answer, and thinks about the next request.
    pub(crate) fn answered(&mut self, at: u64) {
        if let (false, Some(request)) = (self.open, self.requests.get(self.next)) {
            self.later.push(Reverse(Visit::first(self.next, at + request.at)));
            self.next += 1;
        }
    }
}

impl Visit {
    fn first(index: usize, came: u64) -> Self {
        Self { ready: came, index, number: 0, came, began: came }
    }
}
