//! `observe`: measure, and change nothing.

use super::{Control, Policy};
use crate::observation::{Observation, Order};

/// Never acts.
#[derive(Debug)]
pub(super) struct Observe;

impl Policy for Observe {
    fn control(&self) -> Control {
        Control::Cpython
    }

    fn decide(&mut self, _: &Observation) -> Order {
        Order::WAIT
    }
}
