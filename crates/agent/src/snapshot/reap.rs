//! Freeing what a snapshot found: each candidate is looked at again, moved to the youngest generation, and judged there
//! by CPython itself. The snapshot only says where to look.

use std::ops::Range;

use pyo3::ffi;
use pyo3::prelude::*;

use super::control::Candidate;
use super::harvest::Harvest;
use super::pools::Pools;
use super::walk::prefetch;
use crate::cpython::generations::{GcHead, Generations};
use crate::cpython::layout::Layout;
use crate::cpython::{arenas, originals};
use crate::sys::memory;

/// A collector's head and the beginning of the object behind it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    next: usize,
    previous: usize,
    references: i64,
    kind: usize,
}

/// How far ahead memory is brought near.
const AHEAD: usize = 8;

/// What the header of a candidate says about its place in a list.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// Where its head is; zero where it is not what it was.
    head: usize,
    next: usize,
    previous: usize,
}

const ABSENT: Member = Member { head: 0, next: 0, previous: 0 };

/// The candidates of these ranges that are still tracked objects of the same type.
pub(super) fn verified(harvest: &mut Harvest, ranges: &[Range<usize>]) -> Vec<usize> {
    let mut pools = std::mem::take(&mut harvest.pools);
    let all_are_kept = arenas::all_are_kept();
    if all_are_kept {
        harvest.note_ahead(&mut pools);
    } else {
        pools.forget();
    }
    let mut members = members(harvest, ranges, all_are_kept, &mut pools);
    pools.prove();
    ask_neighbours(&mut members, &mut pools);
    harvest.pools = pools;
    members.iter().filter(|member| member.head != 0).map(|member| member.head + GcHead::SIZE).collect()
}

/// Reads the headers of candidates, in their order, because finalizers run in it.
fn members(harvest: &Harvest, ranges: &[Range<usize>], all_are_kept: bool, pools: &mut Pools) -> Vec<Member> {
    let layout = harvest.collector.layout();
    let mut members = Vec::with_capacity(ranges.iter().map(Range::len).sum());
    // Addresses that cannot be read without care: for these the kernel is asked, all at once.
    let mut careful = Vec::new();
    for range in ranges {
        let candidates = harvest.candidates(range.clone());
        for (index, candidate) in candidates.iter().enumerate() {
            if let Some(ahead) = candidates.get(index + AHEAD) {
                prefetch(ahead.object());
            }
            let head = candidate.object() - GcHead::SIZE;
            if !(all_are_kept && (candidate.is_small() || pools.are_mapped_at(head))) {
                careful.push((members.len(), *candidate));
                members.push(ABSENT);
                continue;
            }
            pools.note(head);
            // SAFETY: small objects lie in arenas, but for those that `arenas::may_be_elsewhere` has told apart, and all arenas
            // of the time of the snapshot are still mapped. So is the address space of arenas in huge pages.
            let header = unsafe { *(head as *const Header) };
            if let Some(member) = member(*candidate, header, layout) {
                prefetch(member.next);
                prefetch(member.previous);
                members.push(member);
            }
        }
    }
    let addresses: Vec<usize> = careful.iter().map(|(_, candidate)| candidate.object() - GcHead::SIZE).collect();
    for ((place, candidate), bytes) in careful.iter().zip(memory::copies::<{ size_of::<Header>() }>(&addresses)) {
        // SAFETY: a header is four words, and any bytes make one.
        let header = bytes.map(|bytes| unsafe { std::mem::transmute::<[u8; size_of::<Header>()], Header>(bytes) });
        if let (Some(header), Some(place)) = (header, members.get_mut(*place)) {
            *place = member(*candidate, header, layout).unwrap_or(ABSENT);
        }
    }
    members
}

/// What a candidate is, as far as its own header tells: a block that was used anew may happen to look like this.
fn member(candidate: Candidate, header: Header, layout: &Layout) -> Option<Member> {
    const COLLECTING: usize = 2;
    let references =
        if layout.object_refcount_bits == 32 { i64::from(header.references as i32) } else { header.references };
    let (next, previous) = (header.next, header.previous & !GcHead::FLAGS);
    let is_aligned = |address: usize| address != 0 && address.is_multiple_of(align_of::<GcHead>());
    let is_tracked = references > 0 && header.previous & COLLECTING == 0 && is_aligned(next) && is_aligned(previous);
    (header.kind == candidate.kind && is_tracked).then_some(Member {
        head: candidate.object() - GcHead::SIZE,
        next,
        previous,
    })
}

