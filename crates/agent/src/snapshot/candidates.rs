//! From what a walk has left unmarked to what the program is told: the garbage, grouped so that each group can be freed
//! by itself.
//!
//! A group is a connected component: everything in it is reached from something in it, by references in either
//! direction. Weak references count, too: whether a callback runs depends on whether its weak reference is garbage as
//! well. Within a group the order is that of the collector's lists, because finalizers run in that order.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use super::control::{Candidate, Shared, WalkTrouble};
use super::ranks::Ranks;
use super::shadow::{BLACK, GREY, MANY, NONE_LEFT, NOTHING};
use super::system;
use super::walk::{Lists, Walk, prefetch, traverse};
use crate::cpython::arenas;
use crate::cpython::generations::GcHead;
use crate::cpython::layout::Layout;

/// The garbage by number, in the order of addresses. All of it lies in mappings of our own.
struct Garbage {
    ranks: Ranks,
    /// Another number of the same component, smaller or the same.
    leads: *mut u32,
    /// What the program needs of each. It is written when the object comes from memory anyhow.
    candidates: *mut Candidate,
    count: u32,
}

/// What the visitor needs.
struct Joining<'a, 'w> {
    walk: &'a Walk<'w>,
    garbage: &'a Garbage,
    current: u32,
}

/// Numbers, groups and writes down what the walk has left unmarked.
///
/// # Safety
/// The walk must have marked everything reachable on these lists, and the layout must be this interpreter's.
pub(super) unsafe fn write(
    walk: &mut Walk<'_>,
    lists: &Lists,
    layout: &'static Layout,
    shared: &Shared,
) -> Result<(), WalkTrouble> {
    let older = &shared.control().older;
    older.store(walk.older, Ordering::Relaxed);
    let garbage = Garbage::gather(walk)?;
    if garbage.count == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise; the shared memory has the room that it says.
    let found_older = unsafe {
        garbage.join(walk, layout)?;
        garbage.write_components(walk, lists, shared)?
    };
    older.fetch_sub(found_older, Ordering::Relaxed);
    Ok(())
}

impl Garbage {
    /// Numbers all garbage. Each is a component by itself.
    fn gather(walk: &mut Walk<'_>) -> Result<Self, WalkTrouble> {
        let mut ranks = Ranks::new(walk.shadow.leaves()).ok_or(WalkTrouble::NoMemory)?;
        walk.each(NONE_LEFT, MANY, |walk, head, _| ranks.add(&walk.shadow, head))?;
        // The largest number means something else below.
        let count = ranks.count().filter(|count| *count < u32::MAX).ok_or(WalkTrouble::NoMemory)?;
        let leads = numbers(count)?;
        for number in 0..count {
            // SAFETY: there is room for so many.
            unsafe { *leads.add(number as usize) = number };
        }
        let candidates: *mut Candidate = system::map((count as usize).max(1) * size_of::<Candidate>()).cast();
        if candidates.is_null() {
            return Err(WalkTrouble::NoMemory);
        }
        Ok(Self { ranks, leads, candidates, count })
    }

    /// The number of an object, if it is garbage.
    #[inline(always)]
    fn number(&self, walk: &Walk<'_>, object: usize) -> Option<u32> {
        let byte = walk.byte_of(object);
        // SAFETY: where there is a byte, it is one of the table.
        let found = !byte.is_null() && is_garbage(unsafe { *byte });
        found.then(|| self.ranks.get(&walk.shadow, object - GcHead::SIZE))
    }

    /// The smallest number of a component.
    fn first(&self, mut number: u32) -> u32 {
        debug_assert!(number < self.count);
        // SAFETY: numbers are below the count, and so are leads.
        unsafe {
            loop {
                let lead = self.leads.add(number as usize);
                if *lead == number {
                    return number;
                }
                // The path grows shorter on the way.
                *lead = *self.leads.add(*lead as usize);
                number = *lead;
            }
        }
    }

