//! What CPython's own collector does to find garbage, done beside the heap instead of in it: count the references that
//! come from tracked objects, and what is not accounted for by them is reachable, and so is all that it refers to.
//!
//! This runs in the process that was cloned from the program. It writes to no object, allocates nothing but mappings,
//! takes no lock and cannot panic.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use super::control::{SharedControl, WalkTrouble};
use super::counts::CountTable;
use super::heap::HeapCensus;
use super::order::ListOrder;
use super::shadow::{BLACK, GREY, LEAF, Leaf, MANY, MOST_COUNTED, NONE_LEFT, NOTHING, Shadow};
use super::system;
use crate::cpython::generations::GcHead;
use crate::cpython::layout::Layout;
use crate::cpython::tables::ObjectTables;

/// `visitproc` and `traverseproc`.
type Visit = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Traverse = unsafe extern "C" fn(*mut c_void, Visit, *mut c_void) -> c_int;

/// Objects between two looks at whether the walk is still wanted.
const LOOK_EVERY: u32 = 1 << 15;

/// Objects that are on their way from memory at a time.
const RING: usize = 16;

/// Objects that may wait to be traversed. With more, the rest is only marked in the table and found by looking through
/// its leaves, which is the better way for a wide graph: it goes through memory in order, and four times as fast. A
/// narrow one never fills the stack.
const STACK: usize = 1 << 12;

/// Roots are gathered up to this many before what they refer to is followed.
const GATHERED: usize = 1 << 11;

/// Checks whether the parent still waits for the walk.
pub(super) struct WalkWatch<'a> {
    control: &'a SharedControl,
    parent: c_int,
    deadline: u64,
    /// Where the program's stack began, if the kernel tells.
    stack: Option<u64>,
    /// When to look next whether the parent still runs that program.
    program_due: u64,
    until_look: u32,
}

/// How often that is.
const PROGRAM_NS: u64 = 50_000_000;

impl<'a> WalkWatch<'a> {
    pub(super) fn new(control: &'a SharedControl, parent: c_int, deadline: u64, stack: Option<u64>) -> Self {
        Self { control, parent, deadline, stack, program_due: 0, until_look: 0 }
    }

    pub(super) fn control(&self) -> &SharedControl {
        self.control
    }

    /// How many objects a dump will have.
    pub(super) fn progress_of(&self, objects: u64) {
        self.control.objects.store(objects, Ordering::Relaxed);
    }

