//! From what a walk has left unmarked to what the program is told: the garbage, grouped so that each group can be freed
//! by itself.
//!
//! A group is a connected component: everything in it is reached from something in it, by references in either
//! direction. Weak references count, too: whether a callback runs depends on whether its weak reference is garbage as
//! well. Within a group the order is that of the collector's lists, because finalizers run in that order.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use super::control::{Candidate, Shared, WalkTrouble};
use super::shadow::{BLACK, GREY, LEAF, MANY, NONE_LEFT, NOTHING, Shadow, place};
use super::system;
use super::walk::{Lists, Walk, prefetch, traverse};
use crate::cpython::arenas;
use crate::cpython::generations::GcHead;
use crate::cpython::layout::Layout;

/// The garbage by number, in the order of the lists. All of it lies in mappings of our own.
struct Garbage {
    objects: *mut usize,
    /// Another number of the same component, smaller or the same.
    leads: *mut u32,
    /// By leaf and place: a number plus one, or zero. Objects that refer to each other mostly lie near each other, so this
    /// is found in the processor's caches more often than a hash table is.
    numbers: *mut u32,
    count: usize,
    /// Those of them that come before the objects that stay new.
    older: u64,
}

/// A tracked object takes 32 bytes at least with its head, so of these places one at most is that of a head.
const HEADS_APART: usize = 2;
const NUMBERS: usize = LEAF / HEADS_APART;

/// What the visitor needs.
struct Joining<'a, 'w> {
    walk: *mut Walk<'w>,
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
    let mut count = 0;
    walk.each(NONE_LEFT, MANY, |_, _, _| count += 1)?;
    let older = &shared.control().older;
    older.store(walk.older, Ordering::Relaxed);
    if count == 0 {
        return Ok(());
    }
    // Numbers have 32 bits, and one of them means none.
    if count >= u32::MAX as usize {
        return Err(WalkTrouble::NoMemory);
    }
    let mut garbage = Garbage::with_room_for(count, walk.shadow.leaves())?;
    // SAFETY: the caller's promise.
    unsafe {
        garbage.gather(walk, lists, count)?;
        older.fetch_sub(garbage.older, Ordering::Relaxed);
        garbage.join(walk, layout)?;
    }
    // SAFETY: as above; the shared memory has the room that it says.
    unsafe { garbage.write_components(layout, shared) }
}

impl Garbage {
    fn with_room_for(count: usize, leaves: usize) -> Result<Self, WalkTrouble> {
        let objects: *mut usize = system::map(count * size_of::<usize>()).cast();
        let leads: *mut u32 = system::map(count * size_of::<u32>()).cast();
        let numbers: *mut u32 = system::map(leaves * NUMBERS * size_of::<u32>()).cast();
        if objects.is_null() || leads.is_null() || numbers.is_null() {
            return Err(WalkTrouble::NoMemory);
        }
        Ok(Self { objects, leads, numbers, count: 0, older: 0 })
    }

    /// Finds all garbage in the order of the lists.
    unsafe fn gather(&mut self, walk: &mut Walk<'_>, lists: &Lists, count: usize) -> Result<(), WalkTrouble> {
        let Some(heads_known) = walk.order.count() else {
            // SAFETY: the caller's promise.
            return unsafe { self.gather_again(walk, lists, count) };
        };
        for number in 0..heads_known {
            walk.watch.step()?;
            let (leaf, place) = walk.order.get(&walk.shadow, number);
            // SAFETY: it is a byte of the table; no more garbage comes than was counted.
            unsafe {
                if is_garbage(*leaf.byte(place)) && self.count < count {
                    self.add(&walk.shadow, leaf.head(place) + GcHead::SIZE);
                    self.older += u64::from((number as u64) < walk.older);
                }
            }
        }
        Ok(())
    }

    /// The same along the lists themselves, for a heap so large that their order was not kept.
    unsafe fn gather_again(&mut self, walk: &mut Walk<'_>, lists: &Lists, count: usize) -> Result<(), WalkTrouble> {
        let mut number = 0;
        for list in lists.each() {
            // SAFETY: the caller's promise: these are well-formed lists, and `count` members of them are garbage.
            unsafe {
                let mut at = (*(list.from as *const GcHead)).next;
                while at != list.head && self.count < count {
                    let next = (*(at as *const GcHead)).next;
                    prefetch(next);
                    walk.watch.step()?;
                    let byte = walk.byte_of(at + GcHead::SIZE);
                    if !byte.is_null() && is_garbage(*byte) {
                        self.add(&walk.shadow, at + GcHead::SIZE);
                        self.older += u64::from(number < walk.older);
                    }
                    number += 1;
                    at = next;
                }
            }
        }
        Ok(())
    }