    fn unite(&self, one: u32, other: u32) {
        let (one, other) = (self.first(one), self.first(other));
        // SAFETY: as in `first`.
        unsafe { *self.leads.add(one.max(other) as usize) = one.min(other) };
    }

    /// Puts into one component what refers to each other.
    unsafe fn join(&self, walk: &mut Walk<'_>, layout: &'static Layout) -> Result<(), WalkTrouble> {
        walk.each(NONE_LEFT, MANY, |walk, head, _| {
            let object = head + GcHead::SIZE;
            let number = self.ranks.get(&walk.shadow, head);
            let mut joining = Joining { walk, garbage: self, current: number };
            // SAFETY: the garbage is objects, and the visitor gets what it expects.
            unsafe {
                traverse(layout, object, visit, (&raw mut joining).cast());
                self.join_weak_references(walk, object, number, layout);
                *self.candidates.add(number as usize) = candidate(object, layout);
            }
        })
    }

    /// Weak references to an object that are garbage themselves belong to it.
    unsafe fn join_weak_references(&self, walk: &Walk<'_>, object: usize, number: u32, layout: &Layout) {
        // SAFETY: the layout is that of the object's interpreter: its type says where the first one is, if it can have
        // any, and each leads to the next.
        unsafe {
            let kind = *((object + layout.object_type) as *const usize);
            let offset = *((kind + layout.type_weaklistoffset) as *const isize);
            if offset == 0 {
                return;
            }
            let mut weak = *(object.wrapping_add_signed(offset) as *const usize);
            while weak != 0 {
                if let Some(other) = self.number(walk, weak) {
                    self.unite(number, other);
                }
                weak = *((weak + layout.weakref_next) as *const usize);
            }
        }
    }

