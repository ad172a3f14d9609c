//! What a forecast may change: a launch comes later, or a flight that would find next to nothing is left out, as long as the
//! heap is within its goal. Nothing else: the goal, slices, holding up and plain collections do not depend on it.

use super::{POOR, Pacer};
use crate::forecast::Forecast;

/// A forecast takes at most this part off the growth that is reckoned with while a snapshot is out.
const MOST_TAKEN: f64 = 0.5;

impl Pacer {
    /// What to expect from now on; nothing to reckon as before.
    pub fn foretell(&mut self, forecast: Option<Forecast>) {
        self.forecast = forecast;
    }

    /// Whether the first cycle waits until something has come on top of what there was: what it would find before is what the
    /// program left behind when it started up, and that is seldom much.
    pub(super) fn may_wait_for_growth(&self) -> bool {
        self.forecast.is_some()
    }

    /// Whether there has been none yet, and it waits for that.
    #[must_use]
    pub fn first_waits(&self) -> bool {
        !self.known && self.may_wait_for_growth()
    }

    /// Whether a flight now would find next to nothing.
    pub(super) fn is_foretold_poor(&self) -> bool {
        let dead = self.forecast.and_then(|forecast| forecast.dead).filter(|dead| (0.0..=1.0).contains(dead));
        let new = (self.objects.now() - self.live).max(0.0);
        dead.is_some_and(|dead| dead * new < POOR * self.objects.now())
    }

    /// The growth that is reckoned with while a snapshot is out for so many seconds, of what the last flights say.
    pub(super) fn foretold_growth(&self, growth: f64, seconds: f64) -> f64 {
        let Some(forecast) = self.forecast else { return growth };
        let said = forecast.promoted * self.objects.tracked_share() * seconds;
        if said.is_nan() { growth } else { growth.min(said.max((1.0 - MOST_TAKEN) * growth)) }
    }
}
