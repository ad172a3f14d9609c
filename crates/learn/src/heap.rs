//! A simulated heap: CPython's three generations, with objects that die by the model's lifetimes.
//!
//! Objects are known by when they were born, counted in allocations. So a generation is a stretch of births, and what
//! has died in it follows from the clock: every operation takes the same short time whatever the heap's size.

use neurogc_policy::{Generation, Scope};

use crate::model::Lifetimes;

/// The heap at a moment. Objects are counted in fractions: a request may leave half an object, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SimulatedHeap {
    lifetimes: Lifetimes,
    /// Objects allocated so far.
    clock: f64,
    /// Allocations since the last collection, less what has been freed by reference counting: what CPython counts.
    count: f64,
    /// Births up to here have died, of those that die with their request.
    settled: f64,
    /// Births up to here have died, of those that die late.
    dead_to: f64,
    /// Births after the first are young; after the second, and not young, middle-aged; up to the third, frozen.
    births: [f64; 3],
    objects: [f64; 3],
    garbage: [f64; 3],
    /// Births up to here were old at the launch before the last snapshot of everything; how many old objects were not, and how many of
    /// those have died.
    seen: f64,
    new: f64,
    new_garbage: f64,
    /// The same for the last launch.
    launched: f64,
    recent: f64,
    recent_garbage: f64,
    /// Objects that were taken out of the collector's sight, and those of them that have died.
    frozen: f64,
    frozen_garbage: f64,
    /// Young collections since the last middle one, and middle ones since the last full one.
    rounds: [u32; 2],
    tenured: f64,
    pending: f64,
}

/// What a collection did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Swept {
    /// Young objects that had gathered.
    pub(crate) gathered: f64,
    /// Objects that it looked at.
    pub(crate) looked: f64,
    /// Objects that it freed.
    pub(crate) freed: f64,
}

impl SimulatedHeap {
    pub(crate) fn new(lifetimes: Lifetimes, tenured: f64, pending: f64) -> Self {
        Self {
            lifetimes,
            clock: 0.0,
            count: 0.0,
            settled: 0.0,
            dead_to: 0.0,
            births: [0.0, 0.0, 0.0],
            objects: [0.0, 0.0, tenured + pending],
            garbage: [0.0; 3],
            seen: 0.0,
            new: 0.0,
            new_garbage: 0.0,
            launched: 0.0,
            recent: 0.0,
            recent_garbage: 0.0,
            frozen: 0.0,
            frozen_garbage: 0.0,
            rounds: [0; 2],
            tenured,
            pending,
        }
    }

    /// A request allocates.
    pub(crate) fn allocate(&mut self, objects: f64) {
        self.clock += objects;
        self.count += objects;
        self.objects[0] += objects;
    }

    /// A request ends: what it held alone dies, and what has lived long enough since its birth.
    pub(crate) fn settle(&mut self) {
        let settled = (self.clock - self.lifetimes.held).max(self.settled);
        let born = self.born(self.settled, settled);
        self.bury(born, self.lifetimes.die_young);
        self.free(born, self.lifetimes.by_reference);
        self.settled = settled;
        let dead_to = (self.clock - self.lifetimes.lag).max(self.dead_to);
        self.bury(self.born(self.dead_to, dead_to), self.lifetimes.die_old);
        self.dead_to = dead_to;
    }

    /// How many of those born in a stretch are in each generation, frozen, or old and new.
    fn born(&self, from: f64, to: f64) -> [f64; 6] {
        let [young, middle, frozen] = self.births;
        let born = |after: f64, until: f64| (to.min(until) - from.max(after)).max(0.0);
        let (old, new) = (born(frozen, middle), born(frozen.max(self.seen), middle));
        let recent = born(frozen.max(self.launched), middle);
        [born(young, f64::INFINITY), born(middle, young), old, born(f64::NEG_INFINITY, frozen), new, recent]
    }

