//! Immediate dominators by semi-NCA (Georgiadis and Tarjan): semidominators with path compression, then nearest common
//! ancestors.
//!
//! Everything is in the numbers of a depth-first search, in which an ancestor has a smaller number than its descendants.
//! There is no recursion: a linked list is as deep as it is long.

use std::io;

use crate::array::Numbers;
use crate::search::Backwards;

/// The dominator of each number; 0 is its own. `parents` is the tree of the search.
pub(crate) fn dominators(parents: &[u32], backwards: &Backwards) -> io::Result<Numbers<u32>> {
    let semis = semidominators(parents, backwards)?;
    let mut dominators = Numbers::zeroed(parents.len())?;
    dominators.copy_from_slice(parents);
    let (found, semis): (&mut [u32], &[u32]) = (&mut dominators, &semis);
    for number in 1..found.len() {
        let mut above = found[number];
        while above > semis[number] {
            above = found[above as usize];
        }
        found[number] = above;
    }
    Ok(dominators)
}

fn semidominators(parents: &[u32], backwards: &Backwards) -> io::Result<Numbers<u32>> {
    let mut ancestors = Numbers::zeroed(parents.len())?;
    ancestors.copy_from_slice(parents);
    let ancestors: &mut [u32] = &mut ancestors;
    // For a number that was dealt with: the smallest semidominator on the way up to its ancestor. It is not read before.
    let mut labels = Numbers::zeroed(parents.len())?;
    let labels: &mut [u32] = &mut labels;
    let mut semis = Numbers::<u32>::zeroed(parents.len())?;
    let (offsets, sources): (&[u32], &[u32]) = (&backwards.offsets, &backwards.sources);
    let mut way = Vec::new();
    for number in (1..parents.len()).rev() {
        let this = number as u32;
        let mut least = parents[number];
        for source in &sources[offsets[number] as usize..offsets[number + 1] as usize] {
            let reached = if *source <= this { *source } else { smallest(*source, this, ancestors, labels, &mut way) };
            least = least.min(reached);
        }
        (labels[number], semis[number]) = (least, least);
    }
    Ok(semis)
}

/// The smallest label from `from` up to, and without, the ancestor at or above `limit`; shortens the way.
fn smallest(from: u32, limit: u32, ancestors: &mut [u32], labels: &mut [u32], way: &mut Vec<u32>) -> u32 {
    let mut top = from;
    while ancestors[top as usize] > limit {
        way.push(top);
        top = ancestors[top as usize];
    }
    let (mut least, above) = (labels[top as usize], ancestors[top as usize]);
    while let Some(number) = way.pop() {
        let label = &mut labels[number as usize];
        least = least.min(*label);
        *label = least;
        ancestors[number as usize] = above;
    }
    labels[from as usize]
}
