//! A depth-first search that numbers objects in the order in which it meets them.
//!
//! An object without references that one object holds is dominated by its holder, whatever else there is. Such leaves are
//! more than half of a heap, and the search leaves them out.

use std::io;

use crate::array::Numbers;
use crate::graph::{Links, NONE};

/// Who is looked at, and in which order.
#[derive(Debug)]
pub(crate) struct Search<'g> {
    links: &'g Links,
    /// Which objects are left out: one object holds them and they hold none.
    leaves: Numbers<u8>,
    /// The number of each object, or [`NONE`]. Number 0 is the root above all roots.
    pub(crate) numbers: Numbers<u32>,
    /// The object of each number.
    pub(crate) order: Numbers<u32>,
    /// From which number each was met first.
    pub(crate) parents: Numbers<u32>,
    /// Links to each number that are in the search.
    degrees: Numbers<u32>,
    /// How many numbers are given.
    pub(crate) count: u32,
    /// The objects that were roots, in their order.
    pub(crate) roots: Vec<u32>,
    stack: Vec<(u32, u32, u32)>,
}

/// The references within a search, backwards.
#[derive(Debug)]
pub(crate) struct Backwards {
    pub(crate) offsets: Numbers<u32>,
    pub(crate) sources: Numbers<u32>,
}

impl<'g> Search<'g> {
    /// A search that has met nothing. `held` is how often each object is referred to.
    pub(crate) fn new(links: &'g Links, held: &[u32]) -> io::Result<Self> {
        let objects = links.objects();
        let mut leaves = Numbers::zeroed(objects)?;
        for (object, leaf) in leaves.iter_mut().enumerate() {
            *leaf = u8::from(held[object] < 2 && links.is_leaf(object as u32));
        }
        let mut order = Numbers::zeroed(objects + 1)?;
        order[0] = NONE;
        Ok(Self {
            links,
            leaves,
            numbers: Numbers::filled(objects, NONE)?,
            order,
            parents: Numbers::zeroed(objects + 1)?,
            degrees: Numbers::zeroed(objects + 1)?,
            count: 1,
            roots: Vec::new(),
            stack: Vec::new(),
        })
    }

    /// Whether an object is left out.
    pub(crate) fn leaves_out(&self, object: u32) -> bool {
        self.leaves[object as usize] != 0
    }

    /// Whether an object was met. Of what is left out it is not known.
    pub(crate) fn met(&self, object: u32) -> bool {
        self.numbers[object as usize] != NONE
    }

    /// An object that is a root enters the search even if it would be left out.
    pub(crate) fn keep(&mut self, object: u32) {
        self.leaves[object as usize] = 0;
    }

    /// Makes an object a root and goes to everything that it reaches.
    pub(crate) fn go(&mut self, root: u32) {
        self.roots.push(root);
        let Links { offsets, targets } = self.links;
        // The slices are taken once: the arrays check their bounds each time they are asked for one.
        let (offsets, targets, leaves): (&[u32], &[u32], &[u8]) = (offsets, targets, &self.leaves);
        let (numbers, order): (&mut [u32], &mut [u32]) = (&mut self.numbers, &mut self.order);
        let (parents, degrees): (&mut [u32], &mut [u32]) = (&mut self.parents, &mut self.degrees);
        let stack = &mut self.stack;
        let (mut object, mut parent) = (root, 0);
        loop {
            let known = numbers[object as usize];
            if known == NONE {
                let number = self.count;
                self.count += 1;
                numbers[object as usize] = number;
                (order[number as usize], parents[number as usize], degrees[number as usize]) = (object, parent, 1);
                stack.push((number, offsets[object as usize], offsets[object as usize + 1]));
            } else {
                degrees[known as usize] += 1;
            }
            // The next reference of the object that was met last and has one left.
            loop {
                let Some((number, next, end)) = stack.last_mut() else { return };
                while next < end && leaves[targets[*next as usize] as usize] != 0 {
                    *next += 1;
                }
                if next < end {
                    (object, parent) = (targets[*next as usize], *number);
                    *next += 1;
                    break;
                }
                stack.pop();
            }
        }
    }

    /// The references of the search backwards: from each number to those that refer to it.
    pub(crate) fn backwards(&self) -> io::Result<Backwards> {
        let count = self.count as usize;
        let mut offsets = Numbers::<u32>::zeroed(count + 1)?;
        let mut sum = 0;
        for (offset, degree) in offsets.iter_mut().zip(&self.degrees[..count]) {
            *offset = sum;
            sum += degree;
        }
        offsets[count] = sum;
        let mut sources = Numbers::<u32>::zeroed(sum as usize)?;
        let mut ends = Numbers::<u32>::zeroed(count)?;
        ends.copy_from_slice(&offsets[..count]);
        let (numbers, leaves): (&[u32], &[u8]) = (&self.numbers, &self.leaves);
        let mut put = |ends: &mut [u32], target: u32, source: u32| {
            let end = &mut ends[numbers[target as usize] as usize];
            sources[*end as usize] = source;
            *end += 1;
        };
        self.roots.iter().for_each(|root| put(&mut ends, *root, 0));
        let ends: &mut [u32] = &mut ends;
        for number in 1..count {
            for target in self.links.of(self.order[number]) {
                if leaves[*target as usize] == 0 {
                    put(ends, *target, number as u32);
                }
            }
        }
        Ok(Backwards { offsets, sources })
    }
}
