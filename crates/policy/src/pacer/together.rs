//! What the pacer still does in a rank of a training job, where a plan that ranks share has its place.

use super::{BACKSTOP, FULL_SWITCH, Pacer};
use crate::observation::{Observation, Order};
use crate::policies::Thresholds;

impl Pacer {
    /// The thresholds of a rank: CPython's own trigger stays armed, for where the plan does not come to it in time.
    #[must_use]
    pub(crate) fn last_thresholds(&self, observation: &Observation) -> Thresholds {
        let left = self.live + self.rooms_of_rank() * self.room() - self.objects.now();
        let near = self.is_near(observation, self.limits.ceiling_share);
        let young = if near { self.young.own() } else { left.max(self.room() / 2.0).max(self.young.own()) };
        let [_, middle, full] = observation.counts;
        [young as u32, middle.saturating_add(FULL_SWITCH), full.saturating_add(FULL_SWITCH)]
    }

    /// What cannot wait for a step that ranks share: memory is near its ceiling, or the heap is far above its goal.
    pub(crate) fn cannot_wait(&mut self, observation: &Observation) -> Option<Order> {
        let far = self.filled() > self.rooms_of_rank();
        let order = if far { self.order(observation) } else { self.at_ceiling(observation) }?;
        self.bound.backstops += 1;
        Some(Order { forced: true, ..order })
    }

    /// Rooms that a rank may fill while it waits for a step that all share.
    fn rooms_of_rank(&self) -> f64 {
        BACKSTOP.1.min(self.most_rooms(self.live))
    }

    /// Whether the heap fills so many rooms, in objects or in bytes, that a cycle should begin.
    #[must_use]
    pub(crate) fn wants_cycle(&self, observation: &Observation, rooms: f64) -> bool {
        let many = self.filled() > rooms && observation.now >= self.plain_at.0;
        let heavy = self.filled_in_bytes(observation) > rooms && self.has_new(observation);
        (many && self.is_worth()) || (heavy && observation.now >= self.plain_at.1)
    }
}
