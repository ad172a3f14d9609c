//! `cpython`: CPython's own collector as the program set it, measured: the baseline by name.

use super::{CollectionControl, Policy};
use crate::observation::{Observation, Order};

/// Never acts.
#[derive(Debug)]
pub(super) struct Cpython;

impl Policy for Cpython {
    fn control(&self) -> CollectionControl {
        CollectionControl::Cpython
    }

    fn decide(&mut self, _: &Observation) -> Order {
        Order::WAIT
    }
}
