//! What the pacer orders: a cycle, slices of what one has found, a stop for a program that outruns the walk, or a plain
//! collection.

use std::time::Duration;

use super::{
    BACKSTOP, COPIES_MANY, COPIES_SHORT, CREDIT, EARNED, FAILURES_MANY, GROWN, HEAVY_FILLED, LATE, NEARLY, Out, Pacer,
    SLICE, SMALL_HEAP, SPREAD, THROTTLE, THROTTLE_LEAST, THROTTLE_SPAN,
};
use crate::bytes::Bytes;
use crate::observation::{Decision, Moment, Observation, Order, Scope, Snapshot};

impl Pacer {
    /// What must be done now; nothing where all is well.
    pub(super) fn order(&mut self, observation: &Observation) -> Option<Order> {
        if let Some(order) = self.at_ceiling(observation) {
            return Some(order);
        }
        let filled = self.filled();
        // Below the goal a gap is the policy's to use. Above it a gap is as good a moment as any: where all young objects
        // are collected in gaps, it may be the only one.
        if observation.moment != Moment::CollectionEnd && filled <= 1.0 {
            return None;
        }
        // A program that wants quiet has it as long as memory is within its goal.
        if observation.paused && filled <= 1.0 {
            return None;
        }
        match observation.snapshot {
            Snapshot::Ready { objects, piece } => self.assist(observation, objects as f64, piece),
            Snapshot::InFlight => self.in_flight(observation, filled),
            Snapshot::Idle | Snapshot::Unavailable => self.begin_cycle(observation, filled),
        }
    }

    /// Nothing is out: a launch where it is time for one, or a plain collection where that is all there is.
    fn begin_cycle(&mut self, observation: &Observation, filled: f64) -> Option<Order> {
        let can_fly = observation.snapshot == Snapshot::Idle && !self.is_barred(observation.now);
        let few = self.objects.now() < SMALL_HEAP as f64;
        let small = few || self.is_plain_shorter();
        let bytes = self.filled_in_bytes(observation) > 1.0;
        let heavy = bytes && self.has_new(observation) && observation.now >= self.plain_at.1;
        let may_be_plain = observation.now >= self.plain_at.0;
        let most = self.most_rooms(self.live);
        if filled > most && may_be_plain && !small {
            return Some(Order::forced(Decision::Full, "the heap is far above its goal"));
        }
        if can_fly && !small {
            let tight = self.is_tight(observation);
            self.new_walks.note_memory(tight);
            if tight && self.can_walk_new() {
                self.new_walks.may_stand_in();
            }
            let scope = self.scope();
            let near = self.objects.now() + self.expected_growth(scope) >= self.live + self.room();
            let first = !self.known && !self.may_wait_for_growth();
            if self.is_worth() && (near || bytes || first) {
                return Some(Order::at_once(Decision::Snapshot { scope }, "the heap will reach its goal"));
            }
            let reason = "memory has grown since the last cycle";
            return heavy.then(|| Order::at_once(Decision::Snapshot { scope }, reason));
        }
        // Where snapshots only rest after a failure, the next one may still come in time, as long as there is memory for
        // that.
        let rests = observation.snapshot == Snapshot::Idle && self.failures < FAILURES_MANY;
        let may_wait = rests && !small && !self.is_near(observation, self.limits.ceiling_share);
        let goal = if may_wait { BACKSTOP.0.min(most) } else { 1.0 };
        if filled > goal && may_be_plain {
            let reason = match () {
                () if few => "a small heap has reached its goal",
                () if small => "the heap has reached its goal, and a plain collection is shorter than a clone",
                () => "the heap has reached its goal, and no snapshot can be taken",
            };
            return Some(if small {
                Order::at_once(Decision::Full, reason)
            } else {
                Order::forced(Decision::Full, reason)
            });
        }
        heavy.then(|| Order::forced(Decision::Full, "memory has grown since the last full collection"))
    }