/// Keeps the members that both of their neighbours in the list point back to. CPython takes an object out of its list
/// before it frees it, so what was freed, and used anew, has no such neighbours.
///
/// Nothing is taken for a neighbour before it has answered: what lies in a known pool is read directly, anything else
/// by the kernel, in one call for many.
fn ask_neighbours(members: &mut [Member], pools: &mut Pools) {
    let mut unknown = Vec::new();
    for (place, member) in members.iter_mut().enumerate() {
        let Member { head, next, previous } = *member;
        if head == 0 {
            continue;
        }
        for (neighbour, side) in [(next, Side::Next), (previous, Side::Previous)] {
            if !pools.contain(neighbour) {
                unknown.push((neighbour, place, side));
            // SAFETY: the sixteen bytes lie in a pool that is mapped as long as arenas are kept, and any bytes make a head.
            } else if !side.points_back(unsafe { &*(neighbour as *const GcHead) }, head) {
                *member = ABSENT;
                break;
            }
        }
    }
    let addresses: Vec<usize> = unknown.iter().map(|(neighbour, ..)| *neighbour).collect();
    for ((_, place, side), bytes) in unknown.iter().zip(memory::copies::<{ GcHead::SIZE }>(&addresses)) {
        // SAFETY: a head is two words, and any bytes make one.
        let neighbour = bytes.map(|bytes| unsafe { std::mem::transmute::<[u8; GcHead::SIZE], GcHead>(bytes) });
        if let Some(member) = members.get_mut(*place)
            && !neighbour.is_some_and(|neighbour| side.points_back(&neighbour, member.head))
        {
            *member = ABSENT;
        }
    }
}

/// On which side of a member its neighbour is.
#[derive(Clone, Copy, Debug)]
enum Side {
    Next,
    Previous,
}

impl Side {
    fn points_back(self, neighbour: &GcHead, head: usize) -> bool {
        match self {
            Self::Next => neighbour.previous & !GcHead::FLAGS == head,
            Self::Previous => neighbour.next == head,
        }
    }
}

/// Moves objects to the youngest generation, by themselves, and has it collected. Gives what the collection found.
///
/// # Safety
/// They must be tracked objects, which `verified` has just found, and `aside` must stay where it is.
pub(super) unsafe fn collect(
    py: Python<'_>,
    generations: Generations<'_>,
    objects: &[usize],
    aside: *mut GcHead,
) -> PyResult<usize> {
    // The young objects have nothing to do with these and would only make the pause longer.
    // SAFETY: the caller's promise.
    let counts = unsafe { generations.set_aside(aside) };
    for (index, object) in objects.iter().enumerate() {
        if let Some(ahead) = objects.get(index + AHEAD) {
            prefetch(*ahead - GcHead::SIZE);
        }
        let object = (*object) as *mut std::ffi::c_void;
        // SAFETY: the caller's promise. No code of the program runs between the two.
        unsafe {
            ffi::PyObject_GC_UnTrack(object);
            ffi::PyObject_GC_Track(object);
        }
    }
    let found = originals::collect(py, 0).and_then(|found| found.extract());
    // SAFETY: `aside` is what `set_aside` has filled.
    unsafe { generations.bring_back(aside, counts) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpython::arenas::POOL;
    use crate::cpython::layout;

    /// A list of three in a pool of our own; its middle is the member that is asked for.
    struct List {
        memory: Vec<u8>,
    }

    impl List {
        fn new() -> Self {
            Self { memory: vec![0; 2 * POOL] }
        }

        fn pool(&mut self) -> usize {
            (self.memory.as_mut_ptr() as usize).next_multiple_of(POOL)
        }

        fn head(&mut self, number: usize) -> usize {
            self.pool() + 64 * (1 + number)
        }

        /// Writes three heads, the outer ones with these pointers to the middle one.
        fn link(&mut self, backwards: usize, forwards: usize) -> Member {
            let (first, middle, last) = (self.head(0), self.head(1), self.head(2));
            // SAFETY: all of it lies in the memory of this list.
            unsafe {
                arenas::make_pool(self.pool());
                *(first as *mut GcHead) = GcHead { next: forwards, previous: last };
                *(last as *mut GcHead) = GcHead { next: first, previous: backwards };
            }
            Member { head: middle, next: last, previous: first }
        }
    }

    fn survives(member: Member, pools: &mut Pools) -> bool {
        let mut members = [ABSENT, member];
        ask_neighbours(&mut members, pools);
        members[0].head == 0 && members[1].head != 0
    }

    #[test]
    fn neighbours_must_point_back_whether_their_pool_is_known_or_not() {
        let mut list = List::new();
        let middle = list.head(1);
        let mut known = Pools::default();
        list.link(0, 0);
        known.note(middle);
        known.prove();
        assert!(known.contain(middle));
        for pools in [&mut known, &mut Pools::default()] {
            assert!(survives(list.link(middle, middle), pools));
            // The flags of the last one are not part of its pointer.
            assert!(survives(list.link(middle | GcHead::FLAGS, middle), pools));
            assert!(!survives(list.link(middle + 16, middle), pools));
            assert!(!survives(list.link(middle, 0), pools));
        }
    }

    #[test]
    fn a_block_that_merely_looks_like_an_object_is_no_crash() {
        let (kind, layout) = (0x1000, layout::any());
        let candidate = Candidate::new(0x7f00_0000_1000, kind, true);
        let header = |next, previous| Header { next, previous, references: 1, kind };
        for (next, previous) in [(8, 16), (0x7f00_0000_0000, usize::MAX & !15), (1 << 60, 24)] {
            let found = member(candidate, header(next, previous), layout);
            assert!(found.is_some_and(|member| !survives(member, &mut Pools::default())), "{next:#x} {previous:#x}");
        }
        assert!(member(candidate, header(0, 8), layout).is_none());
        assert!(member(candidate, header(8, 16 | 2), layout).is_none(), "it is being collected");
    }
}