    /// How many bytes of a dump are written.
    pub(super) fn wrote(&self, bytes: u64) {
        self.control.written.store(bytes, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn step(&mut self) -> Result<(), WalkTrouble> {
        match self.until_look.checked_sub(1) {
            Some(left) => {
                self.until_look = left;
                Ok(())
            }
            None => self.look(),
        }
    }

    #[cold]
    pub(super) fn look(&mut self) -> Result<(), WalkTrouble> {
        self.until_look = LOOK_EVERY;
        let now = system::now();
        if self.control.is_stopped() {
            Err(WalkTrouble::Stopped)
        } else if system::parent() != self.parent || self.is_replaced(now) {
            Err(WalkTrouble::Orphaned)
        } else if now > self.deadline {
            Err(WalkTrouble::Late)
        } else {
            Ok(())
        }
    }

    /// Whether the parent has begun another program.
    fn is_replaced(&mut self, now: u64) -> bool {
        if self.stack.is_none() || now < self.program_due {
            return false;
        }
        self.program_due = now + PROGRAM_NS;
        let stack = system::stack_of(self.parent);
        stack.is_some() && stack != self.stack
    }
}

/// What is walked: the lists of the oldest, the youngest, the middle generation and of the frozen objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists {
    pub(super) heads: [usize; 4],
    /// The member of the first list behind which new objects begin, where only those are walked.
    pub(super) since: Option<usize>,
    /// The member of the first list behind which objects stay new after a walk of everything.
    pub(super) newer: Option<usize>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    /// Where it ends.
    pub(super) head: usize,
    /// What the first object to be walked comes after.
    pub(super) from: usize,
    pub(super) frozen: bool,
}

impl Lists {
    /// Those that are walked. Frozen objects are never new.
    pub(super) fn each(&self) -> impl Iterator<Item = List> + use<> {
        let since = self.since;
        self.heads.into_iter().enumerate().filter_map(move |(number, head)| {
            let from = since.filter(|_| number == 0).unwrap_or(head);
            let frozen = number == 3;
            (!frozen || since.is_none()).then_some(List { head, from, frozen })
        })
    }
}

/// A walk.
pub(super) struct Walk<'a> {
    pub(super) shadow: Shadow,
    pub(super) watch: WalkWatch<'a>,
    layout: &'static Layout,
    tables: ObjectTables,
    counts: CountTable,
    stack: *mut usize,
    height: usize,
    pub(super) order: ListOrder,
    /// What of a list was met from its end, while it is followed.
    order_from_end: ListOrder,
    /// Objects that come before those that stay new.
    pub(super) older: u64,
    /// Counts what is reachable, if that is wanted.
    pub(super) census: Option<HeapCensus<'a>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        layout: &'static Layout,
        tables: ObjectTables,
        watch: WalkWatch<'a>,
    ) -> Result<Self, WalkTrouble> {
        let stack: *mut usize = system::map(STACK * size_of::<usize>()).cast();
        let parts = (Shadow::new(), CountTable::new(), ListOrder::new(), ListOrder::new());
        let (Some(shadow), Some(counts), Some(order), Some(order_from_end)) = parts else {
            return Err(WalkTrouble::NoMemory);
        };
        if stack.is_null() {
            return Err(WalkTrouble::NoMemory);
        }
        Ok(Self {
            shadow,
            watch,
            layout,
            tables,
            counts,
            stack,
            height: 0,
            order,
            order_from_end,
            older: u64::MAX,
            census: None,
        })
    }

    /// Takes the objects of all lists into the table, with their references.
    ///
    /// # Safety
    /// They must be well-formed lists that no thread changes.
    pub(super) unsafe fn enlist(&mut self, lists: &Lists) -> Result<(), WalkTrouble> {
        for list in lists.each() {
            // SAFETY: the caller's promise.
            let count = unsafe { self.enlist_one(lists, list) }?;
            let control = self.watch.control;
            let sum = if list.frozen { &control.frozen } else { &control.tracked };
            sum.fetch_add(count, Ordering::Relaxed);
        }
        self.older = self.older.min(self.watch.control.tracked.load(Ordering::Relaxed));
        Ok(())
    }

    /// Follows the list from both ends at once: either way the next member is known only when the last one has come from
    /// memory, so two ways take half of the time.
    unsafe fn enlist_one(&mut self, lists: &Lists, list: List) -> Result<u64, WalkTrouble> {
        let (mut ahead, mut behind) = (0, 0);
        let mut newer_from_end = None;
        // SAFETY: the caller's promise: every member of the list is a head with an object behind it.
        unsafe {
            let mut at = (*(list.from as *const GcHead)).next;
            let mut back = previous(list.head);
            loop {
                if at == list.head {
                    if ahead == 0 {
                        break;
                    }
                    // The way back is not the way there.
                    return Err(WalkTrouble::Lost);
                }
                if lists.since.is_some() && (lists.heads.contains(&at) || lists.heads.contains(&back)) {
                    // What the walk should begin at has moved to another list.
                    return Err(WalkTrouble::Lost);
                }
                let next = (*(at as *const GcHead)).next;
                let before = previous(back);
                prefetch(next);
                prefetch(before);
                self.watch.step()?;
                if Some(at) == lists.newer {
                    self.older = ahead;
                }
                self.enlist_member(at, false)?;
                ahead += 1;
                if at == back {
                    break;
                }
                if Some(back) == lists.newer {
                    newer_from_end = Some(behind);
                }
                self.enlist_member(back, true)?;
                behind += 1;
                if next == back {
                    break;
                }
                (at, back) = (next, before);
            }
        }
        let count = ahead + behind;
        if let Some(from_end) = newer_from_end {
            self.older = count - 1 - from_end;
        }
        if self.order.append_reversed(&mut self.order_from_end) { Ok(count) } else { Err(WalkTrouble::NoMemory) }
    }

    /// Takes a member of a list into the table.
    ///
    /// # Safety
    /// It must be a head with an object behind it.
    #[inline(always)]
    unsafe fn enlist_member(&mut self, head: usize, from_end: bool) -> Result<(), WalkTrouble> {
        // What is not aligned, or where no memory can be, keeps all that it refers to.
        if !head.is_multiple_of(GcHead::SIZE) || head >> 48 != 0 {
            return Ok(());
        }
        let byte = self.shadow.make(head);
        let order = if from_end { &mut self.order_from_end } else { &mut self.order };
        if byte.is_null() || !order.add(&self.shadow, head) {
            return Err(WalkTrouble::NoMemory);
        }
        // SAFETY: the caller's promise; the byte is one of the table.
        unsafe { *byte = self.references(head + GcHead::SIZE)? };
        Ok(())
    }

    /// The byte for an object's references.
    ///
    /// # Safety
    /// It must be an object.
    #[inline(always)]
    unsafe fn references(&mut self, object: usize) -> Result<u8, WalkTrouble> {
        // SAFETY: the caller's promise; the count is an object's first word.
        let count = unsafe {
            if self.layout.object_refcount_bits == 32 {
                i64::from(*(object as *const i32))
            } else {
                *(object as *const i64)
            }
        };
        const MOST: i64 = (MOST_COUNTED - NONE_LEFT) as i64;
        match count {
            // Immortal: reachable, whatever refers to it.
            ..0 => Ok(GREY),
            0..=MOST => Ok(count as u8 + NONE_LEFT),
            _ if self.counts.put(object, count) => Ok(MANY),
            _ => Err(WalkTrouble::NoMemory),
        }
    }

    /// Takes away from every object the references that come from tracked objects.
    ///
    /// # Safety
    /// What was enlisted must still be there.
    pub(super) unsafe fn subtract(&mut self) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        self.each(NONE_LEFT, BLACK, |walk, head, _| unsafe { walk.traverse(head + GcHead::SIZE, subtract) })
    }

    /// Marks what is reachable.
    ///
    /// # Safety
    /// What was enlisted must still be there.
    pub(super) unsafe fn mark(&mut self) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        unsafe {
            self.each(NONE_LEFT + 1, GREY, |walk, head, byte| walk.mark_root(head, byte))?;
            self.drain();
            loop {
                let mut found = false;
                for number in 0..self.shadow.leaves() {
                    let leaf = self.shadow.leaf(number);
                    if self.shadow.take_grey(leaf) {
                        found = true;
                        self.each_in(leaf, GREY, GREY, &mut |walk, head, byte| walk.mark_root(head, byte))?;
                        self.drain();
                    }
                }
                // Also where a drain was cut short.
                self.watch.step()?;
                if !found {
                    return Ok(());
                }
            }
        }
    }

    /// Begins at an object if it is reachable by itself.
    #[inline(always)]
    unsafe fn mark_root(&mut self, head: usize, byte: *mut u8) {
        // SAFETY: the byte is one of the table, and the object was enlisted.
        unsafe {
            if self.is_root(head + GcHead::SIZE, *byte) {
                *byte = BLACK;
                self.push(head + GcHead::SIZE);
                if self.height > GATHERED {
                    self.drain();
                }
            }
        }
    }

    #[inline(always)]
    fn is_root(&self, object: usize, byte: u8) -> bool {
        match byte {
            NOTHING | NONE_LEFT | BLACK => false,
            MANY => self.counts.left(object) > 0,
            _ => true,
        }
    }

    /// Puts an object on the stack, which must not be full.
    #[inline(always)]
    fn push(&mut self, object: usize) {
        // SAFETY: the callers have looked: the stack has room.
        unsafe { *self.stack.add(self.height) = object };
        self.height += 1;
    }

    /// Follows references until the stack is empty.
    unsafe fn drain(&mut self) {
        let mut ring = [0; RING];
        let (mut first, mut end) = (0_usize, 0_usize);
        loop {
            while end - first < RING && self.height > 0 {
                self.height -= 1;
                // SAFETY: below the height, the stack is filled.
                let object = unsafe { *self.stack.add(self.height) };
                prefetch(object);
                ring[end % RING] = object;
                end += 1;
            }
            if first == end {
                return;
            }
            let object = ring[first % RING];
            first += 1;
            if self.watch.step().is_err() {
                // The next look fails again, in a function that can end the walk.
                self.watch.until_look = 0;
                self.height = 0;
                return;
            }
            // SAFETY: only enlisted objects are put on the stack.
            unsafe {
                self.traverse(object, mark);
                if let Some(census) = &mut self.census {
                    census.count(object);
                }
            }
        }
    }

    /// Has an object's type tell a visitor of the walk what the object refers to.
    ///
    /// # Safety
    /// It must be an object, and the visitor must expect the walk.
    #[inline(always)]
    unsafe fn traverse(&mut self, object: usize, visit: Visit) {
        // SAFETY: the caller's promise; the walk is not used here before the traversal is over.
        unsafe { traverse(self.layout, object, visit, (self as *mut Self).cast()) };
    }

    /// Calls `act` for every object whose byte is in this range, in the order of addresses within a leaf. The byte may
    /// have changed meanwhile.
    #[inline(always)]
    pub(super) fn each(
        &mut self,
        lowest: u8,
        highest: u8,
        mut act: impl FnMut(&mut Self, usize, *mut u8),
    ) -> Result<(), WalkTrouble> {
        for number in 0..self.shadow.leaves() {
            self.each_in(self.shadow.leaf(number), lowest, highest, &mut act)?;
        }
        Ok(())
    }

    /// The same for one leaf.
    #[inline(always)]
    fn each_in(
        &mut self,
        leaf: Leaf,
        lowest: u8,
        highest: u8,
        act: &mut impl FnMut(&mut Self, usize, *mut u8),
    ) -> Result<(), WalkTrouble> {
        let mut ring = [0; RING];
        let (mut first, mut end) = (0_usize, 0_usize);
        for eight in (0..LEAF).step_by(8) {
            let mut bytes = leaf.eight(eight);
            let mut index = eight;
            while bytes != 0 {
                let byte = bytes as u8;
                if byte >= lowest && byte <= highest {
                    prefetch(leaf.head(index) + GcHead::SIZE);
                    ring[end % RING] = index;
                    end += 1;
                    if end - first > RING / 2 {
                        let arrived = leaf.head(ring[(end - RING / 2 - 1) % RING]) + GcHead::SIZE;
                        // SAFETY: it was enlisted.
                        unsafe { self.tables.each(arrived, prefetch) };
                    }
                    if end - first == RING {
                        let index = ring[first % RING];
                        first += 1;
                        self.watch.step()?;
                        act(self, leaf.head(index), leaf.byte(index));
                    }
                }
                bytes >>= 8;
                index += 1;
            }
        }
        while first != end {
            let index = ring[first % RING];
            first += 1;
            act(self, leaf.head(index), leaf.byte(index));
        }
        Ok(())
    }

    /// The byte of an object that another one refers to, or null where it is not tracked.
    #[inline(always)]
    pub(super) fn byte_of(&self, object: usize) -> *mut u8 {
        if object.is_multiple_of(GcHead::SIZE) {
            self.shadow.find(object.wrapping_sub(GcHead::SIZE))
        } else {
            std::ptr::null_mut()
        }
    }
}