    /// The walk runs: the program must not outrun it.
    fn in_flight(&mut self, observation: &Observation, filled: f64) -> Option<Order> {
        let is_late = |out: Out| {
            let expected = self.flight_time(out.scope).max(Duration::from_millis(300));
            out.landed.is_none() && observation.now.saturating_sub(out.launched) > expected.mul_f64(LATE)
        };
        // One that is not known of may never come back.
        let late = self.out.is_none_or(is_late);
        let most = self.most_rooms(self.live);
        let far = filled > most || (late && filled > BACKSTOP.1);
        if far && observation.now >= self.plain_at.0 {
            return Some(Order::forced(Decision::Full, "the heap is far above its goal, and the snapshot is late"));
        }
        // One that is not known of, such as a heap dump, frees nothing: holding the program up would bring nothing.
        let growth = if self.out.is_some() { ((filled - NEARLY) / THROTTLE_SPAN).clamp(0.0, 1.0) } else { 0.0 };
        let (short, many) = self.reasons_to_copy_less(observation);
        let copies = short.max(many);
        let pause = THROTTLE.mul_f64(growth.max(copies));
        let runs = observation.moment == Moment::CollectionEnd && !observation.paused;
        if pause < THROTTLE_LEAST || !runs || observation.now < self.throttle_at {
            return None;
        }
        // Half of the time, and more of it where that has not been enough.
        let rests = match () {
            () if copies >= 1.0 => pause / 16,
            () if filled > NEARLY + THROTTLE_SPAN => pause / 3,
            () if many > growth.max(short) => THROTTLE - pause,
            () => pause,
        };
        self.throttle_at = observation.now + pause + rests;
        if copies <= growth {
            return Some(Order::at_once(Decision::Throttle { pause }, "the program outruns the walk of its heap"));
        }
        if let Some(out) = &mut self.out {
            out.held_up += pause;
        }
        let reason = if many > short {
            "many pages have been copied since the snapshot was taken"
        } else {
            "memory is short for the pages that a snapshot copies"
        };
        Some(Order::at_once(Decision::Throttle { pause }, reason))
    }

    /// How much the program should be held up so that it copies fewer pages, because little memory is left for copies, and
    /// because it has copied many: 0 for not at all, 1 for nearly all of the time.
    /// In all that is never longer than a plain collection would take, or the walk.
    fn reasons_to_copy_less(&self, observation: &Observation) -> (f64, f64) {
        let Some(out) = self.out else { return (0.0, 0.0) };
        if out.held_up >= self.plain_pause().max(self.flight_time(out.scope)) {
            return (0.0, 0.0);
        }
        let share = |bytes: Bytes| bytes.as_f64() / observation.rss.as_f64().max(1.0);
        let between = |(from, whole): (f64, f64), share: f64| ((share - from) / (whole - from)).clamp(0.0, 1.0);
        let short = observation.left_for_copies.map_or(0.0, |left| between(COPIES_SHORT, share(left)));
        (short, between(COPIES_MANY, share(observation.copied)))
    }

    /// What was found is freed in proportion to what the program adds, so that nothing is left when the next launch is
    /// due.
    fn assist(&mut self, observation: &Observation, left: f64, piece: Option<Duration>) -> Option<Order> {
        if left == 0.0 {
            // A walk that found nothing, too, is over only when a slice has noted it.
            return Some(Order::at_once(
                Decision::Reap { budget: Duration::from_secs_f64(SLICE.0) },
                "nothing was found",
            ));
        }
        let landed = self
            .out
            .and_then(|out| out.landed.map(|(_, found)| (found, out.grown_at_landing, out.live_before, out.freed)));
        // Of one that is not known of, all is due.
        let (found, grown_at_landing, live_before, freed) = landed.unwrap_or((left, 0.0, self.live, 0.0));
        // Where much has died, the new goal is far below what there is, which is no reason to free it all at one go: until
        // it is gone the goal is the one from before.
        let live = self.live.max(live_before);
        let filled = self.filled_above(live);
        let grown = (self.objects.grown_since_launch() - grown_at_landing).max(0.0);
        let after = self.objects.now() - left;
        let until = self.live + self.room() - self.expected_growth(Scope::All) - after + grown;
        let until = until.min(SPREAD * found).max(5_000.0);
        let allowed = found * (1.0 - grown / until).max(0.0);
        // Heavy objects fill the room in bytes first, and then there is no time to spread it.
        // Freeing objects seldom makes resident memory smaller, so it is compared with the objects before that.
        let bytes = self.filled_in_bytes(observation);
        let objects = filled + freed / self.room_above(live);
        let heavy = bytes > HEAVY_FILLED.0 && bytes > HEAVY_FILLED.1 * objects;
        let over = filled > 1.0 || heavy;
        let behind = if heavy { left } else { left - allowed };
        // What is above the goal is freed first; the rest can still be spread.
        let above = (filled - 1.0) * self.room_above(live);
        let behind = behind.max(above.min(left));
        let (since, saved) = self.credit;
        let ratio = if filled > NEARLY { EARNED.1 } else { EARNED.0 };
        let saved = (saved + ratio * observation.now.saturating_sub(since).as_secs_f64()).min(CREDIT);
        self.credit = (observation.now, saved);
        if behind <= 0.0 {
            return None;
        }
        let whole_pause = (self.objects.now() * self.plain_cost).max(left * self.reap_cost);
        if filled > BACKSTOP.2 {
            // Far above the goal: everything at once, which is shorter than a full collection.
            let budget = Duration::from_secs_f64((1.5 * left * self.reap_cost).max(SLICE.2).min(2.0 * whole_pause));
            return Some(Order::forced(Decision::Reap { budget }, "the heap is far above its goal"));
        }
        let longest = if over { SLICE.2 } else { SLICE.1 };
        let wanted = (behind * self.reap_cost / 0.7).max(SLICE.0);
        let budget = wanted.min(longest).min(saved);
        // A piece that is larger than a slice goes whole where that is not long, or where there is no other way.
        let piece = piece.map(|piece| piece.as_secs_f64() * 1.05);
        let budget = match piece {
            Some(piece) if saved > 0.0 && (piece <= longest || filled > 1.2) => budget.max(piece),
            // Nothing smaller is left.
            Some(_) => return None,
            None => budget,
        };
        let enough = budget >= wanted.min(SLICE.0) || saved >= longest;
        (enough && budget > 0.0).then(|| {
            let budget = Duration::from_secs_f64(budget);
            Order::at_once(Decision::Reap { budget }, "garbage is freed as fast as the heap grows")
        })
    }

