//! Tests of the analysis on graphs made by hand and at random.

mod dominators;
mod names;
mod reading;
mod views;

use crate::array::Numbers;
use crate::graph::{Graph, Links, Sizes};
use crate::roots::{Claim, Reason, reach};
use crate::tree::{Tree, tree};

pub(crate) fn numbers(values: &[u32]) -> Numbers<u32> {
    let mut numbers = Numbers::zeroed(values.len()).unwrap();
    numbers.copy_from_slice(values);
    numbers
}

/// A graph with the references of each object; types and sizes by object.
pub(crate) fn graph(links: &[Vec<u32>], types: &[u32], sizes: &[u32]) -> Graph {
    let mut offsets = vec![0];
    offsets.extend(links.iter().scan(0, |sum, it| {
        *sum += it.len() as u32;
        Some(*sum)
    }));
    let targets: Vec<u32> = links.iter().flatten().copied().collect();
    Graph {
        types: numbers(types),
        sizes: Sizes::new(numbers(sizes), Default::default()),
        links: Links { offsets: numbers(&offsets), targets: numbers(&targets) },
    }
}

/// The tree under these roots, all of them certain. Counts are what is known, so that only what nothing refers to is
/// held from C.
pub(crate) fn tree_of(graph: &Graph, roots: &[u32]) -> Tree {
    let claims: Vec<_> =
        roots.iter().map(|object| Claim { object: *object, certain: true, last_resort: false }).collect();
    let mut counts = vec![0; graph.objects()];
    graph.links.targets.iter().for_each(|target| counts[*target as usize] += 1);
    roots.iter().for_each(|root| counts[*root as usize] += 1);
    tree_with(graph, &counts.iter().map(|count| (*count).max(1)).collect::<Vec<_>>(), &[], &claims).0
}

pub(crate) fn tree_with(
    graph: &Graph,
    counts: &[u32],
    classes: &[u32],
    claims: &[Claim],
) -> (Tree, Vec<(u32, Reason)>) {
    let mut reach = reach(graph, numbers(counts), classes, claims).unwrap();
    let tree = tree(graph, &mut reach).unwrap();
    (tree, reach.reasons)
}