/// The member of a list before this one.
///
/// # Safety
/// It must be a member of a well-formed list, or its head.
#[inline(always)]
unsafe fn previous(at: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (*(at as *const GcHead)).previous & !GcHead::FLAGS }
}

/// Has an object's type tell a visitor what the object refers to.
///
/// # Safety
/// It must be an object of the interpreter with this layout, and the argument what the visitor expects.
#[inline(always)]
pub(super) unsafe fn traverse(layout: &Layout, object: usize, visit: Visit, argument: *mut c_void) {
    // SAFETY: the caller's promise: these are the object's type and its function, if it has one.
    unsafe {
        let kind = *((object + layout.object_type) as *const usize);
        let traverse = *((kind + layout.type_traverse) as *const Option<Traverse>);
        if let Some(traverse) = traverse {
            traverse(object as *mut c_void, visit, argument);
        }
    }
}

/// One reference less.
unsafe extern "C" fn subtract(object: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: `traverse` passes the walk, and uses it no more until this has returned.
    let walk = unsafe { &mut *walk.cast::<Walk<'_>>() };
    let byte = walk.byte_of(object as usize);
    if byte.is_null() {
        return 0;
    }
    // SAFETY: it is a byte of the table.
    unsafe {
        match *byte {
            NOTHING | GREY | BLACK => {}
            // More visits than references: a `tp_traverse` visited a borrowed one. CPython takes it for reachable, too.
            NONE_LEFT => *byte = GREY,
            MANY => {
                if walk.counts.take(object as usize) < 0 {
                    *byte = GREY;
                }
            }
            left => *byte = left - 1,
        }
    }
    0
}

/// Reachable.
unsafe extern "C" fn mark(object: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: as in `subtract`.
    let walk = unsafe { &mut *walk.cast::<Walk<'_>>() };
    let byte = walk.byte_of(object as usize);
    if byte.is_null() {
        return 0;
    }
    // SAFETY: it is a byte of the table.
    unsafe {
        match *byte {
            NOTHING | BLACK => {}
            _ if walk.height < STACK => {
                *byte = BLACK;
                walk.push(object as usize);
            }
            _ => {
                *byte = GREY;
                walk.shadow.note_grey(object as usize - GcHead::SIZE);
            }
        }
    }
    0
}

/// Has memory brought near that is needed soon.
#[inline(always)]
pub(super) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address as *const i8);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