    /// Near the ceiling memory comes before everything else.
    pub(super) fn at_ceiling(&mut self, observation: &Observation) -> Option<Order> {
        if !self.is_near(observation, self.limits.ceiling_share) {
            return None;
        }
        let rests = observation.now < self.plain_at.0;
        let ceiling = self.ceiling(observation)?;
        // What the last cycle has left is alive: another one would find nothing before there is more.
        let left = ceiling.saturating_sub(self.live_bytes);
        let grown = !self.known || observation.rss > self.live_bytes + (left / GROWN.0).max(ceiling / GROWN.1);
        if let Snapshot::Ready { objects, .. } = observation.snapshot {
            let budget = Duration::from_secs_f64((1.5 * objects as f64 * self.reap_cost).max(SLICE.2));
            return (!rests).then(|| Order::forced(Decision::Reap { budget }, "memory is near its ceiling"));
        }
        if rests {
            // Counted once for each collection that is due.
            self.bound.held_back += u64::from(grown && self.held_back_until != self.plain_at.0);
            self.held_back_until = if grown { self.plain_at.0 } else { self.held_back_until };
            return None;
        }
        grown.then(|| Order::forced(Decision::Full, "memory is near its ceiling"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guards::Limits;
    use crate::observation::{Collected, Flown, Generation};

    #[test]
    fn a_snapshot_that_has_landed_is_not_late() {
        let order = |landed: bool| {
            let mut pacer = Pacer::new(Limits::default(), [2_000, 10, 10], Duration::from_millis(1));
            pacer.begin(Bytes::mebibytes(100), 1_000_000);
            pacer.launched(Duration::ZERO, Scope::All, 0);
            if landed {
                let flight = Duration::from_millis(200);
                pacer.landed(&Flown { at: flight, flight, worked: flight, objects: 1_000_000, ..Flown::default() });
            }
            let (now, rss) = (Duration::from_secs(20), Bytes::mebibytes(100));
            let pause = Duration::from_micros(100);
            let (generation, objects) = (Generation::Young, None);
            // Somewhat more than two rooms.
            let collected = Collected { at: now, generation, pause, gathered: 525_000, freed: 0, rss, objects };
            pacer.collected(&collected, rss);
            let (moment, snapshot) = (Moment::CollectionEnd, Snapshot::InFlight);
            pacer
                .must(&Observation { now, moment, rss, snapshot, ..Observation::default() })
                .map(|order| order.decision)
        };
        assert_eq!(order(false), Some(Decision::Full));
        assert_ne!(order(true), Some(Decision::Full));
    }

    const RSS: Bytes = Bytes::new(1_000_000_000);

    /// A heap of 200,000 objects in a gigabyte, whose plain collection takes 20 ms, at the end of the first one.
    fn pacer() -> Pacer {
        let mut pacer = Pacer::new(Limits::default(), [700, 10, 10], Duration::from_millis(1));
        pacer.begin(RSS, 200_000);
        collect(&mut pacer, Duration::from_millis(100), 20);
        pacer
    }

    /// A full collection that ends now, after so many milliseconds, and frees nothing.
    fn collect(pacer: &mut Pacer, now: Duration, pause: u64) {
        let collected = Collected {
            at: now,
            generation: Generation::Full,
            pause: Duration::from_millis(pause),
            gathered: 0,
            freed: 0,
            rss: RSS,
            objects: Some(200_000),
        };
        pacer.collected(&collected, RSS);
    }

    /// A walk of everything that found nothing, with a clone that took so many milliseconds.
    fn fly(pacer: &mut Pacer, clone: u64) {
        pacer.launched(Duration::from_secs(1), Scope::All, 0);
        pacer.landed(&Flown {
            at: Duration::from_secs(2),
            clone: Duration::from_millis(clone),
            flight: Duration::from_millis(50),
            worked: Duration::from_millis(50),
            objects: 200_000,
            older: 200_000,
            ..Flown::default()
        });
        pacer.drained(RSS);
    }

    /// What is ordered when half as many objects again have become old, and memory has grown by a tenth.
    fn at_the_goal(mut pacer: Pacer) -> Option<Order> {
        let at = Duration::from_secs(3);
        let young = Collected {
            at,
            generation: Generation::Middle,
            pause: Duration::from_millis(1),
            gathered: 100_000,
            freed: 0,
            rss: RSS,
            objects: None,
        };
        pacer.collected(&young, RSS);
        let moment = Moment::CollectionEnd;
        let seen = Observation { now: at, moment, rss: RSS, snapshot: Snapshot::Idle, ..Observation::default() };
        pacer.must(&seen)
    }

    #[test]
    fn where_clones_take_longer_than_a_plain_collection_the_heap_is_collected_plainly() {
        let decided = |clones: &[u64]| {
            let mut pacer = pacer();
            clones.iter().for_each(|clone| fly(&mut pacer, *clone));
            let barred = pacer.is_barred(Duration::from_secs(3));
            (at_the_goal(pacer).map(|order| (order.decision, order.forced)), barred)
        };
        let all = (Some((Decision::Snapshot { scope: Scope::All }, false)), false);
        assert_eq!(decided(&[]), all);
        assert_eq!(decided(&[10, 10]), all);
        assert_eq!(decided(&[100]), all, "one alone may have waited for a processor");
        assert_eq!(decided(&[10, 100]), all);
        // It is no emergency, and policies see that there are no snapshots.
        assert_eq!(decided(&[100, 100]), (Some((Decision::Full, false)), true));
    }

    #[test]
    fn clones_are_measured_anew_after_some_plain_collections() {
        let mut pacer = pacer();
        (0..2).for_each(|_| fly(&mut pacer, 100));
        let plain = (0..100_u32).take_while(|each| {
            collect(&mut pacer, Duration::from_secs(3 + u64::from(*each)), 20);
            pacer.is_plain_shorter()
        });
        assert_eq!(plain.count(), 15);
    }

    #[test]
    fn heavy_garbage_is_noticed_though_more_is_freed_than_was_counted() {
        let mut pacer = pacer();
        let grown = RSS.share(1.5);
        for at in 0..1_000 {
            // Of 400 objects 80 came from free lists; two survive each time.
            let collected = Collected {
                at: Duration::from_secs(2) + Duration::from_millis(at),
                generation: Generation::Young,
                pause: Duration::from_micros(100),
                gathered: 320,
                freed: 398,
                rss: grown,
                objects: None,
            };
            pacer.collected(&collected, grown);
        }
        let mut ask = |promoted: u64| {
            let (now, moment, snapshot) = (Duration::from_secs(3), Moment::CollectionEnd, Snapshot::Unavailable);
            let seen = Observation { now, moment, rss: grown, snapshot, promoted, ..Observation::default() };
            pacer.must(&seen).map(|order| order.decision)
        };
        assert_eq!((ask(0), ask(200)), (None, Some(Decision::Full)));
    }

    #[test]
    fn what_the_cap_holds_back_near_the_ceiling_is_counted() {
        let mut pacer = pacer();
        let ask = |pacer: &mut Pacer, now: u64, rss: u64| {
            let order = pacer.must(&Observation {
                now: Duration::from_millis(now),
                moment: Moment::CollectionEnd,
                rss: Bytes::new(rss),
                ceiling: Some(Bytes::new(1_100_000_000)),
                snapshot: Snapshot::Unavailable,
                ..Observation::default()
            });
            (order.map(|order| order.decision), pacer.bound().held_back)
        };
        let grown = 1_050_000_000;
        // A collection of 400 ms, after which as long again belongs to the program.
        collect(&mut pacer, Duration::from_millis(1_000), 400);
        assert_eq!(ask(&mut pacer, 1_010, RSS.get()), (None, 0), "nothing is due");
        assert_eq!(ask(&mut pacer, 1_100, grown), (None, 1));
        assert_eq!(ask(&mut pacer, 1_300, grown), (None, 1), "it is the same one");
        assert_eq!(ask(&mut pacer, 1_400, grown), (Some(Decision::Full), 1));
        collect(&mut pacer, Duration::from_millis(1_800), 400);
        assert_eq!(ask(&mut pacer, 1_900, grown), (None, 2));
    }
}
