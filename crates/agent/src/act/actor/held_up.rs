//! Takes note where a finalizer has held an order up: from then on orders are given only where CPython itself has just
//! collected, and so would have run the finalizer, too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use neurogc_policy::{Decision, Moment, Order};

use super::Actor;
use crate::act::vm::Vm;

/// An order that has waited for longer than this was held up, where it has worked for less than this part of its time.
/// Garbage takes processor time; a finalizer that waits for a lock, an event or an answer takes none.
const WAITED: Duration = Duration::from_secs(5);
const WORKED_PART: u32 = 4;

/// Whether an order was held up so far.
#[derive(Debug, Default)]
pub(super) struct HeldUp(AtomicBool);

impl HeldUp {
    pub(super) fn in_child(&self) -> Self {
        Self(AtomicBool::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Actor {
    /// Whether orders are given only at the ends of collections.
    pub(crate) fn keeps_to_collections(&self) -> bool {
        self.held_up.0.load(Ordering::Relaxed)
    }

    /// Whether orders may be given at this moment.
    pub(super) fn may_act_at(&self, moment: Moment) -> bool {
        moment == Moment::CollectionEnd || !self.keeps_to_collections()
    }

    /// An order has taken so long; when it began, its thread had used so much processor time.
    pub(super) fn note_length(&self, vm: &impl Vm, order: Order, pause: Duration, used: u64) {
        use Decision::{Freeze, Full, Middle, Reap, Young};
        if pause <= WAITED || !matches!(order.decision, Young | Middle | Full | Freeze | Reap { .. }) {
            return;
        }
        let worked = Duration::from_nanos(vm.processor_time().saturating_sub(used));
        let held_up = pause.saturating_sub(worked) > WAITED && worked < pause / WORKED_PART;
        if held_up && !self.held_up.0.swap(true, Ordering::Relaxed) {
            self.complain(format!(
                "a finalizer held a collection up for {:.1} s, in which the thread worked for {:.1} s: NeuroGC now \
                 collects only where CPython has just collected by itself, and no more in gaps or beside the program's work",
                pause.as_secs_f64(),
                worked.as_secs_f64()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use neurogc_policy::{CollectionControl, Guarded, Limits, Name, Observation, Policy, Tuning};

    use super::*;
    use crate::act::fake::{Fake, Rig, TestSurroundings};
    use crate::decide::director::Director;
    use crate::sys::locks::lock;

    /// A policy that collects everything at every moment.
    #[derive(Debug)]
    struct Collects;

    impl Policy for Collects {
        fn control(&self) -> CollectionControl {
            CollectionControl::Cpython
        }

        fn decide(&mut self, _: &Observation) -> Order {
            Order::at_once(Decision::Full, "a test")
        }
    }

    /// Finalizers take so long, and wait for so much of that.
    struct Slow<'a> {
        rig: &'a Rig,
        takes: u64,
        waits: u64,
    }

    impl TestSurroundings for Slow<'_> {
        fn finalizers(&self, _: usize, _: u64) -> u64 {
            let mut interpreter = lock(&self.rig.interpreter);
            interpreter.now += self.takes * 1_000_000_000;
            interpreter.waited += self.waits * 1_000_000_000;
            0
        }
    }

    /// How many of three gaps are used where the first one frees something that takes so many seconds, and waits for so many
    /// of them.
    fn gaps_used(takes: u64, waits: u64) -> (u64, Rig) {
        let rig = Rig::with_garbage(10);
        let guarded = Guarded::new(Box::new(Collects), Limits::default(), Tuning::default(), [700, 10, 10]);
        rig.actor.direct(Some(Director::new(guarded, Name::Gap)));
        for _ in 0..3 {
            let around = Slow { rig: &rig, takes, waits };
            let vm = Fake { interpreter: &rig.interpreter, snapshots: &rig.snapshots, around: &around, thread: 1 };
            rig.actor.moment(&vm, &rig.hooks, Moment::Gap);
        }
        let used = lock(&rig.interpreter).collections;
        (used, rig)
    }

    #[test]
    fn where_a_finalizer_waits_for_long_no_gap_is_used_any_more() {
        let (used, rig) = gaps_used(6, 6);
        assert_eq!((used, rig.actor.keeps_to_collections(), rig.actor.troubles.len()), (1, true, 1));
        assert!(rig.actor.troubles.pop().is_some_and(|text| text.contains("held a collection up for 6.0 s")));
        assert!(rig.actor.may_act_at(Moment::CollectionEnd) && rig.actor.in_child(0).keeps_to_collections());
        assert!(![Moment::Gap, Moment::Passing, Moment::Boundary].map(|at| rig.actor.may_act_at(at)).contains(&true));
    }

    #[test]
    fn work_and_short_waits_change_nothing() {
        for (takes, waits) in [(6, 0), (4, 4), (60, 40)] {
            assert_eq!(gaps_used(takes, waits).0, 3, "{takes} {waits}");
        }
    }
}
