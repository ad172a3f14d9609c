//! `freeze`: one full collection after the warm-up, then everything that is left is frozen.

use std::time::Duration;

use super::{CollectionControl, Policy};
use crate::observation::{Collected, Decision, Generation, Observation, Order};

/// How long a program is given to start up.
const WARM_UP: Duration = Duration::from_secs(3);

/// Freezes once, in the first gap after the warm-up.
#[derive(Debug, Default)]
pub(super) struct Freeze {
    ordered: bool,
    done: bool,
}

impl Policy for Freeze {
    fn control(&self) -> CollectionControl {
        CollectionControl::Cpython
    }

    fn decide(&mut self, observation: &Observation) -> Order {
        if self.done || observation.now < WARM_UP || !observation.is_gap() {
            return Order::WAIT;
        }
        self.ordered = true;
        Order::because(Decision::Freeze, "start-up is over")
    }

    fn learn(&mut self, collected: &Collected) {
        // An order that found its gap over is given again.
        self.done |= self.ordered && collected.generation == Generation::Full;
    }
}
