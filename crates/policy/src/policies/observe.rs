//! `observe`: measure, and change nothing.

use super::{CollectionControl, Policy};
use crate::observation::{Observation, Order};

/// Never acts.
#[derive(Debug)]
pub(super) struct Observe;

impl Policy for Observe {
    fn control(&self) -> CollectionControl {
        CollectionControl::Cpython
    }

    fn decide(&mut self, _: &Observation) -> Order {
        Order::WAIT
    }
}