    /// Writes down whole components in the order of their first members, as many as there is room for. Gives how much of
    /// the garbage comes before the objects that stay new.
    unsafe fn write_components(&self, walk: &mut Walk<'_>, lists: &Lists, shared: &Shared) -> Result<u64, WalkTrouble> {
        const NO_ROOM: u32 = u32::MAX;
        // For the smallest number of each component: how many there are in it; and where the next of them goes, plus one,
        // or zero before one was met.
        let (sizes, places) = (numbers(self.count)?, numbers(self.count)?);
        let (mut written, mut components, mut largest, mut left_out) = (0_usize, 0_usize, 0_usize, 0_usize);
        let mut found_older = 0;
        for number in 0..self.count {
            // SAFETY: numbers are below the count.
            unsafe { *sizes.add(self.first(number) as usize) += 1 };
        }
        let put = |number: u32, is_older: bool| {
            found_older += u64::from(is_older);
            let first = self.first(number) as usize;
            // SAFETY: numbers are below the count; places are given so that no more than the capacity is written, and none
            // behind what was given, even if a list had an object twice.
            unsafe {
                let (place, size) = (places.add(first), *sizes.add(first) as usize);
                if *place == 0 {
                    if written + size > shared.capacity() {
                        *place = NO_ROOM;
                        left_out += size;
                    } else {
                        *shared.sizes().add(components) = size as u32;
                        *place = written as u32 + 1;
                        written += size;
                        components += 1;
                        largest = largest.max(size);
                    }
                }
                if *place as usize <= written {
                    *shared.candidates().add(*place as usize - 1) = *self.candidates.add(number as usize);
                    *place += 1;
                }
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.in_order(walk, lists, put)? };
        let control = shared.control();
        control.components.store(components as u64, Ordering::Relaxed);
        control.largest.store(largest as u64, Ordering::Relaxed);
        control.left_out.store(left_out as u64, Ordering::Relaxed);
        control.candidates.store(written as u64, Ordering::Relaxed);
        Ok(found_older)
    }

    /// Calls `act` for all garbage in the order of the lists, with its number and whether it comes before the objects that
    /// stay new.
    unsafe fn in_order(
        &self,
        walk: &mut Walk<'_>,
        lists: &Lists,
        mut act: impl FnMut(u32, bool),
    ) -> Result<(), WalkTrouble> {
        /// Bytes of the table that are on their way from memory at a time.
        const AHEAD: usize = 16;
        if let Some(heads) = walk.order.count() {
            for index in 0..heads {
                walk.watch.step()?;
                if index + AHEAD < heads {
                    let (leaf, place) = walk.order.get(&walk.shadow, index + AHEAD);
                    prefetch(leaf.byte(place) as usize);
                }
                let (leaf, place) = walk.order.get(&walk.shadow, index);
                // SAFETY: it is a byte of the table.
                if is_garbage(unsafe { *leaf.byte(place) }) {
                    let number = self.ranks.get(&walk.shadow, leaf.head(place));
                    act(number, (index as u64) < walk.older);
                }
            }
            return Ok(());
        }
        // Along the lists themselves, for a heap so large that their order was not kept.
        let mut index = 0;
        for list in lists.each() {
            // SAFETY: the caller's promise: these are well-formed lists.
            unsafe {
                let mut at = (*(list.from as *const GcHead)).next;
                while at != list.head {
                    let next = (*(at as *const GcHead)).next;
                    prefetch(next);
                    walk.watch.step()?;
                    if let Some(number) = self.number(walk, at + GcHead::SIZE) {
                        act(number, index < walk.older);
                    }
                    index += 1;
                    at = next;
                }
            }
        }
        Ok(())
    }
}

/// Room for a number for each piece of garbage, all zero.
fn numbers(count: u32) -> Result<*mut u32, WalkTrouble> {
    let at: *mut u32 = system::map((count as usize).max(1) * size_of::<u32>()).cast();
    if at.is_null() { Err(WalkTrouble::NoMemory) } else { Ok(at) }
}

/// What a walk that is over has left unmarked.
#[inline(always)]
fn is_garbage(byte: u8) -> bool {
    !matches!(byte, NOTHING | GREY | BLACK)
}

/// Puts the visited object into the component of the one that refers to it, if it is garbage, too.
unsafe extern "C" fn visit(object: *mut c_void, joining: *mut c_void) -> c_int {
    // SAFETY: `join` passes this struct, and changes nothing in it until the traversal is over.
    let joining = unsafe { &*joining.cast::<Joining<'_, '_>>() };
    if let Some(number) = joining.garbage.number(joining.walk, object as usize) {
        joining.garbage.unite(joining.current, number);
    }
    0
}

/// What the program needs to recognise the object.
///
/// # Safety
/// It must be an object of the interpreter with this layout.
unsafe fn candidate(object: usize, layout: &'static Layout) -> Candidate {
    /// Instances carry the values of their attributes behind them, at most so many bytes.
    const INLINE_VALUES: usize = 1 << 2;
    const MOST_INLINE: usize = 320;
    const TUPLE_SUBCLASS: usize = 1 << 26;
    /// The collector's head, and what stands before it.
    const BEFORE: usize = 2 * GcHead::SIZE;
    // SAFETY: the layout is that of the object's interpreter.
    unsafe {
        let kind = *((object + layout.object_type) as *const usize);
        let word = |offset: usize| *((kind + offset) as *const usize);
        let flags = word(layout.type_flags);
        let mut size = word(layout.type_basicsize) + BEFORE;
        if flags & INLINE_VALUES != 0 {
            size += MOST_INLINE;
        }
        let item = word(layout.type_itemsize);
        if item != 0 {
            // Only a tuple is sure to keep its length where the type says that it has one.
            let items = *((object + layout.var_object_size) as *const isize);
            let known = flags & TUPLE_SUBCLASS != 0 && items >= 0;
            size = if known { size.saturating_add(item.saturating_mul(items as usize)) } else { usize::MAX };
        }
        Candidate::new(object, kind, size <= arenas::SMALL && !arenas::may_be_elsewhere(object))
    }
}
