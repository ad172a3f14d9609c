//! Call stacks as a tree: a node is a place in the code below the node of its caller.
//!
//! No node refers to an object of Python. Names and lines are copied when a node is made. The addresses of the code
//! object, its names and its first line are the key: another code object at the same address differs in one of them.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use super::live::{BlockSample, DOMAINS, SiteKey};
use super::texts::{LONGEST, Texts};
use crate::cpython::own_stack::CodePlace;

pub(super) const NODES: usize = 16 * 1024;
const SLOTS: usize = 2 * NODES;
/// How many slots are tried for a place.
const TRIES: usize = 64;
/// Beyond so many nodes a stack is only its innermost place: lines stay right when callers find no more room.
const WHOLE_STACKS: u32 = 12 * 1024;

/// Whole stacks that are remembered, and code objects.
const RECENT: usize = 4 * 1024;
const CODES: usize = 1024;

/// The node of blocks that no Python code has asked for.
pub(super) const ROOT: u32 = 0;

/// What is copied from code objects when a node is made.
pub(super) trait Describe {
    /// The line of a place, zero where it is not known.
    fn line(&self, place: &CodePlace) -> u32;
    /// Writes a text object to a buffer, as UTF-8, and says how long it is.
    fn text(&self, object: usize, to: &mut [u8; LONGEST]) -> usize;
}

/// The tree. All zeros are an empty one.
#[derive(Debug)]
pub(super) struct StackTree {
    /// Numbers of nodes by the hash of their place and caller; zero where there is none. Nodes themselves lie in the order in
    /// which they were made, so that a small program touches little memory.
    slots: [AtomicU32; SLOTS],
    nodes: [Node; NODES],
    /// What was allocated, by node and allocator.
    made: [[Made; DOMAINS.len()]; NODES],
    used: AtomicU32,
    /// Nodes of whole stacks by their hash, so that few samples have to look for each of their frames.
    recent: [AtomicU64; RECENT],
    /// The latest nodes by the hash of their code object, so that names are seldom copied again: a recursion has a node at each depth.
    codes: [AtomicU32; CODES],
    pub(super) texts: Texts,
}

/// Adds a place to the hash of a stack.
fn hash(hash: u64, place: &CodePlace) -> u64 {
    let code = place.code as u64 ^ (place.name as u64).rotate_left(32);
    let part = place.file as u64 ^ u64::from(place.instruction).rotate_left(44) ^ u64::from(place.first_line) << 20;
    let product = u128::from(hash ^ code ^ 0x9e37_79b9_7f4a_7c15) * u128::from(part ^ 0xc2b2_ae3d_27d4_eb4f);
    (product >> 64) as u64 ^ product as u64
}

#[derive(Debug)]
struct Node {
    parent: AtomicU32,
    code: AtomicUsize,
    name: AtomicUsize,
    file: AtomicUsize,
    first_line: AtomicU32,
    instruction: AtomicU32,
    line: AtomicU32,
    file_text: AtomicU32,
    name_text: AtomicU32,
}

#[derive(Debug)]
struct Made {
    bytes: AtomicU64,
    blocks: AtomicU64,
}

/// A node as a report needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeFacts {
    pub(super) parent: u32,
    /// Numbers of texts.
    pub(super) file: u32,
    pub(super) function: u32,
    pub(super) line: u32,
    pub(super) first_line: u32,
}

impl StackTree {
    /// The node of a stack, innermost place first.
    pub(super) fn node(&self, stack: &[CodePlace], describe: &impl Describe) -> u32 {
        const NODE: u64 = NODES as u64 - 1;
        let hash = stack.iter().fold(0, hash);
        // The hash tells which of these it is, and takes the place of all bits that the number does not need.
        let recent = &self.recent[hash as usize & (RECENT - 1)];
        let known = recent.load(Acquire);
        if (known ^ hash) & !NODE == 0 {
            return (known & NODE) as u32;
        }
        let node = self.find(stack, describe);
        recent.store(hash & !NODE | u64::from(node), Release);
        node
    }

    fn find(&self, stack: &[CodePlace], describe: &impl Describe) -> u32 {
        let Some(innermost) = stack.first() else { return ROOT };
        let mut node = ROOT;
        for place in stack.iter().rev() {
            match self.below(node, place, describe, WHOLE_STACKS) {
                Some(next) => node = next,
                None => return self.below(ROOT, innermost, describe, NODES as u32).unwrap_or(ROOT),
            }
        }
        node
    }

