//! `cpython`: CPython's own collector as the program set it, measured: the baseline by name.

use super::{Policy, Thresholds};
use crate::observation::{Observation, Order};

/// Never acts.
#[derive(Debug)]
pub(super) struct Cpython;

impl Policy for Cpython {
    fn thresholds(&self, _: &Observation) -> Option<Thresholds> {
        None
    }

    fn decide(&mut self, _: &Observation) -> Order {
        Order::WAIT
    }
}
