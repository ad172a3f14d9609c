//! Small marked blocks that were freed, to be used again: a new one takes glibc a thousand instructions, and splits free memory
//! into pieces.
//!
//! They lie in static memory, not in the tables: a forked child has them too.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::interface::MARKED;
use crate::cpython::arenas::SMALL;

const STEP: usize = 16;
const EACH: usize = 8;

static SPARES: [[AtomicPtr<c_void>; EACH]; SMALL / STEP] =
    [const { [const { AtomicPtr::new(null_mut()) }; EACH] }; SMALL / STEP];

/// The size of a block for so many bytes: others of nearly the same size can use it later.
pub(super) fn room(size: usize) -> usize {
    size.max(1).next_multiple_of(STEP)
}

fn of(size: usize) -> Option<&'static [AtomicPtr<c_void>; EACH]> {
    SPARES.get(room(size) / STEP - 1)
}

/// A block for so many bytes, or null.
pub(super) fn take(size: usize) -> *mut c_void {
    let spares = of(size).into_iter().flatten();
    let found = spares.filter(|place| !place.load(Relaxed).is_null()).map(|place| place.swap(null_mut(), AcqRel));
    found.into_iter().find(|block| !block.is_null()).unwrap_or(null_mut())
}

/// Keeps a block that was made for so many bytes, if it is as large as that: a record may be older than the block. Where there
/// is no room, one that lies at a higher address goes instead of it, so that the end of the heap can be given back. Gives
/// the block that the caller has to free, if any.
///
/// # Safety
/// It must be a block of glibc that is not used any more.
pub(super) unsafe fn put(block: *mut c_void, size: usize) -> Option<*mut c_void> {
    const FLAGS: usize = 7;
    // Read as what it is, a word of glibc's: by the rules of the language nothing is in front of a block.
    // SAFETY: glibc has the size of a block, and its own word, in front of it.
    let in_front = unsafe { std::ptr::read_volatile((block as usize - size_of::<usize>()) as *const usize) };
    let usable = (in_front & !FLAGS).saturating_sub(size_of::<usize>());
    let is_good = (block as usize).is_multiple_of(MARKED) && usable >= room(size) && usable < room(size) + 64;
    let Some(places) = of(size).filter(|_| is_good) else { return Some(block) };
    if places.iter().any(|place| place.compare_exchange(null_mut(), block, AcqRel, Acquire).is_ok()) {
        return None;
    }
    let highest = places.iter().map(|place| (place.load(Relaxed), place)).max_by_key(|(other, _)| *other);
    let replaced = highest
        .filter(|(other, place)| *other > block && place.compare_exchange(*other, block, AcqRel, Acquire).is_ok());
    Some(replaced.map_or(block, |(other, _)| other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_block_is_taken_by_one_of_its_size() {
        assert!(take(390).is_null());
        // SAFETY: an allocation, and its block, which no other code uses.
        unsafe {
            // glibc may give a block that is larger than it was asked for, which is not kept if that is more than 64 bytes.
            let mut blocks = (0..64).map(|_| libc::memalign(MARKED, room(390)));
            let Some(block) = blocks.find(|block| put(*block, 390).is_none()) else { panic!("no block is kept") };
            assert!(take(370).is_null() && take(513).is_null());
            assert_eq!(take(400), block);
            assert!(take(390).is_null());
            assert_eq!(put(block, 480), Some(block), "it is too small");
            libc::free(block);
        }
    }

    #[test]
    fn there_are_only_a_few_and_those_at_the_lowest_addresses() {
        // SAFETY: allocations, and their blocks.
        unsafe {
            let mut blocks: Vec<_> = (0..EACH + 2).map(|_| libc::memalign(MARKED, 64)).collect();
            blocks.sort_unstable();
            let mut freed: Vec<_> = blocks.iter().rev().filter_map(|block| put(*block, 60)).collect();
            let mut taken: Vec<_> = std::iter::from_fn(|| Some(take(60)).filter(|block| !block.is_null())).collect();
            freed.sort_unstable();
            taken.sort_unstable();
            assert_eq!((&taken[..], &freed[..]), blocks.split_at(EACH));
            blocks.into_iter().for_each(|block| libc::free(block));
        }
    }
}
