//! `every:N`: no automatic collection, a full one after each N requests, as people do by hand.

use super::{CollectionControl, Policy};
use crate::observation::{Decision, Observation, Order};

/// Counts requests.
#[derive(Debug)]
pub(super) struct Every {
    count: u64,
    due: u64,
}

impl Every {
    pub(super) fn new(count: u32) -> Self {
        let count = u64::from(count);
        Self { count, due: count }
    }
}

impl Policy for Every {
    fn control(&self) -> CollectionControl {
        // High, and not zero: where requests or the agent end, CPython still collects.
        CollectionControl::Bounded([100_000, 10, 10])
    }

    fn decide(&mut self, observation: &Observation) -> Order {
        if observation.requests < self.due {
            return Order::WAIT;
        }
        self.due = observation.requests + self.count;
        Order::at_once(Decision::Full, "so many requests have been served")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hundredth_request_collects() {
        let mut policy = Every::new(100);
        let full = (0..1000)
            .filter(|&requests| {
                policy.decide(&Observation { requests, ..Observation::default() }).decision == Decision::Full
            })
            .count();
        assert_eq!(full, 9);
    }
}
