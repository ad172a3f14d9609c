//! `observe`: measure, and change nothing.

use super::{Policy, Thresholds};
use crate::observation::{Observation, Order};

/// Never acts.
#[derive(Debug)]
pub(super) struct Observe;

impl Policy for Observe {
    fn thresholds(&self, _: &Observation) -> Option<Thresholds> {
        None
    }

    fn decide(&mut self, _: &Observation) -> Order {
        Order::WAIT
    }
}
