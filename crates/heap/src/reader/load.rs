//! All objects of a dump as a graph: blocks are decoded in parallel, each into its own part of the arrays.

use neurogc_ngch::{DumpColumn, DumpSection, FormatError, References};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::{BlockPlace, Dump, DumpError, HeapDamage};
use crate::array::Numbers;
use crate::graph::{Graph, Links, ShallowSizes};

/// No process has more memory than this.
const MOST_BYTES: u64 = 1 << 47;

/// The graph of a dump, and the counts of its objects.
#[derive(Debug)]
pub struct Loaded {
    /// The graph.
    pub graph: Graph,
    /// Reference counts, 0 for immortal objects.
    pub counts: Numbers<u32>,
}

/// The part of the arrays that a block fills.
struct Part<'a> {
    place: &'a BlockPlace,
    /// Where its references begin.
    start: u32,
    types: &'a mut [u32],
    sizes: &'a mut [u32],
    counts: &'a mut [u32],
    /// Where the references of each of its objects end.
    ends: &'a mut [u32],
    targets: &'a mut [u32],
}

/// What comes back from a block.
struct Filled {
    large: Vec<(u32, u64)>,
    /// References of an object that the block before describes.
    carried: u32,
    damage: Option<HeapDamage>,
}

fn split<'a>(rest: &mut &'a mut [u32], length: usize) -> &'a mut [u32] {
    let (taken, left) = std::mem::take(rest).split_at_mut(length);
    *rest = left;
    taken
}

impl Dump {
    /// Loads all objects.
    ///
    /// # Errors
    ///
    /// If there is no memory for them.
    pub fn load(&mut self) -> Result<Loaded, DumpError> {
        let objects = self.objects as usize;
        let references = self.blocks.iter().map(|place| place.head.references as usize).sum();
        let mut types = Numbers::filled(objects, self.tables.unreadable())?;
        let (mut sizes, mut counts) = (Numbers::zeroed(objects)?, Numbers::filled(objects, 1)?);
        let (mut offsets, mut targets) = (Numbers::<u32>::zeroed(objects + 1)?, Numbers::<u32>::zeroed(references)?);
        let mut filled: Vec<Filled> = {
            let mut ends = &mut offsets[1..];
            let (mut types, mut sizes, mut counts): (&mut [u32], &mut [u32], &mut [u32]) =
                (&mut types, &mut sizes, &mut counts);
            let (mut targets, mut start, mut at): (&mut [u32], u32, u32) = (&mut targets, 0, 0);
            let mut parts = Vec::with_capacity(self.blocks.len());
            for place in &self.blocks {
                // Objects that no block describes have no references.
                let gap = (place.first - at) as usize;
                split(&mut types, gap);
                split(&mut sizes, gap);
                split(&mut counts, gap);
                split(&mut ends, gap).fill(start);
                at = place.head.first + place.head.objects;
                let own = (at - place.first) as usize;
                parts.push(Part {
                    place,
                    start,
                    types: split(&mut types, own),
                    sizes: split(&mut sizes, own),
                    counts: split(&mut counts, own),
                    ends: split(&mut ends, own),
                    targets: split(&mut targets, place.head.references as usize),
                });
                start += place.head.references as u32;
            }
            parts.into_par_iter().map(|part| self.fill(part)).collect()
        };
        let mut large = FxHashMap::default();
        let mut start = 0;
        for (place, filled) in self.blocks.iter().zip(&mut filled) {
            if place.head.continues {
                // The object of the block before ends where its last references do.
                offsets[place.head.first as usize + 1] = start + filled.carried;
            }
            start += place.head.references as u32;
            large.extend(filled.large.drain(..));
        }
        self.damage.extend(filled.into_iter().filter_map(|it| it.damage));
        let graph = Graph { types, sizes: ShallowSizes::new(sizes, large), links: Links { offsets, targets } };
        Ok(Loaded { graph, counts })
    }

    /// Decodes a block. One that cannot be decoded leaves objects of which nothing is known.
    fn fill(&self, mut part: Part<'_>) -> Filled {
        match self.decode(&mut part) {
            Ok(filled) => filled,
            Err(error) => {
                part.types.fill(self.tables.unreadable());
                part.sizes.fill(0);
                part.counts.fill(1);
                part.ends.fill(part.start);
                // Their room must belong to an object: references of the last one to itself say nothing.
                part.targets.fill(part.place.head.first + part.place.head.objects - 1);
                let all = part.targets.len() as u32;
                if let Some(end) = part.ends.last_mut() {
                    *end = part.start + all;
                }
                let carried = if part.ends.is_empty() { all } else { 0 };
                let damage = HeapDamage { offset: part.place.section, reason: error.to_string() };
                Filled { large: Vec::new(), carried, damage: Some(damage) }
            }
        }
    }

    fn decode(&self, part: &mut Part<'_>) -> Result<Filled, FormatError> {
        DumpSection::at(&self.source, part.place.section)?.verified()?;
        let block = self.block(part.place)?;
        let mut filled = Filled { large: Vec::new(), carried: 0, damage: None };
        let unreadable = self.tables.unreadable();
        let mut references = References::new(block.column(DumpColumn::References), self.head.objects);
        let skipped = part.place.first - block.head.first;
        let (mut at, mut room) = (0_usize, true);
        for row in block.rows() {
            let row = row?;
            if row.size > MOST_BYTES {
                return Err(FormatError::Damaged("an object is larger than an address space"));
            }
            let own = row.number;
            references.object(own, |reference| {
                // What leads behind the cut is as good as no reference.
                let target = if reference.target < self.objects { reference.target } else { own };
                match part.targets.get_mut(at) {
                    Some(place) => *place = target,
                    None => room = false,
                }
                at += 1;
            })?;
            let end = part.start + at.min(part.targets.len()) as u32;
            if own < part.place.first {
                filled.carried = at as u32;
                continue;
            }
            let index = (own - block.head.first - skipped) as usize;
            part.types[index] = row.class.min(unreadable);
            part.sizes[index] = u32::try_from(row.size).unwrap_or(u32::MAX);
            if part.sizes[index] == u32::MAX {
                filled.large.push((own, row.size));
            }
            part.counts[index] = u32::try_from(row.count).unwrap_or(u32::MAX);
            part.ends[index] = end;
        }
        if !room || at != part.targets.len() {
            return Err(FormatError::Damaged("a block has another number of references than its head says"));
        }
        Ok(filled)
    }
}
