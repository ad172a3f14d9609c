//! What a forecast may change: a launch comes later, or a flight that would find next to nothing is left out, or a long gap is used for a
//! plain collection instead, as long as the heap is within its goal. Nothing else: the goal, slices, holding up and plain collections that the pacer orders do not depend on it.

use super::{POOR, Pacer, SURPRISE};
use crate::forecast::Forecast;
use crate::observation::{Moment, Observation};
use crate::phase::GapRhythm;

/// A forecast takes at most this part off the growth that is reckoned with while a snapshot is out.
const MOST_TAKEN: f64 = 0.5;

/// A plain collection should take at most this part of a gap that is foretold.
const FITTING: f64 = 0.8;

/// One that would take longer, in seconds, is left to a snapshot, however long the gap will be: it may not come.
const LONGEST_FORETOLD: f64 = 0.05;

/// How a foretold long gap bears on a plain collection of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LongGapUse {
    /// It has come, and without a collection the room would be filled before the next one.
    Collect,
    /// There is room enough until it comes, or until the one after it.
    Wait,
    /// None: the collection does not fit, or cannot wait for so long.
    None,
}

impl Pacer {
    /// What a rhythm of gaps means for a program whose whole heap can be collected in its long gaps: then it needs no snapshot.
    pub(crate) fn use_of(&self, rhythm: &GapRhythm, observation: &Observation) -> LongGapUse {
        let takes = self.objects.now() * self.plain_cost;
        if takes > (FITTING * rhythm.length.as_secs_f64()).min(LONGEST_FORETOLD) {
            return LongGapUse::None;
        }
        let new = self.objects.now() - self.live;
        let fills_in = |seconds: f64| new + SURPRISE * self.objects.rate() * seconds >= self.room();
        if rhythm.gaps == 0 {
            let left = rhythm.length.saturating_sub(observation.idle.unwrap_or_default());
            let in_time = observation.moment == Moment::Gap && takes <= FITTING * left.as_secs_f64();
            return if in_time && self.is_worth() && fills_in(rhythm.every.as_secs_f64()) {
                LongGapUse::Collect
            } else {
                LongGapUse::Wait
            };
        }
        if fills_in(rhythm.until().as_secs_f64()) { LongGapUse::None } else { LongGapUse::Wait }
    }

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