    /// The node of a place below another one; it is made where there is none and room for it.
    fn below(&self, parent: u32, place: &CodePlace, describe: &impl Describe, limit: u32) -> Option<u32> {
        let mixed = (place.code as u64)
            ^ u64::from(parent).rotate_left(40)
            ^ u64::from(place.instruction).rotate_left(20)
            ^ u64::from(place.first_line).rotate_left(52);
        let first = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49) as usize;
        let mut fresh = 0;
        for attempt in 0..TRIES {
            let slot = &self.slots[(first + attempt) & (SLOTS - 1)];
            let mut number = slot.load(Acquire);
            if number == 0 {
                if fresh == 0 {
                    fresh = self.make(parent, place, describe, limit)?;
                }
                match slot.compare_exchange(0, fresh, AcqRel, Acquire) {
                    Ok(_) => return Some(fresh),
                    Err(other) => number = other,
                }
            }
            if self.nodes.get(number as usize).is_some_and(|node| node.is(parent, place)) {
                return Some(number);
            }
        }
        None
    }

    /// A new node, which no slot leads to yet. None where there are as many as there may be.
    fn make(&self, parent: u32, place: &CodePlace, describe: &impl Describe, limit: u32) -> Option<u32> {
        // The root has the first number.
        let more = |used: u32| (used + 1 < limit).then_some(used + 1);
        let number = self.used.fetch_update(Relaxed, Relaxed, more).ok()? + 1;
        let node = self.nodes.get(number as usize)?;
        node.parent.store(parent, Relaxed);
        node.code.store(place.code, Relaxed);
        node.name.store(place.name, Relaxed);
        node.file.store(place.file, Relaxed);
        node.first_line.store(place.first_line, Relaxed);
        node.instruction.store(place.instruction, Relaxed);
        let latest = &self.codes[(place.code as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 54 & (CODES - 1)];
        let known = self.nodes.get(latest.load(Acquire) as usize).filter(|known| known.is_of(place));
        let [file, name] = known.map_or_else(
            || [place.file, place.name].map(|text| self.text(text, describe)),
            |known| [known.file_text.load(Relaxed), known.name_text.load(Relaxed)],
        );
        let same = known.filter(|known| known.instruction.load(Relaxed) == place.instruction);
        node.line.store(same.map_or_else(|| describe.line(place), |known| known.line.load(Relaxed)), Relaxed);
        node.file_text.store(file, Relaxed);
        node.name_text.store(name, Relaxed);
        latest.store(number, Release);
        Some(number)
    }

    /// The number of a text object's text.
    fn text(&self, object: usize, describe: &impl Describe) -> u32 {
        let mut text = [0; LONGEST];
        let length = describe.text(object, &mut text);
        self.texts.number(&text[..length.min(LONGEST)])
    }

    /// Whether there is no more room for callers: what is new is shown with its innermost place only.
    pub(super) fn is_full(&self) -> bool {
        self.used.load(Relaxed) + 1 >= WHOLE_STACKS
    }

    /// Counts what a sample stands for.
    pub(super) fn count(&self, sample: BlockSample) {
        let made = &self.made[sample.site.node() as usize & (NODES - 1)][(sample.site.0 & 3) as usize];
        made.blocks.fetch_add(sample.blocks(), Relaxed);
        // A thread that reads this sees the node as it was made.
        made.bytes.fetch_add(sample.weight, Release);
    }

    /// Every site that has allocated something, with bytes and blocks.
    pub(super) fn made(&self) -> impl Iterator<Item = (SiteKey, u64, u64)> {
        let used = (self.used.load(Relaxed) as usize).min(NODES - 1);
        (0..=used).flat_map(move |at| {
            DOMAINS.iter().zip(&self.made[at]).filter_map(move |(domain, made)| {
                let bytes = made.bytes.load(Acquire);
                (bytes > 0).then(|| (SiteKey::new(at as u32, *domain), bytes, made.blocks.load(Relaxed)))
            })
        })
    }

    /// A node; none for the root.
    pub(super) fn facts(&self, node: u32) -> Option<NodeFacts> {
        let node = self.nodes.get(node as usize).filter(|_| node != ROOT && node <= self.used.load(Relaxed))?;
        Some(NodeFacts {
            parent: node.parent.load(Relaxed),
            file: node.file_text.load(Relaxed),
            function: node.name_text.load(Relaxed),
            line: node.line.load(Relaxed),
            first_line: node.first_line.load(Relaxed),
        })
    }
}

impl Node {
    fn is(&self, parent: u32, place: &CodePlace) -> bool {
        self.instruction.load(Relaxed) == place.instruction && self.parent.load(Relaxed) == parent && self.is_of(place)
    }

