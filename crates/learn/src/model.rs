//! What a program's heap is like: how long its objects live, what they weigh, and what collections cost.

use neurogc_wire::stop::{ByStop, StopKind};
use serde::Serialize;

use crate::line::Line;

/// A program's heap in numbers. The default is a middling service on a middling machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeapModel {
    /// What stops the program, and for how long.
    pub costs: Costs,
    /// How long objects live.
    pub lifetimes: Lifetimes,
    /// What they weigh.
    pub memory: ObjectSizes,
    /// How much longer or shorter pauses were than their cost says, at their time: others use the machine, too.
    #[serde(skip)]
    pub disturbed: Disturbed,
}

/// What collections cost, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// A young collection.
    pub young: Sweep,
    /// A middle one.
    pub middle: Sweep,
    /// A full one.
    pub full: Sweep,
    /// The clone of a snapshot, by resident bytes.
    pub clone: Line,
    /// The walk of a snapshot, by the objects that it sees. The program runs on meanwhile.
    pub walk: Line,
    /// How much longer the program's work takes during the walk, as a share: it copies the pages that it writes to.
    pub slowdown: f64,
    /// Bytes that are copied for each object that the walk sees.
    pub copied: f64,
    /// Freeing what a snapshot found, by objects.
    pub reap: Line,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            young: Sweep { looked: 40.0, freed: 60.0 },
            middle: Sweep { looked: 50.0, freed: 80.0 },
            full: Sweep { looked: 100.0, freed: 200.0 },
            clone: Line { base: 500_000.0, each: 0.012 },
            walk: Line { base: 2e6, each: 120.0 },
            slowdown: 0.25,
            copied: 13.0,
            reap: Line { base: 20_000.0, each: 250.0 },
        }
    }
}

/// What a collection costs, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sweep {
    /// For each object that it looks at.
    pub looked: f64,
    /// For each object that it frees, besides.
    pub freed: f64,
}

/// Fewer points say nothing about two costs.
pub(crate) const FEW: usize = 8;

impl Sweep {
    /// What it costs to look at so many objects and free so many of them.
    #[must_use]
    pub fn at(self, looked: f64, freed: f64) -> f64 {
        self.looked * looked + self.freed * freed
    }

    /// The least-squares fit through measured (looked, freed, cost), none of it below zero; nothing where the points
    /// say nothing.
    #[must_use]
    pub fn through(points: &[(f64, f64, f64)]) -> Option<Self> {
        let sum = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
        let (ll, ff, lf) = (sum(|it| it.0 * it.0), sum(|it| it.1 * it.1), sum(|it| it.0 * it.1));
        let (lc, fc) = (sum(|it| it.0 * it.2), sum(|it| it.1 * it.2));
        if ll <= 0.0 {
            return None;
        }
        let alone = Self { looked: lc / ll, freed: 0.0 };
        let spread = ll * ff - lf * lf;
        // Where the same share is freed each time, or chance decides, nothing tells the two apart.
        if spread <= 0.01 * ll * ff || points.len() < FEW {
            return Some(alone);
        }
        let both = Self { looked: (lc * ff - fc * lf) / spread, freed: (fc * ll - lc * lf) / spread };
        Some(if both.freed < 0.0 {
            alone
        } else if both.looked < 0.0 {
            Self { looked: 0.0, freed: fc / ff }
        } else {
            both
        })
    }
}

/// Factors of pauses, with the time at which each was seen, by kind and in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disturbed {
    factors: ByStop<Vec<(u64, f64)>>,
    /// From when to when they were seen.
    span: (u64, u64),
}

impl Disturbed {
    /// None, over a time that repeats itself.
    #[must_use]
    pub fn over(span: (u64, u64)) -> Self {
        Self { span, ..Self::default() }
    }

    /// Adds one; times must not go back.
    pub fn add(&mut self, kind: StopKind, at: u64, factor: f64) {
        self.factors[kind].push((at, factor));
    }

