//! How many objects there are, followed from one walk of the heap to the next.
//!
//! CPython counts allocations of every object that could be tracked; walks count those that are. Between walks the number
//! is the last walk's plus what has become old since, corrected by the share of counted objects that turn out to be
//! tracked, less what has been freed.

use std::time::Duration;

use crate::observation::Scope;

/// How long allocations are counted before the rate is computed anew.
const WINDOW: Duration = Duration::from_millis(100);

/// Fewer counted objects than this say nothing about the share that is tracked.
const FEWEST_FOR_FACTOR: f64 = 50_000.0;

/// The least and the most tracked objects that are reckoned with for each that was counted. Two thirds were measured on a
/// service whose tuples and dictionaries are not tracked, and one and a half on one that reuses lists which CPython keeps
/// for that: it does not count them.
const LEAST_FACTOR: f64 = 0.4;
const MOST_FACTOR: f64 = 3.0;

/// The sums at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mark {
    /// Objects that there were.
    objects: f64,
    counted: f64,
    freed: f64,
}

/// Objects that walks of new ones look at: those that have become old since the launch before the last walk of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct New {
    /// How many there were when so many had been counted: none, or as many as the last walk of them has seen.
    objects: f64,
    counted: f64,
    /// Objects that were freed since.
    freed: f64,
}

/// The number of objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Objects {
    /// Net allocations that have outlived a collection, since the beginning.
    counted: f64,
    /// Objects freed from what snapshots found, since the beginning.
    freed: f64,
    /// The last moment at which the number was known.
    known: Mark,
    /// Objects that walks of new ones leave out, as the last walk of everything saw them.
    older: f64,
    /// The sums when the last snapshot was launched.
    launched: Mark,
    new: New,
    /// Tracked objects for each that was counted, and what the last walk alone said about that.
    factor: f64,
    measured: f64,
    window: (Duration, f64),
    rate: f64,
}

impl Objects {
    pub(super) fn new() -> Self {
        Self {
            counted: 0.0,
            freed: 0.0,
            known: Mark::default(),
            older: 0.0,
            launched: Mark::default(),
            new: New::default(),
            factor: 1.0,
            measured: 1.0,
            window: (Duration::ZERO, 0.0),
            rate: 0.0,
        }
    }

    /// The number now.
    pub(super) fn now(&self) -> f64 {
        let grown = self.factor * (self.counted - self.known.counted);
        (self.known.objects + grown - (self.freed - self.known.freed)).max(0.0)
    }

    /// Objects that become old in a second.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Tracked objects for each that was counted.
    pub(super) fn tracked_share(&self) -> f64 {
        self.factor
    }

    /// Growth since the launch of the snapshot that is out, without what was freed.
    pub(super) fn grown_since_launch(&self) -> f64 {
        (self.factor * (self.counted - self.launched.counted)).max(0.0)
    }

    /// New objects that are still there: what a walk of them would see.
    pub(super) fn new_objects(&self) -> f64 {
        let New { objects, counted, freed } = self.new;
        (objects + self.factor * (self.counted - counted) - freed).max(0.0)
    }

    /// A young or middle collection has ended: so many objects are older now.
    pub(super) fn collected(&mut self, now: Duration, gathered: f64, freed: f64) {
        self.counted += gathered - freed;
        let since = now.saturating_sub(self.window.0);
        if since >= WINDOW {
            let rate = (self.factor * (self.counted - self.window.1) / since.as_secs_f64()).max(0.0);
            self.rate = if self.rate == 0.0 { rate } else { f64::midpoint(self.rate, rate) };
            self.window = (now, self.counted);
        }
    }

    /// A full collection, before which so many young objects had gathered, has freed some and left the others.
    pub(super) fn collected_all(&mut self, gathered: f64, freed: f64, left: f64) {
        self.counted += gathered;
        self.learn(self.mark(), left + freed);
        self.left(left);
    }

    /// There are so many now, all of them old.
    pub(super) fn left(&mut self, objects: f64) {
        self.known = Mark { objects, ..self.mark() };
        self.older = objects;
        self.launched = self.known;
        self.new = New { counted: self.counted, ..New::default() };
    }

    /// Young objects were made old, and nothing has looked for garbage among them.
    pub(super) fn made_old(&mut self, young: f64) {
        self.counted += young;
    }

    /// A snapshot is launched, which makes all young objects old.
    pub(super) fn launched(&mut self, scope: Scope, young: f64) {
        self.made_old(young);
        if scope == Scope::All {
            // What became old since the launch before stays new: much of it is about to die.
            self.new = New { counted: self.launched.counted, ..New::default() };
        }
        self.launched = self.mark();
    }

    /// A walk of everything has seen so many objects, and walks of new ones will leave out so many of them.
    pub(super) fn walked_all(&mut self, objects: f64, older: f64) {
        self.older = older;
        self.seen(objects);
    }