    /// A share of them is garbage from now on, wherever they are.
    fn bury(&mut self, [young, middle, old, frozen, new, recent]: [f64; 6], share: f64) {
        self.garbage[0] += young * share;
        self.garbage[1] += middle * share;
        self.garbage[2] += old * share;
        self.frozen_garbage += frozen * share;
        self.new_garbage += new * share;
        self.recent_garbage += recent * share;
    }

    /// A share of them is freed as soon as nothing refers to them.
    fn free(&mut self, [young, middle, old, frozen, new, recent]: [f64; 6], share: f64) {
        self.objects[0] -= young * share;
        self.objects[1] -= middle * share;
        self.objects[2] -= old * share;
        self.frozen -= frozen * share;
        self.new -= new * share;
        self.recent -= recent * share;
        self.count = (self.count - (young + middle + old + frozen) * share).max(0.0);
    }

    pub(crate) fn collect(&mut self, generation: Generation) -> Swept {
        let oldest = usize::from(generation.number());
        let gathered = std::mem::take(&mut self.count);
        let looked = self.objects[..=oldest].iter().sum();
        let freed = self.garbage[..=oldest].iter().sum();
        let left: f64 = looked - freed;
        self.garbage[..=oldest].fill(0.0);
        self.objects[..=oldest].fill(0.0);
        self.objects[(oldest + 1).min(2)] += left;
        self.births[0] = self.clock;
        match generation {
            Generation::Young => self.rounds[0] += 1,
            Generation::Middle => {
                self.births[1] = self.clock;
                self.rounds = [0, self.rounds[1] + 1];
                self.pending += left;
                self.new += left;
                self.recent += left;
            }
            Generation::Full => {
                self.births[1] = self.clock;
                self.rounds = [0, 0];
                self.tenured = left;
                self.pending = 0.0;
                self.all_seen();
            }
        }
        Swept { gathered, looked, freed }
    }

    /// Everything is old, and a snapshot is taken of all of it, or of what no snapshot has seen: says how many objects those
    /// are and how many of them are dead.
    pub(crate) fn launch(&mut self, scope: Scope) -> (f64, f64) {
        let [young, middle, _] = self.objects;
        let [young_garbage, middle_garbage, _] = self.garbage;
        self.objects = [0.0, 0.0, self.tracked()];
        self.garbage = [0.0, 0.0, self.findable()];
        self.births = [self.clock, self.clock, self.births[2]];
        self.count = 0.0;
        self.rounds[0] = 0;
        self.pending += young + middle;
        let new = (self.new + young + middle, self.new_garbage + young_garbage + middle_garbage);
        // What is found is as good as freed.
        let garbage = self.recent_garbage + young_garbage + middle_garbage;
        let recent = self.recent + young + middle - garbage;
        let seen = match scope {
            Scope::All => {
                // What became old since the launch before stays new.
                (self.seen, self.new, self.new_garbage) = (self.launched, recent, 0.0);
                (self.tracked(), self.findable())
            }
            Scope::New => {
                (self.new, self.new_garbage) = (new.0 - new.1, 0.0);
                new
            }
        };
        (self.launched, self.recent, self.recent_garbage) = (self.clock, 0.0, 0.0);
        seen
    }

    /// Objects that a walk of new ones would see, as of the last launch.
    pub(crate) fn new_objects(&self) -> f64 {
        self.new
    }

    fn all_seen(&mut self) {
        (self.seen, self.new, self.new_garbage) = (self.clock, 0.0, 0.0);
        (self.launched, self.recent, self.recent_garbage) = (self.clock, 0.0, 0.0);
    }

    /// Takes everything out of the collector's sight.
    pub(crate) fn freeze(&mut self) {
        self.frozen += self.objects.iter().sum::<f64>();
        self.frozen_garbage += self.garbage.iter().sum::<f64>();
        self.objects = [0.0; 3];
        self.garbage = [0.0; 3];
        self.births = [self.clock; 3];
        self.all_seen();
    }