    unsafe fn add(&mut self, shadow: &Shadow, object: usize) {
        let number = self.count as u32;
        // SAFETY: there is room for one more.
        unsafe {
            *self.objects.add(self.count) = object;
            *self.leads.add(self.count) = number;
            *self.number_of(shadow, object) = number + 1;
        }
        self.count += 1;
    }

    /// Where the number of an object is. It must be in the table.
    #[inline(always)]
    unsafe fn number_of(&self, shadow: &Shadow, object: usize) -> *mut u32 {
        let head = object - GcHead::SIZE;
        // SAFETY: there are so many numbers for each leaf.
        unsafe { self.numbers.add(shadow.number(head) as usize * NUMBERS + place(head) / HEADS_APART) }
    }

    fn object(&self, number: u32) -> usize {
        debug_assert!((number as usize) < self.count);
        // SAFETY: only numbers that `add` has given are asked for.
        unsafe { *self.objects.add(number as usize) }
    }

    /// The number of an object, if it is garbage.
    #[inline(always)]
    fn number(&self, walk: &Walk<'_>, object: usize) -> Option<u32> {
        let byte = walk.byte_of(object);
        // SAFETY: where there is a byte, it is one of the table.
        unsafe {
            if byte.is_null() || !is_garbage(*byte) {
                return None;
            }
            (*self.number_of(&walk.shadow, object)).checked_sub(1)
        }
    }

    /// The smallest number of a component.
    fn first(&self, mut number: u32) -> u32 {
        // SAFETY: leads are numbers that `add` has given.
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
        let mut joining = Joining { walk, garbage: self, current: 0 };
        for number in 0..self.count as u32 {
            joining.current = number;
            // SAFETY: the garbage is objects, and the visitor gets what it expects.
            unsafe {
                (*joining.walk).watch.step()?;
                if let Some(ahead) = number.checked_add(8).filter(|ahead| (*ahead as usize) < self.count) {
                    prefetch(self.object(ahead));
                }
                let object = self.object(number);
                traverse(layout, object, visit, (&raw mut joining).cast());
                self.join_weak_references(&*joining.walk, object, number, layout);
            }
        }
        Ok(())
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

    /// Writes down whole components in the order of their first members, as many as there is room for.
    unsafe fn write_components(&self, layout: &'static Layout, shared: &Shared) -> Result<(), WalkTrouble> {
        const NO_ROOM: u32 = u32::MAX;
        // For each first member: how many there are in its component, and then where the next of them goes.
        let places: *mut u32 = system::map(self.count * size_of::<u32>()).cast();
        if places.is_null() {
            return Err(WalkTrouble::NoMemory);
        }
        let control = shared.control();
        let (mut written, mut components, mut largest, mut left_out) = (0_usize, 0_usize, 0_usize, 0_usize);
        // SAFETY: numbers are below the count; places are given so that no more than the capacity is written.
        unsafe {
            for number in 0..self.count as u32 {
                *places.add(self.first(number) as usize) += 1;
            }
            for number in 0..self.count as u32 {
                if self.first(number) != number {
                    continue;
                }
                let place = places.add(number as usize);
                let size = *place as usize;
                if written + size > shared.capacity() {
                    *place = NO_ROOM;
                    left_out += size;
                    continue;
                }
                *shared.sizes().add(components) = size as u32;
                *place = written as u32;
                written += size;
                components += 1;
                largest = largest.max(size);
            }
            for number in 0..self.count as u32 {
                let place = places.add(self.first(number) as usize);
                if *place != NO_ROOM {
                    *shared.candidates().add(*place as usize) = candidate(self.object(number), layout);
                    *place += 1;
                }
            }
        }
        control.components.store(components as u64, Ordering::Relaxed);
        control.largest.store(largest as u64, Ordering::Relaxed);
        control.left_out.store(left_out as u64, Ordering::Relaxed);
        control.candidates.store(written as u64, Ordering::Relaxed);
        Ok(())
    }
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
    // SAFETY: as above.
    if let Some(number) = joining.garbage.number(unsafe { &*joining.walk }, object as usize) {
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
