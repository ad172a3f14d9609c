//! Memory of small Python objects, by the headers of the pools that they lie in.

use std::collections::HashMap;
use std::ops::Range;

use neurogc_wire::breakdown::{Breakdown, SizeClass};

use crate::cpython::arenas::{self, POOL, POOL_HEADER, PoolUse, SMALL};
use crate::sys::chunks::ARENA;
use crate::sys::copies::Copies;
use crate::sys::residency::Residency;

/// Headers that are read at a time.
const AT_ONCE: usize = 4096;

/// Only one place in so many bytes is looked at where nothing is known: arenas are eight times as large, and their pools are
/// begun from the lowest one on.
const STEP: usize = 8 * POOL;

/// An arena of which less than this part is in use is sparse.
const SPARSE: f64 = 0.25;

/// Where less than this is free in sparse arenas, it is not worth knowing what lies in them; and no more than so many are noted.
const WORTH: u64 = 32 << 20;
const MOST_SPARSE: usize = 4096;

/// Blocks of one size.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    used: usize,
    free: usize,
}

/// What an arena has, and where its pools are.
#[derive(Clone, Debug, Default)]
struct ArenaCount {
    class: Class,
    pools: Range<usize>,
}

impl ArenaCount {
    fn is_sparse(&self) -> bool {
        (self.class.used as f64) < SPARSE * (self.class.used + self.class.free) as f64
    }
}

#[derive(Debug)]
pub(super) struct PoolCount {
    classes: [Class; SMALL / 16],
    /// Resident pages of arenas in which no pool was begun.
    empty: usize,
    /// What is used and what is free in each arena, by its number.
    arenas: HashMap<u32, ArenaCount>,
    /// The arena of the last pool, and where its first pool was seen.
    current: Option<(u32, usize)>,
}

impl Default for PoolCount {
    fn default() -> Self {
        Self { classes: [Class::default(); SMALL / 16], empty: 0, arenas: HashMap::new(), current: None }
    }
}

/// What pools are used for; None where there is no pool.
fn pool_uses(addresses: &[usize], copies: &mut Copies) -> impl Iterator<Item = Option<PoolUse>> {
    let headers: Vec<Option<[u8; POOL_HEADER]>> = copies.many(addresses);
    headers.into_iter().map(|header| header.and_then(arenas::pool_use))
}

/// The parts of a range around places where pools were found.
fn parts_with_pools(range: &Range<usize>, residency: &Residency, copies: &mut Copies) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let places = (range.start.next_multiple_of(STEP)..range.end).step_by(STEP);
    let places: Vec<usize> = places.filter(|place| residency.has(*place)).collect();
    for places in places.chunks(AT_ONCE) {
        for (place, _) in places.iter().zip(pool_uses(places, copies)).filter(|(_, seen)| seen.is_some()) {
            let part = place.saturating_sub(STEP).max(range.start)..(place + STEP).min(range.end);
            match parts.last_mut().filter(|last| last.end >= part.start) {
                Some(last) => last.end = part.end,
                None => parts.push(part),
            }
        }
    }
    parts
}

impl PoolCount {
    /// Counts the pools in a range, and gives the ranges that belong to arenas.
    pub(super) fn add(
        &mut self,
        range: &Range<usize>,
        residency: &Residency,
        copies: &mut Copies,
    ) -> Vec<Range<usize>> {
        // Huge pages of ours are in memory also where no pool was begun.
        let is_ours = arenas::are_within((range.start, range.end));
        let parts = if is_ours { vec![range.clone()] } else { parts_with_pools(range, residency, copies) };
        let mut found: Vec<Range<usize>> = Vec::new();
        for part in parts {
            self.add_part(&part, is_ours, residency, copies, &mut found);
        }
        found
    }

