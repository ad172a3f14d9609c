//! How much the heap may grow, and how much of that it has.

use super::{BACKSTOP, CROWDED, CROWDED_ROOM, HEAVY_FEWEST, PROMISE, Pacer};
use crate::bytes::Bytes;
use crate::observation::Observation;

impl Pacer {
    /// How many objects may come on top of what is alive.
    pub(super) fn room(&self) -> f64 {
        self.room_above(self.live)
    }

    pub(super) fn room_above(&self, live: f64) -> f64 {
        (live * self.growth_share()).max(self.least_room)
    }

    /// How many rooms above what is alive may be filled in any case. Where the room is the least one, three of them are little memory,
    /// and objects that were counted wrongly are a large part of it.
    pub(super) fn most_rooms(&self, live: f64) -> f64 {
        let largest = live.max(self.live_before);
        let room = largest * self.limits.growth_share;
        if room < self.least_room {
            return BACKSTOP.2;
        }
        ((PROMISE * (largest + room) - live) / self.room_above(live)).min(BACKSTOP.2)
    }

    /// By how much the heap may grow, as a share of what is alive.
    pub(super) fn growth_share(&self) -> f64 {
        let crowded = ((CROWDED.0 - self.processor) / (CROWDED.0 - CROWDED.1)).clamp(0.0, 1.0);
        self.limits.growth_share * (1.0 + CROWDED_ROOM * crowded)
    }

    pub(super) fn goal_bytes(&self) -> Bytes {
        let room = self.live_bytes.share(self.growth_share());
        self.live_bytes + room.max(self.limits.growth_least)
    }

    /// How much of the room in bytes is filled.
    pub(super) fn filled_in_bytes(&self, observation: &Observation) -> f64 {
        let room = (self.goal_bytes() - self.live_bytes).as_f64();
        if self.live_bytes == Bytes::ZERO {
            return 0.0;
        }
        observation.rss.saturating_sub(self.live_bytes).as_f64() / room.max(1.0)
    }

    /// Whether there are enough new objects for them to be what memory in bytes has grown by. Counted allocations alone may miss them:
    /// where each collection frees more than was counted, as with objects from free lists, they never rise.
    pub(super) fn has_new(&self, observation: &Observation) -> bool {
        (self.objects.now() - self.live).max(observation.promoted as f64) > HEAVY_FEWEST
    }

    /// How much of the room is filled.
    pub(super) fn filled(&self) -> f64 {
        self.filled_above(self.live)
    }

    pub(super) fn filled_above(&self, live: f64) -> f64 {
        (self.objects.now() - live) / self.room_above(live)
    }
}
