//! The tree of dominators: who holds each object alone, and how much would be freed with it.

use std::io;

use crate::array::Numbers;
use crate::dominators::dominators;
use crate::graph::{Graph, NONE};
use crate::roots::Reach;

/// The tree. The root above all roots has the number of objects as its number.
#[derive(Debug)]
pub struct HolderTree {
    /// The holder of each object: the last one that is on every way to it. [`NONE`] for garbage.
    pub holders: Numbers<u32>,
    /// What each object retains: its own size and that of all below it. The last entry is all that is reached.
    pub retained: Numbers<u64>,
    offsets: Numbers<u32>,
    children: Numbers<u32>,
}

impl HolderTree {
    /// The root above all roots.
    #[must_use]
    pub fn root(&self) -> u32 {
        self.holders.len() as u32
    }

    /// The objects that an object holds alone.
    #[must_use]
    pub fn children(&self, holder: u32) -> &[u32] {
        let holder = holder as usize;
        &self.children[self.offsets[holder] as usize..self.offsets[holder + 1] as usize]
    }

    /// Whether the program can reach an object.
    #[must_use]
    pub fn reached(&self, object: u32) -> bool {
        self.holders[object as usize] != NONE
    }

    /// The largest children of an object, the largest first.
    #[must_use]
    pub fn largest(&self, holder: u32, most: usize) -> Vec<u32> {
        let mut children = self.children(holder).to_vec();
        // Equal ones are in the order of addresses each time.
        let size = |object: &u32| (std::cmp::Reverse(self.retained[*object as usize]), *object);
        if most < children.len() && most > 0 {
            children.select_nth_unstable_by_key(most - 1, size);
            children.truncate(most);
        }
        children.sort_unstable_by_key(size);
        children
    }
}

/// Holders and retained sizes of what a search has reached. Leaves of which only a count tells become roots.
pub(crate) fn tree(graph: &Graph, reach: &mut Reach<'_>) -> io::Result<HolderTree> {
    let objects = graph.objects();
    let root = objects as u32;
    let search = &reach.search;
    let count = search.count as usize;
    let found = {
        let backwards = search.backwards()?;
        dominators(&search.parents[..count], &backwards)?
    };
    let order: &[u32] = &search.order[..count];
    let mut holders = Numbers::filled(objects, NONE)?;
    // Sizes in the order of the search, so that a child comes after its holder.
    let mut sums = Numbers::<u64>::zeroed(count)?;
    let mut retained = Numbers::<u64>::zeroed(objects + 1)?;
    {
        let (holders, sums, retained): (&mut [u32], &mut [u64], &mut [u64]) = (&mut holders, &mut sums, &mut retained);
        let numbers: &[u32] = &search.numbers;
        for number in 1..count {
            let above = found[number] as usize;
            holders[order[number] as usize] = if above == 0 { root } else { order[above] };
        }
        for object in 0..root {
            let number = numbers[object as usize];
            if number == NONE {
                continue;
            }
            sums[number as usize] += graph.sizes.of(object);
            for target in graph.links.of(object) {
                if search.leaves_out(*target) {
                    let size = graph.sizes.of(*target);
                    holders[*target as usize] = object;
                    retained[*target as usize] = size;
                    sums[number as usize] += size;
                }
            }
        }
        for object in 0..root {
            if holders[object as usize] == NONE
                && search.leaves_out(object)
                && let Some(reason) = reach.outside(object)
            {
                reach.reasons.push((object, reason));
                let size = graph.sizes.of(object);
                holders[object as usize] = root;
                retained[object as usize] = size;
                sums[0] += size;
            }
        }
        for number in (1..count).rev() {
            let sum = sums[number];
            retained[order[number] as usize] = sum;
            sums[found[number] as usize] += sum;
        }
        retained[objects] = sums[0];
    }
    drop((found, sums));
    let (offsets, children) = children(&holders)?;
    Ok(HolderTree { holders, retained, offsets, children })
}

/// The holders the other way round: for each its children, in the order of addresses.
fn children(holders: &[u32]) -> io::Result<(Numbers<u32>, Numbers<u32>)> {
    let mut offsets = Numbers::<u32>::zeroed(holders.len() + 2)?;
    let counted: &mut [u32] = &mut offsets;
    let held = || holders.iter().enumerate().filter(|(_, holder)| **holder != NONE);
    held().for_each(|(_, holder)| counted[*holder as usize] += 1);
    let mut sum = 0;
    for offset in counted.iter_mut() {
        sum += *offset;
        *offset = sum;
    }
    let mut all = Numbers::<u32>::zeroed(sum as usize)?;
    let places: &mut [u32] = &mut all;
    for (object, holder) in held().rev() {
        let offset = &mut counted[*holder as usize];
        *offset -= 1;
        places[*offset as usize] = object as u32;
    }
    Ok((offsets, all))
}

/// What each type retains: the sum over its objects that are not below another one of it, so that nested ones count once.
#[must_use]
pub fn retained_by_type(graph: &Graph, tree: &HolderTree, types: usize) -> Vec<u64> {
    let mut sums = vec![0_u64; types];
    // How many objects of each type are above.
    let mut above = vec![0_u32; types];
    let mut stack: Vec<(u32, u32, u32)> = Vec::new();
    let ends = |object: u32| (tree.offsets[object as usize], tree.offsets[object as usize + 1]);
    let (next, end) = ends(tree.root());
    stack.push((NONE, next, end));
    while let Some((of, next, end)) = stack.last_mut() {
        if next == end {
            if *of != NONE {
                above[*of as usize] -= 1;
            }
            stack.pop();
            continue;
        }
        let object = tree.children[*next as usize];
        *next += 1;
        let of = graph.types[object as usize];
        if above[of as usize] == 0 {
            sums[of as usize] += tree.retained[object as usize];
        }
        let (next, end) = ends(object);
        if next < end {
            above[of as usize] += 1;
            stack.push((of, next, end));
        }
    }
    sums
}
