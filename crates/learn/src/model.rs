//! What a program's heap is like: how long its objects live, what they weigh, and what collections cost.

use serde::Serialize;

use crate::line::Line;

/// A program's heap in numbers. The default is a middling service on a middling machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Model {
    /// What stops the program, and for how long.
    pub costs: Costs,
    /// How long objects live.
    pub lifetimes: Lifetimes,
    /// What they weigh.
    pub memory: Memory,
}

/// What collections cost, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// A young collection, by the objects that it looks at.
    pub young: Line,
    /// A middle one.
    pub middle: Line,
    /// A full one.
    pub full: Line,
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
            young: Line { base: 5_000.0, each: 30.0 },
            middle: Line { base: 5_000.0, each: 40.0 },
            full: Line { base: 20_000.0, each: 120.0 },
            clone: Line { base: 500_000.0, each: 0.012 },
            walk: Line { base: 2e6, each: 120.0 },
            slowdown: 0.25,
            copied: 20.0,
            reap: Line { base: 20_000.0, each: 250.0 },
        }
    }
}

/// How long objects live. Of those that a request allocates, a share dies with it, a share dies after a while, and the
/// rest stays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lifetimes {
    /// The share that is garbage when its request ends.
    pub die_young: f64,
    /// The share that dies later.
    pub die_old: f64,
    /// How many objects are allocated between the birth and the death of those.
    pub lag: f64,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { die_young: 0.5, die_old: 0.5, lag: 100_000.0 }
    }
}

/// What objects weigh, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Resident memory without any object.
    pub base: f64,
    /// What each object adds, with all that hangs on it.
    pub object: f64,
    /// The share of freed memory that goes back to the system; the rest waits for new objects.
    pub returned: f64,
}

impl Default for Memory {
    fn default() -> Self {
        Self { base: 50e6, object: 120.0, returned: 0.3 }
    }
}

impl Memory {
    /// Resident memory with so many objects, where there have been as many as `most`.
    #[must_use]
    pub fn resident(&self, objects: f64, most: f64) -> f64 {
        let waiting = (most - objects).max(0.0) * (1.0 - self.returned);
        self.base + self.object * (objects + waiting)
    }
}