    /// A walk of new objects has seen so many. Only a walk of everything can tell how many of the others are left.
    pub(super) fn walked_new(&mut self, objects: f64) {
        // Nothing has been freed since the launch: what is found is freed after the walk.
        self.new = New { objects, counted: self.launched.counted, freed: 0.0 };
        self.seen(self.older + objects);
    }

    /// What finalizers have brought back to life.
    pub(super) fn brought_back(&mut self, objects: f64) {
        self.older += objects;
    }

    /// There were so many objects at the launch.
    fn seen(&mut self, objects: f64) {
        let to = self.launched;
        self.learn(to, objects);
        self.known = Mark { objects, ..to };
        self.launched.objects = objects;
    }

    /// A snapshot has come to nothing. After one of everything, new is what became old since the launch before it all the same.
    pub(super) fn failed(&mut self) {
        self.older = (self.now() - self.new_objects()).max(0.0);
    }

    /// A slice has freed so many of what a snapshot found. Most of them were new.
    pub(super) fn reaped(&mut self, freed: f64) {
        self.freed += freed;
        self.new.freed += freed;
    }

    /// There were so many objects at a moment: this tells how many are tracked of those that were counted.
    fn learn(&mut self, to: Mark, objects: f64) {
        let from = self.known;
        let counted = to.counted - from.counted;
        if from.objects > 0.0 && counted > FEWEST_FOR_FACTOR {
            self.correct((objects - from.objects + (to.freed - from.freed)) / counted);
        }
    }

    fn correct(&mut self, factor: f64) {
        // To count too few is worse than to count too many. A walk also sees fewer where old objects were freed by reference
        // counting, which says nothing about the next ones; so a lower share counts from the second walk on that says so.
        let factor = factor.clamp(LEAST_FACTOR, MOST_FACTOR);
        self.factor = factor.max(self.measured);
        self.measured = factor;
    }

    fn mark(&self) -> Mark {
        Mark { objects: self.now(), counted: self.counted, freed: self.freed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_number_follows_what_becomes_old_and_what_is_freed() {
        let mut objects = Objects::new();
        objects.left(1_000.0);
        objects.collected(SECOND, 500.0, 100.0);
        objects.reaped(50.0);
        assert_eq!(objects.now(), 1_350.0);
        objects.left(900.0);
        assert_eq!(objects.now(), 900.0);
    }

    #[test]
    fn walks_correct_what_is_counted_but_never_tracked() {
        let mut objects = Objects::new();
        objects.left(1e6);
        let mut real = 1e6;
        for round in 1..=8 {
            // Three are counted for two that are tracked.
            objects.collected(round * SECOND, 300_000.0, 0.0);
            real += 200_000.0;
            objects.launched(Scope::All, 0.0);
            objects.walked_all(real, real);
            assert!((objects.now() - real).abs() < 1.0);
        }
        objects.collected(9 * SECOND, 300_000.0, 0.0);
        assert!((objects.now() - real - 200_000.0).abs() < 5_000.0, "{}", objects.now() - real);
    }

    #[test]
    fn full_collections_correct_what_is_tracked_and_not_counted() {
        let mut objects = Objects::new();
        objects.left(1e6);
        for round in 1..=3 {
            // Two are counted for three that are tracked, and all that is new dies.
            objects.collected(round * SECOND, 200_000.0, 0.0);
            objects.collected_all(0.0, 300_000.0, 1e6);
        }
        objects.collected(4 * SECOND, 200_000.0, 0.0);
        assert!((objects.now() - 1.3e6).abs() < 1.0, "{}", objects.now());
    }

    #[test]
    fn a_walk_of_everything_that_failed_has_moved_where_new_objects_begin() {
        let mut objects = Objects::new();
        objects.left(1e6);
        let grow = |objects: &mut Objects, second: u32| objects.collected(second * SECOND, 100_000.0, 0.0);
        grow(&mut objects, 1);
        objects.launched(Scope::All, 0.0);
        objects.walked_all(1.1e6, 1e6);
        grow(&mut objects, 2);
        objects.launched(Scope::All, 0.0);
        objects.failed();
        grow(&mut objects, 3);
        // What came before the first launch is not walked again.
        assert_eq!((objects.now(), objects.new_objects()), (1.3e6, 200_000.0));
        objects.launched(Scope::New, 0.0);
        objects.walked_new(200_000.0);
        assert_eq!(objects.now(), 1.3e6);
    }

    #[test]
    fn the_rate_is_per_second() {
        let mut objects = Objects::new();
        for tick in 1..=100 {
            objects.collected(tick * Duration::from_millis(20), 1_000.0, 0.0);
        }
        assert!((objects.rate() - 50_000.0).abs() < 1_000.0, "{}", objects.rate());
    }
}
