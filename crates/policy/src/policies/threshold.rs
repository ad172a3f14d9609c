//! `threshold:G0,G1,G2`: CPython's own collector with other thresholds, as people set them by hand.

use super::{CollectionControl, Policy, Thresholds};
use crate::observation::{Observation, Order};

/// Sets thresholds and leaves the rest to CPython.
#[derive(Debug)]
pub(super) struct Threshold(pub(super) Thresholds);

impl Policy for Threshold {
    fn control(&self) -> CollectionControl {
        CollectionControl::Fixed(self.0)
    }

    fn decide(&mut self, _: &Observation) -> Order {
        Order::WAIT
    }
}