    fn add_part(
        &mut self,
        range: &Range<usize>,
        is_ours: bool,
        residency: &Residency,
        copies: &mut Copies,
        found: &mut Vec<Range<usize>>,
    ) {
        let mut at = range.start.next_multiple_of(POOL);
        let mut addresses = Vec::new();
        while at < range.end {
            addresses.clear();
            while let Some(there) = residency.next(at, range.end).filter(|_| addresses.len() < AT_ONCE) {
                // A pool's other pages may be in memory without its first one.
                let pool = there & !(POOL - 1);
                at = pool + POOL;
                if pool >= range.start && at <= range.end {
                    addresses.push(pool);
                }
            }
            if addresses.is_empty() {
                break;
            }
            let headers: Vec<usize> = addresses.iter().copied().filter(|pool| residency.has(*pool)).collect();
            let mut uses = headers.iter().copied().zip(pool_uses(&headers, copies)).peekable();
            for pool in &addresses {
                let seen = uses.next_if(|(header, _)| header == pool).and_then(|(_, seen)| seen);
                if self.count(*pool, seen, is_ours, residency) {
                    match found.last_mut().filter(|last| last.end == *pool) {
                        Some(last) => last.end = pool + POOL,
                        None => found.push(*pool..pool + POOL),
                    }
                }
            }
        }
    }

    /// Counts one place where a pool may be, and says whether it belongs to an arena.
    fn count(&mut self, pool: usize, seen: Option<PoolUse>, is_ours: bool, residency: &Residency) -> bool {
        let resident = residency.bytes(pool..pool + POOL);
        let Some(PoolUse { arena, block, blocks }) = seen else {
            // Pools are begun from the lowest one on, so what follows in the same arena was not begun yet.
            let follows = self.current.is_some_and(|(_, first)| (first..first + ARENA).contains(&pool));
            let is_arena = follows || is_ours && arenas::are_within((pool, pool + POOL));
            if is_arena {
                self.empty += resident;
            }
            return is_arena;
        };
        if self.current.is_none_or(|(current, first)| current != arena || pool >= first + ARENA) {
            self.current = Some((arena, pool));
        }
        let used = (blocks * block).min(resident);
        let counted =
            self.arenas.entry(arena).or_insert_with(|| ArenaCount { pools: pool..pool, ..Default::default() });
        counted.pools = counted.pools.start.min(pool)..counted.pools.end.max(pool + POOL);
        let both = [self.classes.get_mut(block / 16 - 1), Some(&mut counted.class)];
        for class in both.into_iter().flatten() {
            class.used += used;
            class.free += resident - used;
        }
        true
    }

    pub(super) fn size_classes(&self) -> Vec<SizeClass> {
        let class = |(index, class): (usize, &Class)| SizeClass {
            size: 16 * (index as u64 + 1),
            used: class.used as u64,
            free: class.free as u64,
        };
        self.classes.iter().enumerate().map(class).filter(|class| class.used + class.free > 0).collect()
    }

    pub(super) fn fill(&self, breakdown: &mut Breakdown) {
        let sum = |part: fn(&Class) -> usize| self.classes.iter().map(part).sum::<usize>() as u64;
        breakdown.python_used = sum(|class| class.used);
        breakdown.python_free = sum(|class| class.free) + self.empty as u64;
        breakdown.python_arenas = self.arenas.len() as u64;
        for arena in self.arenas.values().filter(|arena| arena.is_sparse()) {
            breakdown.python_sparse_arenas += 1;
            breakdown.python_sparse_free += arena.class.free as u64;
        }
    }

    /// Where sparse arenas are, in the order of addresses, if much is free in them. An arena whose number was used for another one
    /// during the reading is left out.
    pub(super) fn sparse(&self) -> Vec<(usize, usize)> {
        let sparse = || self.arenas.values().filter(|arena| arena.is_sparse() && arena.pools.len() <= ARENA);
        let free: u64 = sparse().map(|arena| arena.class.free as u64).sum();
        let mut ranges: Vec<_> =
            if free < WORTH { Vec::new() } else { sparse().map(|it| (it.pools.start, it.pools.end)).collect() };
        ranges.sort_unstable();
        ranges.truncate(MOST_SPARSE);
        ranges
    }
}
