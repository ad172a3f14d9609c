//! Collections: how often, how long, what they freed, and where they fell.

use neurogc_wire::status::Gc;

use super::spans::{Spans, Sum};

/// One collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collection {
    pub(crate) pause: u64,
    pub(crate) generation: u8,
    pub(crate) in_request: bool,
    pub(crate) collected: u32,
    pub(crate) uncollectable: u32,
}

/// All collections so far.
#[derive(Debug)]
pub(crate) struct Collections {
    generations: [Spans; 3],
    in_request: Sum,
    in_gap: Sum,
    collected: u64,
    uncollectable: u64,
}

impl Default for Collections {
    fn default() -> Self {
        Self {
            generations: [0; 3].map(|_| Spans::new(2)),
            in_request: Sum::default(),
            in_gap: Sum::default(),
            collected: 0,
            uncollectable: 0,
        }
    }
}

impl Collections {
    pub(crate) fn add(&mut self, collection: Collection) {
        // A generation that no interpreter has yet would be a full one.
        self.generations[usize::from(collection.generation.min(2))].add(collection.pause);
        let place = if collection.in_request { &mut self.in_request } else { &mut self.in_gap };
        place.add(collection.pause);
        self.collected += u64::from(collection.collected);
        self.uncollectable += u64::from(collection.uncollectable);
    }

    pub(crate) fn report(&self) -> Gc {
        let [young, middle, full] = &self.generations;
        Gc {
            young: young.pauses(),
            middle: middle.pauses(),
            full: full.pauses(),
            in_request: self.in_request.place(),
            in_gap: self.in_gap.place(),
            collected: self.collected,
            uncollectable: self.uncollectable,
            ..Gc::default()
        }
    }
}