    /// Whether it is a place in the same code object.
    fn is_of(&self, place: &CodePlace) -> bool {
        self.code.load(Relaxed) == place.code
            && self.file.load(Relaxed) == place.file
            && self.name.load(Relaxed) == place.name
            && self.first_line.load(Relaxed) == place.first_line
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::cell::Cell;

    use neurogc_wire::sites::AllocationDomain;

    use super::super::tables::Tables;
    use super::*;

    /// Counts how many texts are copied.
    #[derive(Default)]
    struct Copies(Cell<u32>);

    impl Describe for Copies {
        fn line(&self, place: &CodePlace) -> u32 {
            Digits.line(place)
        }

        fn text(&self, object: usize, to: &mut [u8; LONGEST]) -> usize {
            self.0.set(self.0.get() + 1);
            Digits.text(object, to)
        }
    }

    #[test]
    fn names_of_a_code_object_are_copied_once_however_deep_it_recurses() {
        let stacks = &Tables::map().unwrap().stacks;
        let copies = Copies::default();
        let deep: Vec<_> = (0..60).map(|depth| place(100, depth % 3)).collect();
        let node = stacks.facts(stacks.node(&deep, &copies)).unwrap();
        assert_eq!((copies.0.get(), stacks.texts.text(node.function)), (2, "101".into()));
        // Another one at its address has names of its own.
        let other = CodePlace { name: 7, ..place(100, 1) };
        let node = stacks.facts(stacks.node(&[other], &copies)).unwrap();
        assert_eq!((copies.0.get(), stacks.texts.text(node.function)), (4, "7".into()));
    }

    /// Lines are ten times the instruction, and texts are the digits of the object's number.
    struct Digits;

    impl Describe for Digits {
        fn line(&self, place: &CodePlace) -> u32 {
            place.instruction * 10
        }

        fn text(&self, object: usize, to: &mut [u8; LONGEST]) -> usize {
            let text = object.to_string();
            to[..text.len()].copy_from_slice(text.as_bytes());
            text.len()
        }
    }

    fn place(code: usize, instruction: u32) -> CodePlace {
        CodePlace { code, instruction, name: code + 1, file: code + 2, first_line: 3 }
    }

    #[test]
    fn stacks_share_their_outer_frames() {
        let stacks = &Tables::map().unwrap().stacks;
        let [main, f, g] = [place(100, 1), place(200, 2), place(300, 3)];
        let (one, two) = (stacks.node(&[f, main], &Digits), stacks.node(&[g, main], &Digits));
        assert_ne!(one, two);
        assert_eq!(stacks.node(&[f, main], &Digits), one);
        let (one, two) = (stacks.facts(one).unwrap(), stacks.facts(two).unwrap());
        assert_eq!(one.parent, two.parent);
        assert_eq!(
            (one.line, stacks.texts.text(one.function), stacks.texts.text(one.file)),
            (20, "201".into(), "202".into())
        );
        assert_eq!((stacks.facts(ROOT), stacks.node(&[], &Digits)), (None, ROOT));
    }

    #[test]
    fn another_code_object_at_the_same_address_is_another_node() {
        let stacks = &Tables::map().unwrap().stacks;
        let nodes =
            [place(100, 1), CodePlace { name: 7, ..place(100, 1) }, CodePlace { first_line: 9, ..place(100, 1) }]
                .map(|place| stacks.node(&[place], &Digits));
        assert!(nodes[0] != nodes[1] && nodes[0] != nodes[2] && nodes[1] != nodes[2]);
    }

    #[test]
    fn without_room_for_callers_the_line_stays() {
        let stacks = &Tables::map().unwrap().stacks;
        for code in 0..14_000 {
            stacks.node(&[place(16 * code, 1), place(8, 8)], &Digits);
        }
        let node = stacks.node(&[place(16 * 777, 5), place(8, 8), place(9, 9)], &Digits);
        assert_eq!(stacks.facts(node).map(|facts| (facts.line, facts.parent)), Some((50, ROOT)));
        assert!(stacks.is_full());
    }

    #[test]
    fn what_was_made_adds_up() {
        let stacks = &Tables::map().unwrap().stacks;
        let site = SiteKey::new(stacks.node(&[place(1, 1)], &Digits), AllocationDomain::Malloc);
        (0..3).for_each(|_| stacks.count(BlockSample { weight: 1000, size: 100, site }));
        stacks.count(BlockSample { weight: 5, size: 5, site: SiteKey::new(ROOT, AllocationDomain::Mmap) });
        let made: Vec<_> = stacks.made().collect();
        assert_eq!(made, [(SiteKey::new(ROOT, AllocationDomain::Mmap), 5, 1), (site, 3000, 30)]);
    }
}