    /// The lowest factor that there can be.
    #[must_use]
    pub fn least(&self, kind: StopKind) -> f64 {
        let factors = self.factors[kind].iter().map(|factor| factor.1);
        factors.reduce(f64::min).unwrap_or(1.0)
    }

    /// The factor that was seen nearest to a time. After the end it begins anew.
    #[must_use]
    pub fn factor(&self, kind: StopKind, at: u64) -> f64 {
        let factors = &self.factors[kind];
        let (from, to) = self.span;
        let at = if at > to && to > from { from + (at - from) % (to - from) } else { at };
        let next = factors.partition_point(|factor| factor.0 < at);
        let before = next.checked_sub(1).and_then(|index| factors.get(index));
        match (before, factors.get(next)) {
            (Some(before), Some(after)) if at - before.0 < after.0 - at => before.1,
            (_, Some(after)) => after.1,
            (Some(before), None) => before.1,
            (None, None) => 1.0,
        }
    }
}

/// How long objects live. Of those that a request allocates, a share dies with it, a share dies after a while, and the
/// rest stays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lifetimes {
    /// The share that is garbage when its request ends.
    pub die_young: f64,
    /// The share that reference counting frees when its request ends.
    pub by_reference: f64,
    /// How many objects requests hold that wait for others, on average: so much later those die.
    pub held: f64,
    /// The share that dies later.
    pub die_old: f64,
    /// How many objects are allocated between the birth and the death of those.
    pub lag: f64,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { die_young: 0.5, by_reference: 0.0, held: 0.0, die_old: 0.5, lag: 100_000.0 }
    }
}

/// What objects weigh, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ObjectSizes {
    /// Resident memory without any object.
    pub base: f64,
    /// What each object adds, with all that hangs on it.
    pub object: f64,
    /// The share of freed memory that goes back to the system; the rest waits for new objects.
    pub returned: f64,
}

impl Default for ObjectSizes {
    fn default() -> Self {
        Self { base: 50e6, object: 120.0, returned: 0.3 }
    }
}

impl ObjectSizes {
    /// Resident memory with so many objects, where there have been as many as `most`.
    #[must_use]
    pub fn resident(&self, objects: f64, most: f64) -> f64 {
        let waiting = (most - objects).max(0.0) * (1.0 - self.returned);
        self.base + self.object * (objects + waiting)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn costs_of_looking_and_freeing_are_told_apart() {
        let real = Sweep { looked: 50.0, freed: 120.0 };
        let points: Vec<_> = (1..40_u32)
            .map(|at| (f64::from(at) * 100.0, f64::from(at % 7) * 30.0))
            .map(|(looked, freed)| (looked, freed, real.at(looked, freed)))
            .collect();
        let found = Sweep::through(&points).unwrap();
        assert!((found.looked - 50.0).abs() < 1e-6 && (found.freed - 120.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn no_cost_is_below_zero() {
        let same = Sweep::through(&[(100.0, 50.0, 700.0), (200.0, 100.0, 1400.0)]).unwrap();
        assert_eq!(same, Sweep { looked: 7.0, freed: 0.0 });
        let falling = [(100.0, 50.0, 100.0), (100.0, 0.0, 700.0), (90.0, 10.0, 500.0)].repeat(FEW);
        let falling = Sweep::through(&falling).unwrap();
        assert!(falling.looked >= 0.0 && falling.freed >= 0.0, "{falling:?}");
        assert_eq!(Sweep::through(&[]), None);
    }

    #[test]
    fn the_nearest_disturbance_counts_and_time_repeats_itself() {
        let mut disturbed = Disturbed::over((0, 100));
        disturbed.add(StopKind::Full, 10, 2.0);
        disturbed.add(StopKind::Full, 50, 3.0);
        for (at, factor) in [(0, 2.0), (29, 2.0), (31, 3.0), (99, 3.0), (105, 2.0)] {
            assert_eq!(disturbed.factor(StopKind::Full, at), factor, "{at}");
        }
        assert_eq!(disturbed.factor(StopKind::Middle, 30), 1.0);
    }
}