    /// Frees garbage that is already known, up to so many objects of the oldest generation; the rest of what was known
    /// is found in the younger ones.
    pub(crate) fn free_known(&mut self, most: f64) -> f64 {
        let mut left = most;
        for generation in [2, 1, 0] {
            let freed = self.garbage[generation].min(left);
            self.garbage[generation] -= freed;
            self.objects[generation] -= freed;
            left -= freed;
        }
        most - left
    }

    /// The generation that CPython would collect by itself now.
    pub(crate) fn due(&self, thresholds: [u32; 3], held_off: bool) -> Generation {
        let [young, middle] = self.rounds;
        // CPython collects everything only when a quarter of it is new.
        if middle > thresholds[2] && self.pending >= self.tenured / 4.0 && !held_off {
            Generation::Full
        } else if young > thresholds[1] {
            Generation::Middle
        } else {
            Generation::Young
        }
    }

    pub(crate) fn counts(&self) -> [u32; 3] {
        [self.count as u32, self.rounds[0], self.rounds[1]]
    }

    pub(crate) fn tenured(&self) -> f64 {
        self.tenured
    }

    pub(crate) fn pending(&self) -> f64 {
        self.pending
    }

    /// A snapshot has done what a full collection does; so many objects have become old since it was taken.
    pub(crate) fn note_snapshot(&mut self, promoted: f64) {
        self.pending = promoted;
        self.tenured = (self.objects[2] - promoted).max(0.0);
        self.rounds[1] = 0;
    }

    /// How many objects there are, dead ones included.
    pub(crate) fn total(&self) -> f64 {
        self.objects.iter().sum::<f64>() + self.frozen
    }

    /// How many of them the collector would see.
    pub(crate) fn tracked(&self) -> f64 {
        self.objects.iter().sum()
    }

    /// How many of them are dead.
    pub(crate) fn dead(&self) -> f64 {
        self.garbage.iter().sum::<f64>() + self.frozen_garbage
    }

    /// How many dead ones a snapshot would find.
    pub(crate) fn findable(&self) -> f64 {
        self.garbage.iter().sum()
    }

    /// How many young objects have gathered, as CPython counts.
    pub(crate) fn young(&self) -> f64 {
        self.count
    }

    /// Births that part the generations: what dies later dies on one side of them.
    pub(crate) fn borders(&self) -> [f64; 2] {
        [self.births[0], self.births[1]]
    }

    /// What decides what a walk of new objects sees: for the next one, and for the one after a walk of everything.
    pub(crate) fn newness(&self) -> [f64; 6] {
        [self.seen, self.new, self.new_garbage, self.launched, self.recent, self.recent_garbage]
    }

