//! Dominators and retained sizes against a naive way of finding them, and on heaps that are hard for others.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{graph, tree_of, tree_with};
use crate::graph::{Graph, NONE};
use crate::roots::{Claim, Reason};
use crate::tree::retained_by_type;

/// What is reached from the roots without passing `without`.
fn reached(links: &[Vec<u32>], roots: &[u32], without: Option<u32>) -> Vec<bool> {
    let mut met = vec![false; links.len()];
    let mut open: Vec<u32> = roots.to_vec();
    while let Some(object) = open.pop() {
        if Some(object) != without && !std::mem::replace(&mut met[object as usize], true) {
            open.extend(&links[object as usize]);
        }
    }
    met
}

/// `dominates[a][b]`: every way to b passes a. An object dominates itself.
fn dominates(links: &[Vec<u32>], roots: &[u32]) -> Vec<Vec<bool>> {
    let all = reached(links, roots, None);
    (0..links.len() as u32)
        .map(|object| {
            let left = reached(links, roots, Some(object));
            all.iter().zip(left).map(|(with, without)| *with && !without).collect()
        })
        .collect()
}

fn heap() -> impl Strategy<Value = (Vec<Vec<u32>>, Vec<u32>, Vec<u32>)> {
    (1..14_u32).prop_flat_map(|objects| {
        let links = prop::collection::vec(prop::collection::vec(0..objects, 0..4), objects as usize);
        let types = prop::collection::vec(0..4_u32, objects as usize);
        let roots = prop::collection::vec(0..objects, 0..3);
        (links, types, roots)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn holders_and_retained_sizes_are_those_of_the_naive_way((links, types, roots) in heap()) {
        let sizes: Vec<u32> = (0..links.len() as u32).map(|object| 1 << object).collect();
        let graph = graph(&links, &types, &sizes);
        let tree = tree_of(&graph, &roots);
        // What nothing refers to is a root, too.
        let mut roots = roots;
        roots.extend((0..links.len() as u32).filter(|object| !links.iter().flatten().any(|target| target == object)));
        let above = dominates(&links, &roots);
        let count = |object: usize| above.iter().filter(|row| row[object]).count();
        for (object, dominated) in above.iter().enumerate() {
            let holder = tree.holders[object];
            // The nearest one above is dominated by all the others.
            let nearest = (0..links.len()).filter(|it| *it != object && above[*it][object]).max_by_key(|it| count(*it));
            let expected = match nearest {
                _ if !dominated[object] => NONE,
                Some(nearest) => nearest as u32,
                None => tree.root(),
            };
            prop_assert_eq!(holder, expected, "holder of {}", object);
            let below: u64 = (0..links.len()).filter(|it| dominated[*it]).map(|it| u64::from(sizes[it])).sum();
            prop_assert_eq!(tree.retained[object], below, "retained by {}", object);
        }
        let by_type = retained_by_type(&graph, &tree, 4);
        for (of, sum) in by_type.iter().enumerate() {
            let of_it = |object: &usize| (0..links.len()).any(|it| types[it] as usize == of && above[it][*object]);
            let below: u64 = (0..links.len()).filter(of_it).map(|it| u64::from(sizes[it])).sum();
            prop_assert_eq!(*sum, below, "retained by type {}", of);
        }
        for holder in 0..=tree.root() {
            let children: Vec<u32> = (0..links.len() as u32).filter(|it| tree.holders[*it as usize] == holder).collect();
            prop_assert_eq!(tree.children(holder), &children[..]);
        }
    }
}

/// A list of `length` nodes that are linked both ways, with a head object that knows its ends, and a payload of all.
fn deep(length: u32) -> Graph {
    let payload = length + 1;
    let mut links = vec![vec![1, length]];
    for node in 1..=length {
        let mut of = vec![payload];
        if node > 1 {
            of.push(node - 1);
        }
        if node < length {
            of.push(node + 1);
        }
        links.push(of);
    }
    links.push(vec![]);
    graph(&links, &vec![0; links.len()], &vec![1; links.len()])
}

#[test]
fn a_linked_list_of_a_million_nodes_is_no_problem() {
    let graph = deep(1_000_000);
    let began = Instant::now();
    let tree = tree_of(&graph, &[0]);
    assert_eq!(tree.retained[0], 1_000_002);
    assert_eq!(tree.holders[500_000], 0, "both ends lead to each node");
    assert_eq!(retained_by_type(&graph, &tree, 1), [1_000_002]);
    // Algorithms that are hopeless here take minutes; this one needs a part of a second, and a test may be unlucky.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_list_that_is_linked_one_way_is_as_deep_as_it_is_long() {
    let length = 1_000_000_u32;
    let links: Vec<_> = (0..length).map(|node| if node + 1 < length { vec![node + 1] } else { vec![] }).collect();
    let graph = graph(&links, &vec![0; links.len()], &vec![2; links.len()]);
    let tree = tree_of(&graph, &[0]);
    assert_eq!((tree.retained[0], tree.retained[999_999]), (2_000_000, 2));
    assert_eq!(retained_by_type(&graph, &tree, 1), [2_000_000]);
}

#[test]
fn a_word_that_was_left_behind_is_no_root() {
    // 0 holds 1; an image has a word that points to 1 and one that points to the cycle of 2 and 3.
    let graph = graph(&[vec![1], vec![], vec![3], vec![2]], &[0; 4], &[10; 4]);
    let guess = |object| Claim { object, certain: false, last_resort: false };
    let claims = [Claim { object: 0, certain: true, last_resort: false }, guess(1), guess(2)];
    let (tree, reasons) = tree_with(&graph, &[1, 1, 1, 1], &[], &claims);
    assert_eq!(reasons, [(0, Reason::Claim(0))]);
    assert_eq!(&tree.holders[..], [4, 0, NONE, NONE], "the cycle is garbage");
    // The same with a count that says that something else refers to each of the two.
    let (tree, reasons) = tree_with(&graph, &[1, 2, 2, 1], &[], &claims);
    assert_eq!(reasons, [(0, Reason::Claim(0)), (1, Reason::Claim(1)), (2, Reason::Claim(2))]);
    assert_eq!(&tree.holders[..], [4, 4, 4, 2]);
}

#[test]
fn held_from_c_counts_only_where_nothing_named_reaches() {
    // 0 → 1, which has a larger count; 2 is in no named root's reach and holds 3; 4 is immortal and alone.
    let graph = graph(&[vec![1], vec![0], vec![3], vec![], vec![]], &[0; 5], &[1; 5]);
    let claims = [Claim { object: 0, certain: true, last_resort: false }];
    let (tree, reasons) = tree_with(&graph, &[2, 9, 1, 5, 0], &[], &claims);
    assert_eq!(&tree.holders[..], [5, 0, 5, 2, 5]);
    assert_eq!(reasons, [(0, Reason::Claim(0)), (2, Reason::FromC), (4, Reason::Immortal)]);
    assert_eq!(tree.retained[5], 5);
}

#[test]
fn a_class_that_only_instances_hold_is_a_root() {
    // 0 is a named instance of type 1, whose class is object 2; 3 is its dict. 1 is of type 0.
    let graph = graph(&[vec![1], vec![], vec![3], vec![2]], &[1, 0, 0, 0], &[1; 4]);
    let claims = [Claim { object: 0, certain: true, last_resort: false }];
    let (tree, reasons) = tree_with(&graph, &[1, 1, 2, 1], &[NONE, 2], &claims);
    assert_eq!(reasons, [(0, Reason::Claim(0)), (2, Reason::Class)]);
    assert_eq!(&tree.holders[..], [4, 0, 4, 2]);
}

#[test]
fn a_last_resort_is_a_root_only_where_nothing_else_reaches() {
    // 0 → 1 → 2; a frame's globals are 1, and 3 is a code object that only a frame knows.
    let graph = graph(&[vec![1], vec![2], vec![], vec![]], &[0; 4], &[1; 4]);
    let last = |object| Claim { object, certain: true, last_resort: true };
    let claims = [last(1), last(3), Claim { object: 0, certain: true, last_resort: false }];
    let (tree, reasons) = tree_with(&graph, &[1, 2, 1, 1], &[], &claims);
    assert_eq!(reasons, [(0, Reason::Claim(2)), (3, Reason::Claim(1))]);
    assert_eq!(&tree.holders[..], [4, 0, 1, 4]);
}