    /// Objects and garbage by generation: what decides what collections cost and bring from here on.
    pub(crate) fn shape(&self) -> [f64; 6] {
        let ([a, b, c], [d, e, f]) = (self.objects, self.garbage);
        [a, b, c, d, e, f]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heap(die_young: f64, die_old: f64, lag: f64) -> SimulatedHeap {
        SimulatedHeap::new(Lifetimes { die_young, die_old, lag, held: 0.0, by_reference: 0.0 }, 1000.0, 0.0)
    }

    fn request(heap: &mut SimulatedHeap, objects: f64) {
        heap.allocate(objects);
        heap.settle();
    }

    #[test]
    fn what_dies_young_is_freed_by_a_young_collection() {
        let mut heap = heap(0.8, 0.0, 0.0);
        request(&mut heap, 100.0);
        let swept = heap.collect(Generation::Young);
        assert_eq!((swept.looked, swept.freed), (100.0, 80.0));
        assert_eq!((heap.total(), heap.dead()), (1020.0, 0.0));
    }

    #[test]
    fn a_request_under_way_holds_what_it_has_allocated() {
        let mut heap = heap(0.8, 0.0, 0.0);
        heap.allocate(50.0);
        assert_eq!(heap.collect(Generation::Young).freed, 0.0);
        heap.allocate(50.0);
        heap.settle();
        // Half of it is middle-aged by now.
        assert_eq!(heap.collect(Generation::Young).freed, 40.0);
        assert_eq!(heap.collect(Generation::Middle).freed, 40.0);
    }

    #[test]
    fn what_nothing_refers_to_goes_by_itself_and_is_counted_so() {
        let mut heap = heap(0.0, 0.0, 0.0);
        heap.lifetimes.by_reference = 0.9;
        heap.allocate(800.0);
        assert_eq!(heap.collect(Generation::Young).gathered, 800.0);
        heap.allocate(200.0);
        heap.settle();
        assert_eq!((heap.total(), heap.young()), (1100.0, 0.0));
        request(&mut heap, 100.0);
        assert!((heap.young() - 10.0).abs() < 1e-9, "{}", heap.young());
    }

    #[test]
    fn what_dies_old_waits_for_a_full_collection() {
        let mut heap = heap(0.0, 1.0, 300.0);
        for _ in 0..5 {
            request(&mut heap, 100.0);
            assert_eq!(heap.collect(Generation::Middle).freed, 0.0);
        }
        assert_eq!(heap.dead(), 200.0);
        assert_eq!(heap.collect(Generation::Full).freed, 200.0);
        assert_eq!(heap.tenured(), 1300.0);
    }

    #[test]
    fn cpython_waits_until_a_quarter_is_new() {
        let mut heap = heap(0.0, 0.0, 0.0);
        let thresholds = [700, 2, 2];
        let mut full_at = 0.0;
        for round in 1..100 {
            request(&mut heap, 10.0);
            let due = heap.due(thresholds, false);
            heap.collect(due);
            if due == Generation::Full {
                full_at = f64::from(round) * 10.0;
                break;
            }
        }
        assert!((250.0..320.0).contains(&full_at), "{full_at}");
    }

    #[test]
    fn a_snapshot_of_new_objects_finds_what_has_died_among_them() {
        let mut heap = heap(0.0, 1.0, 300.0);
        request(&mut heap, 100.0);
        heap.collect(Generation::Middle);
        assert_eq!(heap.launch(Scope::All), (1100.0, 0.0));
        for _ in 0..5 {
            request(&mut heap, 100.0);
            heap.collect(Generation::Middle);
        }
        // Three hundred are dead. One hundred of them became old shortly before the first launch, and count as new.
        assert_eq!(heap.dead(), 300.0);
        assert_eq!(heap.clone().launch(Scope::All), (1600.0, 300.0));
        assert_eq!(heap.launch(Scope::New), (600.0, 300.0));
        assert_eq!(heap.launch(Scope::New), (300.0, 0.0));
    }

    #[test]
    fn what_dies_frozen_is_lost() {
        let mut heap = heap(0.0, 1.0, 100.0);
        request(&mut heap, 100.0);
        heap.collect(Generation::Full);
        heap.freeze();
        request(&mut heap, 100.0);
        assert_eq!(heap.collect(Generation::Full).freed, 0.0);
        assert_eq!(heap.dead(), 100.0);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_comes_from_nowhere(
            die_young in 0.0..0.6_f64, die_old in 0.0..0.4_f64, lag in 0.0..2000.0_f64,
            steps in prop::collection::vec((0.0..500.0_f64, 0..5_u8), 1..80),
        ) {
            let mut heap = heap(die_young, die_old, lag);
            let (mut allocated, mut freed) = (1000.0, 0.0);
            for (objects, action) in steps {
                request(&mut heap, objects);
                allocated += objects;
                freed += match action {
                    0 => heap.collect(Generation::Young).freed,
                    1 => heap.collect(Generation::Middle).freed,
                    2 => heap.collect(Generation::Full).freed,
                    3 => heap.free_known(50.0),
                    _ => 0.0,
                };
                prop_assert!((heap.total() + freed - allocated).abs() < 1e-6);
                prop_assert!(heap.dead() >= 0.0 && heap.dead() <= heap.total());
                prop_assert!(heap.shape().iter().all(|count| *count >= -1e-9));
                // A full collection could free all that is dead.
                prop_assert!((heap.clone().collect(Generation::Full).freed - heap.dead()).abs() < 1e-6);
            }
        }
    }
}
